//! TLS for a listener: certificate and key from PEM files, checked for changes every few seconds so that a renewed
//! certificate needs no restart. A pair that does not load or does not match never replaces one that works.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Where a listener's certificate and key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// PEM: the certificate, then the intermediates.
    pub cert_file: PathBuf,
    /// PEM: the private key in PKCS#8, PKCS#1 or SEC1 form.
    pub key_file: PathBuf,
}

/// Why a certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the operating system says.
        reason: io::Error,
    },
    /// The file does not hold what it should.
    #[error("{} holds no usable {wanted}: {reason}", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// What it should hold.
        wanted: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Certificate and key do not go together.
    #[error(
        "the key in {} does not belong to the certificate in {}: {reason}",
        key_file.display(),
        cert_file.display()
    )]
    Mismatch {
        /// The certificate's file.
        cert_file: PathBuf,
        /// The key's file.
        key_file: PathBuf,
        /// What the TLS library says.
        reason: rustls::Error,
    },
    /// The TLS library refuses its own defaults.
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
}

/// The certificate in use, and what its files looked like when it was loaded.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: TlsFiles,
    provider: Arc<CryptoProvider>,
    current: ArcSwap<CertifiedKey>,
    loaded: Mutex<[Option<FileVersion>; 2]>,
}

impl Certificate {
    pub(crate) fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        // Looked at before the read: a change during the read is then seen as one.
        let loaded = Mutex::new(file_versions(&files));
        let current = ArcSwap::from_pointee(read_pair(&files, &provider)?);
        Ok(Arc::new(Self { files, provider, current, loaded }))
    }

    /// The server side of TLS 1.2 and 1.3 with whatever certificate is current at each handshake.
    pub(crate) fn server_config(self: &Arc<Self>) -> Result<ServerConfig, TlsError> {
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Current(Arc::clone(self))));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Looks at the files every `interval`, for as long as it is polled.
    pub(crate) async fn keep_fresh(self: Arc<Self>, listener: &'static str, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            let certificate = Arc::clone(&self);
            let looked = tokio::task::spawn_blocking(move || certificate.reload_if_changed()).await;
            match looked {
                Ok(Ok(true)) => {
                    let file = self.files.cert_file.display();
                    tracing::info!(listener, %file, "certificate reloaded");
                }
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    tracing::error!(listener, %error, "changed certificate is not usable, the old one stays");
                }
                Err(error) => tracing::error!(listener, %error, "looking at the certificate failed"),
            }
        }
    }

    /// Whether a new pair is in use now. A bad pair is reported once, not at every look.
    fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let seen = file_versions(&self.files);
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if *loaded == seen {
            return Ok(false);
        }
        *loaded = seen;
        self.current.store(Arc::new(read_pair(&self.files, &self.provider)?));
        Ok(true)
    }
}

#[derive(Debug)]
struct Current(Arc<Certificate>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current.load_full())
    }
}

/// Identifies the content of a file without reading it.
type FileVersion = (Option<SystemTime>, u64, u64);

/// Follows links, because a mounted secret changes by moving the link to its directory.
fn file_versions(files: &TlsFiles) -> [Option<FileVersion>; 2] {
    [&files.cert_file, &files.key_file].map(|file| {
        let metadata = fs::metadata(file).ok()?;
        Some((metadata.modified().ok(), metadata.len(), metadata.ino()))
    })
}

fn read_pair(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let chain = CertificateDer::pem_slice_iter(&read(&files.cert_file)?)
        .collect::<Result<Vec<_>, _>>()
        .and_then(|chain| if chain.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(chain) })
        .map_err(|error| malformed(&files.cert_file, "certificate", &error))?;
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key_file)?)
        .map_err(|error| malformed(&files.key_file, "private key", &error))?;
    let key = provider
        .key_provider
        .load_private_key(key)
        .map_err(|error| malformed(&files.key_file, "private key", &error))?;
    let pair = CertifiedKey::new(chain, key);
    match pair.keys_match() {
        Ok(()) => Ok(pair),
        Err(reason @ rustls::Error::InconsistentKeys(_)) => Err(TlsError::Mismatch {
            cert_file: files.cert_file.clone(),
            key_file: files.key_file.clone(),
            reason,
        }),
        Err(error) => Err(malformed(&files.cert_file, "certificate", &error)),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(file).map_err(|reason| TlsError::Unreadable { file: file.to_owned(), reason })
}

fn malformed(file: &Path, wanted: &'static str, reason: &dyn std::error::Error) -> TlsError {
    TlsError::Malformed { file: file.to_owned(), wanted, reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(directory: &tempfile::TempDir, certificate: &str, key: &str) -> TlsFiles {
        let files = TlsFiles {
            cert_file: directory.path().join("tls.crt"),
            key_file: directory.path().join("tls.key"),
        };
        fs::write(&files.cert_file, certificate).unwrap();
        fs::write(&files.key_file, key).unwrap();
        files
    }

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn every_way_to_be_unusable_names_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let (certificate, key) = pair();
        let (_, other_key) = pair();

        let fault = |certificate: &str, key: &str| {
            Certificate::load(files(&directory, certificate, key)).unwrap_err().to_string()
        };
        assert!(fault("", &key).contains("tls.crt holds no usable certificate"));
        assert!(fault(&key, &key).contains("tls.crt holds no usable certificate"));
        assert!(fault(&certificate, &certificate).contains("tls.key holds no usable private key"));
        let mismatch = fault(&certificate, &other_key);
        assert!(mismatch.contains("tls.key does not belong to the certificate in"), "{mismatch}");

        let mut absent = files(&directory, &certificate, &key);
        absent.key_file = directory.path().join("absent.key");
        let fault = Certificate::load(absent).unwrap_err().to_string();
        assert!(fault.contains("cannot read") && fault.contains("absent.key"), "{fault}");
    }

    #[test]
    fn a_moved_link_is_a_change_and_a_bad_pair_is_reported_once() {
        let directory = tempfile::tempdir().unwrap();
        for (version, (certificate, key)) in [("v1", pair()), ("v2", pair()), ("v3", ("".into(), "".into()))]
        {
            fs::create_dir(directory.path().join(version)).unwrap();
            fs::write(directory.path().join(version).join("tls.crt"), certificate).unwrap();
            fs::write(directory.path().join(version).join("tls.key"), key).unwrap();
        }
        let link = directory.path().join("data");
        let point_to = |version: &str| {
            let fresh = directory.path().join("fresh");
            std::os::unix::fs::symlink(directory.path().join(version), &fresh).unwrap();
            fs::rename(&fresh, &link).unwrap();
        };

        point_to("v1");
        let files = TlsFiles { cert_file: link.join("tls.crt"), key_file: link.join("tls.key") };
        let certificate = Certificate::load(files).unwrap();
        let first = certificate.current.load_full();
        assert!(!certificate.reload_if_changed().unwrap());

        point_to("v2");
        assert!(certificate.reload_if_changed().unwrap());
        let second = certificate.current.load_full();
        assert_ne!(first.cert, second.cert);

        point_to("v3");
        certificate.reload_if_changed().unwrap_err();
        assert!(!certificate.reload_if_changed().unwrap());
        assert_eq!(second.cert, certificate.current.load_full().cert);
    }
}
