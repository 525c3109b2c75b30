//! How keys are fetched: over TLS that is checked, with bounds on everything.

use hyperfleet_auth::{IssuerConfig, Refusal, Verifier};
use hyperfleet_testkit::eventually;
use serde_json::Value;

use crate::support::{
    Authority, Behaviour, DEADLINE, EC, IssuerServer, Log, NOW, at, bearer, claims, hasty, jwks, start,
};

fn keys() -> Value {
    jwks(&[&EC.jwk()])
}

async fn is_accepted(verifier: &Verifier) -> bool {
    match verifier.verify_at(&bearer(&EC.token(&claims())), at(NOW)).await {
        Ok(_) => true,
        Err(refusal) => {
            assert_eq!(refusal, Refusal::NoKeys);
            false
        }
    }
}

/// Starts a verifier whose fetches must fail, and waits until the log says so.
async fn fails_with(config: IssuerConfig, complaint: &str) {
    let log = Log::listen();
    let verifier = start(&[config], hasty());
    eventually(complaint, DEADLINE, async || log.text().contains(complaint).then_some(())).await;
    assert!(!is_accepted(&verifier).await);
}

#[tokio::test]
async fn the_certificate_must_come_from_the_issuers_own_authority() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let issuer = IssuerServer::https(Behaviour::Keys(keys()), &ours).await;
    let config = |ca_file| IssuerConfig { jwk_cert_ca_file: ca_file, ..issuer.config() };

    assert!(is_accepted(&start(&[config(ours.file())], hasty())).await);
    fails_with(config(theirs.file()), "invalid peer certificate").await;
    fails_with(config(None), "invalid peer certificate").await;
    fails_with(config(Some("/nonexistent/ca.crt".into())), "cannot read the certificates of authorities")
        .await;
}

#[tokio::test]
async fn the_certificate_must_be_for_the_host() {
    let authority = Authority::new();
    let issuer = IssuerServer::https(Behaviour::Keys(keys()), &authority).await;
    let mut config = issuer.config();
    config.jwk_cert_ca_file = authority.file();
    config.jwk_cert_url = config.jwk_cert_url.map(|url| url.replace("localhost", "127.0.0.1"));
    fails_with(config, "invalid peer certificate").await;
}

#[tokio::test]
async fn a_renewed_authority_is_used_without_a_restart() {
    let (old, new) = (Authority::new(), Authority::new());
    let issuer = IssuerServer::https(Behaviour::Keys(keys()), &new).await;
    let log = Log::listen();
    let verifier = start(&[IssuerConfig { jwk_cert_ca_file: old.file(), ..issuer.config() }], hasty());
    let complaint = "invalid peer certificate";
    eventually(complaint, DEADLINE, async || log.text().contains(complaint).then_some(())).await;

    std::fs::copy(new.file().unwrap(), old.file().unwrap()).unwrap();
    eventually("the keys", DEADLINE, async || is_accepted(&verifier).await.then_some(())).await;
}

#[tokio::test]
async fn redirects_are_followed_a_few_times_and_never_to_another_host_or_where_answers_can_be_forged() {
    let authority = Authority::new();
    let plain = IssuerServer::http(Behaviour::Keys(keys())).await;
    let secure = IssuerServer::https(Behaviour::Keys(keys()), &authority).await;
    let config =
        |server: &IssuerServer| IssuerConfig { jwk_cert_ca_file: authority.file(), ..server.config() };
    let redirect = |to: String| Behaviour::Redirect(to, keys());

    // To another path, and from there to the keys.
    for target in ["/keys".to_owned(), plain.url("/keys")] {
        plain.behave(redirect(target));
        assert!(is_accepted(&start(&[config(&plain)], hasty())).await);
    }
    secure.behave(redirect("/keys".to_owned()));
    assert!(is_accepted(&start(&[config(&secure)], hasty())).await);

    plain.behave(redirect(secure.url("/keys")));
    fails_with(config(&plain), "leads to another host").await;
    secure.behave(redirect(plain.url("/keys")));
    fails_with(config(&secure), "leads from https to http").await;
    plain.behave(redirect("http://keys.example/".to_owned()));
    fails_with(config(&plain), "must be https").await;
    plain.behave(redirect("file:///etc/passwd".to_owned()));
    fails_with(config(&plain), "a redirect").await;
    plain.behave(redirect(String::new()));
    fails_with(config(&plain), "a redirect").await;
}

#[tokio::test]
async fn redirects_in_a_circle_end() {
    let issuer = IssuerServer::http(Behaviour::Redirect("/jwks".to_owned(), keys())).await;
    let schedule = hyperfleet_auth::RefreshSchedule::default();
    let log = Log::listen();
    let verifier = start(&[issuer.config()], schedule);
    eventually("the end", DEADLINE, async || log.text().contains("a redirect too many").then_some(())).await;
    assert_eq!(issuer.requests(), 4);
    assert!(!is_accepted(&verifier).await);
}

#[tokio::test]
async fn a_body_beyond_a_mebibyte_is_not_read() {
    let padded = |padding: usize| {
        let mut keys = keys();
        keys["padding"] = "x".repeat(padding).into();
        keys.to_string()
    };
    let issuer = IssuerServer::http(Behaviour::Answer(200, padded(1 << 20))).await;
    fails_with(issuer.config(), "length limit exceeded").await;

    issuer.behave(Behaviour::Answer(200, padded((1 << 20) - 1_000)));
    assert!(is_accepted(&start(&[issuer.config()], hasty())).await);
}

#[tokio::test]
async fn a_fetch_ends_when_its_time_is_up() {
    let issuer = IssuerServer::http(Behaviour::Silence).await;
    let log = Log::listen();
    let schedule =
        hyperfleet_auth::RefreshSchedule { fetch_timeout: std::time::Duration::from_millis(20), ..hasty() };
    let verifier = start(&[issuer.config()], schedule);
    eventually("the end", DEADLINE, async || log.text().contains("no answer within 20ms").then_some(()))
        .await;
    issuer.behave(Behaviour::Keys(keys()));
    eventually("the keys", DEADLINE, async || is_accepted(&verifier).await.then_some(())).await;
}
