//! Leases: which of several components works on what, for how long. Leases are not resources: they have no history,
//! increase no version counter and appear in no watch. This module decides whether a claim is granted, by the store's
//! clock; a lease is never taken from its holder before it expires.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::{
    Epoch, Error, ErrorKind, ExpectedVersion, Fault, FaultKind, FeedPosition, Timestamp, Version, echo,
};

/// The longest name of a group, of a lease and of a holder, in characters.
const MAX_NAME: usize = 253;

/// The shortest and the longest TTL of a lease; zero releases it.
pub const LEASE_TTL: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// A lease, held or expired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lease {
    /// The name of the lease in its group.
    pub name: String,
    /// The holder.
    pub holder: String,
    /// When it expires.
    #[serde(rename = "expires_time")]
    pub expires: Timestamp,
    /// Increases with every granted claim. It is not a version of the store.
    pub version: Version,
}

/// A request to acquire, renew or release a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The group of components that share the work.
    pub group: String,
    /// The name of the lease.
    pub name: String,
    /// The holder to be.
    pub holder: String,
    /// For how long; zero releases the lease.
    pub ttl: Duration,
    /// The expected version; `None` expects a free lease.
    pub expected: Option<ExpectedVersion>,
}

impl Claim {
    /// The lease after this claim, if it is granted.
    pub fn decide(&self, found: Option<&Lease>, epoch: Epoch, now: Timestamp) -> Result<Lease, Error> {
        let live = found.filter(|lease| lease.expires > now);
        self.check_version(found, live, epoch)?;
        if let Some(lease) = live.filter(|lease| lease.holder != self.holder) {
            return Err(Error::state_conflict(format!("{} until {}", self.held(lease), lease.expires)));
        }
        let ttl = i64::try_from(self.ttl.as_micros()).unwrap_or(i64::MAX);
        // Expired leases are pruned. A later lease of the same name must not repeat a version, so versions are at least
        // the time in microseconds.
        let version = found.map_or(0, |lease| lease.version.0 + 1).max(now.micros());
        Ok(Lease {
            name: self.name.clone(),
            holder: self.holder.clone(),
            expires: Timestamp::from_micros(now.micros().saturating_add(ttl)),
            version: Version(version),
        })
    }

    fn check_version(&self, found: Option<&Lease>, live: Option<&Lease>, epoch: Epoch) -> Result<(), Error> {
        let position = |lease: &Lease| FeedPosition { epoch, version: lease.version };
        match (&self.expected, found) {
            (None, _) => match live {
                None => Ok(()),
                Some(lease) => {
                    let kind = ErrorKind::VersionConflict { expected: Value::from(0), actual: lease.version };
                    Err(Error::new(kind, format!("{} until {}", self.held(lease), lease.expires)))
                }
            },
            (Some(ExpectedVersion::Any), _) if live.is_none() => Err(Error::not_found("Lease", &self.path())),
            (Some(tags), Some(lease)) if tags.matches(position(lease)) => Ok(()),
            (Some(tags), found) => {
                let actual = found.map_or(FeedPosition { epoch, ..FeedPosition::default() }, position);
                Err(tags.conflict("Lease", &self.path(), actual))
            }
        }
    }

    fn held(&self, lease: &Lease) -> String {
        format!("Lease '{}' is held by '{}'", self.path(), echo(&lease.holder))
    }

    fn path(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }
}

/// The fault of the name of a group or of a lease, if any.
pub fn check_lease_name(kind: FaultKind, field: &str, name: &str) -> Option<Fault> {
    const PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._:-]*$";
    let fits = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "._:-".contains(c));
    let fault = |message: String| Fault::new(kind, field, message).given(&name.into());
    let length = name.chars().count();
    if length > MAX_NAME {
        let message = format!("{field} must have 1 to {MAX_NAME} characters, not {length}");
        return Some(fault(message).rule("max_length").bounds(1, MAX_NAME as u64));
    }
    let message =
        format!("{field} must be letters, digits and '.', '_', ':', '-', with a letter or digit in front");
    (!fits).then(|| fault(message).pattern(PATTERN))
}

