//! The two formats of a stream: server-sent events, which browsers resume by themselves, and newline-delimited JSON,
//! which every tool can read.

use std::io::Write as _;

use http::HeaderMap;
use hyperfleet_core::{FeedPosition, Version, echo};
use hyperfleet_service::http_error::HttpError;

use crate::accept;
use crate::problem_types::NOT_ACCEPTABLE;

/// The format of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// `text/event-stream`.
    Sse,
    /// `application/x-ndjson`.
    Ndjson,
}

const FORMATS: [Format; 2] = [Format::Sse, Format::Ndjson];

impl Format {
    /// The format that `Accept` prefers.
    pub(super) fn negotiate(headers: &HeaderMap) -> Result<Self, HttpError> {
        let accept = accept::accepted(headers);
        let best = accept::preferred(&accept, &FORMATS.map(Self::media_type));
        FORMATS.into_iter().find(|format| Some(format.media_type()) == best).ok_or_else(|| {
            let [sse, ndjson] = FORMATS.map(Self::media_type);
            let detail =
                format!("A watch is {sse} or {ndjson}, none of which Accept allows: {}", echo(&accept));
            HttpError::new(&NOT_ACCEPTABLE, detail)
        })
    }

    /// Its media type.
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream",
            Self::Ndjson => "application/x-ndjson",
        }
    }

    /// Writes one event, which is one line of JSON. A watch cannot resume from version 0, so browsers get no id for it.
    pub(super) fn write(self, out: &mut Vec<u8>, position: FeedPosition, event: &[u8]) {
        if self == Self::Sse {
            if position.version != Version::default() {
                writeln!(out, "id: {position}").expect("writing to memory cannot fail");
            }
            out.extend_from_slice(b"data: ");
        }
        out.extend_from_slice(event);
        out.extend_from_slice(if self == Self::Sse { b"\n\n" } else { b"\n" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::ACCEPT;
    use proptest::prelude::*;

    #[test]
    fn the_format_has_the_highest_quality_in_accept() {
        for (accept, expected) in [
            ("", Some(Format::Sse)),
            ("*/*", Some(Format::Sse)),
            ("application/json, */*;q=0.1", Some(Format::Sse)),
            ("text/event-stream", Some(Format::Sse)),
            ("application/x-ndjson", Some(Format::Ndjson)),
            ("Application/X-NDJSON; q=0.5", Some(Format::Ndjson)),
            ("text/event-stream;q=0.2, application/x-ndjson", Some(Format::Ndjson)),
            ("application/*", Some(Format::Ndjson)),
            ("text/event-stream;q=0, application/x-ndjson;q=0.001", Some(Format::Ndjson)),
            ("text/event-stream;q=0, */*", Some(Format::Ndjson)),
            ("*/*;q=0.1, application/x-ndjson;q=0.2", Some(Format::Ndjson)),
            ("application/json", None),
            ("text/event-stream;q=0", None),
            ("nonsense", None),
        ] {
            let headers: HeaderMap = [(ACCEPT, HeaderValue::from_static(accept))].into_iter().collect();
            assert_eq!(Format::negotiate(&headers).ok(), expected, "{accept}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_negotiated_format_matches_some_range_of_accept(
            ranges in prop::collection::vec(
                "(text|application|\\*|\\PC{0,3})/(event-stream|x-ndjson|\\*|\\PC{0,3})(;q=[0-9a-zA-Z.-]{0,4})?", 0..4,
            ),
        ) {
            let accept = ranges.join(",");
            let value = HeaderValue::from_bytes(accept.as_bytes()).unwrap_or_else(|_| HeaderValue::from_static(""));
            let given = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
            match Format::negotiate(&[(ACCEPT, value)].into_iter().collect()) {
                Ok(format) => {
                    let (kind, _) = format.media_type().split_once('/').unwrap();
                    let allows = [format.media_type().to_owned(), format!("{kind}/*"), "*/*".to_owned()];
                    prop_assert!(given.trim().is_empty() || allows.iter().any(|range| given.contains(range)), "{given}");
                }
                Err(error) => prop_assert_eq!(error.problem_type(), NOT_ACCEPTABLE),
            }
        }
    }
}
