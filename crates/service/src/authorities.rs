//! The certificate authorities that this process trusts when it connects: those of a configured file, or those of the
//! system.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// Where systems keep the certificates of the authorities that they trust.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Why the certificate authorities cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum AuthoritiesError {
    /// A configured file cannot be used.
    #[error("cannot read the certificates of authorities in {}: {reason}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The fault of the file.
        reason: String,
    },
    /// The system has none either.
    #[error("this system has no certificates of authorities")]
    None,
    /// The TLS library cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(rustls::Error),
}

/// TLS for outgoing connections. Files are read synchronously: call it where that may block, or at the start.
pub fn client_config(ca_file: Option<&Path>) -> Result<ClientConfig, AuthoritiesError> {
    let roots = match ca_file {
        Some(file) => own_roots(file)?,
        None => system_roots(&SYSTEM_ROOTS)?,
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(AuthoritiesError::Tls)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Every certificate of a configured file must be valid.
fn own_roots(file: &Path) -> Result<RootCertStore, AuthoritiesError> {
    let fail = |reason: String| AuthoritiesError::File { file: file.to_owned(), reason };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| fail(error.to_string()))? {
        let certificate = certificate.map_err(|error| fail(error.to_string()))?;
        roots.add(certificate).map_err(|error| fail(error.to_string()))?;
    }
    if roots.is_empty() { Err(fail("it holds none".to_owned())) } else { Ok(roots) }
}

/// The system's bundle may hold certificates that cannot be parsed.
fn system_roots(bundles: &[&str]) -> Result<RootCertStore, AuthoritiesError> {
    for file in bundles {
        if let Ok(certificates) = CertificateDer::pem_file_iter(file) {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(certificates.filter_map(Result::ok));
            if !roots.is_empty() {
                return Ok(roots);
            }
        }
    }
    Err(AuthoritiesError::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_system_bundle_with_a_valid_certificate_is_used() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, content).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let certificate =
            rcgen::generate_simple_self_signed(vec!["ca.example".to_owned()]).unwrap().cert.pem();
        let odd = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let (empty, mixed) = (file("empty", ""), file("mixed", &format!("{odd}{certificate}")));

        let roots = |bundles: &[&str]| system_roots(bundles).map(|roots| roots.len());
        assert_eq!(roots(&["/nonexistent", &empty, &mixed]).ok(), Some(1));
        assert!(matches!(roots(&["/nonexistent", &empty]), Err(AuthoritiesError::None)));
        // A configured file must be valid as a whole.
        assert!(own_roots(Path::new(&mixed)).is_err());
        assert!(own_roots(Path::new(&empty)).is_err());
    }
}
