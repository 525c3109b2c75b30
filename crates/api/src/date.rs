//! The `Date` of responses, by the store's clock: clients compare it with the times in resources, and the clock of a replica
//! may be wrong.

use std::cell::RefCell;

use http::HeaderValue;
use hyperfleet_core::Timestamp;

thread_local! {
    /// The second that was printed last.
    static LAST: RefCell<(i64, HeaderValue)> = const { RefCell::new((0, HeaderValue::from_static(""))) };
}

/// The header of a response at `now`.
pub(crate) fn date(now: Timestamp) -> HeaderValue {
    let second = now.micros().div_euclid(1_000_000);
    LAST.with_borrow_mut(|(known, printed)| {
        if *known != second {
            let text = now.utc().format("%a, %d %b %Y %H:%M:%S GMT").to_string();
            *printed = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
            *known = second;
        }
        printed.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_that_of_http() {
        for (time, expected) in [
            ("1994-11-06T08:49:37.999999Z", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("1994-11-06T08:49:38Z", "Sun, 06 Nov 1994 08:49:38 GMT"),
            ("1994-11-06T08:49:37Z", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ] {
            assert_eq!(date(Timestamp::parse(time).unwrap()), expected);
        }
    }
}
