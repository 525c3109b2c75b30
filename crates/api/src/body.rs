//! Request bodies: media types, reading within a limit of size and time, and parsing of untrusted JSON.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyperfleet_core::{Error, ErrorKind, MAX_DEPTH, echo};
use hyperfleet_service::http_error::{HttpError, MALFORMED_BODY, Refused};
use memchr::memchr2_iter;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::app::App;
use crate::gate::AdmittedCaller;
use crate::problem_types::{BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE};

/// The prefix of member names that the JSON library treats specially; no body may contain them.
const PRIVATE: &str = "$serde_json::private::";

const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");
/// The media types of a PATCH body.
const PATCH_TYPES: &str = "application/merge-patch+json, application/json-patch+json, application/json";

/// How deep a body may nest for the parser.
const PARSER_DEPTH: usize = 127;

/// The format of a PATCH body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchLanguage {
    /// RFC 7396.
    Merge,
    /// RFC 6902.
    Json,
}

/// The format of a PATCH by its media type. Plain JSON is a merge patch.
pub(crate) fn patch_language(headers: &HeaderMap) -> Result<PatchLanguage, HttpError> {
    let name_types = |refused: Refused| refused.header(ACCEPT_PATCH, HeaderValue::from_static(PATCH_TYPES));
    match media_type(headers).map_err(name_types)?.as_deref() {
        None | Some("application/json" | "application/merge-patch+json") => Ok(PatchLanguage::Merge),
        Some("application/json-patch+json") => Ok(PatchLanguage::Json),
        Some(other) => Err(name_types(unsupported(other, PATCH_TYPES)).into()),
    }
}

/// Refuses a body whose media type is not JSON. A body without a media type counts as JSON.
pub(crate) fn require_json(headers: &HeaderMap) -> Result<(), HttpError> {
    match media_type(headers)?.as_deref() {
        None | Some("application/json") => Ok(()),
        Some(other) if other.starts_with("application/") && other.ends_with("+json") => Ok(()),
        Some(other) => Err(unsupported(other, "application/json").into()),
    }
}

fn media_type(headers: &HeaderMap) -> Result<Option<String>, Refused> {
    if let Some(encoding) = headers.get(CONTENT_ENCODING).filter(|encoding| !is_identity(encoding)) {
        let encoding = String::from_utf8_lossy(encoding.as_bytes());
        let detail = format!("The content encoding '{}' is not supported. Send plain JSON.", echo(&encoding));
        return Err(Refused::new(&UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(None) };
    let text = value.to_str().map_err(|_| unsupported("that is not text", "application/json"))?;
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    Ok(Some(essence).filter(|essence| !essence.is_empty()))
}

fn is_identity(encoding: &HeaderValue) -> bool {
    let encoding = encoding.as_bytes().trim_ascii();
    encoding.is_empty() || encoding.eq_ignore_ascii_case(b"identity")
}

fn unsupported(given: &str, expected: &str) -> Refused {
    let detail = format!("The media type '{}' is not supported. Send {expected}.", echo(given));
    Refused::new(&UNSUPPORTED_MEDIA_TYPE, detail)
}

/// Reads a body whole, within the limit and the time. The rest of one that is refused is taken in
/// by the listener, so that a client that is still sending gets to see the answer.
///
/// The request holds no permit while its body arrives, because a few slow senders would otherwise use up all permits. So
/// there may be no permit free when the body is complete.
pub(crate) async fn read(app: &App, request: Request<Body>) -> Result<Bytes, HttpError> {
    let caller = request.extensions().get::<AdmittedCaller>().cloned();
    let caller = caller.ok_or_else(|| Error::internal("a body came around the gate"))?;
    let body = tokio::time::timeout(app.read_timeout, collect(request.into_body(), app.body_limit));
    caller.permit().wait_without(body).await?.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Timeout, "The request body did not arrive in time.").into())
    })
}

