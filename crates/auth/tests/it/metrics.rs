//! The metrics of keys while their sources fail and recover.

use hyperfleet_auth::{IssuerConfig, KeyMetrics, Verifier};
use hyperfleet_core::Timestamp;
use hyperfleet_testkit::eventually;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::support::{Behaviour, DEADLINE, EC, ISSUER, IssuerServer, Signer, hasty, jwks};

struct Watched {
    registry: Registry,
    _verifier: Verifier,
}

impl Watched {
    fn new(config: IssuerConfig) -> Self {
        let metrics = KeyMetrics::default();
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let verifier = Verifier::start(&[config], hasty(), &metrics, &CancellationToken::new()).unwrap();
        Self { registry, _verifier: verifier }
    }

    fn value(&self, series: &str) -> Option<f64> {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map(|value| value.parse().unwrap())
    }

    async fn reaches(&self, series: &str, least: f64) {
        eventually(series, DEADLINE, async || {
            self.value(series).is_some_and(|value| value >= least).then_some(())
        })
        .await;
    }
}

fn refreshes(source: &str, outcome: &str) -> String {
    format!(
        "hyperfleet_auth_key_refreshes_total{{issuer=\"{ISSUER}\",source=\"{source}\",outcome=\"{outcome}\"}}"
    )
}

fn of(metric: &str, source: &str) -> String {
    format!("hyperfleet_auth_{metric}{{issuer=\"{ISSUER}\",source=\"{source}\"}}")
}

fn now() -> f64 {
    Timestamp::now().micros() as f64 / 1e6
}

#[tokio::test]
async fn an_issuer_that_is_away_counts_failures_and_its_keys_grow_old() {
    let issuer = IssuerServer::http(Behaviour::Down).await;
    let began = now();
    let watched = Watched::new(issuer.config());
    assert_eq!(watched.value(&refreshes("url", "succeeded")), Some(0.0));
    watched.reaches(&refreshes("url", "failed"), 2.0).await;
    let (keys, read) = (of("keys", "url"), of("keys_refreshed_timestamp_seconds", "url"));
    assert_eq!((watched.value(&keys), watched.value(&read)), (None, None), "there are none to be old");

    issuer.behave(Behaviour::Keys(jwks(&[&EC.jwk(), &Signer::p256("second").jwk()])));
    watched.reaches(&refreshes("url", "succeeded"), 1.0).await;
    assert_eq!(watched.value(&keys), Some(2.0));
    assert!((began..=now()).contains(&watched.value(&read).unwrap()));
    assert_eq!(watched.value(&refreshes("file", "failed")), None, "it has no file");
}

#[tokio::test]
async fn a_changed_file_is_counted_and_a_broken_one_keeps_the_keys() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("jwks.json");
    std::fs::write(&file, jwks(&[&EC.jwk()]).to_string()).unwrap();
    let watched = Watched::new(IssuerConfig {
        issuer_url: ISSUER.to_owned(),
        jwk_cert_file: Some(file.clone()),
        ..IssuerConfig::default()
    });
    assert_eq!(watched.value(&refreshes("file", "succeeded")), Some(1.0));
    let read = of("keys_refreshed_timestamp_seconds", "file");
    let first = watched.value(&read).unwrap();

    std::fs::write(&file, "{").unwrap();
    watched.reaches(&refreshes("file", "failed"), 1.0).await;
    assert_eq!(watched.value(&of("keys", "file")), Some(1.0));
    assert_eq!(watched.value(&read), Some(first));

    std::fs::write(&file, jwks(&[&EC.jwk(), &Signer::p256("next").jwk()]).to_string()).unwrap();
    watched.reaches(&of("keys", "file"), 2.0).await;
    assert!(watched.value(&read).unwrap() > first);
}
