//! Connections to PostgreSQL: address, TLS, and the settings of every session.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::Client;
use tokio_postgres::config::SslMode as Demand;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::milliseconds;
use crate::failure::{Failure, FailureKind};
use crate::maintenance::migrations::OpenError;
use crate::{Backend, Options};

/// How long one attempt to connect may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may be without an acknowledgement of the other side before it counts as broken.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(3);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// The TLS that a connection must have, in libpq's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SslMode {
    /// None.
    Disable,
    /// If the server offers it; the certificate is not checked.
    #[default]
    Prefer,
    /// Always; the certificate is not checked.
    Require,
    /// Always, with a certificate of a trusted authority.
    VerifyCa,
    /// Always, with a certificate of a trusted authority for this very host.
    VerifyFull,
}

impl std::str::FromStr for SslMode {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "disable" => Ok(Self::Disable),
            "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-ca" => Ok(Self::VerifyCa),
            "verify-full" => Ok(Self::VerifyFull),
            _ => Err("sslmode must be disable, prefer, require, verify-ca or verify-full".into()),
        }
    }
}

/// The address of the server and the settings of its connections.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: tokio_postgres::Config,
    pub(super) tls: MakeRustlsConnect,
}

impl Address {
    pub(super) fn new(options: &Options) -> Result<Self, OpenError> {
        let Backend::Postgres { url, ssl_mode, root_cert_file } = &options.backend else {
            return Err(OpenError::new("the database is not a PostgreSQL server"));
        };
        let mut config: tokio_postgres::Config = url
            .parse()
            .map_err(|error| OpenError::new(format!("database.url is not a PostgreSQL URL: {error}")))?;
        config
            .application_name("hyperfleet")
            .connect_timeout(TIMEOUT)
            .keepalives_idle(KEEPALIVE_INTERVAL)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .tcp_user_timeout(TCP_USER_TIMEOUT)
            .ssl_mode(match ssl_mode {
                SslMode::Disable => Demand::Disable,
                SslMode::Prefer => Demand::Prefer,
                _ => Demand::Require,
            })
            .options(session_settings(options.request_timeout));
        let tls = MakeRustlsConnect::new(client_config(*ssl_mode, root_cert_file.as_deref())?);
        Ok(Self { config, tls })
    }

    /// The settings of connections for lists, which join by key. By default the planner reads a table of ten thousand rows
    /// whole for each page of five hundred.
    pub(super) fn config_for_lists(&self) -> tokio_postgres::Config {
        self.config_with("-c enable_hashjoin=off -c enable_mergejoin=off")
    }

    /// The settings of connections for the feed, whose statements walk indexes in their order. A statement is planned
    /// once, when the tables may be nearly empty; without these the plan of that time reads whole tables as they grow.
    pub(super) fn config_for_feed(&self) -> tokio_postgres::Config {
        self.config_with(
            "-c enable_seqscan=off -c enable_bitmapscan=off -c enable_sort=off -c enable_material=off \
             -c enable_hashjoin=off -c enable_mergejoin=off -c plan_cache_mode=force_generic_plan",
        )
    }

    fn config_with(&self, settings: &str) -> tokio_postgres::Config {
        let mut config = self.config.clone();
        let before = config.get_options().unwrap_or_default();
        let settings = format!("{before} {settings}");
        config.options(settings);
        config
    }

    /// A connection whose statements all look up keys. By default the planner expects long arrays, so that it reads a
    /// small table whole, and plans every batch anew, because a short array looks cheaper than the average one.
    pub(super) async fn connect_by_key(&self) -> Result<Client, Failure> {
        let client = self.connect().await?;
        client
            .batch_execute(
                "set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off;
                 set plan_cache_mode = force_generic_plan",
            )
            .await?;
        Ok(client)
    }

    /// One attempt. The connection is driven by its own task, which ends with it.
    pub(super) async fn connect(&self) -> Result<Client, Failure> {
        // The driver's own timeout covers the socket only, and not a server that never greets.
        let (client, connection) = tokio::time::timeout(TIMEOUT, self.config.connect(self.tls.clone()))
            .await
            .map_err(|_| Failure::new(FailureKind::Unavailable, "the server did not answer in time"))??;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = %error, "a database connection ended");
            }
        });
        Ok(client)
    }
}

/// Deadlines that hold even when this process is gone or asleep (the committer's session has shorter ones); no
/// compilation of plans that run for microseconds; and read committed isolation, which the feed lock relies on.
fn session_settings(timeout: Duration) -> String {
    let ms = milliseconds(timeout);
    format!(
        "-c statement_timeout={ms} -c idle_in_transaction_session_timeout={ms} -c tcp_keepalives_idle=10 \
         -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 -c jit=off -c timezone=UTC -c client_min_messages=warning -c default_transaction_isolation=read\\ committed"
    )
}

fn client_config(mode: SslMode, root_cert_file: Option<&Path>) -> Result<ClientConfig, OpenError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| OpenError::new(format!("cannot set up TLS: {error}")))?;
    if !matches!(mode, SslMode::VerifyCa | SslMode::VerifyFull) {
        let verifier = Arc::new(Lenient { provider, authorities: None });
        return Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth());
    }
    let roots = Arc::new(roots(root_cert_file)?);
    if mode == SslMode::VerifyFull {
        return Ok(builder.with_root_certificates(roots).with_no_client_auth());
    }
    let authorities = rustls::client::WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
        .build()
        .map_err(|error| OpenError::new(format!("cannot set up TLS: {error}")))?;
    let verifier = Arc::new(Lenient { provider, authorities: Some(authorities) });
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, OpenError> {
    // Debian's bundle is where other systems keep theirs too, or link to it.
    let file = file.unwrap_or(Path::new("/etc/ssl/certs/ca-certificates.crt"));
    let fail =
        |what: String| OpenError::new(format!("database.ssl.root_cert_file {}: {what}", file.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| fail(error.to_string()))? {
        let certificate = certificate.map_err(|error| fail(error.to_string()))?;
        roots.add(certificate).map_err(|error| fail(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(fail("holds no certificate".to_owned()));
    }
    Ok(roots)
}

/// A verifier for the modes of libpq that rustls lacks: `require` accepts any certificate, `verify-ca` requires a trusted
/// authority but not the name.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    authorities: Option<Arc<rustls::client::WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use rustls::CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(authorities) = &self.authorities else { return Ok(ServerCertVerified::assertion()) };
        match authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
