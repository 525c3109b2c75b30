//! An issuer's server that counts requests and fails on demand.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyperfleet_auth::IssuerConfig;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

/// What the server does with the next request.
#[derive(Clone, Debug)]
pub(crate) enum Behaviour {
    /// Publishes these keys.
    Keys(Value),
    /// Answers this.
    Answer(u16, String),
    /// Sends elsewhere, and publishes these keys at `/keys` alone.
    Redirect(String, Value),
    /// Says nothing until it is told otherwise.
    Silence,
    /// Is not there.
    Down,
}

/// See above. It ends with this value.
pub(crate) struct IssuerServer {
    address: SocketAddr,
    scheme: &'static str,
    requests: Arc<AtomicUsize>,
    behaviour: watch::Sender<Behaviour>,
    _server: AbortOnDropHandle<()>,
}

impl IssuerServer {
    pub(crate) async fn http(behaviour: Behaviour) -> Self {
        Self::start(behaviour, None).await
    }

    pub(crate) async fn https(behaviour: Behaviour, authority: &Authority) -> Self {
        Self::start(behaviour, Some(authority.acceptor())).await
    }

    async fn start(behaviour: Behaviour, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let requests = Arc::new(AtomicUsize::new(0));
        let behaviour = watch::Sender::new(behaviour);
        let state = (Arc::clone(&requests), behaviour.subscribe());
        let server = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (state, tls) = (state.clone(), tls.clone());
                tokio::spawn(async move {
                    if matches!(*state.1.borrow(), Behaviour::Down) {
                        state.0.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                    match tls {
                        None => serve(stream, state).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, state).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, scheme, requests, behaviour, _server: AbortOnDropHandle::new(server) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://localhost:{}{path}", self.scheme, self.address.port())
    }

    /// An issuer with its keys here.
    pub(crate) fn config(&self) -> IssuerConfig {
        IssuerConfig {
            issuer_url: super::ISSUER.to_owned(),
            jwk_cert_url: Some(self.url("/jwks")),
            ..IssuerConfig::default()
        }
    }

    pub(crate) fn behave(&self, behaviour: Behaviour) {
        self.behaviour.send_replace(behaviour);
    }

    /// How often it was asked, with an answer or without.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

type State = (Arc<AtomicUsize>, watch::Receiver<Behaviour>);

async fn serve<S>(stream: S, (requests, behaviour): State)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let answer = service_fn(move |request: Request<Incoming>| {
        requests.fetch_add(1, Ordering::SeqCst);
        let mut behaviour = behaviour.clone();
        async move {
            let talking = |now: &Behaviour| !matches!(now, Behaviour::Silence);
            let now = behaviour.wait_for(talking).await.unwrap().clone();
            let json = |body: &Value| (200, body.to_string(), None);
            let (status, body, location) = match now {
                Behaviour::Keys(keys) => json(&keys),
                Behaviour::Answer(status, body) => (status, body, None),
                Behaviour::Redirect(_, keys) if request.uri().path() == "/keys" => json(&keys),
                Behaviour::Redirect(to, _) => (302, String::new(), Some(to)),
                Behaviour::Silence | Behaviour::Down => (503, String::new(), None),
            };
            let mut response = Response::builder().status(status);
            if let Some(location) = location {
                response = response.header(header::LOCATION, location);
            }
            Ok::<_, Infallible>(response.body(Full::new(Bytes::from(body))).unwrap())
        }
    });
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
}

/// A certificate authority of one's own.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
    _directory: tempfile::TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ca.crt");
        std::fs::write(&file, certificate).unwrap();
        Self { issuer: Issuer::new(params, key), file, _directory: directory }
    }

    pub(crate) fn file(&self) -> Option<PathBuf> {
        Some(self.file.clone())
    }

    fn acceptor(&self) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}
