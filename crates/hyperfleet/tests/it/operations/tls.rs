//! TLS on the three listeners, each with a certificate of its own that can be renewed while it serves.

use std::path::Path;
use std::sync::Arc;

use hyperfleet_testkit::eventually;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::program::{Program, Running};
use super::{CLUSTERS, DEADLINE};

const LISTENERS: [(&str, &str, &str); 3] =
    [("api", "server", CLUSTERS), ("health", "health", "/readyz"), ("metrics", "metrics", "/metrics")];

/// Writes a new certificate and its key, as a mounted secret is renewed: each file replaced as a whole.
fn issue(directory: &Path, name: &str) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    for (ending, pem) in [("crt", made.cert.pem()), ("key", made.signing_key.serialize_pem())] {
        let fresh = directory.join("fresh");
        std::fs::write(&fresh, pem).unwrap();
        std::fs::rename(&fresh, directory.join(format!("{name}.{ending}"))).unwrap();
    }
    made.cert.der().clone()
}

/// The answer to a GET of a client that trusts just that certificate; nothing when the server shows another.
async fn get(authority: &str, trusted: &CertificateDer<'static>, path: &str) -> Option<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(authority).await.unwrap();
    let mut stream =
        TlsConnector::from(Arc::new(config)).connect("localhost".try_into().unwrap(), tcp).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    Some(answer)
}

async fn authority(running: &Running, listener: &str) -> String {
    running.client(listener).await.authority().to_owned()
}

#[tokio::test]
async fn every_listener_serves_tls_and_takes_up_a_renewed_certificate() {
    let mut program = Program::new()
        .env("HYPERFLEET_SERVER_JWT_ENABLED", "false")
        .env("HYPERFLEET_DATABASE_URL", "sqlite::memory:");
    let mut certificates = Vec::new();
    for (_, section, _) in LISTENERS {
        certificates.push(issue(program.directory(), section));
        let key = |name: &str| format!("HYPERFLEET_{}_{name}", section.to_uppercase());
        program = program
            .env(&key("HOST"), "127.0.0.1")
            .env(&key("PORT"), "0")
            .env(&key("TLS_ENABLED"), "true")
            .env(&key("TLS_CERT_FILE"), &format!("{section}.crt"))
            .env(&key("TLS_KEY_FILE"), &format!("{section}.key"));
    }
    let mut running = program.start(&["serve"]);
    for ((listener, _, path), certificate) in LISTENERS.iter().zip(&certificates) {
        let authority = authority(&running, listener).await;
        let answer = eventually("served", DEADLINE, async || get(&authority, certificate, path).await).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{listener}: {answer}");
    }
    let api = authority(&running, "api").await;
    assert!(get(&api, &certificates[1], CLUSTERS).await.is_none(), "each listener has its own certificate");

    // A broken pair never replaces one that works, and a good one is taken up without a restart.
    std::fs::write(program.directory().join("server.crt"), "broken").unwrap();
    running.logged("changed certificate is not usable, the old one stays").await;
    assert!(get(&api, &certificates[0], CLUSTERS).await.is_some());
    for (listener, section, path) in LISTENERS {
        let renewed = issue(program.directory(), section);
        let authority = authority(&running, listener).await;
        eventually("the renewed certificate", DEADLINE, async || get(&authority, &renewed, path).await).await;
    }
    running.signal("TERM").await;
    assert_eq!(running.ended().await, Some(0));
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_stops_the_start_and_is_named() {
    let program = Program::new().file("tls.crt", "no certificate").file("tls.key", "no key");
    for (cert, told) in [
        ("absent.crt", "cannot read absent.crt: No such file or directory"),
        ("tls.crt", "tls.crt holds no usable certificate"),
    ] {
        let ended = program
            .run(&[
                "serve",
                "--server-jwt-enabled=false",
                "--database-url=sqlite::memory:",
                "--server-port=0",
                "--health-port=0",
                "--metrics-port=0",
                "--server-tls-enabled=true",
                "--server-tls-cert-file",
                cert,
                "--server-tls-key-file=tls.key",
            ])
            .await;
        assert_eq!(ended.code, Some(1));
        assert!(ended.stderr.starts_with("error: cannot set up TLS for api: "), "{}", ended.stderr);
        assert!(ended.stderr.contains(told), "{}", ended.stderr);
    }
}
