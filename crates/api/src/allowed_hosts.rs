//! Which hosts a request may name where no tokens are required. A browser can be made to send requests of a foreign page
//! to this server by a name of that page which resolves to this server's address, so names that nobody configured are
//! refused (DNS rebinding). Requests within the process have no connection and are not checked.

use std::net::IpAddr;

use axum::extract::Request;
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderValue, Version};
use hyperfleet_core::{Error, Fault, FaultKind, Faults, echo};
use hyperfleet_service::http_error::HttpError;
use hyperfleet_service::listener::PeerAddr;

use crate::problem_types::MISDIRECTED;

/// The setting that allows every host.
pub(crate) const ANY: &str = "*";

/// The hosts that are served besides loopback names; `None` serves every host.
#[derive(Debug, Clone)]
pub(crate) struct AllowedHosts(Option<Vec<String>>);

impl AllowedHosts {
    /// These hosts, as they are configured.
    pub(crate) fn new(hosts: impl IntoIterator<Item = String>) -> Self {
        let hosts: Vec<String> = hosts.into_iter().map(|host| bare(&host).to_owned()).collect();
        Self(if hosts.iter().any(|host| host == ANY) { None } else { Some(hosts) })
    }

    /// Every host.
    pub(crate) fn any() -> Self {
        Self(None)
    }

    /// The hosts for the log; `None` for every host.
    pub(crate) fn names(&self) -> Option<String> {
        let hosts = self.0.as_ref()?.iter().map(String::as_str);
        Some(["localhost", "127.0.0.0/8", "::1"].into_iter().chain(hosts).collect::<Vec<_>>().join(", "))
    }

    /// Refuses a request that does not name its host once, or names one that is not allowed.
    pub(crate) fn check(&self, request: &Request) -> Result<(), HttpError> {
        if request.extensions().get::<PeerAddr>().is_none() {
            return Ok(());
        }
        let authority = request.uri().authority();
        let mut headers = request.headers().get_all(HOST).iter();
        let host = headers.next();
        if headers.next().is_some() {
            return Err(invalid("Host is given more than once").into());
        }
        let required = match request.version() {
            Version::HTTP_09 | Version::HTTP_10 => false,
            Version::HTTP_11 => host.is_none(),
            _ => host.is_none() && authority.is_none(),
        };
        if required {
            return Err(invalid("Host is required").into());
        }
        let Some(allowed) = &self.0 else { return Ok(()) };
        let host = match host.map(HeaderValue::as_bytes) {
            None | Some(b"") => None,
            Some(host) => Some(Authority::try_from(host).map_err(|_| {
                invalid(format!("Host must be a host with an optional port, not '{}'", echo(&lossy(host))))
            })?),
        };
        for named in host.iter().chain(authority) {
            if !is_allowed(allowed, bare(named.host())) {
                let detail = format!(
                    "This server requires no tokens and does not serve the host '{}'. server.allowed_hosts can add it.",
                    echo(named.host())
                );
                return Err(HttpError::new(&MISDIRECTED, detail));
            }
        }
        Ok(())
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn invalid(message: impl Into<String>) -> Error {
    Faults::one(Fault::new(FaultKind::Value, "Host", message)).into_error()
}

/// A host without the brackets of an IPv6 address and the dot of a complete name.
fn bare(host: &str) -> &str {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    address.unwrap_or_else(|| host.strip_suffix('.').unwrap_or(host))
}

fn is_allowed(allowed: &[String], host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
        || allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
}

/// Whether a host can be configured: a name or an address without a port, or `*`.
pub(crate) fn is_host(text: &str) -> bool {
    let written = if text.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) {
        format!("[{text}]")
    } else {
        text.to_owned()
    };
    text == ANY
        || written
            .parse::<Authority>()
            .is_ok_and(|authority| authority.host() == written && !text.contains('@'))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::body::Body;

    use super::*;

    fn request(version: Version, target: &str, hosts: &[&str]) -> Request {
        let mut request = Request::builder().version(version).uri(target);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let mut request = request.body(Body::empty()).unwrap();
        request.extensions_mut().insert(PeerAddr(SocketAddr::from(([192, 0, 2, 1], 9))));
        request
    }

    fn status(allowed: &AllowedHosts, request: &Request) -> u16 {
        allowed.check(request).map_or_else(|error| error.problem_type().status.as_u16(), |()| 200)
    }

    #[test]
    fn loopback_and_configured_hosts_are_served_and_no_others() {
        let allowed =
            AllowedHosts::new(["API.example".to_owned(), "fd00::1".to_owned(), "0.0.0.0".to_owned()]);
        for (host, expected) in [
            ("localhost", 200),
            ("LocalHost:8000", 200),
            ("localhost.", 200),
            ("127.0.0.1:8000", 200),
            ("127.9.9.9", 200),
            ("[::1]:8000", 200),
            ("[::ffff:127.0.0.1]", 200),
            ("api.EXAMPLE:443", 200),
            ("[fd00::1]:8000", 200),
            ("0.0.0.0:8000", 200),
            ("evil.example", 421),
            ("localhost.evil.example", 421),
            ("evil.example:8000", 421),
            ("192.0.2.7", 421),
            ("[fd00::2]", 421),
            ("evil@localhost", 200),
            ("a b", 400),
            ("a:b:c", 400),
        ] {
            assert_eq!(status(&allowed, &request(Version::HTTP_11, "/", &[host])), expected, "{host}");
        }
        for open in [AllowedHosts::any(), AllowedHosts::new([ANY.to_owned()])] {
            assert_eq!(status(&open, &request(Version::HTTP_11, "/", &["evil.example"])), 200);
        }
    }

    #[test]
    fn a_request_names_its_host_once() {
        let any = AllowedHosts::any();
        let local = AllowedHosts::new([]);
        for (version, target, hosts, expected) in [
            (Version::HTTP_11, "/", &[][..], 400),
            (Version::HTTP_11, "/", &["localhost", "localhost"], 400),
            (Version::HTTP_11, "/", &["localhost"], 200),
            (Version::HTTP_11, "http://localhost/", &["localhost"], 200),
            (Version::HTTP_10, "/", &[], 200),
            (Version::HTTP_10, "/", &["localhost", "localhost"], 400),
            (Version::HTTP_2, "/", &[], 400),
            (Version::HTTP_2, "https://localhost/", &[], 200),
            (Version::HTTP_2, "/", &["localhost"], 200),
        ] {
            let request = request(version, target, hosts);
            assert_eq!(status(&any, &request), expected, "{request:?}");
            assert_eq!(status(&local, &request), expected, "{request:?}");
        }
        for (target, host) in [("https://evil.example/", "localhost"), ("https://localhost/", "evil.example")]
        {
            assert_eq!(status(&local, &request(Version::HTTP_2, target, &[host])), 421, "{target} {host}");
        }
        let mut inside = request(Version::HTTP_11, "/", &[]);
        inside.extensions_mut().clear();
        assert_eq!(status(&local, &inside), 200, "a call within the process");
    }

    #[test]
    fn a_configured_host_has_no_port() {
        for text in ["*", "api.example", "API.example.", "10.0.0.1", "::1", "fd00::1", "[fd00::1]"] {
            assert!(is_host(text), "{text}");
        }
        for text in ["", "api.example:8000", "[::1]:80", "a b", "http://api.example", "a/b", "me@api.example"]
        {
            assert!(!is_host(text), "{text}");
        }
    }
}
