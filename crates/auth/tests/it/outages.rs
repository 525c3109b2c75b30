//! Issuers that are slow, unreachable, rotating their keys, or attacked through unknown key ids.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use hyperfleet_auth::{KeyMetrics, RefreshSchedule, Refusal, Verified, Verifier};
use hyperfleet_testkit::eventually;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{
    Behaviour, DEADLINE, EC, IssuerServer, Log, NOW, Signer, at, bearer, claims, hasty, jwks, start,
};

const HOUR: Duration = Duration::from_secs(3600);

/// An unknown key causes a fetch at once, and its request waits for it.
fn eager() -> RefreshSchedule {
    RefreshSchedule {
        unknown_key: Duration::ZERO,
        unknown_key_timeout: DEADLINE,
        ..RefreshSchedule::default()
    }
}

async fn verify(verifier: &Verifier, token: &str) -> Result<Verified, Refusal> {
    verifier.verify_at(&bearer(token), at(NOW)).await
}

fn with_kid(kid: &str) -> String {
    EC.token_with(&json!({ "alg": "ES256", "kid": kid }), &claims())
}

#[tokio::test]
async fn the_first_request_waits_for_the_first_keys() {
    let issuer = IssuerServer::http(Behaviour::Keys(jwks(&[&EC.jwk()]))).await;
    let verifier = start(&[issuer.config()], RefreshSchedule::default());
    assert!(verify(&verifier, &EC.token(&claims())).await.is_ok());
    assert_eq!(issuer.requests(), 1);
}

#[tokio::test]
async fn a_thousand_unknown_keys_cause_one_fetch_in_ten_seconds() {
    let issuer = IssuerServer::http(Behaviour::Keys(jwks(&[&EC.jwk()]))).await;
    let began = Instant::now();
    let verifier = start(&[issuer.config()], RefreshSchedule::default());
    let tokens: Vec<String> = (0..1_000).map(|n| with_kid(&format!("made-up-{n}"))).collect();

    for refusal in join_all(tokens.iter().map(|token| verify(&verifier, token))).await {
        assert_eq!(refusal.unwrap_err(), Refusal::UnknownKey);
    }
    for token in &tokens {
        assert_eq!(verify(&verifier, token).await.unwrap_err(), Refusal::UnknownKey);
    }
    let allowed = 1 + usize::try_from(began.elapsed().as_secs() / 10).unwrap();
    assert!((1..=allowed).contains(&issuer.requests()), "{} of {allowed}", issuer.requests());
    assert!(verify(&verifier, &EC.token(&claims())).await.is_ok());
}

#[tokio::test]
async fn no_fetch_is_asked_for_before_the_pause_is_over() {
    let issuer = IssuerServer::http(Behaviour::Keys(jwks(&[&EC.jwk()]))).await;
    let schedule = RefreshSchedule { unknown_key: HOUR, ..RefreshSchedule::default() };
    let verifier = start(&[issuer.config()], schedule);
    for n in 0..100 {
        let token = with_kid(&format!("made-up-{n}"));
        assert_eq!(verify(&verifier, &token).await.unwrap_err(), Refusal::UnknownKey);
    }
    assert_eq!(issuer.requests(), 1);
}

#[tokio::test]
async fn one_fetch_answers_all_waiting_requests() {
    let (first, second) = (Signer::p256("first"), Signer::p256("second"));
    let issuer = IssuerServer::http(Behaviour::Keys(jwks(&[&first.jwk()]))).await;
    let verifier = start(&[issuer.config()], eager());
    assert!(verify(&verifier, &first.token(&claims())).await.is_ok());

    issuer.behave(Behaviour::Silence);
    let token = second.token(&claims());
    let waiting = join_all((0..100).map(|_| verify(&verifier, &token)));
    let answering = async {
        eventually("the fetch", DEADLINE, async || (issuer.requests() == 2).then_some(())).await;
        // Callers whose keys are known do not wait.
        assert!(verify(&verifier, &first.token(&claims())).await.is_ok());
        issuer.behave(Behaviour::Keys(jwks(&[&first.jwk(), &second.jwk()])));
    };
    let (answers, ()) = tokio::join!(waiting, answering);
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(issuer.requests(), 2);
}

