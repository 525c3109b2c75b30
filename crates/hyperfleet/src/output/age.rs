//! Ages for people: two figures at most, coarser the longer ago.

use std::time::Duration;

use hyperfleet_core::Timestamp;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

/// The age at `now` of an RFC 3339 time. A time ahead of `now` (clocks differ) is `0s`; a text that is no time is
/// returned unchanged.
pub(crate) fn age(time: &str, now: Timestamp) -> String {
    match Timestamp::parse(time) {
        Some(then) => {
            let micros = now.micros().saturating_sub(then.micros()).max(0);
            span(Duration::from_micros(micros.unsigned_abs()))
        }
        None => time.to_owned(),
    }
}

/// A duration in at most two figures.
pub(crate) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let two = |big: u64, big_unit: char, small: u64, small_unit: char| match small {
        0 => format!("{big}{big_unit}"),
        small => format!("{big}{big_unit}{small}{small_unit}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds / MINUTE, 'm', seconds % MINUTE, 's'),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds / HOUR, 'h', seconds % HOUR / MINUTE, 'm'),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds / DAY, 'd', seconds % DAY / HOUR, 'h'),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        _ => two(seconds / YEAR, 'y', seconds % YEAR / DAY, 'd'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_figures_at_most() {
        for (seconds, said) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (330, "5m30s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_860, "3h1m"),
            (30_000, "8h"),
            (180_000, "2d2h"),
            (700_000, "8d"),
            (63_072_000, "2y"),
            (u64::MAX, "584942417355y26d"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), said);
        }
    }

    #[test]
    fn clocks_that_differ_make_no_negative_age_and_what_is_no_time_stays_as_it_is() {
        let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        assert_eq!(age("2025-12-31T23:59:18Z", now), "42s");
        assert_eq!(age("2026-01-01T00:00:30Z", now), "0s");
        assert_eq!(age("yesterday", now), "yesterday");
    }
}
