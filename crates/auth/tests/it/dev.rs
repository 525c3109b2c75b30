//! The issuer for development.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use hyperfleet_auth::dev::{DevError, DevIssuer, Grant, ISSUER_URL};
use hyperfleet_auth::{IssuerConfig, RefreshSchedule, Refusal, parse};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Behaviour, IssuerServer, NOW, at, bearer, start};

/// The issuers of a snippet.
fn issuers(snippet: &str) -> Vec<IssuerConfig> {
    #[derive(Deserialize)]
    struct Configuration {
        server: Server,
    }
    #[derive(Deserialize)]
    struct Server {
        jwt: Jwt,
    }
    #[derive(Deserialize)]
    struct Jwt {
        enabled: bool,
        configs: Vec<IssuerConfig>,
    }
    let Configuration { server: Server { jwt } } = serde_saphyr::from_str(snippet).unwrap();
    assert!(jwt.enabled);
    jwt.configs
}

#[tokio::test]
async fn a_server_with_the_snippet_accepts_the_token() {
    let directory = tempfile::tempdir().unwrap();
    let issuer = DevIssuer::open(&directory.path().join("a \"quoted\" place: #1"), ISSUER_URL).unwrap();
    let mut plain = Grant::new(" ada@example.com ");
    let mut special = Grant::new("build-7");
    special.identity_claim = "sub".to_owned();
    special.audience = Some("fleet: \"test\"".to_owned());
    special.claims = json!({ "groups": ["sre"] }).as_object().unwrap().clone();
    plain.lifetime = Duration::from_secs(60);

    for (grant, name) in [(&plain, "ada@example.com"), (&special, "build-7")] {
        let token = issuer.mint(grant, at(NOW)).unwrap();
        let verifier = start(&issuers(&issuer.snippet(grant, None)), RefreshSchedule::default());
        let verified = verifier.verify_at(&bearer(&token), at(NOW)).await.unwrap();
        assert_eq!(verified.issuer(), ISSUER_URL);
        assert_eq!(verified.identity().unwrap().as_ref(), name);
        assert_eq!(verified.claims().get("groups"), grant.claims.get("groups"));

        let end = NOW + i64::try_from(grant.lifetime.as_secs()).unwrap() + 30;
        assert!(verifier.verify_at(&bearer(&token), at(end - 1)).await.is_ok());
        assert_eq!(verifier.verify_at(&bearer(&token), at(end)).await.unwrap_err(), Refusal::Expired);
    }
}

#[tokio::test]
async fn the_keys_can_be_served() {
    let directory = tempfile::tempdir().unwrap();
    let issuer = DevIssuer::open(directory.path(), ISSUER_URL).unwrap();
    let keys: Value = serde_json::from_str(&issuer.jwks()).unwrap();
    let server = IssuerServer::http(Behaviour::Keys(keys)).await;
    let grant = Grant::new("ada");
    let snippet = issuer.snippet(&grant, Some(&server.url("/jwks.json")));
    let verifier = start(&issuers(&snippet), RefreshSchedule::default());
    let token = issuer.mint(&grant, at(NOW)).unwrap();
    assert!(verifier.verify_at(&bearer(&token), at(NOW)).await.is_ok());
}

#[test]
fn the_key_is_kept_for_its_user_alone_and_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("new").join("place");
    let issuer = DevIssuer::open(&place, ISSUER_URL).unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&issuer.key_file()), 0o600);
    assert_eq!(mode(&issuer.jwks_file()), 0o600);
    assert_eq!(mode(&place), 0o700);
    assert_eq!(std::fs::read_to_string(issuer.jwks_file()).unwrap(), issuer.jwks());
    let private = std::fs::read_to_string(issuer.key_file()).unwrap();
    assert!(private.starts_with("-----BEGIN PRIVATE KEY-----\n"));
    assert!(!issuer.jwks().contains("\"d\""));
    assert!(!format!("{issuer:?}").contains(private.lines().nth(1).unwrap()));

    let again = DevIssuer::open(&place, ISSUER_URL).unwrap();
    assert_eq!(again.jwks(), issuer.jwks());
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 2);
    let elsewhere = DevIssuer::open(directory.path(), ISSUER_URL).unwrap();
    assert_ne!(elsewhere.jwks(), issuer.jwks());
}

#[test]
fn a_key_that_others_can_read_or_replace_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("place");
    let issuer = DevIssuer::open(&place, ISSUER_URL).unwrap();
    let key_file = issuer.key_file();
    let set = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for (path, safe, exposed, remedy) in [
        (&key_file, 0o600, [0o602, 0o620, 0o640, 0o604, 0o666], "chmod 600"),
        (&place, 0o755, [0o702, 0o720, 0o722, 0o775, 0o777], "chmod go-w"),
    ] {
        for mode in exposed {
            set(path, mode);
            let refused = DevIssuer::open(&place, ISSUER_URL).unwrap_err();
            assert!(matches!(refused, DevError::Exposed { .. }), "{mode:o}: {refused}");
            let told = refused.to_string();
            assert!(told.starts_with(&format!("{} is not safe: ", path.display())), "{told}");
            assert!(told.contains(&format!("(mode {mode:03o})")) && told.contains(remedy), "{told}");
        }
        set(path, safe);
        assert_eq!(DevIssuer::open(&place, ISSUER_URL).unwrap().jwks(), issuer.jwks());
    }
}

#[test]
fn tokens_that_no_server_would_accept_are_not_minted() {
    let directory = tempfile::tempdir().unwrap();
    let issuer = DevIssuer::open(directory.path(), ISSUER_URL).unwrap();
    let mint = |change: &dyn Fn(&mut Grant)| {
        let mut grant = Grant::new("ada");
        change(&mut grant);
        issuer.mint(&grant, at(NOW))
    };
    assert!(mint(&|_| {}).is_ok());
    assert!(matches!(mint(&|grant| grant.identity = " ".to_owned()), Err(DevError::Identity(_))));
    assert!(matches!(mint(&|grant| grant.identity = "a\nb".to_owned()), Err(DevError::Identity(_))));
    assert!(matches!(mint(&|grant| grant.identity_claim = "exp".to_owned()), Err(DevError::OwnClaim(_))));
    for own in ["iss", "sub", "aud", "iat", "exp", "email"] {
        let refused = mint(&|grant| drop(grant.claims.insert(own.to_owned(), json!("x"))));
        assert_eq!(refused.unwrap_err().to_string(), format!("the claim {own} is set by the issuer"));
    }
    let endless = mint(&|grant| grant.lifetime = Duration::MAX).unwrap();
    assert!(parse(&endless).is_ok());

    let refused = DevIssuer::open(directory.path(), "http://issuer.example").unwrap_err();
    assert_eq!(refused.to_string(), "the URL of the issuer must be https (http only on loopback)");
    std::fs::write(issuer.key_file(), "nothing").unwrap();
    assert!(matches!(DevIssuer::open(directory.path(), ISSUER_URL), Err(DevError::NotAKey(_))));
}
