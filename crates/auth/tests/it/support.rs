//! What the tests share: keys that sign, tokens made by hand, verifiers, and an issuer.

mod issuer;
mod keys;
mod logged;

use std::sync::LazyLock;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use hyperfleet_auth::{IssuerConfig, KeyMetrics, RefreshSchedule, Refusal, Verified, Verifier};
use hyperfleet_core::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(crate) use issuer::{Authority, Behaviour, IssuerServer};
pub(crate) use keys::{Signer, encode, jwks, splice};
pub(crate) use logged::Log;

/// The issuer of most tests.
pub(crate) const ISSUER: &str = "https://issuer.example";

/// The time of most tests, in seconds.
pub(crate) const NOW: i64 = 1_800_000_000;

/// What is only met when something is broken.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Keys are made once: RSA takes its time.
pub(crate) static RSA: LazyLock<Signer> = LazyLock::new(|| Signer::rsa("rsa"));
pub(crate) static EC: LazyLock<Signer> = LazyLock::new(|| Signer::p256("ec"));

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

/// Claims that are good at [`NOW`].
pub(crate) fn claims() -> Value {
    json!({ "iss": ISSUER, "email": "ada@example.com", "exp": NOW + 600 })
}

/// [`claims`] with some members replaced, or taken out with null.
pub(crate) fn claims_with(changes: &Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().shift_remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}

pub(crate) fn bearer(token: &str) -> HeaderMap {
    header("authorization", &format!("Bearer {token}"))
}

pub(crate) fn header(name: &str, value: &str) -> HeaderMap {
    [(name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())]
        .into_iter()
        .collect()
}

/// A verifier with the JWKS in a file.
pub(crate) struct Fixture {
    pub(crate) verifier: Verifier,
    pub(crate) file: std::path::PathBuf,
    _directory: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new(jwks: &Value) -> Self {
        Self::with(jwks, |_| {})
    }

    /// With the settings of the issuer changed.
    pub(crate) fn with(jwks: &Value, change: impl FnOnce(&mut IssuerConfig)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("jwks.json");
        std::fs::write(&file, jwks.to_string()).unwrap();
        let mut config = IssuerConfig {
            issuer_url: ISSUER.to_owned(),
            jwk_cert_file: Some(file.clone()),
            ..IssuerConfig::default()
        };
        change(&mut config);
        Self { verifier: start(&[config], hasty()), file, _directory: directory }
    }

    /// The answer to a bearer token at [`NOW`].
    pub(crate) async fn verify(&self, token: &str) -> Result<Verified, Refusal> {
        self.verify_at(token, NOW).await
    }

    pub(crate) async fn verify_at(&self, token: &str, seconds: i64) -> Result<Verified, Refusal> {
        self.verifier.verify_at(&bearer(token), at(seconds)).await
    }

    /// The refusal of a token that must not pass.
    pub(crate) async fn refusal(&self, token: &str) -> Refusal {
        self.verify(token).await.expect_err("the token must be refused")
    }
}

pub(crate) fn start(issuers: &[IssuerConfig], schedule: RefreshSchedule) -> Verifier {
    Verifier::start(issuers, schedule, &KeyMetrics::default(), &CancellationToken::new()).unwrap()
}

/// Files are looked at all the time, and failures are followed by another attempt at once.
pub(crate) fn hasty() -> RefreshSchedule {
    RefreshSchedule {
        file_poll: Duration::from_millis(5),
        first_retry: Duration::from_millis(5),
        last_retry: Duration::from_millis(5),
        ..RefreshSchedule::default()
    }
}
