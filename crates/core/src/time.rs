//! Timestamps: UTC, cut to microseconds, because both stores keep and the API prints that precision. Rules read no
//! clock; they get `now` as a value.

use std::fmt;

use chrono::{DateTime, Datelike, NaiveDate, Timelike, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The length of every printed time: `2026-01-31T23:59:59.000000Z`. Years have four digits, because
/// [`Timestamp::parse`] takes no others.
pub(crate) const PRINTED: usize = 27;

/// A time in UTC with microsecond precision.
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

    /// From microseconds since 1970; a time out of range becomes the nearest that exists.
    pub fn from_micros(micros: i64) -> Self {
        Self(DateTime::from_timestamp_micros(micros).unwrap_or(if micros < 0 {
            DateTime::<Utc>::MIN_UTC
        } else {
            DateTime::<Utc>::MAX_UTC
        }))
    }

    /// The same time as a chrono value.
    pub fn utc(self) -> DateTime<Utc> {
        self.0
    }

    /// Reads RFC 3339, cut to microseconds. `None` for anything else, and for a time whose year in UTC
    /// has no four digits.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(time) = Self::parse_printed(text.as_bytes()) {
            return Some(time);
        }
        // The library also takes a space for the `T`, and a minus that is no hyphen.
        if !text.is_ascii() || !matches!(text.as_bytes().get(10), Some(b'T' | b't')) {
            return None;
        }
        let time = Self::from(DateTime::parse_from_rfc3339(text).ok()?.to_utc());
        (0..=9999).contains(&time.0.year()).then_some(time)
    }

    /// Reads the one form that [`Self::printed`] writes, several times faster than any form: conditions
    /// hold many times, and every report reads them.
    fn parse_printed(text: &[u8]) -> Option<Self> {
        let text: &[u8; PRINTED] = text.try_into().ok()?;
        let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (26, b'Z')];
        // Looked at without asking after each: nearly every text fits.
        let mut fits = marks.iter().fold(true, |fits, (at, mark)| fits & (text[*at] == *mark));
        let mut number = |from: usize, to: usize| {
            text[from..to].iter().fold(0_u32, |number, byte| {
                fits &= byte.is_ascii_digit();
                number * 10 + u32::from(byte & 0x0f)
            })
        };
        let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
        let (hour, minute, second, micro) = (number(11, 13), number(14, 16), number(17, 19), number(20, 26));
        let date = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day).filter(|_| fits)?;
        date.and_hms_micro_opt(hour, minute, second, micro).map(|time| Self(time.and_utc()))
    }

    /// RFC 3339 with three decimals.
    pub fn to_milliseconds(self) -> String {
        let mut text = self.to_string();
        text.replace_range(PRINTED - 4..PRINTED - 1, "");
        text
    }

    /// Prints it behind `out`.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.printed());
    }

    /// RFC 3339 with six decimals, always of the same length.
    pub(crate) fn printed(self) -> [u8; PRINTED] {
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        // Each part of a time with a zone would be moved to that zone first.
        let time = self.0.naive_utc();
        let (year, micro) = (time.year().clamp(0, 9999).unsigned_abs(), time.nanosecond() / 1_000);
        let pairs = [
            (0, year / 100),
            (2, year % 100),
            (5, time.month()),
            (8, time.day()),
            (11, time.hour()),
            (14, time.minute()),
            (17, time.second()),
            (20, micro / 10_000),
            (22, micro / 100 % 100),
            (24, micro % 100),
        ];
        for (at, pair) in pairs {
            text[at] = b'0' + (pair / 10) as u8;
            text[at + 1] = b'0' + (pair % 10) as u8;
        }
        text
    }
}

impl From<DateTime<Utc>> for Timestamp {
    /// A leap second is the start of the next: neither store has a place for it.
    fn from(time: DateTime<Utc>) -> Self {
        Self::from_micros(time.timestamp_micros())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.printed()).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.printed();
        serializer.serialize_str(str::from_utf8(&text).map_err(serde::ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl serde::de::Visitor<'_> for Text {
            type Value = Timestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 time")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Timestamp, E> {
                Timestamp::parse(text).ok_or_else(|| E::custom("not an RFC 3339 time"))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_print_and_parse_as_chrono_does(micros in -62_135_596_800_000_000..253_402_300_799_999_999_i64) {
            let time = Timestamp::from_micros(micros);
            let text = time.to_string();
            prop_assert_eq!(&text, &time.0.to_rfc3339_opts(chrono::SecondsFormat::Micros, true));
            prop_assert_eq!(text.len(), PRINTED);
            prop_assert_eq!(Timestamp::parse(&text), Some(time));
        }
    }

    #[test]
    fn milliseconds_are_cut_too() {
        let time = Timestamp::parse("2026-01-31T23:59:59.123999Z").unwrap();
        assert_eq!(time.to_milliseconds(), "2026-01-31T23:59:59.123Z");
    }

    #[test]
    fn times_are_cut_to_microseconds_and_years_have_four_digits() {
        let printed = |text: &str| Timestamp::parse(text).map(|time| time.to_string());
        for (given, expected) in [
            ("2026-01-31T23:59:59Z", "2026-01-31T23:59:59.000000Z"),
            ("2026-01-31T23:59:59.1234569+01:00", "2026-01-31T22:59:59.123456Z"),
            ("2026-12-31T23:59:60Z", "2027-01-01T00:00:00.000000Z"),
        ] {
            assert_eq!(printed(given).as_deref(), Some(expected));
        }
        for bad in [
            "",
            "now",
            "2026-01-31",
            "2026-01-31 10:00:00Z",
            "2026-02-30T00:00:00.000000Z",
            "2026-01-31Tab:59:59.000000Z",
            "2026-01-31T23-59:59.000000Z",
            "2026-01-31T23:59:59.00000?Z",
            "0000-01-01T00:00:00+01:00",
        ] {
            assert_eq!(printed(bad), None, "{bad}");
        }
    }
}
