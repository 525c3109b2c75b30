//! What a simulated adapter reports on a resource, and how long it works: pure functions of the resource, the last run, the
//! seed and the time.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::str::FromStr;
use std::time::Duration;

use hyperfleet_client::{NewCondition, NewReport, Resource, Status};
use hyperfleet_core::Timestamp;
use serde_json::json;

use crate::failures::{self, Failure};

/// The behaviour of a simulated adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulation {
    /// The adapter's name in reports.
    pub name: String,
    /// How long it works on a new generation, plus or minus a quarter.
    pub delay: Duration,
    /// How many attempts fail.
    pub failing: Rate,
    /// How long a failure lasts; attempts before that fail the same way.
    pub outage: Duration,
    /// Determines which attempts fail.
    pub seed: u64,
}

/// For this time after a report of success the resource is not read again.
const FRESH: Duration = Duration::from_secs(300);

/// A fraction from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Rate(f64);

/// The last run of an adapter for a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastRun {
    generation: i64,
    attempt: u32,
    failing_since: Option<Timestamp>,
    reported: Timestamp,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    /// The report.
    pub(crate) report: NewReport,
    /// The run, for the next one.
    pub(crate) last: LastRun,
    /// Why it failed, if it did.
    pub(crate) failure: Option<&'static str>,
}

impl Simulation {
    /// How long it works before it reports; zero if the generation is done. Randomness depends on the full `name`, because
    /// ids differ from one start to the next.
    pub(crate) fn working_time(&self, resource: &Resource, name: &str, last: Option<LastRun>) -> Duration {
        let generation = resource.generation();
        if last.is_some_and(|last| last.generation == generation && last.failing_since.is_none()) {
            return Duration::ZERO;
        }
        let attempt = last.map_or(1, |last| last.attempt.saturating_add(1));
        let jitter = self.draw(resource, name, ("time", attempt));
        self.delay.mul_f64(0.75 + jitter / 2.0)
    }

    /// Whether this generation was reported as done a short time ago. Each report of an adapter leads to an event for all,
    /// which the others can skip.
    pub(crate) fn is_fresh(&self, generation: i64, last: LastRun, now: Timestamp) -> bool {
        last.failing_since.is_none() && last.generation >= generation && is_within(FRESH, last.reported, now)
    }

    /// The report after the work.
    pub(crate) fn outcome(
        &self,
        resource: &Resource,
        name: &str,
        last: Option<LastRun>,
        now: Timestamp,
    ) -> Outcome {
        let generation = resource.generation();
        let known = last.filter(|last| last.generation == generation);
        let lasts = |since: Timestamp| is_within(self.outage, since, now);
        let last = match known {
            Some(last) if last.failing_since.is_none_or(lasts) => LastRun { reported: now, ..last },
            other => {
                let attempt = other.map_or(1, |last| last.attempt.saturating_add(1));
                let fails = self.draw(resource, name, ("fails", attempt)) < self.failing.0;
                LastRun { generation, attempt, failing_since: fails.then_some(now), reported: now }
            }
        };
        // One failure for each generation, so that a second report of it changes nothing.
        let failure = last
            .failing_since
            .map(|_| failures::choose(&self.name, self.draw(resource, name, ("failure", 0))));
        let conditions = match (resource.is_finalizing(), failure) {
            (false, None) => successful_conditions(),
            (false, Some(failure)) => failed_conditions(failure),
            (true, None) => removed(),
            (true, Some(failure)) => not_removed(failure),
        };
        let report = NewReport {
            adapter: self.name.clone(),
            observed_generation: generation,
            observed_time: Some(now),
            conditions,
            data: None,
            metadata: Some(json!({"simulated": true})),
        };
        Outcome { report, last, failure: failure.map(|failure| failure.reason) }
    }

    /// A number from 0 up to 1, the same for the same seed and question in whatever order questions are asked: many
    /// resources are worked on at once, and their interleaving must not decide which of them fail.
    fn draw(&self, resource: &Resource, name: &str, question: (&str, u32)) -> f64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, &self.name, resource.kind(), name, resource.generation(), question).hash(&mut hasher);
        fastrand::Rng::with_seed(hasher.finish()).f64()
    }
}

