//! The variables of an expression: JSON values by name. A value under a key that looks like a secret reads as
//! [`REDACTED`]. Only this file reads the members of a JSON object, so no function of the language can reach around the
//! mask. Nothing is copied or converted in advance: a scope over a large document costs nothing until an expression
//! reads it.

use serde_json::Value as Json;

use crate::value::{List, Map, Text, Value};

/// The replacement for every secret.
pub const REDACTED: &str = "***REDACTED***";

/// A key that contains one of these, in any case and with any punctuation between the letters, holds a
/// secret. Rather too many than too few: `author` is masked for the sake of `authorization`.
const SECRET_WORDS: [&str; 23] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "credential",
    "private",
    "auth",
    "bearer",
    "cert",
    "kubeconfig",
    "apikey",
    "accesskey",
    "sshkey",
    "accountkey",
    "servicekey",
    "registrykey",
    "signingkey",
    "encryptionkey",
    "connectionstring",
    "cookie",
    "jwt",
];

/// Words for what may be known of a secret.
const TELLING_WORDS: [&str; 10] =
    ["kind", "name", "namespace", "phase", "reason", "ref", "state", "status", "type", "version"];

/// A longer key is masked without searching it for words.
const MAX_KEY_BYTES: usize = 320;

/// A number that is written in more bytes is none to expressions.
const MAX_NUMBER_BYTES: usize = 1024;

/// What of a document is masked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Mask {
    /// Any value under a key that looks like a secret.
    #[default]
    Values,
    /// Only texts, and none under a key that tells of a secret without being one: expressions of task files walk
    /// objects with members such as `certificate` or `secretName`.
    Texts,
    /// Nothing: manifests are rendered with what they are given.
    Nothing,
}

/// The variables of an evaluation.
#[derive(Clone, Default)]
pub struct Scope<'a> {
    variables: Vec<(&'a str, Given<'a>)>,
    mask: Mask,
    now: Option<i64>,
}

#[derive(Clone, Copy)]
enum Given<'a> {
    Json(&'a Json),
    Time(i64),
}

impl<'a> Scope<'a> {
    /// A scope without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// A scope without variables for expressions of a task file: they know the time, given in microseconds since 1970,
    /// and what is masked for them is text.
    pub fn task(now: i64) -> Self {
        Self { mask: Mask::Texts, now: Some(now), ..Self::default() }
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: &'a Json) -> Self {
        self.variables.push((name, Given::Json(value)));
        self
    }

    /// Adds every member of an object as a variable.
    #[must_use]
    pub fn with_all(mut self, members: &'a serde_json::Map<String, Json>) -> Self {
        self.variables.extend(members.iter().map(|(name, value)| (name.as_str(), Given::Json(value))));
        self
    }

    /// Adds a variable that is a time, in microseconds since 1970.
    #[must_use]
    pub fn with_time(mut self, name: &'a str, micros: i64) -> Self {
        self.variables.push((name, Given::Time(micros)));
        self
    }

    pub(crate) fn get(&self, name: &str) -> Option<Value<'a>> {
        let (_, value) = self.variables.iter().rev().find(|(known, _)| *known == name)?;
        Some(match value {
            Given::Json(value) => seen(value, self.mask),
            Given::Time(micros) => Value::Time(*micros),
        })
    }

    pub(crate) fn now(&self) -> Option<i64> {
        self.now
    }
}

/// The members of a JSON object, secrets masked.
#[derive(Clone, Copy)]
pub(crate) struct Members<'s>(pub(crate) &'s serde_json::Map<String, Json>, pub(crate) Mask);

impl<'s> Members<'s> {
    pub(crate) fn len(self) -> usize {
        self.0.len()
    }

    pub(crate) fn key_bytes(self) -> usize {
        self.0.keys().map(String::len).sum()
    }