async fn collect(mut body: Body, limit: usize) -> Result<Bytes, HttpError> {
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let mut whole = BytesMut::new();
    let mut arrived = Arrived { on_the_way: &ON_THE_WAY, bytes: 0 };
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let detail = "The request body could not be read to its end.";
            Refused::new(&MALFORMED_BODY, detail).source(error)
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > limit {
            return Err(too_large(limit));
        }
        arrived.add(data.len())?;
        if whole.is_empty() && body.is_end_stream() {
            // A body of one frame, as nearly all are, is not copied.
            return Ok(data);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// The most bytes of incomplete bodies in memory.
const MOST_ON_THE_WAY: usize = 256 << 20;

static ON_THE_WAY: AtomicUsize = AtomicUsize::new(0);

/// The received bytes of one incomplete body.
struct Arrived<'a> {
    on_the_way: &'a AtomicUsize,
    bytes: usize,
}

impl Arrived<'_> {
    fn add(&mut self, bytes: usize) -> Result<(), HttpError> {
        self.bytes += bytes;
        if self.on_the_way.fetch_add(bytes, Ordering::Relaxed) + bytes > MOST_ON_THE_WAY {
            let detail = "Too many request bodies are on their way. Please try again later.";
            return Err(Error::new(ErrorKind::Overloaded, detail).into());
        }
        Ok(())
    }
}

impl Drop for Arrived<'_> {
    fn drop(&mut self) {
        self.on_the_way.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn too_large(limit: usize) -> HttpError {
    HttpError::new(&BODY_TOO_LARGE, format!("The request body is larger than the {limit} bytes allowed."))
}

/// Parses a body as JSON.
pub(crate) fn parse(body: &[u8]) -> Result<Value, HttpError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(HttpError::new(
            &MALFORMED_BODY,
            "The request body is empty; a JSON document is required.",
        ));
    }
    if has_private_key(body) {
        return Err(HttpError::new(&MALFORMED_BODY, "The request body has a member with a reserved name."));
    }
    serde_json::from_slice(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let lines_before = body.split_inclusive(|b| *b == b'\n').take(line.saturating_sub(1));
        let end = lines_before.map(<[u8]>::len).sum::<usize>() + column;
        let detail = match nests_deeper(&body[..end.min(body.len())], PARSER_DEPTH) {
            true => format!(
                "The request body is nested deeper than {MAX_DEPTH} levels at line {line} column {column}"
            ),
            false => format!("The request body is not valid JSON: {error}"),
        };
        HttpError::new(&MALFORMED_BODY, detail)
    })
}

/// Parses a body as a JSON object.
pub(crate) fn parse_object(body: &[u8]) -> Result<serde_json::Map<String, Value>, HttpError> {
    match parse(body)? {
        Value::Object(members) => Ok(members),
        _ => Err(HttpError::new(&MALFORMED_BODY, "The request body must be a JSON object.")),
    }
}

/// Checks every string before a colon. It does not recurse, because only the parser refuses bodies that are nested too
/// deeply. The result for malformed JSON does not matter, because the parser refuses it.
fn has_private_key(body: &[u8]) -> bool {
    let mut rest = body;
    while let Some(start) = rest.iter().position(|b| *b == b'"') {
        let mut end = start + 1;
        while rest.get(end).is_some_and(|b| *b != b'"') {
            end += if rest[end] == b'\\' { 2 } else { 1 };
        }
        let Some(string) = rest.get(start..=end) else { return false };
        rest = &rest[end + 1..];
        let may_be_private = matches!(string.get(1), Some(b'$' | b'\\'));
        if may_be_private
            && rest.trim_ascii_start().starts_with(b":")
            && serde_json::from_slice::<Cow<'_, str>>(string).is_ok_and(|key| key.starts_with(PRIVATE))
        {
            return true;
        }
    }
    false
}