fn is_within(time: Duration, from: Timestamp, to: Timestamp) -> bool {
    let passed = to.micros().saturating_sub(from.micros());
    u128::try_from(passed).unwrap_or_default() < time.as_micros()
}

fn successful_conditions() -> Vec<NewCondition> {
    vec![
        condition("Applied", true, "Applied", "everything that was asked for is configured"),
        condition("Available", true, "Ready", "everything that was asked for is there"),
        condition("Health", true, "Healthy", ""),
    ]
}

fn failed_conditions(failure: Failure) -> Vec<NewCondition> {
    let applied = if failure.is_applied {
        condition("Applied", true, "Applied", "everything that was asked for is configured")
    } else {
        condition("Applied", false, failure.reason, failure.message)
    };
    vec![applied, condition("Available", false, failure.reason, failure.message), health(failure)]
}

fn removed() -> Vec<NewCondition> {
    let gone = |kind| condition(kind, false, "Removed", "nothing of it is left");
    let mut conditions = vec![gone("Applied"), gone("Available")];
    conditions.push(condition("Health", true, "Healthy", ""));
    conditions.push(condition("Finalized", true, "Removed", "nothing of it is left"));
    conditions
}

fn not_removed(failure: Failure) -> Vec<NewCondition> {
    vec![
        condition("Applied", true, "RemovalPending", "parts of it are still there"),
        condition("Available", false, failure.reason, failure.message),
        health(failure),
        condition("Finalized", false, failure.reason, failure.message),
    ]
}

fn health(failure: Failure) -> NewCondition {
    let reason = if failure.is_healthy { "Healthy" } else { failure.reason };
    condition("Health", failure.is_healthy, reason, if failure.is_healthy { "" } else { failure.message })
}

fn condition(kind: &str, holds: bool, reason: &str, message: &str) -> NewCondition {
    NewCondition {
        kind: kind.to_owned(),
        status: if holds { Status::True } else { Status::False },
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()).filter(|message| !message.is_empty()),
    }
}

impl Rate {
    /// Zero.
    pub const NEVER: Self = Self(0.0);

    /// A fraction in percent.
    pub fn percent(percent: u8) -> Self {
        Self(f64::from(percent.min(100)) / 100.0)
    }
}

impl FromStr for Rate {
    type Err = String;

