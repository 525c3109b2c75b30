//! The version of a resource that a caller expects. Only exact versions match.

use serde_json::Value;

use crate::{Epoch, Error, ErrorKind, FeedPosition, Resource};

/// What a caller says about the version that it has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// `*`: whatever the version.
    Any,
    /// A list of tags, as sent.
    Tags {
        /// The strong tags' contents: exact versions.
        strong: Vec<String>,
        /// The weak tags' contents.
        weak: Vec<String>,
    },
}

impl ExpectedVersion {
    /// Whether a write may go on: `*` or a strong tag of this very version.
    pub fn matches(&self, position: FeedPosition) -> bool {
        match self {
            Self::Any => true,
            Self::Tags { strong, .. } => strong.iter().any(|tag| position.is_meant_by(tag)),
        }
    }

    /// Whether a cached copy is still valid, for which weak tags count too.
    pub fn matches_weakly(&self, position: FeedPosition) -> bool {
        match self {
            Self::Any => true,
            Self::Tags { strong, weak } => strong.iter().chain(weak).any(|tag| position.is_meant_by(tag)),
        }
    }

    /// The conflict, when `resource` is at another version.
    pub fn check(&self, resource: &Resource, epoch: Epoch) -> Result<(), Error> {
        let position = FeedPosition { epoch, version: resource.version };
        if self.matches(position) {
            return Ok(());
        }
        Err(self.conflict(&resource.kind, &resource.id.to_string(), position))
    }

    /// The conflict with a resource at another version.
    pub(crate) fn conflict(&self, kind: &str, id: &str, position: FeedPosition) -> Error {
        let (expected, actual) = (self.as_sent(), position.version);
        let detail = if self.matches_weakly(position) {
            format!(
                "{kind} '{id}' is at version {actual}, but a write needs a strong tag, without W/ before it."
            )
        } else if self.is_of_other_epoch(position.epoch) {
            format!(
                "{kind} '{id}' was read before the database was restored. Expected version {}, found version \
                 {position}. Please read it again.",
                expected.as_str().unwrap_or_default(),
            )
        } else {
            format!(
                "{kind} '{id}' was modified by another request. Expected version {}, found version {actual}.",
                expected.as_str().map_or_else(|| expected.to_string(), crate::echo),
            )
        };
        Error::new(ErrorKind::VersionConflict { expected, actual }, detail)
    }

    fn is_of_other_epoch(&self, epoch: Epoch) -> bool {
        let of_other =
            |tag: &String| FeedPosition::parse(tag).and_then(|(_, of)| of).is_some_and(|of| of != epoch);
        matches!(self, Self::Tags { strong, weak } if strong.iter().chain(weak).any(of_other))
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
