//! A resource as the Sentinel sees it: who it is, and the little of its state that decisions look at. Read from the
//! JSON that the API gives; what is missing there counts as not reconciled, never as done.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use hyperfleet_core::Timestamp;
use serde_json::{Value, json};

/// Members that the API is asked for when nothing but the default decision looks at them.
pub const FIELDS: &str = "id,kind,href,generation,updated_time,owner_references,status.conditions";

/// One look at a resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Its id.
    pub id: Arc<str>,
    /// Its generation.
    pub generation: u64,
    /// When its wish last changed, by the API's clock.
    pub updated: Option<Timestamp>,
    /// Whether the world matches it at this generation.
    pub reconciled: Reconciled,
    /// Whether an adapter that its kind requires has reported: a kind without required adapters never has one.
    pub has_adapters: bool,
    /// The newest report of a required adapter, never later than the look.
    pub reported: Option<Timestamp>,
    /// When its wish or the status of a condition last changed.
    pub changed: Option<Timestamp>,
    /// Whether every required adapter has reported on this generation since then, and one of them is not content.
    pub heeded: bool,
    /// What adapters may take as their input.
    pub inputs: Inputs,
    /// How it was learned.
    pub learned: Learned,
    /// Whether a change was seen as it happened, now or in an earlier look that this one follows.
    pub news: bool,
    /// The resource itself: what an event says is taken from here.
    pub resource: Arc<Value>,
}

/// Whether the world matches the resource at its generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reconciled {
    /// It does not, or nobody knows.
    No,
    /// It does, and this is when that was last confirmed.
    Yes {
        /// `last_updated_time` of the condition.
        confirmed: Option<Timestamp>,
    },
}

/// What one adapter may read of what others found. Two that differ mean that a report altered something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inputs {
    /// Of the conditions without their times.
    conditions: u64,
    /// Changes so far that left no trace in the conditions, such as those of a report's data.
    elsewhere: u64,
}

/// How something was learned of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learned {
    /// As it happened, with the version that the change made.
    Change(u64),
    /// As the present state, as of this version where the API tells it.
    State(Option<u64>),
}

impl Learned {
    /// The version up to which it is known.
    pub fn as_of(self) -> Option<u64> {
        match self {
            Self::Change(version) => Some(version),
            Self::State(version) => version,
        }
    }
}

impl Seen {
    /// Reads a resource. Nothing without an id and a generation is one.
    pub fn read(resource: Arc<Value>, learned: Learned, now: Timestamp) -> Option<Self> {
        let id = resource.get("id")?.as_str()?.into();
        let generation = resource.get("generation")?.as_u64()?;
        let conditions = resource.pointer("/status/conditions").and_then(Value::as_array);
        let conditions = conditions.map(Vec::as_slice).unwrap_or_default();
        let named = |name: &str| conditions.iter().find(|condition| text(condition, "type") == name);
        let reconciled = match named("Reconciled") {
            Some(it) if text(it, "status") == "True" && observed(it) == Some(generation) => {
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
            reconciled,
            changed,
            heeded: named("Reconciled").is_some_and(|it| {
                // The oldest report on this generation is the time of the condition.
                text(it, "reason") == "ReconciledNotAvailable"
                    && observed(it) == Some(generation)
                    && changed.is_some_and(|changed| time(it, "last_updated_time") >= Some(changed))
            }),
            has_adapters: of_adapters().next().is_some(),
            reported: of_adapters()
                .filter_map(|it| time(it, "last_updated_time"))
                .max()
                .map(|at| at.min(now)),
            inputs: Inputs { conditions: fingerprint(conditions), elsewhere: 0 },
            learned,
            news: matches!(learned, Learned::Change(_)),
            resource,
        })
    }

    /// Whether the world matches it.
    pub fn is_reconciled(&self) -> bool {
        matches!(self.reconciled, Reconciled::Yes { .. })
    }

    /// Whether this is older than what `before` knew.
    pub fn is_older_than(&self, before: &Self) -> bool {
        let versions = self.learned.as_of().zip(before.learned.as_of());
        self.generation < before.generation || versions.is_some_and(|(this, that)| this < that)
    }

    /// Carries over what only a series of looks can tell: a change as it happens that altered neither the wish nor a
    /// condition was a report with other data.
    pub fn follow(&mut self, before: &Self) {
        self.news |= before.news;
        self.inputs.elsewhere = before.inputs.elsewhere;
        let happened = match self.learned {
            Learned::Change(version) => before.learned.as_of().is_none_or(|known| known < version),
            Learned::State(_) => false,
        };
        if happened && self.updated == before.updated && self.inputs == before.inputs {
            self.inputs.elsewhere += 1;
        }
    }

    /// The same without anything of the resource that its event does not say.
    #[must_use]
    pub fn slim(mut self) -> Self {
        self.resource = Arc::new(self.data());
        self
    }

    /// The default data of its event.
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

fn observed(condition: &Value) -> Option<u64> {
    condition.get("observed_generation").and_then(Value::as_u64)
}

fn fingerprint(conditions: &[Value]) -> u64 {
    let mut hash = DefaultHasher::new();
    for condition in conditions {
        for member in ["type", "status", "reason", "message"] {
            text(condition, member).hash(&mut hash);
        }
        observed(condition).hash(&mut hash);
    }
    hash.finish()
}
