//! The configured issuers and their checks. The checks do no I/O, because files and servers may appear and disappear
//! while the process runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Uri, header};
use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::identity::IdentityRule;
use crate::location;

/// An issuer whose tokens are accepted: one entry of `server.jwt.configs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IssuerConfig {
    /// What `iss` must be, to the letter.
    pub issuer_url: String,
    /// Where the issuer publishes its keys (JWKS).
    pub jwk_cert_url: Option<String>,
    /// A file with keys (JWKS), read again when it changes; beside the URL or instead of it.
    pub jwk_cert_file: Option<PathBuf>,
    /// PEM: the authorities that the URL's certificate must come from, instead of the system's.
    pub jwk_cert_ca_file: Option<PathBuf>,
    /// The request header that carries the token.
    pub header: String,
    /// What `aud` must hold; any when not given.
    pub audience: Option<String>,
    /// The claim that names the caller.
    pub identity_claim: String,
    /// A regular expression that the whole name of a caller must fit.
    pub identity_claim_pattern: Option<String>,
    /// A request header that names the caller, before the claim does. Only behind a proxy that sets it.
    pub identity_header: Option<String>,
}

impl Default for IssuerConfig {
    fn default() -> Self {
        Self {
            issuer_url: String::new(),
            jwk_cert_url: None,
            jwk_cert_file: None,
            jwk_cert_ca_file: None,
            header: "Authorization".to_owned(),
            audience: None,
            identity_claim: "email".to_owned(),
            identity_claim_pattern: None,
            identity_header: None,
        }
    }
}

/// One thing that is wrong with the issuers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    /// The issuer's index in the list.
    pub index: usize,
    /// The name of its member.
    pub field: &'static str,
    /// The fault.
    pub message: String,
}

/// How often and how long. The defaults are the contract's; tests are in more of a hurry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefreshSchedule {
    /// From one fetch of keys to the next when all is well.
    pub refresh: Duration,
    /// After a failed fetch; doubled from failure to failure.
    pub first_retry: Duration,
    /// The longest pause between failures.
    pub last_retry: Duration,
    /// Tokens with unknown keys cause no more than one fetch in this time.
    pub unknown_key: Duration,
    /// How long after the start of a fetch requests wait for it.
    pub unknown_key_timeout: Duration,
    /// How often files of keys are looked at.
    pub file_poll: Duration,
    /// How long a fetch may take.
    pub fetch_timeout: Duration,
}

impl Default for RefreshSchedule {
    fn default() -> Self {
        Self {
            refresh: Duration::from_secs(3600),
            first_retry: Duration::from_secs(1),
            last_retry: Duration::from_secs(60),
            unknown_key: Duration::from_secs(10),
            unknown_key_timeout: Duration::from_secs(2),
            file_poll: Duration::from_secs(2),
            fetch_timeout: Duration::from_secs(10),
        }
    }
}

/// Everything that is wrong with the issuers; nothing when they can be used.
pub fn check(issuers: &[IssuerConfig]) -> Vec<ConfigFault> {
    read(issuers).err().unwrap_or_default()
}

/// An issuer's settings, checked.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) url: Arc<str>,
    pub(crate) keys_url: Option<Uri>,
    pub(crate) keys_file: Option<PathBuf>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) header: HeaderName,
    pub(crate) audience: Option<String>,
    pub(crate) identity: IdentityRule,
}

/// The settings of all issuers, or every fault of all issuers.
pub(crate) fn read(issuers: &[IssuerConfig]) -> Result<Vec<Settings>, Vec<ConfigFault>> {
    let mut settings = Vec::new();
    let mut faults = Vec::new();
    for (index, config) in issuers.iter().enumerate() {
        let mut reader = Reader { index, faults: &mut faults };
        if let Some(first) = issuers[..index].iter().position(|other| other.issuer_url == config.issuer_url) {
            reader.fault("issuer_url", format!("is already the issuer of entry {first}"));
        }
        settings.extend(reader.settings(config));
    }
    if faults.is_empty() { Ok(settings) } else { Err(faults) }
}

struct Reader<'f> {
    index: usize,
    faults: &'f mut Vec<ConfigFault>,
}

impl Reader<'_> {
    fn fault(&mut self, field: &'static str, message: impl Into<String>) {
        self.faults.push(ConfigFault { index: self.index, field, message: message.into() });
    }

    /// `None` when there is a fault; all of them are noted.
    fn settings(&mut self, config: &IssuerConfig) -> Option<Settings> {
        let issuer = self.url("issuer_url", &config.issuer_url);
        let keys_url = config.jwk_cert_url.as_deref().map(|url| self.url("jwk_cert_url", url));
        for (field, file) in
            [("jwk_cert_file", &config.jwk_cert_file), ("jwk_cert_ca_file", &config.jwk_cert_ca_file)]
        {
            if file.as_ref().is_some_and(|file| file.as_os_str().is_empty()) {
                self.fault(field, "must not be empty");
            }
        }
        if config.jwk_cert_url.is_none() && config.jwk_cert_file.is_none() {
            self.fault("jwk_cert_url", "is required when there is no jwk_cert_file");
        }
        if config.jwk_cert_ca_file.is_some() && config.jwk_cert_url.is_none() {
            self.fault("jwk_cert_ca_file", "has no use without jwk_cert_url");
        }
        let header = self.header("header", &config.header);
        let audience = config.audience.clone();
        if audience.as_ref().is_some_and(|audience| audience.trim().is_empty()) {
            self.fault("audience", "must not be empty");
        }
        let identity_header =
            config.identity_header.as_deref().map(|name| self.header("identity_header", name));
        match &identity_header {
            Some(Some(name)) if header.as_ref() == Some(name) || *name == header::AUTHORIZATION => {
                self.fault("identity_header", "must not be a header that carries tokens");
            }
            _ => {}
        }
        if config.identity_claim.is_empty() {
            self.fault("identity_claim", "must not be empty");
        }
        let pattern = config.identity_claim_pattern.as_deref().map(|pattern| self.pattern(pattern));
        issuer?;
        Some(Settings {
            url: config.issuer_url.as_str().into(),
            keys_url: all(keys_url)?,
            keys_file: config.jwk_cert_file.clone(),
            ca_file: config.jwk_cert_ca_file.clone(),
            header: header?,
            audience,
            identity: IdentityRule {
                header: all(identity_header)?,
                claim: config.identity_claim.clone(),
                pattern: all(pattern)?,
            },
        })
    }

    fn url(&mut self, field: &'static str, text: &str) -> Option<Uri> {
        if text.is_empty() {
            self.fault(field, "is required");
            return None;
        }
        location::read(text).map_err(|fault| self.fault(field, fault)).ok()
    }

    fn header(&mut self, field: &'static str, name: &str) -> Option<HeaderName> {
        name.parse().map_err(|_| self.fault(field, "is not the name of a header")).ok()
    }

    /// Compiled alone first: only what is whole by itself keeps its meaning between the anchors.
    fn pattern(&mut self, pattern: &str) -> Option<Regex> {
        Regex::new(pattern)
            .and_then(|_| Regex::new(&format!(r"\A(?:{pattern})\z")))
            .map_err(|error| self.fault("identity_claim_pattern", format!("does not compile: {error}")))
            .ok()
    }
}

/// A member that is valid or absent.
fn all<T>(value: Option<Option<T>>) -> Option<Option<T>> {
    match value {
        Some(None) => None,
        Some(good) => Some(good),
        None => Some(None),
    }
}
