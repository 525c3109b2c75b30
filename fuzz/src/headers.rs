//! The request headers that are read as more than text, each by its own rule: preconditions, the ids of a request, and
//! the tenant. An input is a header's value on each of its lines.

use http::{HeaderMap, HeaderName, HeaderValue};
use hyperfleet_api::precondition::entity_tags;
use hyperfleet_auth::{Dimension, Tenancy, TenancyClaim};
use hyperfleet_core::{Epoch, ExpectedVersion, FeedPosition, Version};
use hyperfleet_service::request_ids::RequestIds;

/// Any header parses to its own value or is refused, and a parsed value can be printed again without harm.
pub fn headers(input: &str) {
    for line in input.lines() {
        precondition(line);
    }
    let values: Vec<HeaderValue> =
        input.lines().filter_map(|line| HeaderValue::from_bytes(line.as_bytes()).ok()).collect();
    for value in &values {
        ids(Some(value), None);
        ids(None, Some(value));
    }
    ids(values.first(), values.get(1));
    tenant(&values);
}

fn precondition(text: &str) {
    match entity_tags(text) {
        None => {}
        Some(ExpectedVersion::Any) => assert_eq!(text.trim(), "*"),
        Some(ExpectedVersion::Tags { strong, weak }) => {
            assert!(!strong.is_empty() || !weak.is_empty());
            let written = strong.iter().map(|tag| format!("\"{tag}\""));
            let written: Vec<String> = written.chain(weak.iter().map(|tag| format!("W/\"{tag}\""))).collect();
            for tag in &written {
                assert!(text.contains(tag.as_str()), "{tag} is not in {text:?}");
                assert!(!tag.contains(|c: char| c == ' ' || c.is_control()), "{tag:?}");
                assert_eq!(tag.matches('"').count(), 2, "{tag}");
            }
            let read = ExpectedVersion::Tags { strong, weak };
            assert_eq!(entity_tags(&written.join(",")).as_ref(), Some(&read), "{text:?}");
            for version in 0..3 {
                let position = FeedPosition { epoch: Epoch(7), version: Version(version) };
                assert!(!read.matches(position) || read.matches_weakly(position));
                let tags = [format!("\"{version}\""), format!("\"{position}\"")];
                assert!(!read.matches(position) || tags.iter().any(|tag| text.contains(tag)));
            }
            assert_eq!(entity_tags(&format!("{text},")).as_ref(), Some(&read), "an empty element is ignored");
            for more in [format!("{} \"1\"", text.trim_end_matches([',', ' ', '\t'])), format!("*,{text}")] {
                assert_eq!(entity_tags(&more), None, "{more:?}");
            }
        }
    }
}

fn ids(given: Option<&HeaderValue>, parent: Option<&HeaderValue>) {
    let named = [("x-request-id", given), ("traceparent", parent)];
    let headers: HeaderMap = named
        .into_iter()
        .filter_map(|(name, value)| Some((HeaderName::from_static(name), value?.clone())))
        .collect();
    let ids = RequestIds::of(&headers);
    let (request, trace) = (&*ids.request_id, &*ids.trace_id);
    assert!(
        (1..=128).contains(&request.len()) && request.bytes().all(|b| b.is_ascii_graphic()),
        "{request:?}"
    );
    assert!(trace.len() == 32 && trace.bytes().all(|b| b.is_ascii_hexdigit()), "{trace:?}");
    assert!(request == trace || given.is_some_and(|given| given.as_bytes() == request.as_bytes()));
}

/// The first lines are the values of two dimensions and of the system's header, all others come once more.
fn tenant(values: &[HeaderValue]) {
    const NAMES: [&str; 3] = ["x-org", "x-project", "x-system"];
    let dimension = |header: &'static str, required| Dimension {
        header: HeaderName::from_static(header),
        key: header[2..].to_owned(),
        required,
    };
    let tenancy = Tenancy {
        system_header: Some(HeaderName::from_static(NAMES[2])),
        dimensions: vec![dimension(NAMES[0], true), dimension(NAMES[1], false)],
    };
    let mut headers = HeaderMap::new();
    for (name, value) in NAMES.into_iter().cycle().zip(values) {
        headers.append(name, value.clone());
    }
    let all = |name: &str| headers.get_all(name).iter().map(HeaderValue::as_bytes).collect::<Vec<_>>();
    match tenancy.tenancy_claim(&headers) {
        Ok(TenancyClaim::System) => {
            assert!(matches!(all(NAMES[2])[..], [only] if only.eq_ignore_ascii_case(b"true")));
        }
        Ok(TenancyClaim::Tenant(tenant)) => {
            assert!(tenant.dimension("org").is_some(), "{tenant}");
            for key in ["org", "project"] {
                let Some(value) = tenant.dimension(key) else { continue };
                let sent = all(&format!("x-{key}"));
                assert!(matches!(sent[..], [only] if only.trim_ascii() == value.as_bytes()), "{sent:?}");
                let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
                assert!((1..=63).contains(&value.len()) && value.bytes().all(plain), "{value:?}");
            }
        }
        Err(error) => {
            assert_eq!(error.code(), "HYPERFLEET-AUZ-001");
            assert!(error.detail.is_ascii() && error.detail.len() < 200, "{}", error.detail);
        }
    }
}
