//! The faults of configured issuers.

use hyperfleet_auth::{IssuerConfig, KeyMetrics, RefreshSchedule, Verifier, check};
use tokio_util::sync::CancellationToken;

fn good() -> IssuerConfig {
    IssuerConfig {
        issuer_url: "https://issuer.example/realms/fleet".to_owned(),
        jwk_cert_url: Some("https://issuer.example/keys".to_owned()),
        ..IssuerConfig::default()
    }
}

/// The faults of one issuer, each as its member and message.
fn faults(change: impl FnOnce(&mut IssuerConfig)) -> Vec<String> {
    let mut config = good();
    change(&mut config);
    check(&[config]).into_iter().map(|fault| format!("{} {}", fault.field, fault.message)).collect()
}

#[test]
fn defaults_are_the_contracts() {
    let config = IssuerConfig::default();
    assert_eq!((config.header.as_str(), config.identity_claim.as_str()), ("Authorization", "email"));
    assert!(faults(|_| {}).is_empty());
    assert!(check(&[]).is_empty());
}

#[test]
fn urls_are_https_unless_they_stay_on_this_machine() {
    for url in [
        "https://issuer.example",
        "https://issuer.example:8443/a/b?c=d",
        "http://localhost:8080/keys",
        "http://127.0.0.1/keys",
        "http://127.8.8.8:1/",
        "http://[::1]:8080/keys",
    ] {
        assert!(faults(|config| config.issuer_url = url.to_owned()).is_empty(), "{url}");
        assert!(faults(|config| config.jwk_cert_url = Some(url.to_owned())).is_empty(), "{url}");
    }
    for (url, fault) in [
        ("", "is required"),
        ("http://issuer.example", "must be https (http only on loopback)"),
        ("http://localhost.evil.example", "must be https (http only on loopback)"),
        ("http://127.0.0.1.evil.example", "must be https (http only on loopback)"),
        ("http://0.0.0.0/", "must be https (http only on loopback)"),
        ("ftp://localhost/keys", "must be https (http only on loopback)"),
        ("https://user:secret@issuer.example", "must not hold a user or a password"),
        ("http://localhost@evil.example", "must not hold a user or a password"),
        ("https://issuer.example/#keys", "must have no fragment"),
        ("issuer.example", "must be an absolute URL"),
        ("/keys", "must be an absolute URL"),
        ("https://", "is not a URL"),
        ("https://issuer .example", "is not a URL"),
        ("not a url", "is not a URL"),
    ] {
        assert_eq!(
            faults(|config| config.issuer_url = url.to_owned()),
            [format!("issuer_url {fault}")],
            "{url}"
        );
        assert_eq!(
            faults(|config| config.jwk_cert_url = Some(url.to_owned())),
            [format!("jwk_cert_url {fault}")],
            "{url}"
        );
    }
}

#[test]
fn keys_come_from_a_url_or_a_file_or_both() {
    assert!(faults(|config| config.jwk_cert_file = Some("keys.json".into())).is_empty());
    assert!(
        faults(|config| {
            config.jwk_cert_url = None;
            config.jwk_cert_file = Some("keys.json".into());
        })
        .is_empty()
    );
    assert_eq!(
        faults(|config| config.jwk_cert_url = None),
        ["jwk_cert_url is required when there is no jwk_cert_file"]
    );
    assert_eq!(
        faults(|config| {
            config.jwk_cert_url = None;
            config.jwk_cert_file = Some("keys.json".into());
            config.jwk_cert_ca_file = Some("ca.crt".into());
        }),
        ["jwk_cert_ca_file has no use without jwk_cert_url"]
    );
    assert_eq!(faults(|config| config.jwk_cert_file = Some("".into())), ["jwk_cert_file must not be empty"]);
}

#[test]
fn a_pattern_must_compile_and_be_whole() {
    assert!(
        faults(|config| config.identity_claim_pattern = Some(r".+@(a|b)\.example".to_owned())).is_empty()
    );
    for broken in ["(", "a)|(b", "[", "*", "(?x) a # unanchored"] {
        let found = faults(|config| config.identity_claim_pattern = Some(broken.to_owned()));
        assert_eq!(found.len(), 1, "{broken}");
        assert!(found[0].starts_with("identity_claim_pattern does not compile: "), "{found:?}");
    }
}

#[test]
fn headers_have_names_and_do_not_collide() {
    for name in ["", "a b", "naïve", "a:b"] {
        assert_eq!(faults(|config| config.header = name.to_owned()), ["header is not the name of a header"]);
        assert_eq!(
            faults(|config| config.identity_header = Some(name.to_owned())),
            ["identity_header is not the name of a header"]
        );
    }
    let collision = ["identity_header must not be a header that carries tokens"];
    assert_eq!(faults(|config| config.identity_header = Some("AUTHORIZATION".to_owned())), collision);
    assert_eq!(
        faults(|config| {
            config.header = "X-Token".to_owned();
            config.identity_header = Some("x-token".to_owned());
        }),
        collision
    );
    assert_eq!(faults(|config| config.audience = Some(" ".to_owned())), ["audience must not be empty"]);
    assert_eq!(faults(|config| config.identity_claim = String::new()), ["identity_claim must not be empty"]);
}

#[tokio::test]
async fn every_fault_of_every_issuer_is_reported_at_once_and_nothing_starts() {
    let broken = IssuerConfig {
        issuer_url: "http://issuer.example".to_owned(),
        header: String::new(),
        identity_claim_pattern: Some("(".to_owned()),
        ..IssuerConfig::default()
    };
    let found = check(&[good(), broken.clone(), good()]);
    let places: Vec<_> = found.iter().map(|fault| (fault.index, fault.field)).collect();
    assert_eq!(
        places,
        [
            (1, "issuer_url"),
            (1, "jwk_cert_url"),
            (1, "header"),
            (1, "identity_claim_pattern"),
            (2, "issuer_url")
        ]
    );
    assert_eq!(found[4].message, "is already the issuer of entry 0");

    let refused = Verifier::start(
        &[good(), broken],
        RefreshSchedule::default(),
        &KeyMetrics::default(),
        &CancellationToken::new(),
    );
    assert_eq!(refused.unwrap_err().len(), 4);
}

#[test]
fn unknown_members_are_faults() {
    let read = |json: &str| serde_json::from_str::<IssuerConfig>(json);
    let config = read(r#"{"issuer_url":"https://issuer.example","jwk_cert_file":"a.json"}"#).unwrap();
    assert!(check(&[config]).is_empty());
    assert!(read(r#"{"issuer":"https://issuer.example"}"#).is_err());
}