    /// `5%` or `0.05`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (number, whole) = match text.strip_suffix('%') {
            Some(number) => (number, 100.0),
            None => (text, 1.0),
        };
        match number.trim().parse::<f64>() {
            Ok(number) if (0.0..=whole).contains(&number) => Ok(Self(number / whole)),
            _ => Err("expected a fraction such as 5% or 0.05".to_owned()),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0 * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn simulation(failing: &str) -> Simulation {
        Simulation {
            name: "dns".to_owned(),
            delay: Duration::from_secs(2),
            failing: failing.parse().unwrap(),
            outage: Duration::from_secs(20),
            seed: 1,
        }
    }

    fn resource(name: &str, generation: i64, finalizing: bool) -> Resource {
        let mut value = json!({"id": "1", "kind": "Cluster", "name": name, "generation": generation});
        if finalizing {
            value["deleted_time"] = json!("2026-01-01T00:00:00Z");
        }
        Resource::from_value(value).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn statuses(outcome: &Outcome) -> String {
        let one = |one: &NewCondition| format!("{}={}", one.kind, one.status.name());
        outcome.report.conditions.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_success_is_reported_by_the_three_mandatory_conditions_on_the_read_generation() {
        let outcome = simulation("0%").outcome(&resource("a", 3, false), "a", None, at(7));
        assert_eq!(statuses(&outcome), "Applied=True Available=True Health=True");
        assert_eq!((outcome.report.observed_generation, outcome.report.observed_time), (3, Some(at(7))));
        assert_eq!(outcome.failure, None);
    }

    #[test]
    fn a_finalizing_resource_is_reported_finalized() {
        let finalizing = resource("a", 4, true);
        assert_eq!(
            statuses(&simulation("0%").outcome(&finalizing, "a", None, at(0))),
            "Applied=False Available=False Health=True Finalized=True"
        );
        let failed = statuses(&simulation("100%").outcome(&finalizing, "a", None, at(0)));
        assert!(failed.ends_with("Finalized=False"), "{failed}");
    }

    #[test]
    fn a_failure_has_reason_and_message_and_lasts_for_the_outage() {
        let (simulation, resource) = (simulation("100%"), resource("a", 1, false));
        let first = simulation.outcome(&resource, "a", None, at(0));
        let available = &first.report.conditions[1];
        assert_eq!((available.kind.as_str(), available.status), ("Available", Status::False));
        assert!(available.reason.is_some() && available.message.is_some());
        assert_eq!(first.last.attempt, 1);

        let soon = simulation.outcome(&resource, "a", Some(first.last), at(19));
        assert_eq!(soon.last, LastRun { reported: at(19), ..first.last });
        assert_eq!(soon.report.conditions, first.report.conditions);
        let later = simulation.outcome(&resource, "a", Some(first.last), at(20));
        assert_eq!((later.last.attempt, later.last.failing_since), (2, Some(at(20))));
        assert_eq!(later.report.conditions, first.report.conditions, "the same trouble is the same report");
    }

    #[test]
    fn a_later_attempt_may_succeed_and_stays_successful() {
        let simulation = simulation("50%");
        let recovered = (0..100).filter(|n| {
            let (resource, name) = (resource("a", 1, false), format!("c-{n}/a"));
            let first = simulation.outcome(&resource, &name, None, at(0));
            let second = simulation.outcome(&resource, &name, Some(first.last), at(60));
            let third = simulation.outcome(&resource, &name, Some(second.last), at(120));
            assert!(second.failure.is_some() || third.failure.is_none(), "what is done stays done");
            first.failure.is_some() && second.failure.is_none()
        });
        assert!((10..50).contains(&recovered.count()));
    }

    #[test]
    fn work_takes_about_the_delay_and_none_for_a_done_generation() {
        let (simulation, resource) = (simulation("0%"), resource("a", 1, false));
        let time = simulation.working_time(&resource, "a", None);
        assert!((Duration::from_millis(1500)..=Duration::from_millis(2500)).contains(&time), "{time:?}");
        let done = simulation.outcome(&resource, "a", None, at(0)).last;
        assert_eq!(simulation.working_time(&resource, "a", Some(done)), Duration::ZERO);
        let next = LastRun { generation: 0, ..done };
        assert_ne!(simulation.working_time(&resource, "a", Some(next)), Duration::ZERO);
    }

    #[test]
    fn a_fresh_success_is_skipped_but_a_failure_and_a_newer_generation_are_not() {
        let (well, ill, resource) = (simulation("0%"), simulation("100%"), resource("a", 2, false));
        let done = well.outcome(&resource, "a", None, at(0)).last;
        let just_done = |generation, second| well.is_fresh(generation, done, at(second));
        assert!(just_done(2, 0) && just_done(1, 299));
        assert!(!just_done(2, 300) && !just_done(3, 0));
        let failed = ill.outcome(&resource, "a", None, at(0)).last;
        assert!(!ill.is_fresh(2, failed, at(0)));
    }

    #[test]
    fn rates_are_parsed_as_percent_or_fraction() {
        for (text, rate) in [("5%", 0.05), ("0.05", 0.05), ("100 %", 1.0), ("0", 0.0)] {
            assert_eq!(text.parse::<Rate>(), Ok(Rate(rate)), "{text}");
        }
        for text in ["", "%", "101%", "-1%", "2", "NaN", "five"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        assert_eq!(Rate::percent(5).to_string(), "5%");
    }

    proptest! {
        #[test]
        fn a_seed_gives_the_same_outcomes_for_any_id_and_order(
            seed: u64, name in "[a-z]{1,9}", generation in 1..9_i64,
        ) {
            let simulation = Simulation { seed, ..simulation("30%") };
            let again = |id: &str| {
                let value: Value = json!({"id": id, "kind": "Cluster", "name": name, "generation": generation});
                let resource = Resource::from_value(value).unwrap();
                (simulation.outcome(&resource, &name, None, at(0)), simulation.working_time(&resource, &name, None))
            };
            prop_assert_eq!(again("1"), again("2"));
        }
    }
}
