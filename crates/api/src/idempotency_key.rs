//! Parses the `Idempotency-Key` header. It is public, because fuzz tests run it alone.

use http::{HeaderMap, HeaderName};
use hyperfleet_core::{Error, Fault, FaultKind, Faults, echo};

/// The header.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The header as messages spell it.
pub const NAME: &str = "Idempotency-Key";
const MAX_LENGTH: usize = 255;

/// The value of the header, if present: one header of 1 to 255 visible ASCII characters.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<&[u8]>, Error> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = String::from_utf8_lossy(value.as_bytes());
    let fault = |rule: &'static str, message: String| {
        let fault = Fault::new(FaultKind::Value, NAME, message).given(&echo(&text).into()).rule(rule);
        Err(Faults::one(fault).into_error())
    };
    if values.next().is_some() {
        return fault("unique", format!("{NAME} is given more than once"));
    }
    if !(1..=MAX_LENGTH).contains(&value.len()) {
        let length = value.len();
        return fault("length", format!("{NAME} must have 1 to {MAX_LENGTH} characters, not {length}"));
    }
    if !value.as_bytes().iter().all(u8::is_ascii_graphic) {
        return fault("pattern", format!("{NAME} must consist of visible ASCII characters"));
    }
    Ok(Some(value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_key_is_one_header_of_visible_characters_and_not_too_many(
            values in prop::collection::vec(
                prop_oneof![
                    "[!-~]{0,300}".prop_map(String::into_bytes),
                    prop::collection::vec(any::<u8>(), 0..20),
                ],
                0..3,
            ),
        ) {
            let mut headers = HeaderMap::new();
            for value in values.iter().filter_map(|value| HeaderValue::from_bytes(value).ok()) {
                headers.append(IDEMPOTENCY_KEY, value);
            }
            let sent: Vec<&[u8]> = headers.get_all(IDEMPOTENCY_KEY).iter().map(HeaderValue::as_bytes).collect();
            let good = |key: &[u8]| (1..=255).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic);
            match idempotency_key(&headers) {
                Ok(None) => prop_assert!(sent.is_empty()),
                Ok(Some(key)) => {
                    prop_assert!(good(key));
                    prop_assert_eq!(sent, [key]);
                }
                Err(error) => {
                    prop_assert!(sent.len() != 1 || !good(sent[0]));
                    prop_assert!(!error.detail.contains(char::is_control), "{}", error.detail);
                }
            }
        }
    }
}
