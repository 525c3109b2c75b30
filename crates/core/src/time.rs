//! The one clock and the one form of time: UTC, cut to microseconds, because that is what both
//! stores keep and what the API prints. Rules never read it; they get `now` as a value.

use std::fmt;

use chrono::{DateTime, SecondsFormat, SubsecRound, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment in UTC with microsecond precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(DateTime<Utc>);

impl Timestamp {
    /// The wall clock. The only place in the workspace that reads it.
    #[allow(clippy::disallowed_methods)]
    pub fn now() -> Self {
        Self::from(Utc::now())
    }

    /// Microseconds since 1970, the form SQLite keeps.
    pub fn micros(self) -> i64 {
        self.0.timestamp_micros()
    }

    /// From microseconds since 1970; moments out of range become the nearest that exists.
    pub fn from_micros(micros: i64) -> Self {
        Self(DateTime::from_timestamp_micros(micros).unwrap_or(if micros < 0 {
            DateTime::<Utc>::MIN_UTC
        } else {
            DateTime::<Utc>::MAX_UTC
        }))
    }

    /// The same moment as chrono has it.
    pub fn utc(self) -> DateTime<Utc> {
        self.0
    }
}

impl From<DateTime<Utc>> for Timestamp {
    fn from(time: DateTime<Utc>) -> Self {
        Self(time.trunc_subsecs(6))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_rfc3339_opts(SecondsFormat::Micros, true))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time = DateTime::parse_from_rfc3339(&text).map_err(serde::de::Error::custom)?;
        Ok(Self::from(time.to_utc()))
    }
}
