use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyperfleet_service::listener::ListenerOptions;
use hyperfleet_service::tls::TlsFiles;
use hyperfleet_testkit::eventually;
use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::peer::{DEADLINE, Server, Wire, within};
use crate::shutdown::Gate;

/// Writes a new certificate and its key, and returns the certificate.
pub(crate) fn issue(files: &TlsFiles) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    for (file, pem) in
        [(&files.cert_file, made.cert.pem()), (&files.key_file, made.signing_key.serialize_pem())]
    {
        let fresh = file.with_extension("fresh");
        std::fs::write(&fresh, pem).unwrap();
        std::fs::rename(&fresh, file).unwrap();
    }
    made.cert.der().clone()
}

pub(crate) fn files_in(directory: &Path) -> TlsFiles {
    TlsFiles { cert_file: directory.join("tls.crt"), key_file: directory.join("tls.key") }
}

pub(crate) fn options(files: TlsFiles) -> ListenerOptions {
    ListenerOptions { tls: Some(files), tls_reload_interval: Duration::from_millis(10), ..Default::default() }
}

fn router() -> Router {
    Router::new()
        .route("/", get(async |request: Request<axum::body::Body>| format!("{:?}", request.version())))
}

/// Takes any certificate: the tests compare it themselves.
#[derive(Debug)]
struct Any(Arc<CryptoProvider>);

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("the tests speak TLS 1.3".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

pub(crate) async fn handshake(server: &Server, alpn: &[&[u8]]) -> TlsStream<TcpStream> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Any(provider)))
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let tcp = TcpStream::connect(server.address).await.unwrap();
    let connecting = TlsConnector::from(Arc::new(config)).connect("localhost".try_into().unwrap(), tcp);
    within("the handshake", connecting).await.unwrap()
}

fn certificate(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

#[tokio::test]
async fn a_renewed_certificate_is_used_and_a_broken_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let files = files_in(directory.path());
    let first = issue(&files);
    let server = Server::start(router(), options(files.clone())).await;
    let old = handshake(&server, &[]).await;
    assert_eq!(certificate(&old), first);

    std::fs::write(&files.cert_file, "broken").unwrap();
    assert_eq!(certificate(&handshake(&server, &[]).await), first);

    let second = issue(&files);
    eventually("the new certificate", DEADLINE, async || {
        (certificate(&handshake(&server, &[]).await) == second).then_some(())
    })
    .await;

    let answer = Wire::new(old).get("/").await;
    assert_eq!(answer.body, "HTTP/1.1", "connections of the old certificate go on");
}

#[tokio::test]
async fn the_client_chooses_http1_or_http2() {
    let directory = tempfile::tempdir().unwrap();
    let files = files_in(directory.path());
    issue(&files);
    let server = Server::start(router(), options(files)).await;

    let both: [&[u8]; 2] = [b"http/1.1", b"h2"];
    for alpn in [&[][..], &both[..1]] {
        let stream = handshake(&server, alpn).await;
        assert_eq!(Wire::new(stream).get("/").await.body, "HTTP/1.1");
    }

    let stream = handshake(&server, &both).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) = http2_over(stream).await;
    tokio::spawn(connection);
    let response = within("an answer", sender.send_request(ask())).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, Version::HTTP_2));
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "HTTP/2.0");

    server.shutdown.begin();
    assert_eq!(server.ended().await, 0, "an idle HTTP/2 connection does not hold up the drain");
}

#[tokio::test]
async fn a_drain_finishes_http2_requests_that_run() {
    let directory = tempfile::tempdir().unwrap();
    let files = files_in(directory.path());
    issue(&files);
    let gate = Gate::new();
    let server = Server::start(gate.router(), options(files)).await;
    let (mut sender, connection) = http2_over(handshake(&server, &[b"h2"]).await).await;
    tokio::spawn(connection);
    let asking = tokio::spawn(sender.send_request(ask()));
    gate.one_request_runs().await;

    server.shutdown.begin();
    gate.release_one();
    let response = within("an answer", asking).await.unwrap().unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "done");
    assert_eq!(server.ended().await, 0);
}

