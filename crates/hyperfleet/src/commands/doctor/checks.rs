//! The checks of `hyperfleet doctor`: level and remedy of each finding. Nothing here does I/O.

use hyperfleet_client::{Error, Metadata, Response, WhoAmI};
use hyperfleet_core::Timestamp;

use crate::BUILD;
use crate::commands::Exit;
use crate::output::age;
use crate::output::paint::Tone;

/// Clocks that differ by more than this make ages and expiries look wrong.
const CLOCK_WARN_SECONDS: i64 = 5;
/// The server refuses reports from further in the future.
const CLOCK_FAIL_SECONDS: i64 = 300;

/// Severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Fine,
    Warn,
    /// With its exit code.
    Fail(u8),
}

/// One finding.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) what: &'static str,
    pub(super) level: Level,
    pub(super) found: String,
    /// The remedy.
    pub(super) fix: Option<String>,
}

impl Check {
    pub(super) fn fine(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, level: Level::Fine, found: found.into(), fix: None }
    }

    pub(super) fn warn(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what, level: Level::Warn, found: found.into(), fix: Some(fix.into()) }
    }

    pub(super) fn fail(
        what: &'static str,
        exit: impl Into<u8>,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { what, level: Level::Fail(exit.into()), found: found.into(), fix: Some(fix.into()) }
    }
}

impl Level {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Warn => "warn",
            Self::Fail(_) => "fail",
        }
    }

    pub(super) fn tone(self) -> Tone {
        match self {
            Self::Fine => Tone::Good,
            Self::Warn => Tone::Pending,
            Self::Fail(_) => Tone::Bad,
        }
    }
}

pub(super) fn unreachable(error: &Error) -> Check {
    let found = error.to_string();
    match error {
        Error::Configuration(_) | Error::Invalid(_) => Check::fail(
            "settings",
            Exit::Usage,
            found,
            "check --token-file, --ca-file and the headers, or token_file, token_command, ca_file and headers of the context",
        ),
        Error::Unreachable { .. } if matches!(error.tls(), Some(rustls::Error::InvalidMessage(_))) => {
            Check::fail(
                "encryption",
                Exit::Unreachable,
                found,
                "the server does not speak TLS on this port: use http://, or another port",
            )
        }
        Error::Unreachable { .. } if error.tls().is_some() => Check::fail(
            "encryption",
            Exit::Unreachable,
            found,
            "pass the certificate authority with --ca-file, and use a host name of the certificate",
        ),
        Error::Unreachable { .. } | Error::TimedOut { .. } => Check::fail(
            "server",
            Exit::Unreachable,
            found,
            "start it (`hyperfleet up`), or name another by --server or `hyperfleet context use`",
        ),
        _ => Check::fail(
            "server",
            Exit::Failed,
            found,
            "this is not HyperFleet's API: check the address and proxies",
        ),
    }
}

pub(super) fn encryption(url: &str) -> Check {
    let loopback =
        ["http://localhost", "http://127.", "http://[::1]"].iter().any(|host| url.starts_with(host));
    match url.starts_with("https://") {
        true => Check::fine("encryption", "TLS, and the certificate is trusted"),
        false if loopback => Check::fine("encryption", "none, and none is needed on this machine"),
        false => Check::warn(
            "encryption",
            "none: the token can be read on the network",
            "use https://, by server.tls.* or a proxy in front",
        ),
    }
}

pub(super) fn version(answer: &Response) -> Check {
    let Ok(metadata) = answer.json::<Metadata>() else {
        return Check::warn("version", "the server did not return its version", "check the address");
    };
    let message = format!("server {}, this program {}", metadata.version, BUILD.version);
    match metadata.version == BUILD.version {
        true => Check::fine("version", message),
        false => {
            Check::warn("version", message, "use the release of the server, or bring the server up to date")
        }
    }
}

/// By the `Date` of an answer, which is cut to seconds.
pub(super) fn clock(answer: &Response, now: Timestamp) -> Option<Check> {
    let there = chrono::DateTime::parse_from_rfc2822(answer.header("date")?).ok()?;
    let apart = (now.micros() / 1_000_000 - there.timestamp()).abs();
    Some(drift(apart))
}

fn drift(apart: i64) -> Check {
    let message = format!("{} apart", age::span(std::time::Duration::from_secs(apart.unsigned_abs())));
    const FIX: &str = "synchronize both clocks by NTP";
    if apart <= CLOCK_WARN_SECONDS {
        Check::fine("clock", message)
    } else if apart <= CLOCK_FAIL_SECONDS {
        Check::warn("clock", message, FIX)
    } else {
        Check::fail("clock", Exit::Failed, message, FIX)
    }
}

pub(super) fn identity(answer: Result<WhoAmI, Error>) -> Check {
    match answer {
        Ok(WhoAmI { identity: Some(identity), roles, .. }) => {
            let roles = roles.map(|roles| format!(", roles: {}", roles.join(", "))).unwrap_or_default();
            Check::fine("identity", format!("{identity}{roles}"))
        }
        Ok(_) => Check::warn(
            "identity",
            "anonymous: may read but not write",
            "log in with a token that names an identity",
        ),
        Err(error) if error.is_denied() => Check::fail(
            "identity",
            Exit::NotAllowed,
            error.to_string(),
            "log in with `hyperfleet login`, or pass a token with --token-file or HYPERFLEET_TOKEN",
        ),
        Err(error) => Check::fail("identity", Exit::Failed, error.to_string(), "look at the server's log"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn clocks_may_differ_a_little_but_not_much() {
        let level = |apart| drift(apart).level.word();
        assert_eq!([0, 5, 6, 300, 301].map(level), ["ok", "ok", "warn", "warn", "fail"]);
    }

    #[test]
    fn a_token_in_the_open_is_a_warning_except_on_this_machine() {
        let level = |url| encryption(url).level.word();
        assert_eq!(
            ["https://fleet.example.com", "http://localhost:8000", "http://fleet.example.com"].map(level),
            ["ok", "ok", "warn"]
        );
    }

    #[test]
    fn a_certificate_that_is_not_trusted_is_told_apart_from_a_server_that_is_not_there() {
        let unreachable = |source: io::Error| {
            let check = super::unreachable(&Error::unreachable("https://h", source));
            (check.what, check.fix)
        };
        let tls = |error: rustls::Error| unreachable(io::Error::other(error));
        let untrusted = tls(rustls::CertificateError::UnknownIssuer.into());
        let plain = tls(rustls::InvalidMessage::InvalidContentType.into());
        assert_eq!((untrusted.0, plain.0), ("encryption", "encryption"));
        assert_ne!(untrusted.1, plain.1);
        assert_eq!(unreachable(io::ErrorKind::ConnectionRefused.into()).0, "server");
    }
}
