//! Ids and times, which differ from run to run, replaced by numbers in the order of their appearance, so that a
//! snapshot still shows which of them are equal.

use std::fmt::Write as _;

use hyperfleet_testkit::Answer;
use serde_json::Value;

/// Headers that a transcript shows, when they are there.
const SHOWN: [&str; 6] = ["allow", "content-type", "etag", "location", "retry-after", "accept-patch"];

/// JSON over several lines, with ids as `[id 1]`, times as `[time 1]`, and versions, positions and trace ids without a number.
pub(crate) fn redacted(value: &Value) -> String {
    let mut value = value.clone();
    hide_members(&mut value);
    redacted_text(&serde_json::to_string_pretty(&value).unwrap())
}

/// Status, telling headers and body of an answer, redacted.
pub(crate) fn transcript(answer: &Answer) -> String {
    let mut out = format!("{}\n", answer.status);
    for name in SHOWN {
        match answer.header(name) {
            Some(_) if name == "etag" => writeln!(out, "etag: \"[version]\"").unwrap(),
            Some(value) => writeln!(out, "{name}: {value}").unwrap(),
            None => {}
        }
    }
    if !answer.body.is_empty() {
        let mut body = answer.json();
        hide_members(&mut body);
        write!(out, "\n{}", serde_json::to_string_pretty(&body).unwrap()).unwrap();
    }
    redacted_text(out.trim_end())
}

/// Members of the body itself that have no telling form.
fn hide_members(body: &mut Value) {
    for (name, shown) in [("trace_id", "[trace]"), ("version", "[version]"), ("position", "[position]")] {
        if let Some(member) = body.get_mut(name) {
            *member = shown.into();
        }
    }
}

#[derive(Default)]
struct Seen {
    ids: Vec<String>,
    times: Vec<String>,
}

/// Any text with its ids and times numbered.
pub(crate) fn redacted_text(text: &str) -> String {
    let mut seen = Seen::default();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(length) = uuid_length(rest) {
            write!(out, "[id {}]", number(&mut seen.ids, &rest[..length])).unwrap();
            rest = &rest[length..];
        } else if let Some(length) = time_length(rest) {
            write!(out, "[time {}]", number(&mut seen.times, &rest[..length])).unwrap();
            rest = &rest[length..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

fn number(seen: &mut Vec<String>, text: &str) -> usize {
    let at = seen.iter().position(|known| known == text).unwrap_or_else(|| {
        seen.push(text.to_owned());
        seen.len() - 1
    });
    at + 1
}

/// `pattern` with `x` for a hexadecimal digit and `9` for a decimal one.
fn starts_like(text: &str, pattern: &str) -> bool {
    text.len() >= pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(byte, like)| match like {
            b'x' => byte.is_ascii_hexdigit(),
            b'9' => byte.is_ascii_digit(),
            other => byte == other,
        })
}

fn uuid_length(text: &str) -> Option<usize> {
    let pattern = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    starts_like(text, pattern).then_some(pattern.len())
}

fn time_length(text: &str) -> Option<usize> {
    let seconds = "9999-99-99T99:99:99";
    if !starts_like(text, seconds) {
        return None;
    }
    let rest = &text[seconds.len()..];
    let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit())?;
    rest[end..].starts_with('Z').then_some(seconds.len() + end + 1)
}
