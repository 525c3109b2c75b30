//! What follows from an answer of the API server that is not what was asked for.
//!
//! Messages name objects and fields, never values: a refused manifest may hold a secret.

use std::time::Duration;

use serde_json::Value;

use crate::targets::{ErrorClass, TargetError};

/// Longest message that is passed on.
const LONGEST: usize = 500;

/// An error of this class.
pub(super) fn error(class: ErrorClass, reason: &str, message: impl Into<String>) -> TargetError {
    TargetError { class, reason: reason.to_owned(), message: message.into() }
}

/// Settings that cannot work.
pub(super) fn configuration(message: &str) -> TargetError {
    error(ErrorClass::Terminal, "InvalidConfiguration", message)
}

/// A manifest that no server needs to see.
pub(super) fn manifest(message: impl Into<String>) -> TargetError {
    error(ErrorClass::Terminal, "InvalidManifest", message)
}

/// An answer that no API server gives.
pub(super) fn malformed(what: &str) -> TargetError {
    error(ErrorClass::Transient, "MalformedAnswer", format!("{what}: the answer is not of an API server"))
}

/// No answer: no connection, no TLS, no credentials.
pub(super) fn no_connection(cause: &kube::Error) -> TargetError {
    // The output of a program that makes credentials may be credentials.
    let message = match cause {
        kube::Error::Auth(_) => "no credentials: the token file or the program for them failed".to_owned(),
        cause => {
            let mut text = String::new();
            let mut next: Option<&dyn std::error::Error> = Some(cause);
            while let Some(error) = next {
                let part = error.to_string();
                if !text.contains(&part) {
                    text = if text.is_empty() { part } else { format!("{text}: {part}") };
                }
                next = error.source();
            }
            line(&text)
        }
    };
    error(ErrorClass::Outage { retry_after: None }, "Unreachable", message)
}

/// An answer that ended too early, or does not end.
pub(super) fn broken_off() -> TargetError {
    error(ErrorClass::Transient, "MalformedAnswer", "the answer broke off, or is too long")
}

/// No answer in time.
pub(super) fn timeout(after: Duration) -> TargetError {
    error(ErrorClass::Transient, "Timeout", format!("no answer within {} s", after.as_secs_f64()))
}

/// An answer with a status other than 2xx. `what` says what was tried.
pub(super) fn refused(what: &str, status: u16, retry_after: Option<Duration>, body: &[u8]) -> TargetError {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let is_status = answer["kind"] == "Status";
    let reason = answer["reason"].as_str().filter(|reason| is_status && !reason.is_empty());
    let reason = reason.map_or_else(|| format!("Http{status}"), str::to_owned);
    let causes = causes(&answer);
    let terminating = causes.iter().any(|cause| cause.reason == "NamespaceTerminating");
    let message = answer["message"].as_str().filter(|_| is_status).unwrap_or_default();
    let untyped = message.starts_with("failed to create typed patch object");
    let class = match status {
        // Credentials that are not accepted stop every request; new ones end that.
        401 | 429 | 503 => ErrorClass::Outage { retry_after },
        403 if terminating => ErrorClass::Transient,
        // A namespace that another adapter has still to make.
        404 if is_status => ErrorClass::Transient,
        // The server's word for a manifest that does not fit the schema of its kind.
        500 if untyped => ErrorClass::Terminal,
        408 | 409 | 410 | 500.. => ErrorClass::Transient,
        _ => ErrorClass::Terminal,
    };
    let details = if status == 422 && !causes.is_empty() {
        causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.detail()))
            .collect::<Vec<_>>()
            .join("; ")
    } else if is_status {
        without_values(message).to_owned()
    } else {
        String::from_utf8_lossy(&body[..body.len().min(LONGEST)]).into_owned()
    };
    let reason = match (terminating, untyped) {
        (true, _) => "NamespaceTerminating",
        (_, true) => "InvalidManifest",
        _ => &reason,
    };
    error(class, reason, line(&format!("{what}: {status} {details}")))
}

/// One cause in a refusal.
#[derive(Debug)]
pub(super) struct Cause<'a> {
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
    pub(super) field: &'a str,
}

impl Cause<'_> {
    /// The rule that is broken, without the value that breaks it.
    fn detail(&self) -> &str {
        let Some(rest) = self.message.split_once(": ").map(|(_, rest)| rest) else { return self.message };
        if !self.message.starts_with("Invalid value: ") && !self.message.starts_with("Unsupported value: ") {
            return rest;
        }
        // A text is quoted; what else a value looks like is not known.
        let value_ends = if rest.starts_with('"') { quoted(rest) } else { rest.rfind(": ") };
        value_ends.and_then(|end| rest.get(end..)).map_or("the value is not allowed", |rest| {
            let rest = rest.trim_start_matches(": ");
            if rest.is_empty() { "the value is not allowed" } else { rest }
        })
    }

    /// Whether the field is one that cannot be changed.
    pub(super) fn immutable(&self) -> bool {
        let message = self.message.to_lowercase();
        [
            "immutable",
            "may not be changed",
            "may not change",
            "may not be updated",
            "cannot be changed",
            "forbidden: updates to",
        ]
        .iter()
        .any(|word| message.contains(word))
    }
}

/// The end of the quoted text that `text` begins with.
fn quoted(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().skip(1).find_map(|(at, c)| match c {
        '"' if !escaped => Some(at + 1),
        c => {
            escaped = c == '\\' && !escaped;
            None
        }
    })
}

/// The causes that the server names.
pub(super) fn causes(answer: &Value) -> Vec<Cause<'_>> {
    let causes = answer["details"]["causes"].as_array().map_or(&[][..], Vec::as_slice);
    causes
        .iter()
        .map(|cause| Cause {
            reason: cause["reason"].as_str().unwrap_or_default(),
            message: cause["message"].as_str().unwrap_or_default(),
            field: cause["field"].as_str().unwrap_or_default(),
        })
        .collect()
}

/// A message up to where it shows what was sent.
fn without_values(message: &str) -> &str {
    [", got ", ": got ", "&{", "&map["]
        .iter()
        .filter_map(|begin| message.find(begin))
        .min()
        .map_or(message, |end| &message[..end])
}

/// One line of bounded length.
fn line(text: &str) -> String {
    let mut line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(LONGEST)
        .collect::<String>()
        .trim_end()
        .to_owned();
    if text.chars().count() > LONGEST {
        line.push('…');
    }
    line
}
