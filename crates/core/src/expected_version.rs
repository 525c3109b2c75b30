//! The version of a resource that a caller expects. Only strong tags match, because a version is exact.

use serde_json::Value;

use crate::{Error, ErrorKind, Resource, Version};

/// What a caller says about the version that it has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedVersion {
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

impl ExpectedVersion {
    /// Whether a write may go on: `*` or a strong tag of this very version.
    pub fn matches(&self, version: Version) -> bool {
        match self {
            Self::Any => true,
            Self::Tags { strong, .. } => strong.contains(&version.to_string()),
        }
    }

    /// Whether a cached copy is still valid, for which weak tags count too.
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

    /// The conflict with a resource at another version.
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
    fn the_expected_version_is_a_number_if_the_tag_is_one() {
        let expected = |strong: &[&str], weak: &[&str]| {
            let [strong, weak] = [strong, weak].map(|tags| tags.iter().map(ToString::to_string).collect());
            ExpectedVersion::Tags { strong, weak }.as_sent()
        };
        assert_eq!(expected(&["5"], &[]), Value::from(5));
        assert_eq!(expected(&[], &["5"]), Value::from(5));
        assert_eq!(expected(&["abc"], &[]), Value::from("abc"));
        assert_eq!(expected(&["5", "6"], &[]), Value::from("5, 6"));
    }
}
