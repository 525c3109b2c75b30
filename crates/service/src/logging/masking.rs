//! Masks secrets: by the name of a field, header or JSON member, and by patterns in free text (`password=…`, `token:
//! …`, `Bearer …`, `scheme://user:password@`). In doubt it masks too much. It runs on every logged string, so text
//! without a secret is not copied.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr3;
use serde_json::Value as Json;

/// Replaces a secret.
pub(crate) const MASK: &str = "***";

/// Which names hold secrets. Names match without regard to case, `-` and `_`, and also as the
/// last words of a longer name: `password` covers `db_password` and `dbPassword`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Masking {
    /// Whether anything is hidden.
    pub enabled: bool,
    /// Request headers that are hidden.
    pub headers: Vec<String>,
    /// Fields and JSON members that are hidden.
    pub fields: Vec<String>,
}

impl Masking {
    /// Whether a field of this name is hidden.
    pub fn field(&self, name: &str) -> bool {
        self.enabled && self.fields.iter().any(|field| ends_with_words(name, field))
    }

    /// What may be shown of a request header.
    pub fn header<'v>(&self, name: &str, value: &'v str) -> Cow<'v, str> {
        if self.is_header(name) || self.field(name) { Cow::Borrowed(MASK) } else { self.text(value) }
    }

    /// Hides the members of hidden names, and secrets in the texts of all others.
    pub fn json(&self, value: &mut Json) {
        match value {
            Json::Object(members) => {
                for (name, member) in members {
                    if self.field(name) || self.is_header(name) {
                        *member = Json::from(MASK);
                    } else {
                        self.json(member);
                    }
                }
            }
            Json::Array(items) => items.iter_mut().for_each(|item| self.json(item)),
            Json::String(text) => {
                if let Cow::Owned(masked) = self.text(text) {
                    *text = masked;
                }
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    /// Free text with its secrets hidden.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !self.enabled {
            return Cow::Borrowed(text);
        }
        let mut masked = String::new();
        let (mut copied, mut at) = (0, 0);
        while let Some(offset) = memchr3(b'=', b':', b' ', &text.as_bytes()[at..]) {
            let mark = at + offset;
            at = mark + 1;
            if let Some(secret) = self.secret_at(text, mark).filter(|secret| !secret.is_empty()) {
                masked.push_str(&text[copied..secret.start]);
                masked.push_str(MASK);
                copied = secret.end;
                at = secret.end;
            }
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        masked.push_str(&text[copied..]);
        Cow::Owned(masked)
    }

    /// The secret that follows the marker at this position.
    fn secret_at(&self, text: &str, mark: usize) -> Option<Range<usize>> {
        let (before, after) = (&text[..mark], &text[mark + 1..]);
        if text[mark..].starts_with("://") {
            return url_password(text, mark + 3);
        }
        if text[mark..].starts_with(' ') {
            let word = last_word(before);
            return word.eq_ignore_ascii_case("bearer").then(|| value_at(text, mark + 1));
        }
        if after.starts_with(':') {
            return None; // a path in code, not a key
        }
        let word = last_word(before.trim_end_matches(' ').trim_end_matches(['"', '\'', '\\']));
        if self.is_header(word) {
            return Some(header_value_at(text, mark + 1));
        }
        self.field(word).then(|| value_at(text, mark + 1))
    }

    fn is_header(&self, name: &str) -> bool {
        self.enabled && self.headers.iter().any(|header| header.eq_ignore_ascii_case(name))
    }
}

/// A URL that may be shown: without its password, wherever it stands. Unlike in free text the
/// bounds are known, so even a password with unescaped `/`, `@` or spaces is found.
pub(crate) fn without_url_password(url: &str) -> String {
    let mut shown = url.to_owned();
    if let (Some(scheme), Some(at)) = (url.find("://"), url.rfind('@'))
        && let Some(colon) = url.get(scheme + 3..at).and_then(|user| user.find(':'))
    {
        shown.replace_range(scheme + 3 + colon + 1..at, MASK);
    }
    let fields = vec!["password".to_owned()];
    Masking { enabled: true, headers: Vec::new(), fields }.text(&shown).into_owned()
}

/// Whether `name` is `words`, or ends with it at the start of a word.
fn ends_with_words(name: &str, words: &str) -> bool {
    let is_letter = |&(_, b): &(usize, u8)| b != b'_' && b != b'-';
    let mut rest = name.bytes().enumerate().rev().filter(is_letter);
    let mut start = name.len();
    for (_, wanted) in words.bytes().enumerate().rev().filter(is_letter) {
        match rest.next() {
            Some((at, found)) if found.eq_ignore_ascii_case(&wanted) => start = at,
            _ => return false,
        }
    }
    let name = name.as_bytes();
    start < name.len()
        && (start == 0 || !name[start - 1].is_ascii_alphanumeric() || name[start].is_ascii_uppercase())
}

fn last_word(text: &str) -> &str {
    let part_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    &text[text.trim_end_matches(part_of_word).len()..]
}

/// Where a value begins, and the quote it begins with (`"`, `'` or `\"`), if any.
fn opening(text: &str, from: usize) -> (usize, &'static str) {
    let start = text.len() - text[from..].trim_start_matches(' ').len();
    let quote = ["\\\"", "\"", "'"].into_iter().find(|quote| text[start..].starts_with(quote));
    (start, quote.unwrap_or_default())
}

/// The value of a key. Quoted, it ends with its quote; else at a space, with quotes inside kept
/// together (`Some("…")`).
fn value_at(text: &str, from: usize) -> Range<usize> {
    let (start, quote) = opening(text, from);
    if !quote.is_empty() {
        return quoted(text, start, quote);
    }
    let mut inside = false;
    let end = text[start..]
        .find(|c: char| {
            inside ^= c == '"';
            !inside && (c.is_whitespace() || c == '&')
        })
        .map_or(text.len(), |length| start + length);
    start..start + text[start..end].trim_end_matches([',', ';', ':', ')', '}', ']']).len()
}

/// The value of a header: to the end of the line, because it may hold anything.
fn header_value_at(text: &str, from: usize) -> Range<usize> {
    let (start, quote) = opening(text, from);
    if !quote.is_empty() {
        return quoted(text, start, quote);
    }
    start..text[start..].find(['\r', '\n']).map_or(text.len(), |length| start + length)
}

/// A quoted value with its quotes; one that is not closed goes to the end.
fn quoted(text: &str, start: usize, quote: &str) -> Range<usize> {
    let mut at = start + quote.len();
    while let Some(offset) = text[at..].find(quote) {
        let close = at + offset;
        at = close + quote.len();
        if !text[..close].ends_with('\\') {
            return start..at;
        }
    }
    start..text.len()
}

/// The password in the part of a URL that starts at `from`, behind `://`.
fn url_password(text: &str, from: usize) -> Option<Range<usize>> {
    let rest = &text[from..];
    let url = &rest[..rest.find(|c: char| c.is_whitespace() || "\"'<>".contains(c)).unwrap_or(rest.len())];
    let authority = &url[..url.find(['/', '?', '#']).unwrap_or(url.len())];
    let colon = authority.find(':')?;
    let at = authority.rfind('@').or_else(|| {
        // No `@` where it belongs: either host and port, or a password that was not encoded.
        let port = authority[authority.rfind(':')? + 1..].bytes().all(|b| b.is_ascii_digit());
        if port { None } else { url.rfind('@') }
    })?;
    (colon < at).then_some(from + colon + 1..from + at)
}
