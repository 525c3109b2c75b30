//! How to reach a server, with timeouts and retries.

use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use http::uri::{Authority, Scheme};

use crate::error::Error;
use crate::path::BASE;
use crate::token::Token;
use crate::transport::InProcess;

/// How to reach a server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The server, such as `http://localhost:8000`, with or without `/api/hyperfleet/v1` behind it.
    pub base_url: String,
    /// The server, if it runs in this process. Nothing connects to the URL then.
    pub in_process: Option<InProcess>,
    /// How long one attempt may take, from the connection to the last byte of the answer.
    pub timeout: Duration,
    /// The token.
    pub token: Option<Token>,
    /// The authorities to trust, in PEM, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The `User-Agent`.
    pub user_agent: String,
    /// Headers of every request, such as those that name a tenant. A name such as `x-api-key` makes the value a secret.
    pub headers: Vec<(String, String)>,
    /// Retries.
    pub retry: Retry,
    /// After this silence a watch counts as disconnected. A server sends a bookmark every 15 seconds.
    pub watch_silence: Duration,
}

/// When to retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Attempts, the first included.
    pub attempts: u32,
    /// The pause after the first failure, doubled after each further one.
    pub first_pause: Duration,
    /// The longest pause, unless the server asks for more.
    pub longest_pause: Duration,
    /// No attempt begins later than this after the first.
    pub within: Duration,
}

impl Retry {
    /// One attempt and no more.
    pub const NEVER: Self = Self {
        attempts: 1,
        first_pause: Duration::ZERO,
        longest_pause: Duration::ZERO,
        within: Duration::ZERO,
    };
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 5,
            first_pause: Duration::from_millis(200),
            longest_pause: Duration::from_secs(5),
            within: Duration::from_secs(60),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            base_url: "http://localhost:8000".to_owned(),
            in_process: None,
            timeout: Duration::from_secs(30),
            token: None,
            ca_file: None,
            user_agent: concat!("hyperfleet/", env!("CARGO_PKG_VERSION")).to_owned(),
            headers: Vec::new(),
            retry: Retry::default(),
            watch_silence: Duration::from_secs(45),
        }
    }
}

impl Settings {
    /// Default settings for this server.
    pub fn of(base_url: impl Into<String>) -> Self {
        Self { base_url: base_url.into(), ..Self::default() }
    }
}

/// Where a server is, read from its URL.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) scheme: Scheme,
    pub(crate) authority: Authority,
    /// The path before `/api/hyperfleet` behind a proxy.
    pub(crate) prefix: String,
}

impl Origin {
    pub(crate) fn parse(base_url: &str) -> Result<Self, Error> {
        // Errors do not show the URL, which may hold a password.
        let wrong = |what: &str| Error::Configuration(format!("the server's URL {what}"));
        let uri: Uri = base_url.trim().parse().map_err(|_| wrong("is no URL"))?;
        let parts = uri.into_parts();
        let scheme = parts.scheme.filter(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
        let scheme = scheme.ok_or_else(|| wrong("must begin with http:// or https://"))?;
        let authority = parts.authority.ok_or_else(|| wrong("must name a host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("must not hold a user or a password"));
        }
        let path = parts.path_and_query.as_ref().map_or("", |path| path.as_str());
        if path.contains('?') {
            return Err(wrong("must not have a query"));
        }
        let path = path.trim_end_matches('/');
        let root = BASE.trim_end_matches("/v1");
        let prefix = path.strip_suffix(BASE).or_else(|| path.strip_suffix(root)).unwrap_or(path);
        Ok(Self { scheme, authority, prefix: prefix.trim_end_matches('/').to_owned() })
    }

    /// `https://host/prefix`.
    pub(crate) fn root(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_may_contain_the_path_of_the_api() {
        for (given, expected) in [
            ("http://localhost:8000", "http://localhost:8000"),
            (" http://localhost:8000/ ", "http://localhost:8000"),
            ("http://localhost:8000/api/hyperfleet", "http://localhost:8000"),
            ("https://h.example/api/hyperfleet/v1/", "https://h.example"),
            ("https://h.example/fleet/api/hyperfleet/v1", "https://h.example/fleet"),
            ("https://[::1]:8443/fleet/", "https://[::1]:8443/fleet"),
        ] {
            assert_eq!(Origin::parse(given).unwrap().root(), expected, "{given}");
        }
        for given in [
            "",
            "localhost:8000",
            "ftp://h.example",
            "/api",
            "http://",
            "https://u:secret@h.example",
            "http://h?a=b",
        ] {
            let error = Origin::parse(given).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
