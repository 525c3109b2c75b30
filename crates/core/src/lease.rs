//! Leases: who of several works on what, for how long. They are no resources: they have no history, move no version
//! counter and are told to nobody who watches. Whether one can be had is decided here, by whatever clock the store goes
//! by; nobody takes a lease from a holder whose time is not over.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::{Error, ErrorKind, Fault, FaultKind, IfMatch, Timestamp, Version, echo};

/// The longest name of a group, of a lease and of a holder, in characters.
const MAX_NAME: usize = 253;

/// The longest and the shortest time for which a lease can be had; no time at all gives it back.
pub const LEASE_TTL: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// A lease as somebody has it, or had it until its time was over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lease {
    /// What is leased, in its group.
    pub name: String,
    /// Who has it.
    pub holder: String,
    /// Until when.
    #[serde(rename = "expires_time")]
    pub expires: Timestamp,
    /// Grows with every claim that is granted. It is no version of the store.
    pub version: Version,
}

/// What somebody wants of a lease: to have it, to keep it, or to give it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Those who share the work.
    pub group: String,
    /// What is leased.
    pub name: String,
    /// Who wants it.
    pub holder: String,
    /// For how long; nothing gives it back.
    pub ttl: Duration,
    /// What it is known to be; `None` is a lease that nobody has.
    pub if_match: Option<IfMatch>,
}

impl Claim {
    /// What becomes of a lease that was found so, if the claim is granted.
    pub fn decide(&self, found: Option<&Lease>, now: Timestamp) -> Result<Lease, Error> {
        let live = found.filter(|lease| lease.expires > now);
        self.check_version(found, live)?;
        if let Some(lease) = live.filter(|lease| lease.holder != self.holder) {
            return Err(Error::state_conflict(format!("{} until {}", self.held(lease), lease.expires)));
        }
        let ttl = i64::try_from(self.ttl.as_micros()).unwrap_or(i64::MAX);
        // Leases nobody has are forgotten after a while. One that comes after them must not have a version that
        // somebody may still remember, and time goes on meanwhile.
        let version = found.map_or(0, |lease| lease.version.0 + 1).max(now.micros());
        Ok(Lease {
            name: self.name.clone(),
            holder: self.holder.clone(),
            expires: Timestamp::from_micros(now.micros().saturating_add(ttl)),
            version: Version(version),
        })
    }

    fn check_version(&self, found: Option<&Lease>, live: Option<&Lease>) -> Result<(), Error> {
        match (&self.if_match, found) {
            (None, _) => match live {
                None => Ok(()),
                Some(lease) => {
                    let kind = ErrorKind::VersionConflict { expected: Value::from(0), actual: lease.version };
                    Err(Error::new(kind, format!("{} until {}", self.held(lease), lease.expires)))
                }
            },
            (Some(IfMatch::Any), _) if live.is_none() => Err(Error::not_found("Lease", &self.path())),
            (Some(tags), Some(lease)) if tags.matches(lease.version) => Ok(()),
            (Some(tags), found) => {
                let actual = found.map(|lease| lease.version).unwrap_or_default();
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

/// What is wrong with the name of a group or of a lease, if anything.
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

/// What is wrong with the name of a holder, if anything.
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

    fn claim(holder: &str, if_match: Option<&str>) -> Claim {
        Claim {
            group: "sentinel".into(),
            name: "range-1".into(),
            holder: holder.into(),
            ttl: Duration::from_secs(10),
            if_match: if_match.map(|tags| IfMatch::parse(tags).unwrap()),
        }
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
        let (stale, held_by_another, nobody_has_it) = ("CNF-002", "CNF-003", "NTF-001");
        for (holder, if_match, second, outcome) in [
            ("a", None, 19, stale),
            ("b", None, 19, stale),
            ("b", None, 20, "granted"),
            ("a", Some("\"5\""), 19, "granted"),
            ("a", Some("*"), 19, "granted"),
            ("a", Some("\"4\", \"5\""), 19, "granted"),
            ("a", Some("\"4\""), 19, stale),
            ("a", Some("W/\"5\""), 19, stale),
            ("a", Some("\"5\""), 20, "granted"),
            ("b", Some("\"5\""), 19, held_by_another),
            ("b", Some("*"), 19, held_by_another),
            ("b", Some("\"4\""), 19, stale),
            ("b", Some("\"5\""), 20, "granted"),
            ("b", Some("\"4\""), 20, stale),
            ("b", Some("*"), 20, nobody_has_it),
        ] {
            let decided = claim(holder, if_match).decide(Some(&held()), at(second));
            let code = decided.as_ref().map_or_else(Error::code, |_| "HYPERFLEET-granted");
            assert_eq!(code, format!("HYPERFLEET-{outcome}"), "{holder} {if_match:?} at {second}");
            if let Ok(lease) = decided {
                assert_eq!((lease.holder.as_str(), lease.expires), (holder, at(second + 10)));
            }
        }
        for (if_match, outcome) in [(None, "granted"), (Some("\"5\""), stale), (Some("*"), nobody_has_it)] {
            let decided = claim("a", if_match).decide(None, at(1));
            let code = decided.as_ref().map_or_else(Error::code, |_| "HYPERFLEET-granted");
            assert_eq!(code, format!("HYPERFLEET-{outcome}"), "{if_match:?}");
        }
    }

    #[test]
    fn no_version_comes_twice_even_when_the_lease_was_forgotten_or_the_clock_went_back() {
        let first = claim("a", None).decide(None, at(1)).unwrap();
        let again = claim("a", Some("*")).decide(Some(&first), at(0)).unwrap();
        assert_eq!(again.version.0, first.version.0 + 1);
        let new = claim("b", None).decide(None, at(100_000)).unwrap();
        assert!(new.version > again.version);
    }

    #[test]
    fn what_is_given_back_is_over_at_once() {
        let back = Claim { ttl: Duration::ZERO, ..claim("a", Some("\"5\"")) };
        let back = back.decide(Some(&held()), at(10)).unwrap();
        assert_eq!(back.expires, at(10));
        assert!(claim("b", None).decide(Some(&back), at(10)).is_ok());
    }

    #[test]
    fn names_are_short_and_plain() {
        let fault =
            |name: &str| check_lease_name(FaultKind::Path, "group", name).map(|fault| fault.constraint);
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
