//! The identity of a caller with a valid token.

use http::{HeaderMap, HeaderValue};
use hyperfleet_auth::{IssuerConfig, Refusal};
use serde_json::{Value, json};

use crate::support::{EC, Fixture, NOW, at, bearer, claims_with, jwks};

async fn identity(
    fixture: &Fixture,
    email: Value,
    headers: &[(&'static str, &[u8])],
) -> Result<String, Refusal> {
    let mut all: HeaderMap = bearer(&EC.token(&claims_with(&json!({ "email": email }))));
    for (name, value) in headers {
        all.append(*name, HeaderValue::from_bytes(value).unwrap());
    }
    let verified = fixture.verifier.verify_at(&all, at(NOW)).await.expect("the token is valid either way");
    verified.identity().map(ToString::to_string)
}

fn fixture(change: impl FnOnce(&mut IssuerConfig)) -> Fixture {
    Fixture::with(&jwks(&[&EC.jwk()]), change)
}

#[tokio::test]
async fn a_name_is_trimmed_short_and_without_control_characters() {
    let fixture = fixture(|_| {});
    let name = async |email: Value| identity(&fixture, email, &[]).await;
    let long = |bytes: usize| "ü".repeat(bytes / 2);

    assert_eq!(name(json!("  ada@example.com\t")).await.as_deref(), Ok("ada@example.com"));
    assert_eq!(name(json!("Ada Lovelace")).await.as_deref(), Ok("Ada Lovelace"));
    assert_eq!(name(json!(format!(" {}x ", long(254)))).await, Ok(format!("{}x", long(254))));
    assert_eq!(name(json!(long(256))).await, Err(Refusal::BadIdentity));
    for control in ["a\u{0}b", "a\nb", "a\rb", "a\u{7f}b", "a\u{85}b", "a\u{1b}[31mb"] {
        assert_eq!(name(json!(control)).await, Err(Refusal::BadIdentity), "{control:?}");
    }
    for invalid in [json!(null), json!(""), json!("  \n "), json!(7), json!(["ada"]), json!({ "a": 1 })] {
        assert_eq!(name(invalid.clone()).await, Err(Refusal::NoIdentity), "{invalid}");
    }
}

#[tokio::test]
async fn the_claim_can_be_another() {
    let fixture = fixture(|config| config.identity_claim = "sub".to_owned());
    let token = EC.token(&claims_with(&json!({ "sub": "service-7" })));
    let verified = fixture.verify(&token).await.unwrap();
    assert_eq!(verified.identity().unwrap().as_ref(), "service-7");
}

#[tokio::test]
async fn the_pattern_must_fit_the_whole_name() {
    let fixture = fixture(|config| config.identity_claim_pattern = Some("[a-z]+|[a-z]+@example".to_owned()));
    let name = async |email: &str| identity(&fixture, json!(email), &[]).await;

    assert_eq!(name("ada").await.as_deref(), Ok("ada"));
    assert_eq!(name("ada@example").await.as_deref(), Ok("ada@example"));
    for outside in ["ada@example.com", "x ada", "ada@", "Ada", "ada@example\u{200b}"] {
        assert_eq!(name(outside).await, Err(Refusal::BadIdentity), "{outside}");
    }
}

#[tokio::test]
async fn the_header_comes_before_the_claim_under_the_same_rules() {
    let fixture = fixture(|config| {
        config.identity_header = Some("X-Forwarded-Email".to_owned());
        config.identity_claim_pattern = Some(".*@example.com".to_owned());
    });
    let name = async |header: &[&'static [u8]]| {
        let headers: Vec<_> = header.iter().map(|value| ("x-forwarded-email", *value)).collect();
        identity(&fixture, json!("ada@example.com"), &headers).await
    };
    assert_eq!(name(&[b" bob@example.com "]).await.as_deref(), Ok("bob@example.com"));
    assert_eq!(name(&["jürgen@example.com".as_bytes()]).await.as_deref(), Ok("jürgen@example.com"));
    // An invalid header is refused; the claim does not replace it.
    assert_eq!(name(&[b"bob@evil.example"]).await, Err(Refusal::BadIdentity));
    assert_eq!(name(&[b"\xff@example.com"]).await, Err(Refusal::BadIdentity));
    assert_eq!(name(&[b"bob@example.com", b"eve@example.com"]).await, Err(Refusal::BadIdentity));
    // Without the header the claim counts.
    assert_eq!(name(&[]).await.as_deref(), Ok("ada@example.com"));
    assert_eq!(name(&[b"  "]).await.as_deref(), Ok("ada@example.com"));
}

#[tokio::test]
async fn the_header_is_read_from_each_request_although_the_token_is_remembered() {
    let fixture = fixture(|config| config.identity_header = Some("X-User".to_owned()));
    for user in ["bob", "carol", "bob"] {
        let name = identity(&fixture, json!("ada"), &[("x-user", user.as_bytes())]).await;
        assert_eq!(name.as_deref(), Ok(user));
    }
    assert_eq!(identity(&fixture, json!("ada"), &[]).await.as_deref(), Ok("ada"));
}

#[tokio::test]
async fn a_header_that_is_not_configured_is_ignored() {
    let fixture = fixture(|_| {});
    let name = identity(&fixture, json!("ada"), &[("x-forwarded-email", b"eve"), ("x-user", b"eve")]).await;
    assert_eq!(name.as_deref(), Ok("ada"));
}
