//! The part of a resource that decisions need, read from the JSON of the API. Missing members count as not reconciled.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use hyperfleet_core::Timestamp;
use serde_json::{Value, json};

use crate::backoff::shifted;

/// Members that the default decision needs.
pub const FIELDS: &str = "id,kind,href,generation,updated_time,owner_references,status.conditions";

/// An observed state of a resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// Its id.
    pub id: Arc<str>,
    /// Its generation.
    pub generation: u64,
    /// When its spec, labels or references last changed, by the API's clock.
    updated: Option<Timestamp>,
    /// By how many microseconds the API's clock is ahead of that of the other times here.
    ahead: i64,
    /// Whether it is reconciled at this generation.
    pub reconciled: Reconciled,
    /// Whether an adapter that its kind requires has reported: a kind without required adapters never has one.
    pub has_adapters: bool,
    /// The newest report of a required adapter, not later than the observation.
    pub reported: Option<Timestamp>,
    /// When its desired state or the status of a condition last changed.
    pub changed: Option<Timestamp>,
    /// Whether every required adapter has reported on this generation since then, and one reports a failure.
    pub answered: bool,
    /// A fingerprint of what adapters may read.
    pub inputs: Inputs,
    /// Where the observation comes from.
    pub origin: Origin,
    /// Whether the watch showed a change, in this observation or in an earlier one that it follows.
    pub from_watch: bool,
    /// The resource, from which the event is made.
    pub resource: Arc<Value>,
}

/// Whether the resource is reconciled at its generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reconciled {
    /// Not reconciled, or unknown.
    No,
    /// Reconciled, as of the last confirmation.
    Yes {
        /// `last_updated_time` of the condition.
        confirmed: Option<Timestamp>,
    },
}

/// A fingerprint of what one adapter may read of the reports of others. It differs if a report changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inputs {
    /// Of the conditions without their times.
    conditions: u64,
    /// Number of watched changes that left the conditions as they were, such as changes of a report's data.
    elsewhere: u64,
}

/// Where an observation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The watch, with the version of the change.
    Watch(u64),
    /// A list, with its version if the API tells it.
    List(Option<u64>),
}

impl Origin {
    /// The version of the observation.
    pub(crate) fn as_of(self) -> Option<u64> {
        match self {
            Self::Watch(version) => Some(version),
            Self::List(version) => version,
        }
    }
}

impl Observed {
    /// Reads a resource, which must have an id and a generation.
    pub fn read(resource: Arc<Value>, origin: Origin, now: Timestamp) -> Option<Self> {
        let id = resource.get("id")?.as_str()?.into();
        let generation = resource.get("generation")?.as_u64()?;
        let conditions = resource.pointer("/status/conditions").and_then(Value::as_array);
        let conditions = conditions.map(Vec::as_slice).unwrap_or_default();
        let named = |name: &str| conditions.iter().find(|condition| text(condition, "type") == name);
        let reconciled = match named("Reconciled") {
            Some(it) if text(it, "status") == "True" && observed_generation(it) == Some(generation) => {
                Reconciled::Yes { confirmed: time(it, "last_updated_time") }
            }
            _ => Reconciled::No,
        };
        let of_adapters = || conditions.iter().filter(|it| text(it, "type").ends_with("Successful"));
        let updated = time(&resource, "updated_time");
        let flips = conditions.iter().filter_map(|it| time(it, "last_transition_time"));
        let changed = flips.chain(updated).max();
        Some(Self {
            id,
            generation,
            updated,
            ahead: 0,
            reconciled,
            changed,
            answered: named("Reconciled").is_some_and(|it| {
                // The oldest report on this generation is the time of the condition.
                text(it, "reason") == "ReconciledNotAvailable"
                    && observed_generation(it) == Some(generation)
                    && changed.is_some_and(|changed| time(it, "last_updated_time") >= Some(changed))
            }),
            has_adapters: of_adapters().next().is_some(),
            reported: of_adapters()
                .filter_map(|it| time(it, "last_updated_time"))
                .max()
                .map(|at| at.min(now)),
            inputs: Inputs { conditions: fingerprint(conditions), elsewhere: 0 },
            origin,
            from_watch: matches!(origin, Origin::Watch(_)),
            resource,
        })
    }

    /// The same by a clock that is that many microseconds behind the API's.
    #[must_use]
    pub fn by_clock_behind(mut self, ahead: i64) -> Self {
        let ours = |time: &mut Timestamp| *time = shifted(*time, -ahead);
        self.ahead = ahead;
        self.reported.iter_mut().chain(&mut self.changed).for_each(ours);
        if let Reconciled::Yes { confirmed: Some(confirmed) } = &mut self.reconciled {
            ours(confirmed);
        }
        self
    }

    /// A time by the API's clock.
    pub(crate) fn by_api(&self, time: Timestamp) -> Timestamp {
        shifted(time, self.ahead)
    }

    /// When its spec, labels or references last changed.
    pub(crate) fn updated(&self) -> Option<Timestamp> {
        self.updated.map(|updated| shifted(updated, -self.ahead))
    }

    /// Whether it is reconciled.
    pub fn is_reconciled(&self) -> bool {
        matches!(self.reconciled, Reconciled::Yes { .. })
    }

    /// Whether `before` is newer.
    pub(crate) fn is_older_than(&self, before: &Self) -> bool {
        let versions = self.origin.as_of().zip(before.origin.as_of());
        self.generation < before.generation || versions.is_some_and(|(this, that)| this < that)
    }

    /// Carries over what only a series of observations shows: a watched change that left desired state and conditions as
    /// they were is a report with other data.
    pub fn follow(&mut self, before: &Self) {
        self.from_watch |= before.from_watch;
        self.inputs.elsewhere = before.inputs.elsewhere;
        let happened = match self.origin {
            Origin::Watch(version) => before.origin.as_of().is_none_or(|known| known < version),
            Origin::List(_) => false,
        };
        if happened && self.updated == before.updated && self.inputs == before.inputs {
            self.inputs.elsewhere += 1;
        }
    }

    /// Drops what the default event does not need.
    #[must_use]
    pub fn slim(mut self) -> Self {
        self.resource = Arc::new(self.data());
        self
    }

    /// The default data of the event.
    pub fn data(&self) -> Value {
        let member = |name: &str| self.resource.get(name).cloned().unwrap_or_default();
        let mut data = json!({
            "id": &*self.id,
            "kind": member("kind"),
            "href": member("href"),
            "generation": self.generation,
        });
        if let Some(owner) = self.resource.get("owner_references").filter(|owner| owner.is_object()) {
            data["owner_references"] = owner.clone();
        }
        data
    }
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn time(of: &Value, name: &str) -> Option<Timestamp> {
    Timestamp::parse(text(of, name))
}

fn observed_generation(condition: &Value) -> Option<u64> {
    condition.get("observed_generation").and_then(Value::as_u64)
}

fn fingerprint(conditions: &[Value]) -> u64 {
    let mut hash = DefaultHasher::new();
    for condition in conditions {
        for member in ["type", "status", "reason", "message"] {
            text(condition, member).hash(&mut hash);
        }
        observed_generation(condition).hash(&mut hash);
    }
    hash.finish()
}
