//! Tenants by headers: any headers give exactly the named tenant, or none.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use hyperfleet_auth::{Dimension, Tenancy, TenancyClaim};
use proptest::prelude::*;

const HEADERS: [&str; 3] = ["x-org", "x-project", "x-system"];

fn tenancy() -> Tenancy {
    let dimension = |header: &'static str, required| Dimension {
        header: HeaderName::from_static(header),
        key: header[2..].to_owned(),
        required,
    };
    Tenancy {
        system_header: Some(HeaderName::from_static("x-system")),
        dimensions: vec![dimension("x-org", true), dimension("x-project", false)],
    }
}

fn values() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let value = prop_oneof![
        4 => "[A-Za-z0-9._-]{1,8}".prop_map(String::into_bytes),
        2 => "[ \t]{0,2}[a-z\"{},:\\\\]{0,4}[ \t]{0,2}".prop_map(String::into_bytes),
        1 => "[a-z]{60,66}".prop_map(String::into_bytes),
        1 => Just(b"true".to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(value, 0..=2)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_tenant_follows_from_valid_headers_only(given in prop::array::uniform3(values())) {
        let mut headers = HeaderMap::new();
        for (name, values) in HEADERS.into_iter().zip(&given) {
            for value in values.iter().filter_map(|value| HeaderValue::from_bytes(value).ok()) {
                headers.append(name, value);
            }
        }
        let all = |name: &str| headers.get_all(name).iter().collect::<Vec<_>>();
        match tenancy().tenancy_claim(&headers) {
            Ok(TenancyClaim::System) => {
                let system = all("x-system");
                prop_assert!(system.len() == 1 && system[0].as_bytes().eq_ignore_ascii_case(b"true"));
            }
            Ok(TenancyClaim::Tenant(tenant)) => {
                let said: BTreeMap<String, String> = serde_json::from_str(tenant.as_str()).unwrap();
                prop_assert!(said.contains_key("org"), "{tenant}");
                for (key, value) in &said {
                    let sent = all(&format!("x-{key}"));
                    prop_assert_eq!(sent.len(), 1);
                    prop_assert_eq!(sent[0].to_str().unwrap().trim(), value);
                    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
                    prop_assert!(value.len() <= 63 && value.chars().all(plain), "{value:?}");
                }
                let project = all("x-project").iter().any(|value| !value.as_bytes().trim_ascii().is_empty());
                prop_assert_eq!(said.contains_key("project"), project);
            }
            Err(error) => prop_assert_eq!(error.code(), "HYPERFLEET-AUZ-001"),
        }
    }
}
