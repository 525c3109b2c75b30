//! A token before its signature is checked. What is read of it is held against a second, careless reading: where both
//! would not see the same, the first has to refuse.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyperfleet_auth::{MAX_TOKEN_BYTES, RefusalKind, parse};
use serde_json::{Map, Value};

/// Asymmetric algorithms: a verifier cannot sign with their keys.
const ALGORITHMS: [&str; 9] =
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

/// Any text is a token that every reader understands alike, or it is refused with a sentence that any header can carry.
pub fn token(text: &str) {
    let unverified = match parse(text) {
        Ok(unverified) => unverified,
        Err(refusal) => {
            assert!(matches!(refusal.kind(), RefusalKind::Malformed | RefusalKind::Invalid), "{refusal:?}");
            let challenge = refusal.challenge();
            assert!(challenge.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{challenge}");
            return;
        }
    };
    assert!(text.len() <= MAX_TOKEN_BYTES);
    let parts: Vec<&str> = text.split('.').collect();
    let [header, claims, signature] = parts[..] else { panic!("{} parts", parts.len()) };
    for part in [header, claims, signature] {
        // One way to write the same bytes: or a token that was withdrawn could come back in another form.
        assert_eq!(URL_SAFE_NO_PAD.encode(decoded(part)), part);
    }
    let (header, claims) = (members(header), members(claims));
    assert!(header["alg"].as_str().is_some_and(|name| ALGORITHMS.contains(&name)), "{header:?}");
    assert!(!header.contains_key("crit"), "{header:?}");
    assert_eq!(header.get("kid").map(|id| id.as_str().expect("a text")), unverified.key_id());
    assert!(claims["exp"].is_number(), "{claims:?}");
    assert_eq!(&claims, unverified.claims());
    for changed in [format!("{text}."), format!(".{text}"), format!("{text}="), format!("{text} ")] {
        assert!(parse(&changed).is_err(), "{changed:?}");
    }
}

fn decoded(part: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(part).expect("a part that was read is base64url")
}

fn members(part: &str) -> Map<String, Value> {
    serde_json::from_slice(&decoded(part)).expect("a part that was read is an object")
}
