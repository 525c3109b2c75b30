//! The rules for accepting a token, one by one.

use std::sync::Arc;

use hyperfleet_auth::Refusal;
use serde_json::{Value, json};

use crate::support::{EC, Fixture, ISSUER, NOW, RSA, Signer, claims, claims_with, jwks};

#[tokio::test]
async fn a_valid_token_gives_issuer_claims_and_identity() {
    let fixture = Fixture::new(&jwks(&[&EC.jwk()]));
    let verified = fixture.verify(&EC.token(&claims_with(&json!({ "groups": ["sre"] })))).await.unwrap();

    assert_eq!(verified.issuer(), ISSUER);
    assert_eq!(verified.claims().get("groups"), Some(&json!(["sre"])));
    assert_eq!(verified.identity().map(Arc::clone), Ok("ada@example.com".into()));
}

#[tokio::test]
async fn every_algorithm_is_accepted_from_a_key_of_its_type() {
    let (p384, ed) = (Signer::p384("p384"), Signer::ed25519("ed"));
    let fixture = Fixture::new(&jwks(&[&RSA.jwk(), &EC.jwk(), &p384.jwk(), &ed.jwk()]));
    let signers: [(&Signer, &[&str]); 4] = [
        (&RSA, &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]),
        (&EC, &["ES256"]),
        (&p384, &["ES384"]),
        (&ed, &["EdDSA"]),
    ];
    for (signer, algorithms) in signers {
        for algorithm in algorithms {
            let token = signer.token_with(&json!({ "alg": algorithm, "kid": signer.id }), &claims());
            assert!(fixture.verify(&token).await.is_ok(), "{algorithm}");
            assert!(fixture.verify(&token).await.is_ok(), "{algorithm}, remembered");
        }
    }
}

#[tokio::test]
async fn a_key_with_an_algorithm_is_for_that_one_only() {
    let fixture = Fixture::new(&jwks(&[&RSA.jwk_with(&json!({ "alg": "PS384", "use": "sig" }))]));
    for algorithm in ["RS256", "RS384", "RS512", "PS256", "PS512"] {
        let token = RSA.token_with(&json!({ "alg": algorithm, "kid": "rsa" }), &claims());
        assert_eq!(fixture.refusal(&token).await, Refusal::WrongAlgorithm, "{algorithm}");
    }
    let token = RSA.token_with(&json!({ "alg": "PS384", "kid": "rsa" }), &claims());
    assert!(fixture.verify(&token).await.is_ok());
}

#[tokio::test]
async fn a_token_without_kid_needs_a_key_that_is_the_only_one_to_fit() {
    let anonymous =
        |signer: &Signer, algorithm: &str| signer.token_with(&json!({ "alg": algorithm }), &claims());
    let (rsa, ec) = (anonymous(&RSA, "RS256"), anonymous(&EC, "ES256"));

    let one_of_each = Fixture::new(&jwks(&[&RSA.jwk(), &EC.jwk()]));
    assert!(one_of_each.verify(&rsa).await.is_ok());
    assert!(one_of_each.verify(&ec).await.is_ok());

    let two = Fixture::new(&jwks(&[&EC.jwk(), &Signer::p256("other").jwk(), &RSA.jwk()]));
    assert_eq!(two.refusal(&ec).await, Refusal::AmbiguousKey);
    assert!(two.verify(&rsa).await.is_ok());

    let none = Fixture::new(&jwks(&[&RSA.jwk()]));
    assert_eq!(none.refusal(&ec).await, Refusal::UnknownKey);
    let wrong = Fixture::new(&jwks(&[&Signer::p256("other").jwk()]));
    assert_eq!(wrong.refusal(&ec).await, Refusal::UnknownKey);
}

#[tokio::test]
async fn keys_that_share_a_kid_are_all_tried() {
    let (one, other) = (Signer::p256("same"), Signer::p256("same"));
    let fixture = Fixture::new(&jwks(&[&one.jwk(), &other.jwk(), &RSA.jwk_with(&json!({ "kid": "same" }))]));
    assert!(fixture.verify(&one.token(&claims())).await.is_ok());
    assert!(fixture.verify(&other.token(&claims())).await.is_ok());
    assert_eq!(fixture.refusal(&Signer::p256("same").token(&claims())).await, Refusal::BadSignature);
}

