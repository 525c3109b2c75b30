//! Which header carries the token, and for which issuer.

use http::{HeaderMap, HeaderValue};
use hyperfleet_auth::{IssuerConfig, RefreshSchedule, Refusal, Verifier};
use serde_json::json;

use crate::support::{EC, Fixture, ISSUER, NOW, RSA, at, bearer, claims, claims_with, header, jwks, start};

const OTHER: &str = "https://other.example";

/// Two issuers with a header each: the first uses `Authorization`, the second `X-Id-Token`.
fn two_issuers() -> (Verifier, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let config = |issuer: &str, signer: &crate::support::Signer, header: &str| {
        let file = directory.path().join(format!("{}.json", signer.id));
        std::fs::write(&file, jwks(&[&signer.jwk()]).to_string()).unwrap();
        IssuerConfig {
            issuer_url: issuer.to_owned(),
            jwk_cert_file: Some(file),
            header: header.to_owned(),
            ..IssuerConfig::default()
        }
    };
    let issuers = [config(ISSUER, &EC, "Authorization"), config(OTHER, &RSA, "X-Id-Token")];
    (start(&issuers, RefreshSchedule::default()), directory)
}

fn both(one: HeaderMap, other: HeaderMap) -> HeaderMap {
    let mut all = one;
    all.extend(other);
    all
}

#[tokio::test]
async fn each_issuer_is_heard_in_its_own_header_only() {
    let (verifier, _directory) = two_issuers();
    let verify = async |headers: &HeaderMap| {
        verifier.verify_at(headers, at(NOW)).await.map(|verified| verified.issuer().to_owned())
    };
    let ours = EC.token(&claims());
    let theirs = RSA.token(&claims_with(&json!({ "iss": OTHER })));

    // Twice, because the second time it is remembered.
    for _ in 0..2 {
        assert_eq!(verify(&bearer(&ours)).await.as_deref(), Ok(ISSUER));
        assert_eq!(verify(&header("x-id-token", &theirs)).await.as_deref(), Ok(OTHER));
        assert_eq!(verify(&header("X-ID-Token", &format!("Bearer {theirs}"))).await.as_deref(), Ok(OTHER));
        assert_eq!(verify(&bearer(&theirs)).await, Err(Refusal::UnknownIssuer));
        assert_eq!(verify(&header("x-id-token", &ours)).await, Err(Refusal::UnknownIssuer));
    }
}

#[tokio::test]
async fn of_several_tokens_the_first_valid_one_counts_and_the_first_refusal_is_reported() {
    let (verifier, _directory) = two_issuers();
    let verify = async |headers: HeaderMap| {
        verifier.verify_at(&headers, at(NOW)).await.map(|verified| verified.issuer().to_owned())
    };
    let ours = EC.token(&claims());
    let theirs = RSA.token(&claims_with(&json!({ "iss": OTHER })));
    let expired = EC.token(&claims_with(&json!({ "exp": 0 })));

    let id_token = |token: &str| header("x-id-token", token);
    assert_eq!(verify(both(bearer(&ours), id_token(&theirs))).await.as_deref(), Ok(ISSUER));
    assert_eq!(verify(both(bearer(&expired), id_token(&theirs))).await.as_deref(), Ok(OTHER));
    assert_eq!(verify(both(bearer("rubbish"), id_token(&theirs))).await.as_deref(), Ok(OTHER));
    assert_eq!(
        verify(both(header("authorization", "Basic YTpi"), id_token(&theirs))).await.as_deref(),
        Ok(OTHER)
    );
    assert_eq!(verify(both(bearer(&expired), id_token("rubbish"))).await, Err(Refusal::Expired));
    assert_eq!(
        verify(both(header("authorization", "Basic YTpi"), id_token("rubbish"))).await,
        Err(Refusal::NotAToken)
    );
}

#[tokio::test]
async fn a_request_without_a_token_is_refused_as_such() {
    let fixture = Fixture::new(&jwks(&[&EC.jwk()]));
    let refusal = async |headers: HeaderMap| fixture.verifier.verify(&headers).await.unwrap_err();

    assert_eq!(refusal(HeaderMap::new()).await, Refusal::NoToken);
    for empty in ["", " ", "Bearer", "bearer ", "Bearer   "] {
        assert_eq!(refusal(header("authorization", empty)).await, Refusal::NoToken, "{empty:?}");
    }
    for other in ["Basic YTpi", "Digest a", "Bearerx y", "Negotiate", "a.b.c"] {
        assert_eq!(refusal(header("authorization", other)).await, Refusal::NotBearer, "{other:?}");
    }
    assert_eq!(refusal(header("x-other", "Bearer a.b.c")).await, Refusal::NoToken);
}

#[tokio::test]
async fn the_scheme_may_be_written_in_any_case_and_with_spaces() {
    let fixture = Fixture::new(&jwks(&[&EC.jwk()]));
    let token = EC.token(&claims());
    for scheme in ["Bearer ", "bearer ", "BEARER ", "Bearer   ", " bEaReR "] {
        let headers = header("authorization", &format!("{scheme}{token} "));
        assert!(fixture.verifier.verify_at(&headers, at(NOW)).await.is_ok(), "{scheme:?}");
    }
}

#[tokio::test]
async fn a_header_that_comes_twice_is_refused_even_with_the_same_token() {
    let fixture = Fixture::new(&jwks(&[&EC.jwk()]));
    let mut headers = bearer(&EC.token(&claims()));
    let again = headers["authorization"].clone();
    headers.append("authorization", again);
    let refused = fixture.verifier.verify_at(&headers, at(NOW)).await.unwrap_err();
    assert_eq!(refused, Refusal::RepeatedHeader);
}

#[tokio::test]
async fn a_header_that_is_no_text_is_refused() {
    let fixture = Fixture::new(&jwks(&[&EC.jwk()]));
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_bytes(b"Bearer \xff\xfe").unwrap());
    assert_eq!(fixture.verifier.verify(&headers).await.unwrap_err(), Refusal::NotAToken);
}

#[tokio::test]
async fn without_issuers_every_token_is_refused() {
    let verifier = start(&[], RefreshSchedule::default());
    assert_eq!(verifier.verify(&bearer(&EC.token(&claims()))).await.unwrap_err(), Refusal::NoToken);
}