#[tokio::test]
async fn a_request_waits_for_a_scheduled_fetch() {
    let (first, second) = (Signer::p256("first"), Signer::p256("second"));
    let issuer = IssuerServer::http(Behaviour::Keys(jwks(&[&first.jwk()]))).await;
    let schedule = RefreshSchedule {
        refresh: Duration::from_millis(5),
        unknown_key: HOUR,
        unknown_key_timeout: DEADLINE,
        ..RefreshSchedule::default()
    };
    let verifier = start(&[issuer.config()], schedule);
    assert!(verify(&verifier, &first.token(&claims())).await.is_ok());

    issuer.behave(Behaviour::Silence);
    let before = issuer.requests();
    eventually("the next fetch", DEADLINE, async || (issuer.requests() > before).then_some(())).await;
    let token = second.token(&claims());
    let answering = async { issuer.behave(Behaviour::Keys(jwks(&[&second.jwk()]))) };
    let (answer, ()) = tokio::join!(verify(&verifier, &token), answering);
    assert!(answer.is_ok());
}

#[tokio::test]
async fn a_silent_issuer_delays_requests_only_until_the_timeout() {
    let issuer = IssuerServer::http(Behaviour::Silence).await;
    let schedule =
        RefreshSchedule { unknown_key_timeout: Duration::from_millis(20), ..RefreshSchedule::default() };
    let verifier = start(&[issuer.config()], schedule);
    for _ in 0..100 {
        assert_eq!(verify(&verifier, &EC.token(&claims())).await.unwrap_err(), Refusal::NoKeys);
    }
    assert!(issuer.requests() <= 1);
}

#[tokio::test]
async fn a_new_key_is_fetched_when_a_token_names_it() {
    let (first, second) = (Signer::p256("first"), Signer::p256("second"));
    let issuer = IssuerServer::http(Behaviour::Keys(jwks(&[&first.jwk()]))).await;
    let verifier = start(&[issuer.config()], eager());
    assert!(verify(&verifier, &first.token(&claims())).await.is_ok());

    issuer.behave(Behaviour::Keys(jwks(&[&second.jwk()])));
    assert!(verify(&verifier, &second.token(&claims())).await.is_ok());
    assert_eq!(verify(&verifier, &first.token(&claims())).await.unwrap_err(), Refusal::UnknownKey);
}

#[tokio::test]
async fn a_new_key_is_fetched_when_no_key_has_a_name() {
    let (first, second) = (Signer::p256("first"), Signer::p256("second"));
    let nameless = |signer: &Signer| {
        let mut jwk = signer.jwk();
        jwk.as_object_mut().unwrap().shift_remove("kid");
        jwks(&[&jwk])
    };
    let token = |signer: &Signer| signer.token_with(&json!({ "alg": "ES256" }), &claims());
    let issuer = IssuerServer::http(Behaviour::Keys(nameless(&first))).await;
    let verifier = start(&[issuer.config()], eager());
    assert!(verify(&verifier, &token(&first)).await.is_ok());

    issuer.behave(Behaviour::Keys(nameless(&second)));
    assert!(verify(&verifier, &token(&second)).await.is_ok());
    // A token that names a key is not for a key without a name.
    assert_eq!(verify(&verifier, &second.token(&claims())).await.unwrap_err(), Refusal::UnknownKey);
}

#[tokio::test]
async fn a_withdrawn_key_ends_its_tokens_at_the_next_refresh() {
    let (first, second) = (Signer::p256("first"), Signer::p256("second"));
    let issuer = IssuerServer::http(Behaviour::Keys(jwks(&[&first.jwk(), &second.jwk()]))).await;
    let verifier = start(
        &[issuer.config()],
        RefreshSchedule { refresh: Duration::from_millis(5), ..RefreshSchedule::default() },
    );
    let (one, other) = (first.token(&claims()), second.token(&claims()));
    for _ in 0..2 {
        assert!(verify(&verifier, &one).await.is_ok());
        assert!(verify(&verifier, &other).await.is_ok());
    }
    issuer.behave(Behaviour::Keys(jwks(&[&second.jwk()])));
    let refused = eventually("the key is gone", DEADLINE, async || verify(&verifier, &one).await.err()).await;
    assert_eq!(refused, Refusal::UnknownKey);
    assert!(verify(&verifier, &other).await.is_ok());

    issuer.behave(Behaviour::Keys(jwks(&[])));
    let refused =
        eventually("all keys are gone", DEADLINE, async || verify(&verifier, &other).await.err()).await;
    assert_eq!(refused, Refusal::NoKeys);
}

