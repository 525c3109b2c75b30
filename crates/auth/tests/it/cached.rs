//! The cache of accepted tokens.

use hyperfleet_auth::Refusal;
use hyperfleet_testkit::eventually;
use serde_json::json;
use std::sync::Arc;

use crate::support::{DEADLINE, EC, Fixture, NOW, Signer, claims, claims_with, jwks};

#[tokio::test]
async fn a_token_that_was_seen_before_is_not_taken_apart_again() {
    let fixture = Fixture::new(&jwks(&[&EC.jwk()]));
    let token = EC.token(&claims());
    let first = fixture.verify(&token).await.unwrap();
    let second = fixture.verify(&token).await.unwrap();
    assert!(Arc::ptr_eq(first.claims(), second.claims()));
    let other = fixture.verify(&EC.token(&claims())).await.unwrap();
    assert!(!Arc::ptr_eq(first.claims(), other.claims()));
}

#[tokio::test]
async fn a_token_is_cached_until_it_expires() {
    let fixture = Fixture::new(&jwks(&[&EC.jwk()]));
    let token = EC.token(&claims_with(&json!({ "exp": NOW })));
    let first = fixture.verify_at(&token, NOW - 600).await.unwrap();
    let last = fixture.verify_at(&token, NOW + 29).await.unwrap();
    assert!(Arc::ptr_eq(first.claims(), last.claims()));
    assert_eq!(fixture.verify_at(&token, NOW + 30).await.unwrap_err(), Refusal::Expired);
}

#[tokio::test]
async fn a_token_is_forgotten_with_its_key_and_checked_again_when_keys_change() {
    let (first, second) = (Signer::p256("first"), Signer::p256("second"));
    let fixture = Fixture::new(&jwks(&[&first.jwk(), &second.jwk()]));
    let (gone, kept) = (first.token(&claims()), second.token(&claims()));
    assert!(fixture.verify(&gone).await.is_ok());
    let before = fixture.verify(&kept).await.unwrap();

    std::fs::write(&fixture.file, jwks(&[&second.jwk()]).to_string()).unwrap();
    let refused = eventually("the key is gone", DEADLINE, async || fixture.verify(&gone).await.err()).await;
    assert_eq!(refused, Refusal::UnknownKey);
    let after = fixture.verify(&kept).await.unwrap();
    assert!(!Arc::ptr_eq(before.claims(), after.claims()));
}

#[tokio::test]
async fn the_same_keys_again_forget_nothing() {
    let log = crate::support::Log::listen();
    let fixture = Fixture::new(&jwks(&[&EC.jwk()]));
    let token = EC.token(&claims());
    let before = fixture.verify(&token).await.unwrap();

    // Another text, the same keys but for one that is left out.
    let again = jwks(&[&EC.jwk_with(&json!({ "note": "again" })), &json!({ "kty": "oct", "kid": "again" })]);
    std::fs::write(&fixture.file, again.to_string()).unwrap();
    let seen = "a key of an issuer is left out";
    eventually("the file is read again", DEADLINE, async || log.text().contains(seen).then_some(())).await;
    let after = fixture.verify(&token).await.unwrap();
    assert!(Arc::ptr_eq(before.claims(), after.claims()));
}

#[tokio::test]
async fn a_refusal_is_not_remembered() {
    let fixture = Fixture::new(&jwks(&[&EC.jwk()]));
    let token = EC.token(&claims_with(&json!({ "nbf": NOW + 600, "exp": NOW + 6_000 })));
    assert_eq!(fixture.refusal(&token).await, Refusal::NotYetValid);
    assert!(fixture.verify_at(&token, NOW + 600).await.is_ok());
}
