//! When a request may be retried, and after how long. The loop is in `send.rs`.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{Method, StatusCode};

use crate::error::{self, Error};
use crate::request::{IDEMPOTENCY_KEY, Request};
use crate::response::Response;
use crate::settings::Retry;

/// Whether a request may be sent twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// Sending it twice has the effect of sending it once.
    Safe,
    /// The request may be retried only if it was not executed.
    Unsafe,
}

impl Repetition {
    pub(crate) fn of(request: &Request) -> Self {
        let keyed = request.headers.contains_key(&IDEMPOTENCY_KEY);
        let idempotent = matches!(request.method, Method::GET | Method::HEAD | Method::PUT | Method::DELETE);
        // The first execution changes the version, so that a second one would conflict.
        let bound = request.headers.contains_key(IF_MATCH)
            || (request.method == Method::PUT && request.headers.contains_key(IF_NONE_MATCH));
        if keyed || (idempotent && !bound) { Self::Safe } else { Self::Unsafe }
    }

    pub(crate) fn allowed_after(self, outcome: &Attempt) -> bool {
        match (outcome, self) {
            (Attempt::NotSent(error), _) | (Attempt::Lost(error), Self::Safe) => error.is_transient(),
            (Attempt::Lost(_), Self::Unsafe) => false,
            (Attempt::Answered(answer), Self::Safe) => matches!(answer.status.as_u16(), 429 | 502..=504),
            (Attempt::Answered(answer), Self::Unsafe) => was_rejected_before_execution(answer),
        }
    }
}

/// Answers that precede execution: rate limit, overload or shutdown.
fn was_rejected_before_execution(answer: &Response) -> bool {
    let code = || serde_json::from_slice::<serde_json::Value>(&answer.body).ok()?.get("code").cloned();
    match answer.status {
        StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::SERVICE_UNAVAILABLE => code().is_some_and(|code| code == "HYPERFLEET-SVC-001"),
        _ => false,
    }
}

/// The outcome of one attempt.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// The request did not reach the server.
    NotSent(Error),
    /// The request may or may not have been executed.
    Lost(Error),
    /// There is an answer of any status.
    Answered(Response),
}

impl Attempt {
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Answered(answer) => error::retry_after(answer),
            _ => None,
        }
    }

    pub(crate) fn into_result(self) -> Result<Response, Error> {
        match self {
            Self::NotSent(error) | Self::Lost(error) => Err(error),
            Self::Answered(answer) => Ok(answer),
        }
    }
}

impl Retry {
    /// The pauses between the attempts: each between half and all of the first one doubled, up to the longest.
    pub(crate) fn pauses(&self) -> ExponentialBackoff {
        // Jitter adds up to the delay itself, so the delays are half of the bounds.
        ExponentialBuilder::new()
            .with_min_delay(self.first_pause.min(self.longest_pause) / 2)
            .with_max_delay(self.longest_pause / 2)
            .with_max_times(self.attempts.saturating_sub(1) as usize)
            .with_jitter()
            .build()
    }
}

/// A pause that is not shorter than the server asked for.
pub(crate) fn at_least(asked_for: Option<Duration>, pause: Duration) -> Duration {
    asked_for.map_or(pause, |asked_for| asked_for.saturating_add(pause / 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::{HeaderMap, HeaderValue};

    fn answer(status: u16, body: &'static str) -> Attempt {
        Attempt::Answered(Response {
            asked: String::new(),
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::from_static(body.as_bytes()),
        })
    }

    #[test]
    fn only_idempotent_requests_are_retried_after_a_lost_answer() {
        let request = |method: Method| Request::new(method, "/clusters");
        let lost = Attempt::Lost(Error::unreachable("", ""));
        for (request, repeated) in [
            (request(Method::GET), true),
            (request(Method::PUT), true),
            (Request::put_lease("g", "n", "me", Duration::ZERO, None), false),
            (request(Method::DELETE), true),
            (request(Method::DELETE).if_match(Some("\"7\"")), false),
            (request(Method::POST), false),
            (request(Method::POST).own_key(), true),
            (request(Method::PATCH), false),
        ] {
            let repetition = Repetition::of(&request);
            assert_eq!(repetition.allowed_after(&lost), repeated, "{request:?}");
            for status in [502, 503, 504] {
                assert_eq!(repetition.allowed_after(&answer(status, "")), repeated, "{status} {request:?}");
            }
            // These precede execution.
            assert!(repetition.allowed_after(&answer(429, "")));
            assert!(repetition.allowed_after(&answer(503, r#"{"code":"HYPERFLEET-SVC-001"}"#)));
            for status in [200, 400, 401, 404, 409, 500] {
                assert!(!repetition.allowed_after(&answer(status, "")), "{status}");
            }
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_respect_retry_after() {
        let retry = Retry {
            attempts: 8,
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(1),
            ..Retry::default()
        };
        for _ in 0..50 {
            let bounds = [100, 200, 400, 800, 1000, 1000, 1000];
            let pauses: Vec<_> = retry.pauses().collect();
            assert_eq!(pauses.len(), bounds.len());
            for (pause, longest) in pauses.into_iter().zip(bounds) {
                assert!(
                    pause <= Duration::from_millis(longest) && pause >= Duration::from_millis(longest / 2)
                );
                let asked_for = Duration::from_secs(3);
                assert!(at_least(Some(asked_for), pause) >= asked_for);
            }
        }
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let told = |value: &'static str| {
            let Attempt::Answered(mut answer) = answer(503, "") else { unreachable!() };
            answer.headers.insert("retry-after", HeaderValue::from_static(value));
            error::retry_after(&answer)
        };
        assert_eq!(told("7"), Some(Duration::from_secs(7)));
        assert_eq!(told("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert!(told("Sat, 06 Nov 2094 08:49:37 GMT").is_some_and(|pause| pause > Duration::from_secs(3600)));
        assert_eq!(told("soon"), None);
    }
}
