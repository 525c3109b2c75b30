//! `Idempotency-Key`. An input is a header's value on each of its lines.

use http::{HeaderMap, HeaderValue};
use hyperfleet_api::idempotency_key::{IDEMPOTENCY_KEY, idempotency_key};

/// Whatever is sent, a key is the one header there is, to the letter, and harmless; all else is refused, in words that
/// are harmless too.
pub fn key(input: &str) {
    let mut headers = HeaderMap::new();
    for value in input.lines().filter_map(|line| HeaderValue::from_bytes(line.as_bytes()).ok()) {
        headers.append(IDEMPOTENCY_KEY, value);
    }
    let sent: Vec<&[u8]> = headers.get_all(IDEMPOTENCY_KEY).iter().map(HeaderValue::as_bytes).collect();
    match idempotency_key(&headers) {
        Ok(None) => assert!(sent.is_empty()),
        Ok(Some(key)) => {
            assert_eq!(sent, [key]);
            assert!(
                key.iter().all(|byte| (0x21..=0x7e).contains(byte)) && !key.is_empty() && key.len() < 256
            );
        }
        Err(error) => {
            assert_eq!(error.code(), "HYPERFLEET-VAL-002");
            assert!(!sent.is_empty());
            let shown = serde_json::to_string(&error.faults).unwrap_or_default();
            assert!(!error.detail.is_empty() && error.detail.len() < 200, "{}", error.detail);
            assert!(!error.detail.contains(char::is_control) && shown.len() < 3000, "{shown}");
        }
    }
}
