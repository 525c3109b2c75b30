//! Timestamps and durations in microseconds: parsed and printed.

use chrono::{DateTime, SecondsFormat};

pub(crate) const SECOND: i64 = 1_000_000;

const UNITS: [(&str, f64); 7] =
    [("ns", 1e-3), ("us", 1.0), ("µs", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 6e7), ("h", 3.6e9)];

/// Reads RFC 3339.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    Some(DateTime::parse_from_rfc3339(text).ok()?.timestamp_micros())
}

pub(crate) fn format_time(micros: i64) -> String {
    DateTime::from_timestamp_micros(micros)
        .map_or_else(String::new, |time| time.to_rfc3339_opts(SecondsFormat::AutoSi, true))
}

/// Reads `30m`, `1h30m`, `-1.5s`.
pub(crate) fn parse_span(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut micros = 0.0;
    while !rest.is_empty() || text.len() < 2 {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let next = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &rest[..next])?;
        micros += number * unit;
        rest = &rest[next..];
    }
    (micros < i64::MAX as f64).then_some((sign * micros) as i64)
}

/// In seconds, as CEL prints a duration.
pub(crate) fn format_span(micros: i64) -> String {
    format!("{}s", micros as f64 / SECOND as f64)
}
