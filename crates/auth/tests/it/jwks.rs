//! Key sets. A key that cannot be used is skipped with a warning, and the others stay usable.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyperfleet_auth::Refusal;
use serde_json::{Value, json};

use crate::support::{EC, Fixture, Log, RSA, Signer, claims, encode, jwks};

#[tokio::test]
async fn keys_that_cannot_be_trusted_are_left_out_with_a_warning() {
    let ed = Signer::ed25519("ed");
    let off_curve = json!({ "x": encode([1; 32]), "y": encode([1; 32]) });
    let padded_x = format!("{}=", EC.jwk()["x"].as_str().unwrap());
    for (reason, key) in [
        ("it is a symmetric key", json!({ "kty": "oct", "k": encode([7; 64]) })),
        ("it is not for signatures", EC.jwk_with(&json!({ "use": "enc" }))),
        ("it is not for signatures", EC.jwk_with(&json!({ "use": ["sig"] }))),
        ("it is not for checking signatures", EC.jwk_with(&json!({ "key_ops": ["sign", "encrypt"] }))),
        ("it is a private key", EC.jwk_with(&json!({ "d": encode([1; 32]) }))),
        ("2048 to 8192 bits", json!({ "kty": "RSA", "n": encode([0xff; 128]), "e": "AQAB" })),
        (
            "2048 to 8192 bits",
            json!({ "kty": "RSA", "n": encode([&[0x7f][..], &[0xff; 255]].concat()), "e": "AQAB" }),
        ),
        (
            "2048 to 8192 bits",
            json!({ "kty": "RSA", "n": encode([&[0; 128][..], &[0xff; 255]].concat()), "e": "AQAB" }),
        ),
        ("2048 to 8192 bits", json!({ "kty": "RSA", "n": encode([0xff; 1_025]), "e": "AQAB" })),
        ("2048 to 8192 bits", json!({ "kty": "RSA" })),
        ("not those of an RSA key", RSA.jwk_with(&json!({ "e": encode([0]) }))),
        ("not those of an RSA key", RSA.jwk_with(&json!({ "e": encode([1]) }))),
        ("not those of an RSA key", RSA.jwk_with(&json!({ "e": encode([1, 0, 0]) }))),
        ("not those of an RSA key", RSA.jwk_with(&json!({ "e": encode([]) }))),
        ("not those of an RSA key", RSA.jwk_with(&json!({ "n": encode([0xfe; 256]) }))),
        ("not those of an RSA key", RSA.jwk_with(&json!({ "e": encode([0xff; 256]) }))),
        ("it is no valid key", EC.jwk_with(&off_curve)),
        ("it is no valid key", ed.jwk_with(&json!({ "x": encode([1; 31]) }))),
        ("coordinates", EC.jwk_with(&json!({ "x": encode([1; 31]) }))),
        ("coordinates", EC.jwk_with(&json!({ "crv": "P-384" }))),
        ("base64url", EC.jwk_with(&json!({ "x": padded_x }))),
        ("its type is not supported", EC.jwk_with(&json!({ "crv": "P-521" }))),
        ("its type is not supported", EC.jwk_with(&json!({ "crv": "secp256k1" }))),
        ("its type is not supported", ed.jwk_with(&json!({ "crv": "X25519" }))),
        ("its type is not supported", json!({ "kty": "AKP", "pub": "AAAA" })),
        ("its type is not supported", json!({})),
        ("its alg is not one that its type has", EC.jwk_with(&json!({ "alg": "ES384" }))),
        ("its alg is not one that its type has", RSA.jwk_with(&json!({ "alg": "HS256" }))),
        ("its alg is not one that its type has", RSA.jwk_with(&json!({ "alg": "none" }))),
        ("its alg is not one that its type has", RSA.jwk_with(&json!({ "alg": "RSA-OAEP" }))),
        ("its alg is not one that its type has", RSA.jwk_with(&json!({ "alg": 7 }))),
        ("its kid is no string", EC.jwk_with(&json!({ "kid": 7 }))),
        ("it is no object", json!("key")),
        ("it is no object", json!(null)),
    ] {
        let log = Log::listen();
        let other = Signer::p256("good");
        let fixture = Fixture::new(&jwks(&[&key, &other.jwk()]));
        let text = log.text();
        assert!(text.contains("WARN") && text.contains(reason), "{key}: {text}");
        assert!(text.contains("keys=1"), "{key}: {text}");
        assert!(fixture.verify(&other.token(&claims())).await.is_ok(), "{key}");
        for signer in [&*RSA, &*EC, &ed] {
            let refused = fixture.refusal(&signer.token(&claims())).await;
            assert_eq!(refused, Refusal::UnknownKey, "{key}");
        }
    }
}

#[tokio::test]
async fn irrelevant_members_of_a_key_are_ignored() {
    let log = Log::listen();
    let extras = json!({
        "use": "sig", "key_ops": ["verify"], "alg": "RS256", "x5c": ["MIIB"], "x5t": "a", "x5u": "https://a.example",
        "issued": 7, "note": { "deep": [1, 2] },
    });
    let modulus = URL_SAFE_NO_PAD.decode(RSA.jwk()["n"].as_str().unwrap()).unwrap();
    let with_sign_byte = encode([&[0][..], &modulus].concat());
    for key in [RSA.jwk_with(&extras), RSA.jwk_with(&json!({ "n": with_sign_byte }))] {
        let fixture = Fixture::new(&jwks(&[&key]));
        assert!(fixture.verify(&RSA.token(&claims())).await.is_ok());
    }
    assert!(!log.text().contains("WARN"), "{}", log.text());
}

#[tokio::test]
async fn a_document_that_is_no_set_of_keys_gives_none() {
    for document in [json!([]), json!({}), json!({ "keys": {} }), json!(null), json!(EC.jwk())] {
        let log = Log::listen();
        let fixture = Fixture::new(&document);
        assert_eq!(fixture.refusal(&EC.token(&claims())).await, Refusal::NoKeys, "{document}");
        assert!(log.text().contains("it has no list of keys"), "{}", log.text());
    }
    let log = Log::listen();
    let nothing = Fixture::new(&jwks(&[] as &[&Value]));
    assert_eq!(nothing.refusal(&EC.token(&claims())).await, Refusal::NoKeys);
    assert!(log.text().contains("no usable key"), "{}", log.text());
}

#[tokio::test]
async fn a_kid_in_the_log_is_cleaned() {
    let log = Log::listen();
    let kid = format!("evil\n\u{1b}[31mline{}", "x".repeat(1_000));
    let _fixture = Fixture::new(&jwks(&[&EC.jwk_with(&json!({ "kid": kid, "use": "enc" }))]));
    let text = log.text();
    assert!(text.contains("evil") && !text.contains('\u{1b}') && !text.contains(&"x".repeat(300)), "{text}");
}
