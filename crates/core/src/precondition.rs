//! `If-Match`: the caller's word on which version it has seen. Strong tags only; a weak tag never
//! matches, because a version is exact.

use serde_json::Value;

use crate::{Error, ErrorKind, Resource, Version};

/// A parsed `If-Match` or `If-None-Match` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfMatch {
    /// `*`: whatever the version.
    Any,
    /// A list of tags, as sent.
    Tags {
        /// The strong tags' contents.
        strong: Vec<String>,
        /// The weak tags' contents.
        weak: Vec<String>,
    },
}

impl IfMatch {
    /// Reads a header value. `None` when it is no list of entity tags.
    pub fn parse(header: &str) -> Option<Self> {
        let header = header.trim();
        if header == "*" {
            return Some(Self::Any);
        }
        let (mut strong, mut weak) = (Vec::new(), Vec::new());
        // Elements of a list may be empty, but not all of them.
        let separators = [',', ' ', '\t'];
        let mut rest = header.trim_start_matches(separators);
        loop {
            let (tags, tail) = match rest.strip_prefix("W/") {
                Some(tail) => (&mut weak, tail),
                None => (&mut strong, rest),
            };
            let (tag, tail) = tail.strip_prefix('"')?.split_once('"')?;
            if tag.chars().any(|c| c.is_control() || c == ' ') {
                return None;
            }
            tags.push(tag.to_owned());
            rest = tail.trim_start_matches(separators);
            if rest.is_empty() {
                return Some(Self::Tags { strong, weak });
            }
            if !tail.trim_start().starts_with(',') {
                return None;
            }
        }
    }

    /// Whether a write may go on: `*` or a strong tag of this very version.
    pub fn matches(&self, version: Version) -> bool {
        match self {
            Self::Any => true,
            Self::Tags { strong, .. } => strong.contains(&version.to_string()),
        }
    }

    /// Whether a cached copy is still good: `If-None-Match` compares weakly.
    pub fn matches_weakly(&self, version: Version) -> bool {
        match self {
            Self::Any => true,
            Self::Tags { strong, weak } => strong.iter().chain(weak).any(|tag| *tag == version.to_string()),
        }
    }

    /// The conflict, when `resource` is at another version.
    pub fn check(&self, resource: &Resource) -> Result<(), Error> {
        if self.matches(resource.version) {
            return Ok(());
        }
        Err(self.conflict(&resource.kind, &resource.id.to_string(), resource.version))
    }

    /// The conflict with what is at another version.
    pub(crate) fn conflict(&self, kind: &str, id: &str, actual: Version) -> Error {
        let expected = self.as_sent();
        let detail = if self.matches_weakly(actual) {
            format!(
                "{kind} '{id}' is at version {actual}, but a write needs a strong tag, without W/ before it."
            )
        } else {
            format!(
                "{kind} '{id}' was modified by another request. Expected version {}, found version {actual}.",
                expected.as_str().map_or_else(|| expected.to_string(), crate::echo),
            )
        };
        Error::new(ErrorKind::VersionConflict { expected, actual }, detail)
    }

    /// What the caller expects, as a number where it is one.
    fn as_sent(&self) -> Value {
        match self {
            Self::Any => Value::from("*"),
            Self::Tags { strong, weak } => match (strong.as_slice(), weak.as_slice()) {
                ([tag], []) | ([], [tag]) => {
                    tag.parse::<u64>().map_or_else(|_| Value::from(crate::echo(tag)), Value::from)
                }
                _ => Value::from(crate::echo(&[strong.as_slice(), weak.as_slice()].concat().join(", "))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_tags_are_read_and_anything_else_is_refused() {
        assert_eq!(IfMatch::parse(" * "), Some(IfMatch::Any));
        let list = IfMatch::parse(r#""7", W/"8" ,"x""#).unwrap();
        assert!(list.matches(Version(7)));
        assert!(!list.matches(Version(8)) && list.matches_weakly(Version(8)));
        for sparse in ["\"7\",", " , \"7\"", "\"6\",, ,\"7\""] {
            assert!(IfMatch::parse(sparse).is_some_and(|list| list.matches(Version(7))), "{sparse}");
        }
        for bad in ["", "7", "\"7", "\"7\" \"8\"", "*, \"7\"", "w/\"7\"", ",", " , ,"] {
            assert_eq!(IfMatch::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_expectation_is_a_number_where_it_is_one() {
        assert_eq!(IfMatch::parse("\"5\"").unwrap().as_sent(), Value::from(5));
        assert_eq!(IfMatch::parse("W/\"5\"").unwrap().as_sent(), Value::from(5));
        assert_eq!(IfMatch::parse("\"abc\"").unwrap().as_sent(), Value::from("abc"));
        assert_eq!(IfMatch::parse("\"5\", \"6\"").unwrap().as_sent(), Value::from("5, 6"));
    }
}