#[tokio::test]
async fn a_token_ends_thirty_seconds_after_exp() {
    let fixture = Fixture::new(&jwks(&[&EC.jwk()]));
    for (exp, last, first) in
        [(json!(NOW), NOW + 29, NOW + 30), (json!(NOW as f64 + 0.5), NOW + 30, NOW + 31), (json!(-1), 28, 29)]
    {
        // Fresh tokens and remembered ones.
        let token = EC.token(&claims_with(&json!({ "exp": exp })));
        assert_eq!(fixture.verify_at(&token, first).await.unwrap_err(), Refusal::Expired, "{exp}");
        assert!(fixture.verify_at(&token, last).await.is_ok(), "{exp}");
        assert_eq!(fixture.verify_at(&token, first).await.unwrap_err(), Refusal::Expired, "{exp}");
    }
}

#[tokio::test]
async fn a_token_begins_thirty_seconds_before_nbf() {
    let fixture = Fixture::new(&jwks(&[&EC.jwk()]));
    let token = EC.token(&claims_with(&json!({ "nbf": NOW })));
    assert_eq!(fixture.verify_at(&token, NOW - 31).await.unwrap_err(), Refusal::NotYetValid);
    assert!(fixture.verify_at(&token, NOW - 30).await.is_ok());
}

#[tokio::test]
async fn exp_is_required_and_times_are_numbers() {
    let fixture = Fixture::new(&jwks(&[&EC.jwk()]));
    let refusal = async |changes: Value| fixture.refusal(&EC.token(&claims_with(&changes))).await;

    assert_eq!(refusal(json!({ "exp": null })).await, Refusal::NoExpiry);
    for nonsense in [json!("soon"), json!(NOW.to_string()), json!([NOW]), json!({ "a": 1 }), json!(true)] {
        assert_eq!(refusal(json!({ "exp": nonsense })).await, Refusal::BadClaims, "{nonsense}");
        assert_eq!(refusal(json!({ "nbf": nonsense })).await, Refusal::BadClaims, "{nonsense}");
    }
    for (exp, refused) in [
        ("1e400", Some(Refusal::BadClaims)),
        ("null", Some(Refusal::BadClaims)),
        ("-1e300", Some(Refusal::Expired)),
        ("0", Some(Refusal::Expired)),
        ("1e300", None),
        ("18446744073709551616", None),
        ("9223372036854775807", None),
    ] {
        let text = format!(r#"{{"iss":"{ISSUER}","exp":{exp}}}"#);
        let token = EC.raw_token(r#"{"alg":"ES256","kid":"ec"}"#, &text, "ES256");
        assert_eq!(fixture.verify(&token).await.err(), refused, "{exp}");
    }
}

#[tokio::test]
async fn the_issuer_must_be_the_configured_one_to_the_letter() {
    let fixture = Fixture::new(&jwks(&[&EC.jwk()]));
    for iss in [
        json!(null),
        json!(""),
        json!(7),
        json!([ISSUER]),
        json!(format!("{ISSUER}/")),
        json!(ISSUER.to_uppercase()),
        json!(format!(" {ISSUER}")),
        json!("https://issuer.example.evil.example"),
    ] {
        let token = EC.token(&claims_with(&json!({ "iss": iss })));
        assert_eq!(fixture.refusal(&token).await, Refusal::UnknownIssuer, "{iss}");
    }
}

#[tokio::test]
async fn the_audience_is_a_string_or_one_of_a_list_and_any_when_none_is_configured() {
    let strict = Fixture::with(&jwks(&[&EC.jwk()]), |config| config.audience = Some("fleet".to_owned()));
    let lenient = Fixture::new(&jwks(&[&EC.jwk()]));
    for (aud, accepted) in [
        (json!("fleet"), true),
        (json!(["other", "fleet"]), true),
        (json!([7, "fleet"]), true),
        (json!(null), false),
        (json!("Fleet"), false),
        (json!("fleets"), false),
        (json!([]), false),
        (json!(["other"]), false),
        (json!({ "fleet": true }), false),
        (json!(7), false),
        (json!([["fleet"]]), false),
    ] {
        let token = EC.token(&claims_with(&json!({ "aud": aud })));
        let refused = (!accepted).then_some(Refusal::WrongAudience);
        assert_eq!(strict.verify(&token).await.err(), refused, "{aud}");
        assert!(lenient.verify(&token).await.is_ok(), "{aud}");
    }
}

#[tokio::test]
async fn faults_of_claims_are_reported_only_after_the_signature_is_verified() {
    let fixture = Fixture::with(&jwks(&[&EC.jwk()]), |config| config.audience = Some("fleet".to_owned()));
    let stranger = Signer::p256("ec");
    for changes in [json!({ "exp": 0 }), json!({ "nbf": NOW + 600 }), json!({ "aud": "other" })] {
        let token = stranger.token(&claims_with(&changes));
        assert_eq!(fixture.refusal(&token).await, Refusal::BadSignature);
    }
}
