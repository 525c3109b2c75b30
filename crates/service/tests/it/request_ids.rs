//! The ids of requests, by whatever callers send as theirs.

use axum::response::Response;
use http::{HeaderMap, HeaderValue};
use hyperfleet_service::request_ids::RequestIds;
use proptest::prelude::*;

fn values() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[!-~]{1,130}".prop_map(String::into_bytes),
        "0[0-9a-f]-[0-9a-fA-F]{31,33}-[0-9a-f]{15,17}-0[01]".prop_map(String::into_bytes),
        "00-[0-9a-f]{32}-[0-9a-f]{16}-01".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..140),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_valid_request_id_is_kept_and_an_invalid_one_replaced(given in values(), parent in values()) {
        let mut headers = HeaderMap::new();
        for (name, value) in [("x-request-id", &given), ("traceparent", &parent)] {
            if let Ok(value) = HeaderValue::from_bytes(value) {
                headers.insert(name, value);
            }
        }
        let ids = RequestIds::of(&headers);
        let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        prop_assert!(ids.trace_id.len() == 32 && ids.trace_id.chars().all(hex), "{}", ids.trace_id);
        let harmless = (1..=128).contains(&given.len()) && given.iter().all(u8::is_ascii_graphic);
        prop_assert_eq!(ids.request_id.as_bytes() == given, harmless);
        prop_assert!(harmless || ids.request_id == ids.trace_id);
        let mut response = Response::default();
        ids.set_header(&mut response);
        prop_assert_eq!(response.headers()["x-request-id"].as_bytes(), ids.request_id.as_bytes());
    }
}