    pub(crate) fn get(self, key: &str) -> Option<Value<'s>> {
        self.0.get(key).map(|value| seen_under(key, value, self.1))
    }

    /// By name, so that the order of a document's members has no effect.
    pub(crate) fn names(self) -> Vec<&'s str> {
        let mut names: Vec<_> = self.0.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

fn seen_under<'s>(key: &str, value: &'s Json, mask: Mask) -> Value<'s> {
    let masked = match mask {
        Mask::Values => is_secret(key),
        Mask::Texts => value.is_string() && is_secret(key) && !tells_of_a_secret(key),
        Mask::Nothing => false,
    };
    if masked { Value::Text(Text::Given(REDACTED)) } else { seen(value, mask) }
}

/// Whether a key ends in a word for what may be known of a secret, as in `secretName` and `token_status`.
fn tells_of_a_secret(key: &str) -> bool {
    let key = key.as_bytes();
    TELLING_WORDS.iter().any(|word| {
        key.len() > word.len() && key[key.len() - word.len()..].eq_ignore_ascii_case(word.as_bytes())
    })
}

/// A JSON value as an expression sees it.
pub(crate) fn seen(json: &Json, mask: Mask) -> Value<'_> {
    match json {
        Json::Null => Value::Null,
        Json::Bool(held) => Value::Bool(*held),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => Value::Int(whole),
            (None, Some(whole)) => Value::UInt(whole),
            // Reading a number is one step of an evaluation, which must not take the time of a million digits.
            (None, None) if number.as_str().len() > MAX_NUMBER_BYTES => Value::Double(f64::NAN),
            (None, None) => Value::Double(number.as_str().parse().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::Text(Text::Given(text)),
        Json::Array(items) => Value::List(List::Given(items, mask)),
        Json::Object(members) => Value::Map(Map::Given(Members(members, mask))),
    }
}

fn is_secret(key: &str) -> bool {
    let key = key.as_bytes();
    let starts = |at: usize| {
        let first = key[at].to_ascii_lowercase();
        first.is_ascii_lowercase()
            && FIRST_LETTERS & (1 << (first - b'a')) != 0
            && SECRET_WORDS.iter().any(|word| word.as_bytes()[0] == first && starts_with(&key[at..], word))
    };
    key.len() > MAX_KEY_BYTES || (0..key.len()).any(starts)
}

/// The letters that secret words start with, one bit each: most places in a key are passed over by these.
const FIRST_LETTERS: u32 = {
    let (mut letters, mut i) = (0, 0);
    while i < SECRET_WORDS.len() {
        letters |= 1 << (SECRET_WORDS[i].as_bytes()[0] - b'a');
        i += 1;
    }
    letters
};

fn starts_with(key: &[u8], word: &str) -> bool {
    let mut letters = key.iter().filter(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii());
    word.bytes().all(|byte| letters.next().is_some_and(|letter| letter.eq_ignore_ascii_case(&byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_look_like_secrets_are_recognised() {
        for key in [
            "password",
            "DB_PASSWORD",
            "adminPasswd",
            "clientSecret",
            "pull-secret",
            "token",
            "access_token",
            "x-auth-request",
            "Authorization",
            "credentials",
            "private_key",
            "tls.crt-cert",
            "certificate",
            "kube-config",
            "kubeConfig",
            "API_KEY",
            "api-key",
            "access.key",
            "ssh_key",
            "serviceAccountKey",
            "connection_string",
            "pass-phrase",
            "sEcReT",
        ] {
            assert!(is_secret(key), "{key}");
        }
        for key in [
            "",
            "type",
            "status",
            "reason",
            "message",
            "observed_generation",
            "adapter",
            "conditions",
            "data",
            "last_transition_time",
            "kind",
            "id",
            "href",
            "name",
            "labels",
            "spec",
            "generation",
            "created_by",
            "owner_references",
            "key",
            "pass",
            "région",
        ] {
            assert!(!is_secret(key), "{key}");
        }
    }
}
