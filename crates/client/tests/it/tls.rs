//! TLS by the configured authorities, and by no others. HTTP/2 is spoken where the server offers it.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyperfleet_client::{Client, Error, Request, Retry, Settings};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// A server that answers with the version of HTTP that it was asked in, and the certificate to trust.
async fn serve(protocols: &[&str]) -> (String, String, JoinSet<()>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let mut listening = JoinSet::new();
    listening.spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            // A client that does not trust the certificate breaks off the handshake.
            let Ok(stream) = acceptor.accept(tcp).await else { continue };
            let version = service_fn(async |request: hyper::Request<hyper::body::Incoming>| {
                let version = format!("{:?}", request.version());
                Ok::<_, Infallible>(hyper::Response::new(Full::new(Bytes::from(version))))
            });
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), version)
                .await;
        }
    });
    (url, made.cert.pem(), listening)
}

async fn ask(url: &str, ca_file: Option<&Path>) -> Result<String, Error> {
    let settings = Settings { ca_file: ca_file.map(Into::into), retry: Retry::NEVER, ..Settings::of(url) };
    let answer = Client::new(settings)?.send(Request::get("/clusters")).await?;
    Ok(String::from_utf8(answer.body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_server_is_trusted_by_ca_file_and_http_2_is_used_if_offered() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    for (protocols, expected) in
        [(["h2", "http/1.1"].as_slice(), "HTTP/2.0"), (&["http/1.1"], "HTTP/1.1"), (&[], "HTTP/1.1")]
    {
        let (url, certificate, _listening) = serve(protocols).await;
        std::fs::write(&file, certificate).unwrap();
        assert_eq!(ask(&url, Some(&file)).await.unwrap(), expected);
        let server = ask(&url, None).await.unwrap_err();
        let text = server.to_string();
        assert!(matches!(server, Error::Unreachable { .. }) && text.contains("certificate"), "{text}");
    }
    std::fs::write(&file, "no certificate").unwrap();
    assert!(matches!(ask("https://localhost:1", Some(&file)).await, Err(Error::Configuration(_))));
}
