//! Masks secrets: the secrets of the settings wherever they occur, others by the name of a field, header or JSON member,
//! and by patterns in free text (`password=…`, `token: …`, `Bearer …`, `scheme://user:password@`). In doubt it masks too
//! much. It runs on every logged string, so text without a secret is not copied.

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
    /// What is hidden wherever it occurs.
    pub secrets: Secrets,
}

/// Texts that no line may hold, such as the passwords of the settings. Libraries log them in forms of their own.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(Vec<String>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(MASK)
    }
}

/// Shorter secrets would hide parts of words everywhere. Only names and patterns hide them.
const SHORTEST: usize = 4;

impl Secrets {
    /// These texts, also as they stand in a URL and in debugging output.
    pub fn of<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        let mut all = Vec::new();
        for text in texts {
            let decoded = percent_encoding::percent_decode_str(text).decode_utf8_lossy();
            all.extend([text, &decoded].map(str::to_owned));
            all.extend([text, &decoded].map(|text| text.escape_debug().to_string()));
        }
        all.retain(|text| text.len() >= SHORTEST);
        // The longest first, because one secret may hold another.
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        Self(all)
    }

    fn hidden<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut shown = Cow::Borrowed(text);
        for secret in &self.0 {
            if shown.contains(secret) {
                shown = Cow::Owned(shown.replace(secret, MASK));
            }
        }
        shown
    }
}

impl Masking {
    /// Hides these secrets, and what the usual names hold.
    pub fn usual(secrets: Secrets) -> Self {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            enabled: true,
            headers: names(&["Authorization", "Cookie", "X-API-Key", "Proxy-Authorization"]),
            fields: names(&["password", "secret", "token", "api_key"]),
            secrets,
        }
    }

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
        match self.secrets.hidden(text) {
            Cow::Borrowed(text) => self.by_pattern(text),
            Cow::Owned(text) => Cow::Owned(self.by_pattern(&text).into_owned()),
        }
    }

    fn by_pattern<'t>(&self, text: &'t str) -> Cow<'t, str> {
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
            return url_secret(text, mark + 3, last_word(before));
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

/// A URL, or a list of them, that may be shown: without its password, or without its user where that may be a token.
/// Unlike in free text the bounds are known, so even a password with unescaped `/`, `@` or spaces is found.
pub fn without_url_secrets(url: &str) -> String {
    let mut shown = url.to_owned();
    if let Some(range) = url_login(url) {
        let login = &url[range.clone()];
        let several = login.contains("://") || login.contains('@') && login.contains(',');
        let password = login.find(':').filter(|_| !several).map_or(0, |colon| colon + 1);
        shown.replace_range(range.start + password..range.end, MASK);
    }
    let fields = vec!["password".to_owned()];
    Masking { enabled: true, headers: Vec::new(), fields, secrets: Secrets::default() }
        .by_pattern(&shown)
        .into_owned()
}

/// What a URL, or a list of them, holds and must not be shown.
pub(crate) fn url_secrets(urls: &str) -> Vec<&str> {
    // A comma may also be part of a password.
    let secrets = urls.split(',').chain([urls]).filter_map(|url| {
        let login = &url[url_login(url)?];
        let is_token =
            || url.split_once("://").is_none_or(|(scheme, _)| TOKEN_SCHEMES.contains(&scheme.trim()));
        match login.split_once(':') {
            Some((_, password)) => Some(password),
            None => is_token().then_some(login),
        }
    });
    let parameters = urls.split(['?', '&']).filter_map(|parameter| parameter.split_once('='));
    let passwords = parameters.filter(|(name, _)| name.ends_with("password")).map(|(_, value)| value);
    secrets.chain(passwords).collect()
}

/// Where user and password stand, or from the first to the last of a list.
fn url_login(url: &str) -> Option<Range<usize>> {
    let start = url.find("://").map_or(0, |scheme| scheme + 3);
    let start = start + url.get(start..)?.len() - url[start..].trim_start().len();
    url.rfind('@').filter(|at| *at > start).map(|at| start..at)
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

/// Schemes of NATS, where a user without a password is a token.
const TOKEN_SCHEMES: [&str; 4] = ["nats", "tls", "ws", "wss"];

/// The password in the part of a URL that starts at `from`, behind `://`, or its token.
fn url_secret(text: &str, from: usize, scheme: &str) -> Option<Range<usize>> {
    let rest = &text[from..];
    let url = &rest[..rest.find(|c: char| c.is_whitespace() || "\"'<>".contains(c)).unwrap_or(rest.len())];
    let authority = &url[..url.find(['/', '?', '#']).unwrap_or(url.len())];
    let token = authority.find('@').filter(|_| TOKEN_SCHEMES.contains(&scheme));
    if let Some(at) = token.filter(|at| !authority[..*at].contains(':')) {
        return Some(from..from + at);
    }
    let colon = authority.find(':')?;
    let at = authority.rfind('@').or_else(|| {
        // No `@` where it belongs: either host and port, or a password that was not encoded.
        let port = authority[authority.rfind(':')? + 1..].bytes().all(|b| b.is_ascii_digit());
        if port { None } else { url.rfind('@') }
    })?;
    (colon < at).then_some(from + colon + 1..from + at)
}
