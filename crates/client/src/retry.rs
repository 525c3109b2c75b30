//! When a request may be sent again, and after how long. Pure: the loop that does it is in `send.rs`.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{Method, StatusCode};

use crate::error::{self, Error};
use crate::request::{Answer, IDEMPOTENCY_KEY, Request};
use crate::settings::Retry;

/// What repeating a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// The same as sending it once.
    Harmless,
    /// Something else, if the first was carried out: it may be repeated only after a refusal that came before that.
    Telling,
}

impl Repetition {
    pub(crate) fn of(request: &Request) -> Self {
        let keyed = request.headers.contains_key(&IDEMPOTENCY_KEY);
        let idempotent = matches!(request.method, Method::GET | Method::HEAD | Method::PUT | Method::DELETE);
        // The first one changes what it is bound to, so that the second would be told of a conflict with itself.
        let bound = request.headers.contains_key(IF_MATCH)
            || (request.method == Method::PUT && request.headers.contains_key(IF_NONE_MATCH));
        if keyed || (idempotent && !bound) { Self::Harmless } else { Self::Telling }
    }

    /// Whether to try again after this.
    pub(crate) fn allowed_after(self, outcome: &Outcome) -> bool {
        match (outcome, self) {
            (Outcome::NotSent(error), _) | (Outcome::Lost(error), Self::Harmless) => error.is_transient(),
            (Outcome::Lost(_), Self::Telling) => false,
            (Outcome::Answered(answer), Self::Harmless) => matches!(answer.status.as_u16(), 429 | 502..=504),
            (Outcome::Answered(answer), Self::Telling) => was_turned_away(answer),
        }
    }
}

/// Answers that come before anything is carried out: the caller's rate, and overload or shutdown.
fn was_turned_away(answer: &Answer) -> bool {
    let code = || serde_json::from_slice::<serde_json::Value>(&answer.body).ok()?.get("code").cloned();
    match answer.status {
        StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::SERVICE_UNAVAILABLE => code().is_some_and(|code| code == "HYPERFLEET-SVC-001"),
        _ => false,
    }
}

/// What came of one attempt.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The server has seen nothing of it.
    NotSent(Error),
    /// It may or may not have been carried out.
    Lost(Error),
    /// There is an answer, whatever it says.
    Answered(Answer),
}

impl Outcome {
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Answered(answer) => error::retry_after(answer),
            _ => None,
        }
    }

    pub(crate) fn into_result(self) -> Result<Answer, Error> {
        match self {
            Self::NotSent(error) | Self::Lost(error) => Err(error),
            Self::Answered(answer) => Ok(answer),
        }
    }
}

impl Retry {
    /// How long to wait after this many failures, at the least as long as the server asked for. Chance spreads those who
    /// failed together.
    pub(crate) fn pause(&self, failures: u32, asked_for: Option<Duration>) -> Duration {
        let doubled = self.first_pause.saturating_mul(1 << failures.saturating_sub(1).min(16));
        let own = doubled.min(self.longest_pause).mul_f64(0.5 + 0.5 * chance());
        match asked_for {
            Some(asked_for) => asked_for.saturating_add(own.mul_f64(0.5)),
            None => own,
        }
    }
}

/// Somewhere from 0 to 1. A new hasher has keys of its own; nobody has to be unable to guess them.
fn chance() -> f64 {
    let bits = RandomState::new().hash_one(0_u8) >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::{HeaderMap, HeaderValue};

    fn answer(status: u16, body: &'static str) -> Outcome {
        Outcome::Answered(Answer {
            asked: String::new(),
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::from_static(body.as_bytes()),
        })
    }

    #[test]
    fn only_what_cannot_do_harm_is_repeated_when_nobody_knows_whether_it_was_carried_out() {
        let request = |method: Method| Request::new(method, "/clusters");
        let lost = Outcome::Lost(Error::Unreachable { url: String::new(), why: String::new() });
        for (request, repeated) in [
            (request(Method::GET), true),
            (request(Method::PUT), true),
            (Request::put_lease("g", "n", "me", Duration::ZERO, None), false),
            (request(Method::DELETE), true),
            (request(Method::DELETE).if_match(Some(7)), false),
            (request(Method::POST), false),
            (request(Method::POST).own_key(), true),
            (request(Method::PATCH), false),
        ] {
            let repetition = Repetition::of(&request);
            assert_eq!(repetition.allowed_after(&lost), repeated, "{request:?}");
            for status in [502, 503, 504] {
                assert_eq!(repetition.allowed_after(&answer(status, "")), repeated, "{status} {request:?}");
            }
            // These were refused before anything was done.
            assert!(repetition.allowed_after(&answer(429, "")));
            assert!(repetition.allowed_after(&answer(503, r#"{"code":"HYPERFLEET-SVC-001"}"#)));
            for status in [200, 400, 401, 404, 409, 500] {
                assert!(!repetition.allowed_after(&answer(status, "")), "{status}");
            }
        }
    }

    #[test]
    fn a_pause_doubles_up_to_the_longest_and_is_never_shorter_than_the_server_asked_for() {
        let retry = Retry {
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(1),
            ..Retry::default()
        };
        for (failures, longest) in [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (u32::MAX, 1000)] {
            for _ in 0..50 {
                let pause = retry.pause(failures, None);
                assert!(
                    pause <= Duration::from_millis(longest) && pause >= Duration::from_millis(longest / 2)
                );
                let asked_for = Duration::from_secs(3);
                assert!(retry.pause(failures, Some(asked_for)) >= asked_for);
            }
        }
    }

    #[test]
    fn retry_after_is_read_in_both_of_its_forms() {
        let told = |value: &'static str| {
            let Outcome::Answered(mut answer) = answer(503, "") else { unreachable!() };
            answer.headers.insert("retry-after", HeaderValue::from_static(value));
            error::retry_after(&answer)
        };
        assert_eq!(told("7"), Some(Duration::from_secs(7)));
        assert_eq!(told("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert!(told("Sat, 06 Nov 2094 08:49:37 GMT").is_some_and(|pause| pause > Duration::from_secs(3600)));
        assert_eq!(told("soon"), None);
    }
}