#[tokio::test]
async fn an_outage_of_the_issuer_takes_no_key_away() {
    let log = Log::listen();
    let issuer = IssuerServer::http(Behaviour::Keys(jwks(&[&EC.jwk()]))).await;
    let schedule = RefreshSchedule { refresh: Duration::from_millis(5), ..hasty() };
    let verifier = start(&[issuer.config()], schedule);
    let known = EC.token(&claims());
    assert!(verify(&verifier, &known).await.is_ok());

    for (outage, noticed) in [
        (Behaviour::Down, "connection"),
        (Behaviour::Answer(500, "oh no".to_owned()), "the answer is 500"),
        (Behaviour::Answer(404, jwks(&[]).to_string()), "the answer is 404"),
        (Behaviour::Answer(200, "<html>".to_owned()), "it is no JSON"),
        (Behaviour::Answer(200, String::new()), "it is no JSON"),
        (Behaviour::Answer(200, "{\"keys\":7}".to_owned()), "it has no list of keys"),
    ] {
        issuer.behave(outage);
        let before = issuer.requests();
        eventually("the outage is noticed", DEADLINE, async || {
            (issuer.requests() > before + 3 && log.text().contains(noticed)).then_some(())
        })
        .await;
        assert!(verify(&verifier, &known).await.is_ok(), "{noticed}");
        assert!(verify(&verifier, &EC.token(&claims())).await.is_ok(), "{noticed}");
    }
    // It is said once, however often it is tried.
    assert_eq!(log.text().matches("the answer is 500").count(), 1, "{}", log.text());
}

#[tokio::test]
async fn a_start_does_not_depend_on_the_issuer() {
    let issuer = IssuerServer::http(Behaviour::Down).await;
    let verifier = start(&[issuer.config()], hasty());
    let token = EC.token(&claims());
    assert_eq!(verify(&verifier, &token).await.unwrap_err(), Refusal::NoKeys);

    issuer.behave(Behaviour::Keys(jwks(&[&EC.jwk()])));
    eventually("the issuer is back", DEADLINE, async || verify(&verifier, &token).await.ok()).await;
}

#[tokio::test]
async fn keys_of_the_file_and_of_the_url_count_together() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("jwks.json");
    let spare = Signer::p256("spare");
    std::fs::write(&file, jwks(&[&spare.jwk()]).to_string()).unwrap();
    let issuer = IssuerServer::http(Behaviour::Down).await;
    let mut config = issuer.config();
    config.jwk_cert_file = Some(file.clone());
    let verifier = start(&[config], hasty());

    // The file does not need the URL.
    assert!(verify(&verifier, &spare.token(&claims())).await.is_ok());
    issuer.behave(Behaviour::Keys(jwks(&[&EC.jwk()])));
    let token = EC.token(&claims());
    eventually("the issuer is back", DEADLINE, async || verify(&verifier, &token).await.ok()).await;
    assert!(verify(&verifier, &spare.token(&claims())).await.is_ok());

    std::fs::write(&file, jwks(&[]).to_string()).unwrap();
    let token = spare.token(&claims());
    eventually("the file is empty", DEADLINE, async || verify(&verifier, &token).await.err()).await;
    assert!(verify(&verifier, &EC.token(&claims())).await.is_ok());
}

#[tokio::test]
async fn one_issuers_outage_is_not_anothers() {
    let well = IssuerServer::http(Behaviour::Keys(jwks(&[&EC.jwk()]))).await;
    let ill = IssuerServer::http(Behaviour::Silence).await;
    let mut other = ill.config();
    other.issuer_url = "https://other.example".to_owned();
    let verifier = start(&[other, well.config()], RefreshSchedule::default());
    assert!(verify(&verifier, &EC.token(&claims())).await.is_ok());
}

#[tokio::test]
async fn after_the_shutdown_nothing_is_fetched_and_known_keys_still_count() {
    let issuer = IssuerServer::http(Behaviour::Keys(jwks(&[&EC.jwk()]))).await;
    let shutdown = CancellationToken::new();
    let schedule = RefreshSchedule {
        unknown_key: Duration::ZERO,
        unknown_key_timeout: Duration::from_millis(200),
        ..RefreshSchedule::default()
    };
    let verifier = Verifier::start(&[issuer.config()], schedule, &KeyMetrics::default(), &shutdown).unwrap();
    assert!(verify(&verifier, &EC.token(&claims())).await.is_ok());

    shutdown.cancel();
    assert_eq!(verify(&verifier, &with_kid("unknown")).await.unwrap_err(), Refusal::UnknownKey);
    assert!(verify(&verifier, &EC.token(&claims())).await.is_ok());
    assert_eq!(issuer.requests(), 1);
}