/// The fault of the name of a holder, if any.
pub fn check_lease_holder(holder: &str) -> Option<Fault> {
    let length = holder.chars().count();
    let fault = |message: String| Fault::value("holder", message, &holder.into());
    if holder.trim().is_empty() || length > MAX_NAME {
        let rule = if length > MAX_NAME { "max_length" } else { "min_length" };
        let message = format!("holder must have 1 to {MAX_NAME} characters that are not all blank");
        return Some(fault(message).rule(rule).bounds(1, MAX_NAME as u64));
    }
    let has_control = holder.chars().any(char::is_control);
    has_control.then(|| fault("holder must not contain control characters".to_owned()).rule("pattern"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch(9);

    fn claim(holder: &str, expected: Option<ExpectedVersion>) -> Claim {
        Claim {
            group: "sentinel".into(),
            name: "range-1".into(),
            holder: holder.into(),
            ttl: Duration::from_secs(10),
            expected,
        }
    }

    fn strong(tags: &[&str]) -> Option<ExpectedVersion> {
        let strong = tags.iter().map(ToString::to_string).collect();
        Some(ExpectedVersion::Tags { strong, weak: Vec::new() })
    }

    fn weak(tag: &str) -> Option<ExpectedVersion> {
        Some(ExpectedVersion::Tags { strong: Vec::new(), weak: vec![tag.to_owned()] })
    }

    /// Held by `a`, at version 5, until second 20.
    fn held() -> Lease {
        let (name, holder) = ("range-1".into(), "a".into());
        Lease { name, holder, expires: at(20), version: Version(5) }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    #[test]
    fn a_claim_is_granted_or_refused_by_version_holder_and_time() {
        let (stale, held_by_another, free) = ("CNF-002", "CNF-003", "NTF-001");
        let any = || Some(ExpectedVersion::Any);
        for (holder, expected, second, outcome) in [
            ("a", None, 19, stale),
            ("b", None, 19, stale),
            ("b", None, 20, "granted"),
            ("a", strong(&["5"]), 19, "granted"),
            ("a", any(), 19, "granted"),
            ("a", strong(&["4", "5"]), 19, "granted"),
            ("a", strong(&["4"]), 19, stale),
            ("a", weak("5"), 19, stale),
            ("a", strong(&["5"]), 20, "granted"),
            ("b", strong(&["5"]), 19, held_by_another),
            ("b", any(), 19, held_by_another),
            ("b", strong(&["4"]), 19, stale),
            ("b", strong(&["5"]), 20, "granted"),
            ("b", strong(&["4"]), 20, stale),
            ("b", any(), 20, free),
        ] {
            let decided = claim(holder, expected.clone()).decide(Some(&held()), EPOCH, at(second));
            let code = decided.as_ref().map_or_else(Error::code, |_| "HYPERFLEET-granted");
            assert_eq!(code, format!("HYPERFLEET-{outcome}"), "{holder} {expected:?} at {second}");
            if let Ok(lease) = decided {
                assert_eq!((lease.holder.as_str(), lease.expires), (holder, at(second + 10)));
            }
        }
        for (expected, outcome) in [(None, "granted"), (strong(&["5"]), stale), (any(), free)] {
            let decided = claim("a", expected.clone()).decide(None, EPOCH, at(1));
            let code = decided.as_ref().map_or_else(Error::code, |_| "HYPERFLEET-granted");
            assert_eq!(code, format!("HYPERFLEET-{outcome}"), "{expected:?}");
        }
    }

    #[test]
    fn no_version_comes_twice_even_when_the_lease_was_forgotten_or_the_clock_went_back() {
        let first = claim("a", None).decide(None, EPOCH, at(1)).unwrap();
        let again = claim("a", Some(ExpectedVersion::Any)).decide(Some(&first), EPOCH, at(0)).unwrap();
        assert_eq!(again.version.0, first.version.0 + 1);
        let new = claim("b", None).decide(None, EPOCH, at(100_000)).unwrap();
        assert!(new.version > again.version);
    }

    #[test]
    fn a_released_lease_expires_at_once() {
        let back = Claim { ttl: Duration::ZERO, ..claim("a", strong(&["5"])) };
        let back = back.decide(Some(&held()), EPOCH, at(10)).unwrap();
        assert_eq!(back.expires, at(10));
        assert!(claim("b", None).decide(Some(&back), EPOCH, at(10)).is_ok());
    }

    #[test]
    fn lease_names_are_bounded_and_fit_the_pattern() {
        let fault =
            |name: &str| check_lease_name(FaultKind::Identifier, "group", name).map(|fault| fault.constraint);
        for good in ["a", "0-7", "sentinel-eu_1", "10.0.0.1:80", &"x".repeat(253)] {
            assert_eq!(fault(good), None, "{good}");
        }
        for bad in ["", ".", "..", "-a", "a b", "a/b", "é", "a\0"] {
            assert_eq!(fault(bad), Some(Some("pattern")), "{bad}");
        }
        assert_eq!(fault(&"x".repeat(254)), Some(Some("max_length")));
        assert!(check_lease_holder("pod-1 (é)").is_none());
        for bad in ["", "  ", "a\nb", &"x".repeat(254)] {
            assert!(check_lease_holder(bad).is_some(), "{bad:?}");
        }
    }
}
