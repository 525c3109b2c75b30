//! The address of a listener in a configuration.

use std::path::PathBuf;

use super::{BindError, Listener, ListenerOptions};
use crate::settings::{Faults, Settings};
use crate::tls::TlsFiles;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// Name or address.
    pub host: String,
    /// Port; 0 lets the system choose.
    pub port: u16,
    /// Certificate, when TLS is on.
    pub tls: Option<TlsFiles>,
}

impl Bind {
    /// The address in a section with the keys `host`, `port` and `tls.*`.
    pub fn of(settings: &Settings, section: &str, faults: &mut Faults) -> Self {
        let mut file = |name: &str| {
            let path = format!("{section}.tls.{name}");
            let file = settings.some_text(&path);
            if file.is_none() {
                faults.push(settings.fault(&path, format!("required when {section}.tls.enabled is true")));
            }
            file.map(PathBuf::from)
        };
        let tls =
            settings.bool(&format!("{section}.tls.enabled")).then(|| (file("cert_file"), file("key_file")));
        Self {
            host: settings.text(&format!("{section}.host")).to_owned(),
            port: settings.integer(&format!("{section}.port")),
            tls: match tls {
                Some((Some(cert_file), Some(key_file))) => Some(TlsFiles { cert_file, key_file }),
                _ => None,
            },
        }
    }

    /// Opens a listener on this address, with its certificate, and logs where it listens.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub async fn open(&self, name: &'static str, options: ListenerOptions) -> Result<Listener, BindError> {
        let options = ListenerOptions { tls: self.tls.clone(), ..options };
        let listener = Listener::bind(name, &self.host, self.port, options).await?;
        for address in listener.addresses() {
            tracing::info!(listener = name, %address, tls = self.tls.is_some(), "listening");
        }
        Ok(listener)
    }
}