/// A large answer at `/large`, whose memory says when it is free, one of a frame at `/medium`, and a small one at `/`.
pub(crate) fn large_and_small(freed: mpsc::Sender<()>) -> Router {
    struct Large(Vec<u8>, mpsc::Sender<()>);

    impl AsRef<[u8]> for Large {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Large {
        fn drop(&mut self) {
            let _ = self.1.try_send(());
        }
    }

    let router = router().route("/medium", get(async || Bytes::from(vec![b'x'; 10_000])));
    router.route("/large", get(async move || Bytes::from_owner(Large(vec![b'x'; 8 << 20], freed.clone()))))
}

/// The connection itself is driven all the while, so pings are answered; only the windows of some streams stay shut.
#[tokio::test]
async fn answers_that_an_http2_client_does_not_take_are_ended_while_others_flow() {
    let directory = tempfile::tempdir().unwrap();
    let files = files_in(directory.path());
    issue(&files);
    let (freed, mut free) = mpsc::channel(8);
    let options = ListenerOptions { write_timeout: Duration::from_secs(1), ..options(files) };
    let server = Server::start(large_and_small(freed), options).await;
    let (mut sender, connection) = http2_over(handshake(&server, &[b"h2"]).await).await;
    tokio::spawn(connection);

    let taken = within("an answer", sender.send_request(ask_for("/large"))).await.unwrap();
    let taken = within("the whole answer", taken.into_body().collect()).await.unwrap();
    assert_eq!(taken.to_bytes().len(), 8 << 20);
    within("its memory to be free", free.recv()).await.unwrap();

    let mut left = Vec::new();
    for _ in 0..2 {
        left.push(within("the head of an answer", sender.send_request(ask_for("/large"))).await.unwrap());
    }
    let mut waiting = left.len();
    eventually("unread responses to be dropped", DEADLINE, async || {
        let response = within("an answer", sender.send_request(ask())).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "HTTP/2.0");
        while free.try_recv().is_ok() {
            waiting -= 1;
        }
        (waiting == 0).then_some(())
    })
    .await;
    for response in left {
        let ended = within("the end of an answer", response.into_body().collect()).await;
        assert!(ended.is_err(), "it is not passed off as whole");
    }
    assert_eq!(within("an answer", sender.send_request(ask())).await.unwrap().status(), 200);
}

#[tokio::test]
async fn an_http2_head_that_is_too_large_is_refused_and_the_next_one_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    let files = files_in(directory.path());
    issue(&files);
    let server = Server::start(router(), options(files)).await;
    let (mut sender, connection) = http2_over(handshake(&server, &[b"h2"]).await).await;
    tokio::spawn(connection);
    let mut large = ask();
    for number in 0..20 {
        let name: http::HeaderName = format!("x-filler-{number}").parse().unwrap();
        large.headers_mut().insert(name, "x".repeat(4_000).parse().unwrap());
    }
    let refused = within("a refusal", sender.send_request(large)).await.unwrap();
    assert_eq!(refused.status(), 431);
    let answered = within("an answer", sender.send_request(ask())).await.unwrap();
    assert_eq!(answered.status(), 200);
}

#[tokio::test]
async fn a_client_without_tls_does_not_disturb_others() {
    let directory = tempfile::tempdir().unwrap();
    let files = files_in(directory.path());
    issue(&files);
    let server = Server::start(router(), options(files)).await;
    let mut plain = server.connect().await;
    plain.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
    let mut refusal = Vec::new();
    let reading = tokio::io::AsyncReadExt::read_to_end(&mut plain.stream, &mut refusal);
    let _ = within("the server to close", reading).await;
    assert!(!refusal.starts_with(b"HTTP"));

    let stream = handshake(&server, &[]).await;
    assert_eq!(Wire::new(stream).get("/").await.status, 200);
}

fn ask() -> Request<Empty<Bytes>> {
    ask_for("/")
}

fn ask_for(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("https://localhost{path}")).body(Empty::new()).unwrap()
}

async fn http2_over(
    stream: TlsStream<TcpStream>,
) -> (
    http2::SendRequest<Empty<Bytes>>,
    http2::Connection<TokioIo<TlsStream<TcpStream>>, Empty<Bytes>, TokioExecutor>,
) {
    within("the HTTP/2 handshake", http2::handshake(TokioExecutor::new(), TokioIo::new(stream)))
        .await
        .unwrap()
}
