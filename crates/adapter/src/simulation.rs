//! What a simulated adapter would report on a resource, and how long it would work for it: pure functions of the
//! resource, of what it did for it before, of its seed and of now.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use hyperfleet_client::{NewCondition, NewReport, Resource, Status};
use hyperfleet_core::Timestamp;
use serde_json::json;

use crate::dice::roll;
use crate::mishap::{self, Mishap};

/// How an adapter pretends.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulation {
    /// Its name, by which the API knows its reports.
    pub name: String,
    /// How long it works for a new generation, a quarter more or less.
    pub delay: Duration,
    /// How many attempts fail.
    pub failing: Rate,
    /// How long a failure lasts; attempts before that fail the same way.
    pub outage: Duration,
    /// What decides who fails.
    pub seed: u64,
}

/// So long after a report of success it need not be told again.
const FRESH: Duration = Duration::from_secs(300);

/// A part of all, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Rate(f64);

/// What an adapter remembers of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Past {
    generation: i64,
    attempt: u32,
    failing_since: Option<Timestamp>,
    reported: Timestamp,
}

/// What an adapter found, and what it has to remember.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What it reports.
    pub report: NewReport,
    /// What it remembers.
    pub past: Past,
    /// Why it failed, if it did.
    pub failure: Option<&'static str>,
}

impl Simulation {
    /// How long it works before it knows what to report. What it has done already it only looks at. `called` is the
    /// resource's name behind those of its owners: chance goes by that, because ids differ from run to run.
    pub fn working_time(&self, resource: &Resource, called: &str, past: Option<Past>) -> Duration {
        let generation = resource.generation();
        if past.is_some_and(|past| past.generation == generation && past.failing_since.is_none()) {
            return Duration::ZERO;
        }
        let attempt = past.map_or(1, |past| past.attempt + 1).to_string();
        let jitter = self.roll(resource, called, &["time", &attempt]);
        self.delay.mul_f64(0.75 + jitter / 2.0)
    }

    /// Whether this generation was reported done a moment ago. Each report of one adapter leads to an event for all of
    /// them, which for the others is not worth a look.
    pub fn has_just_done(&self, generation: i64, past: Past, now: Timestamp) -> bool {
        past.failing_since.is_none() && past.generation >= generation && is_within(FRESH, past.reported, now)
    }

    /// What it reports when it has worked.
    pub fn finding(&self, resource: &Resource, called: &str, past: Option<Past>, now: Timestamp) -> Finding {
        let generation = resource.generation();
        let known = past.filter(|past| past.generation == generation);
        let lasts = |since: Timestamp| is_within(self.outage, since, now);
        let past = match known {
            Some(past) if past.failing_since.is_none_or(lasts) => Past { reported: now, ..past },
            other => {
                let attempt = other.map_or(1, |past| past.attempt.saturating_add(1));
                let fails = self.roll(resource, called, &["fails", &attempt.to_string()]) < self.failing.0;
                Past { generation, attempt, failing_since: fails.then_some(now), reported: now }
            }
        };
        // Drawn once a generation, so that a second report of the same trouble changes nothing.
        let mishap =
            past.failing_since.map(|_| mishap::drawn(&self.name, self.roll(resource, called, &["mishap"])));
        let conditions = match (resource.is_finalizing(), mishap) {
            (false, None) => in_place(),
            (false, Some(mishap)) => not_in_place(mishap),
            (true, None) => removed(),
            (true, Some(mishap)) => not_removed(mishap),
        };
        let report = NewReport {
            adapter: self.name.clone(),
            observed_generation: generation,
            observed_time: Some(now),
            conditions,
            data: None,
            metadata: Some(json!({"simulated": true})),
        };
        Finding { report, past, failure: mishap.map(|mishap| mishap.reason) }
    }

    fn roll(&self, resource: &Resource, called: &str, question: &[&str]) -> f64 {
        let generation = resource.generation().to_string();
        let about = [self.name.as_str(), resource.kind(), called, &generation];
        roll(self.seed, &[&about[..], question].concat())
    }
}

/// Whether less than a time has passed from one moment to another.
fn is_within(time: Duration, from: Timestamp, to: Timestamp) -> bool {
    let passed = to.micros().saturating_sub(from.micros());
    u128::try_from(passed).unwrap_or_default() < time.as_micros()
}

fn in_place() -> Vec<NewCondition> {
    vec![
        condition("Applied", true, "Applied", "everything that was asked for is configured"),
        condition("Available", true, "Ready", "everything that was asked for is there"),
        condition("Health", true, "Healthy", ""),
    ]
}

fn not_in_place(mishap: Mishap) -> Vec<NewCondition> {
    let applied = if mishap.is_applied {
        condition("Applied", true, "Applied", "everything that was asked for is configured")
    } else {
        condition("Applied", false, mishap.reason, mishap.message)
    };
    vec![applied, condition("Available", false, mishap.reason, mishap.message), health(mishap)]
}

fn removed() -> Vec<NewCondition> {
    let gone = |kind| condition(kind, false, "Removed", "nothing of it is left");
    let mut conditions = vec![gone("Applied"), gone("Available")];
    conditions.push(condition("Health", true, "Healthy", ""));
    conditions.push(condition("Finalized", true, "Removed", "nothing of it is left"));
    conditions
}

