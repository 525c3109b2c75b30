//! Request bodies: read within a size and a time, parsed as hostile JSON, and turned into checked
//! commands. Shape is checked here, with every fault reported; what needs the store is for the rules.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyperfleet_core::{Error, ErrorKind, MAX_DEPTH, echo};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::app::App;
use crate::gate::Visitor;

/// Keys that the JSON library gives a meaning of its own; no body may smuggle them in.
const PRIVATE: &str = "$serde_json::private::";

/// What a PATCH body is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchLanguage {
    /// RFC 7396.
    Merge,
    /// RFC 6902.
    Json,
}

/// The language of a PATCH, by its media type. Plain JSON is a merge.
pub(crate) fn patch_language(headers: &HeaderMap) -> Result<PatchLanguage, Error> {
    match media_type(headers)?.as_deref() {
        None | Some("application/json" | "application/merge-patch+json") => Ok(PatchLanguage::Merge),
        Some("application/json-patch+json") => Ok(PatchLanguage::Json),
        Some(other) => Err(unsupported(other, hyperfleet_service::problem::PATCH_TYPES)),
    }
}

/// Refuses a body that is not JSON by its media type. None at all is taken as JSON.
pub(crate) fn require_json(headers: &HeaderMap) -> Result<(), Error> {
    match media_type(headers)?.as_deref() {
        None | Some("application/json") => Ok(()),
        Some(other) if other.starts_with("application/") && other.ends_with("+json") => Ok(()),
        Some(other) => Err(unsupported(other, "application/json")),
    }
}

fn media_type(headers: &HeaderMap) -> Result<Option<String>, Error> {
    if let Some(encoding) = headers.get(CONTENT_ENCODING).filter(|encoding| !is_identity(encoding)) {
        let encoding = String::from_utf8_lossy(encoding.as_bytes());
        let detail = format!("The content encoding '{}' is not supported. Send plain JSON.", echo(&encoding));
        return Err(Error::new(ErrorKind::UnsupportedMediaType, detail));
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

fn unsupported(given: &str, expected: &str) -> Error {
    let detail = format!("The media type '{}' is not supported. Send {expected}.", echo(given));
    Error::new(ErrorKind::UnsupportedMediaType, detail)
}

/// Reads a body whole, within the limit and the time. The rest of one that is refused is taken in
/// by the listener, so that a client that is still sending gets to see the answer.
///
/// Whoever sends slowly takes up no room meanwhile, or a few who never send would keep everyone out. So there may be
/// none any more when the body is there.
pub(crate) async fn read(app: &App, request: Request<Body>) -> Result<Bytes, Error> {
    let visitor = request.extensions().get::<Visitor>().cloned();
    let visitor = visitor.ok_or_else(|| Error::internal("a body came around the gate"))?;
    let body = tokio::time::timeout(app.read_timeout, collect(request.into_body(), app.body_limit));
    visitor
        .stay()
        .wait_outside(body)
        .await?
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Timeout, "The request body did not arrive in time.")))
}

async fn collect(mut body: Body, limit: usize) -> Result<Bytes, Error> {
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let mut whole = BytesMut::new();
    let mut arrived = Arrived { on_the_way: &ON_THE_WAY, bytes: 0 };
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Error::new(ErrorKind::MalformedBody, "The request body could not be read to its end.")
                .because(error)
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > limit {
            return Err(too_large(limit));
        }
        arrived.add(data.len())?;
        if whole.is_empty() && body.is_end_stream() {
            // All came at once, as nearly always, and need not be copied.
            return Ok(data);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// The most that may be held of bodies that are on their way, in bytes.
const MOST_ON_THE_WAY: usize = 256 << 20;

static ON_THE_WAY: AtomicUsize = AtomicUsize::new(0);

/// What has arrived of one body, until it is there.
struct Arrived<'a> {
    on_the_way: &'a AtomicUsize,
    bytes: usize,
}

impl Arrived<'_> {
    fn add(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes += bytes;
        if self.on_the_way.fetch_add(bytes, Ordering::Relaxed) + bytes > MOST_ON_THE_WAY {
            let detail = "Too many request bodies are on their way. Please try again later.";
            return Err(Error::new(ErrorKind::Overloaded, detail));
        }
        Ok(())
    }
}

impl Drop for Arrived<'_> {
    fn drop(&mut self) {
        self.on_the_way.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn too_large(limit: usize) -> Error {
    Error::new(ErrorKind::BodyTooLarge, format!("The request body is larger than the {limit} bytes allowed."))
}

/// Parses a body as JSON.
pub(crate) fn parse(body: &[u8]) -> Result<Value, Error> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Error::new(
            ErrorKind::MalformedBody,
            "The request body is empty; a JSON document is required.",
        ));
    }
    if has_private_key(body) {
        return Err(Error::new(
            ErrorKind::MalformedBody,
            "The request body has a member with a reserved name.",
        ));
    }
    serde_json::from_slice(body).map_err(|error| {
        let error = error.to_string();
        let detail = match error.strip_prefix("recursion limit exceeded") {
            Some(place) => format!("The request body is nested deeper than {MAX_DEPTH} levels{place}"),
            None => format!("The request body is not valid JSON: {error}"),
        };
        Error::new(ErrorKind::MalformedBody, detail)
    })
}

/// Parses a body as a JSON object.
pub(crate) fn parse_object(body: &[u8]) -> Result<serde_json::Map<String, Value>, Error> {
    match parse(body)? {
        Value::Object(members) => Ok(members),
        _ => Err(Error::new(ErrorKind::MalformedBody, "The request body must be a JSON object.")),
    }
}

/// Looks at every string that a colon follows. One pass without recursion, because a body that is nested
/// too deeply is refused only by the parser. What comes out for a text that is no JSON does not matter.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_on_their_way_are_bounded_and_make_room_when_they_are_there() {
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
            assert_eq!(collect(large, 2).await.unwrap_err().kind, ErrorKind::BodyTooLarge);
        }
    }

    #[test]
    fn what_is_no_json_document_is_refused_as_a_body() {
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
