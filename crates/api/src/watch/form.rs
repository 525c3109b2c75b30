//! The two forms of a stream: server-sent events, which browsers resume by themselves, and a JSON text per line, which
//! every tool can read.

use std::io::Write as _;

use http::HeaderMap;
use hyperfleet_core::{Error, ErrorKind, Version, echo};
use hyperfleet_service::accept;

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `text/event-stream`.
    Sse,
    /// `application/x-ndjson`.
    Ndjson,
}

const FORMS: [Form; 2] = [Form::Sse, Form::Ndjson];

impl Form {
    /// The one that the caller likes best.
    pub(super) fn negotiate(headers: &HeaderMap) -> Result<Self, Error> {
        let accept = accept::accepted(headers);
        let best = accept::preferred(&accept, &FORMS.map(Self::media_type));
        FORMS.into_iter().find(|form| Some(form.media_type()) == best).ok_or_else(|| {
            let [sse, ndjson] = FORMS.map(Self::media_type);
            let detail =
                format!("A watch is {sse} or {ndjson}, none of which Accept allows: {}", echo(&accept));
            Error::new(ErrorKind::NotAcceptable, detail)
        })
    }

    /// Its name.
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream",
            Self::Ndjson => "application/x-ndjson",
        }
    }

    /// Writes one event, which is one line of JSON. From version 0 nobody can go on: browsers are not told it.
    pub(super) fn write(self, out: &mut Vec<u8>, version: Version, event: &[u8]) {
        if self == Self::Sse {
            if version != Version::default() {
                writeln!(out, "id: {version}").expect("writing to memory cannot fail");
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
    fn the_form_is_what_accept_likes_best() {
        for (accept, expected) in [
            ("", Some(Form::Sse)),
            ("*/*", Some(Form::Sse)),
            ("application/json, */*;q=0.1", Some(Form::Sse)),
            ("text/event-stream", Some(Form::Sse)),
            ("application/x-ndjson", Some(Form::Ndjson)),
            ("Application/X-NDJSON; q=0.5", Some(Form::Ndjson)),
            ("text/event-stream;q=0.2, application/x-ndjson", Some(Form::Ndjson)),
            ("application/*", Some(Form::Ndjson)),
            ("text/event-stream;q=0, application/x-ndjson;q=0.001", Some(Form::Ndjson)),
            ("text/event-stream;q=0, */*", Some(Form::Ndjson)),
            ("*/*;q=0.1, application/x-ndjson;q=0.2", Some(Form::Ndjson)),
            ("application/json", None),
            ("text/event-stream;q=0", None),
            ("nonsense", None),
        ] {
            let headers: HeaderMap = [(ACCEPT, HeaderValue::from_static(accept))].into_iter().collect();
            assert_eq!(Form::negotiate(&headers).ok(), expected, "{accept}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_accept_holds_a_form_is_one_that_some_range_of_it_allows(
            ranges in prop::collection::vec(
                "(text|application|\\*|\\PC{0,3})/(event-stream|x-ndjson|\\*|\\PC{0,3})(;q=[0-9a-zA-Z.-]{0,4})?", 0..4,
            ),
        ) {
            let accept = ranges.join(",");
            let value = HeaderValue::from_bytes(accept.as_bytes()).unwrap_or_else(|_| HeaderValue::from_static(""));
            let given = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
            match Form::negotiate(&[(ACCEPT, value)].into_iter().collect()) {
                Ok(form) => {
                    let (kind, _) = form.media_type().split_once('/').unwrap();
                    let allows = [form.media_type().to_owned(), format!("{kind}/*"), "*/*".to_owned()];
                    prop_assert!(given.trim().is_empty() || allows.iter().any(|range| given.contains(range)), "{given}");
                }
                Err(error) => prop_assert_eq!(error.kind, ErrorKind::NotAcceptable),
            }
        }
    }
}
