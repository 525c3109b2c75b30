//! `Accept`, which decides the form of a watch. An input is the list of media ranges.

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};
use hyperfleet_api::accept::{accepted, preferred};

const FORMS: [&str; 2] = ["text/event-stream", "application/x-ndjson"];

/// For any list, the preferred form is one that the list names, in any order, any case and any number of headers. No
/// list keeps a caller from a form that it requests by name.
pub fn accept(input: &str) {
    let best = preferred(input, &FORMS);
    match best {
        Some(form) => {
            assert!(FORMS.contains(&form));
            let (kind, _) = form.split_once('/').unwrap_or_default();
            let written = input.to_ascii_lowercase();
            let named = [form, "*/*", &format!("{kind}/*")].iter().any(|range| written.contains(range));
            assert!(named || input.trim().is_empty(), "{form} is not in {input:?}");
            assert_eq!(preferred(input, &[form]), Some(form), "{input:?}");
        }
        None => {
            for form in FORMS {
                assert_eq!(preferred(input, &[form]), None, "{input:?}");
            }
        }
    }
    let ranges: Vec<&str> = input.split(',').collect();
    let backwards: Vec<&str> = ranges.iter().rev().copied().collect();
    assert_eq!(preferred(&backwards.join(","), &FORMS), best, "{input:?}");
    assert_eq!(preferred(&input.to_ascii_uppercase(), &FORMS), best, "{input:?}");
    for form in FORMS {
        assert!(preferred(&format!("{input},{form}"), &FORMS).is_some(), "{input:?}");
    }
    let values: Result<Vec<HeaderValue>, _> =
        ranges.iter().map(|range| HeaderValue::from_bytes(range.as_bytes())).collect();
    let mut headers = HeaderMap::new();
    for value in values.into_iter().flatten() {
        headers.append(ACCEPT, value);
    }
    if !headers.is_empty() {
        assert_eq!(preferred(&accepted(&headers), &FORMS), best, "{input:?}");
    }
}
