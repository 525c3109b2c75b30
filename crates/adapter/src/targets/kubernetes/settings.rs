//! How the API server is reached: in the cluster by the service account, elsewhere by a kubeconfig file.

use std::path::PathBuf;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::failure;
use crate::targets::TargetError;

/// `clients.kubernetes`.
#[derive(Debug, Clone)]
pub struct Settings {
    /// A kubeconfig file. Without one: the service account, and outside of a cluster the usual kubeconfig.
    pub kube_config_path: Option<PathBuf>,
    /// A context of the kubeconfig other than its current one.
    pub context: Option<String>,
    /// Requests a second.
    pub qps: f64,
    /// Requests at once after a pause.
    pub burst: u32,
    /// The manager of the fields that are applied.
    pub field_manager: String,
    /// Managers whose fields are taken over at the first apply, because they are former versions of this adapter.
    pub adopt_managers: Vec<String>,
    /// Whether a kubeconfig may name a program that is run for credentials.
    pub allow_exec: bool,
    /// Whether a kubeconfig may turn off the check of the server's certificate.
    pub allow_insecure: bool,
    /// Time for one request.
    pub timeout: Duration,
}

impl Settings {
    /// The defaults of an adapter of this name.
    pub fn of(adapter: &str) -> Self {
        Self {
            kube_config_path: None,
            context: None,
            qps: 100.0,
            burst: 200,
            field_manager: format!("hyperfleet-{adapter}"),
            adopt_managers: vec!["adapter".to_owned(), "hyperfleet-adapter".to_owned()],
            allow_exec: false,
            allow_insecure: false,
            timeout: Duration::from_secs(30),
        }
    }

    /// A client. Nothing is sent yet.
    pub(super) async fn client(&self) -> Result<Client, TargetError> {
        let mut config = self.config().await?;
        if config.auth_info.exec.is_some() && !self.allow_exec {
            return Err(failure::configuration(
                "the kubeconfig gets its credentials from a program (exec): set clients.kubernetes.allow_exec to permit that",
            ));
        }
        if config.auth_info.auth_provider.is_some() {
            return Err(failure::configuration(
                "the kubeconfig uses auth-provider, which Kubernetes has removed: use exec or a token",
            ));
        }
        if config.accept_invalid_certs && !self.allow_insecure {
            return Err(failure::configuration(
                "the kubeconfig sets insecure-skip-tls-verify: name the certificate authority instead, or set \
                 clients.kubernetes.allow_insecure to permit that",
            ));
        }
        // Every request has one deadline of its own, and what is tried again is decided by the engine.
        config.connect_timeout = Some(self.timeout / 2);
        config.default_retry = false;
        Client::try_from(config).map_err(|error| failure::no_connection(&error))
    }

    async fn config(&self) -> Result<Config, TargetError> {
        let file = match &self.kube_config_path {
            Some(path) => Kubeconfig::read_from(path),
            None if self.context.is_none() => match Config::incluster() {
                Ok(config) => return Ok(config),
                Err(_) => Kubeconfig::read(),
            },
            None => Kubeconfig::read(),
        };
        let options = KubeConfigOptions { context: self.context.clone(), ..Default::default() };
        let unusable = |error: KubeconfigError| failure::configuration(&format!("kubeconfig: {error}"));
        Config::from_custom_kubeconfig(file.map_err(unusable)?, &options).await.map_err(unusable)
    }
}