/// Whether objects and lists nest deeper than `limit` in JSON text. Most bodies have fewer brackets than that.
pub(crate) fn nests_deeper(text: &[u8], limit: usize) -> bool {
    memchr2_iter(b'{', b'[', text).nth(limit).is_some() && depth(text) > limit
}

/// How deep objects and lists nest in a text that is JSON.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for &byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_incomplete_bodies_are_bounded_and_freed_at_completion() {
        let on_the_way = AtomicUsize::new(0);
        let body = || Arrived { on_the_way: &on_the_way, bytes: 0 };
        let mut first = body();
        first.add(MOST_ON_THE_WAY).unwrap();
        assert_eq!(body().add(1).unwrap_err().code(), "HYPERFLEET-SVC-001");
        drop(first);
        body().add(MOST_ON_THE_WAY).unwrap();
    }

    #[tokio::test]
    async fn a_body_that_came_at_once_is_not_copied_and_pieces_are_joined() {
        let whole = Bytes::from_static(b"{\"a\":1}");
        let read = collect(Body::from(whole.clone()), 100).await.unwrap();
        assert_eq!((read.as_ptr(), read.len()), (whole.as_ptr(), whole.len()));
        for pieces in [vec!["{", "}"], vec!["", "{}"], vec!["{}", ""]] {
            let pieces = pieces.into_iter().map(Ok::<_, std::io::Error>);
            let body = Body::from_stream(futures_util::stream::iter(pieces));
            assert_eq!(collect(body, 2).await.unwrap(), "{}");
        }
        for large in
            [Body::from("123"), Body::from_stream(futures_util::stream::iter([Ok::<_, Error>("123")]))]
        {
            assert_eq!(collect(large, 2).await.unwrap_err().problem_type(), BODY_TOO_LARGE);
        }
    }

    #[test]
    fn malformed_json_is_refused() {
        for bad in ["", "  ", "{", "{\"a\":1,}", "nul", "\"\\ud800\"", "[1] 2", "\u{feff}{}"] {
            assert_eq!(parse(bad.as_bytes()).unwrap_err().code(), "HYPERFLEET-VAL-003", "{bad}");
        }
        assert!(parse(b"\xff").is_err());
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
        let deep = format!("{}\"\\u0041\"{}", "[".repeat(500_000), "]".repeat(500_000));
        assert!(parse(deep.as_bytes()).is_err());
        assert!(parse_object(b"[]").is_err());
    }

    #[test]
    fn a_body_that_nests_too_deeply_is_refused_as_such() {
        let nested = |levels| format!("[\n{}1{}]", "[".repeat(levels - 1), "]".repeat(levels - 1));
        assert!(parse(nested(PARSER_DEPTH).as_bytes()).is_ok());
        let error = parse(nested(PARSER_DEPTH + 1).as_bytes()).unwrap_err();
        assert_eq!(error.detail(), "The request body is nested deeper than 64 levels at line 2 column 127");
        let error = parse(nested(PARSER_DEPTH + 1).replacen('[', "[x", 1).as_bytes()).unwrap_err();
        assert_eq!(error.detail(), "The request body is not valid JSON: expected value at line 1 column 2");
    }

    #[test]
    fn names_with_a_meaning_to_the_parser_are_refused() {
        for body in [
            r#"{"spec":{"$serde_json::private::Number":"1"}}"#,
            r#"{"spec":[{"\u0024serde_json::private::RawValue":"[]"}]}"#,
            "{\"a\\\"\":\"\\\\\",\"$serde_json::private::Number\" \n:1}",
        ] {
            assert_eq!(parse(body.as_bytes()).unwrap_err().code(), "HYPERFLEET-VAL-003");
        }
        for body in [
            r#"{"text":"\u00e9 and $serde_json::private:: in a value"}"#,
            r#"["$serde_json::private::Number"]"#,
        ] {
            assert!(parse(body.as_bytes()).is_ok());
        }
    }
}
