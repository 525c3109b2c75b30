//! The two forms of a stream: server-sent events, which browsers resume by themselves, and a JSON text per line, which
//! every tool can read.

use std::io::Write as _;

use http::HeaderMap;
use http::header::ACCEPT;
use hyperfleet_core::{Error, ErrorKind, Version, echo};

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
        let texts: Vec<_> =
            headers.get_all(ACCEPT).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        let accept = texts.join(",");
        if accept.trim().is_empty() {
            return Ok(Self::Sse);
        }
        // Of the ranges that a form is in, the one that says most about it counts.
        let liking = |form: Self| accept.split(',').filter_map(|range| form.liking(range)).max();
        let best = FORMS.into_iter().rev().max_by_key(|form| liking(*form).map(|(_, quality)| quality));
        match best {
            Some(best) if liking(best).is_some_and(|(_, quality)| quality > 0) => Ok(best),
            _ => Err(Error::new(
                ErrorKind::NotAcceptable,
                format!(
                    "A watch is {} or {}, none of which Accept allows: {}",
                    Self::Sse.media_type(),
                    Self::Ndjson.media_type(),
                    echo(&accept)
                ),
            )),
        }
    }

    /// How much a media range says about this form, and how much it wants it, in thousandths.
    fn liking(self, range: &str) -> Option<(usize, u32)> {
        let mut parts = range.split(';').map(|part| part.trim().to_ascii_lowercase());
        let range = parts.next()?;
        let (kind, _) = self.media_type().split_once('/')?;
        let precision = ["*/*".to_owned(), format!("{kind}/*"), self.media_type().to_owned()];
        let precision = precision.iter().position(|known| *known == range)?;
        let quality = parts.find_map(|part| part.strip_prefix("q=").map(str::to_owned));
        let quality = quality.and_then(|q| q.parse::<f32>().ok()).unwrap_or(1.0).clamp(0.0, 1.0);
        Some((precision, (quality * 1000.0) as u32))
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