fn not_removed(mishap: Mishap) -> Vec<NewCondition> {
    vec![
        condition("Applied", true, "RemovalPending", "parts of it are still there"),
        condition("Available", false, mishap.reason, mishap.message),
        health(mishap),
        condition("Finalized", false, mishap.reason, mishap.message),
    ]
}

fn health(mishap: Mishap) -> NewCondition {
    let reason = if mishap.is_healthy { "Healthy" } else { mishap.reason };
    condition("Health", mishap.is_healthy, reason, if mishap.is_healthy { "" } else { mishap.message })
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
    /// Nothing fails.
    pub const NEVER: Self = Self(0.0);

    /// So many in a hundred.
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
            _ => Err("a part of all such as 5% or 0.05".to_owned()),
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

    fn statuses(finding: &Finding) -> String {
        let one = |one: &NewCondition| format!("{}={}", one.kind, one.status.name());
        finding.report.conditions.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_succeeds_is_reported_by_the_three_mandatory_conditions_on_the_generation_that_was_read() {
        let finding = simulation("0%").finding(&resource("a", 3, false), "a", None, at(7));
        assert_eq!(statuses(&finding), "Applied=True Available=True Health=True");
        assert_eq!((finding.report.observed_generation, finding.report.observed_time), (3, Some(at(7))));
        assert_eq!(finding.failure, None);
    }

    #[test]
    fn a_resource_that_is_finalizing_is_reported_finalized_so_that_its_deletion_completes() {
        let finalizing = resource("a", 4, true);
        assert_eq!(
            statuses(&simulation("0%").finding(&finalizing, "a", None, at(0))),
            "Applied=False Available=False Health=True Finalized=True"
        );
        let failed = statuses(&simulation("100%").finding(&finalizing, "a", None, at(0)));
        assert!(failed.ends_with("Finalized=False"), "{failed}");
    }

    #[test]
    fn a_failure_gives_a_reason_and_a_message_and_lasts_for_a_while() {
        let (simulation, resource) = (simulation("100%"), resource("a", 1, false));
        let first = simulation.finding(&resource, "a", None, at(0));
        let available = &first.report.conditions[1];
        assert_eq!((available.kind.as_str(), available.status), ("Available", Status::False));
        assert!(available.reason.is_some() && available.message.is_some());
        assert_eq!(first.past.attempt, 1);

        let soon = simulation.finding(&resource, "a", Some(first.past), at(19));
        assert_eq!(soon.past, Past { reported: at(19), ..first.past });
        assert_eq!(soon.report.conditions, first.report.conditions);
        let later = simulation.finding(&resource, "a", Some(first.past), at(20));
        assert_eq!((later.past.attempt, later.past.failing_since), (2, Some(at(20))));
        assert_eq!(later.report.conditions, first.report.conditions, "the same trouble is the same report");
    }

    #[test]
    fn a_later_attempt_may_succeed_and_then_the_generation_is_done() {
        let simulation = simulation("50%");
        let recovered = (0..100).filter(|n| {
            let (resource, called) = (resource("a", 1, false), format!("c-{n}/a"));
            let first = simulation.finding(&resource, &called, None, at(0));
            let second = simulation.finding(&resource, &called, Some(first.past), at(60));
            let third = simulation.finding(&resource, &called, Some(second.past), at(120));
            assert!(second.failure.is_some() || third.failure.is_none(), "what is done stays done");
            first.failure.is_some() && second.failure.is_none()
        });
        assert!((10..50).contains(&recovered.count()));
    }

    #[test]
    fn work_takes_the_delay_more_or_less_and_what_is_done_is_only_looked_at() {
        let (simulation, resource) = (simulation("0%"), resource("a", 1, false));
        let time = simulation.working_time(&resource, "a", None);
        assert!((Duration::from_millis(1500)..=Duration::from_millis(2500)).contains(&time), "{time:?}");
        let done = simulation.finding(&resource, "a", None, at(0)).past;
        assert_eq!(simulation.working_time(&resource, "a", Some(done)), Duration::ZERO);
        let next = Past { generation: 0, ..done };
        assert_ne!(simulation.working_time(&resource, "a", Some(next)), Duration::ZERO);
    }

    #[test]
    fn what_was_done_a_moment_ago_is_not_looked_at_again_but_a_failure_and_a_newer_generation_are() {
        let (well, ill, resource) = (simulation("0%"), simulation("100%"), resource("a", 2, false));
        let done = well.finding(&resource, "a", None, at(0)).past;
        let just_done = |generation, second| well.has_just_done(generation, done, at(second));
        assert!(just_done(2, 0) && just_done(1, 299));
        assert!(!just_done(2, 300) && !just_done(3, 0));
        let failed = ill.finding(&resource, "a", None, at(0)).past;
        assert!(!ill.has_just_done(2, failed, at(0)));
    }

    #[test]
    fn rates_are_written_as_percent_or_as_a_fraction() {
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
        fn the_same_seed_decides_the_same_whatever_the_id_and_the_order(
            seed: u64, name in "[a-z]{1,9}", generation in 1..9_i64,
        ) {
            let simulation = Simulation { seed, ..simulation("30%") };
            let again = |id: &str| {
                let value: Value = json!({"id": id, "kind": "Cluster", "name": name, "generation": generation});
                let resource = Resource::from_value(value).unwrap();
                (simulation.finding(&resource, &name, None, at(0)), simulation.working_time(&resource, &name, None))
            };
            prop_assert_eq!(again("1"), again("2"));
        }
    }
}
