//! History of a resource. Each change stores what it replaced, and a removal stores the whole resource. Undoing one
//! change after the other leads from the newest state to any version that history holds, so unchanged members are
//! stored once.

use serde::{Deserialize, Serialize};

use crate::diff::text_diff;
use crate::{
    Catalog, Error, FieldChange, Phase, RawJson, Resource, ResourceId, Stamp, Tenant, Timestamp, Version,
    condition::{self, ConditionRef},
};

/// The previous values of the members that a change replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Undo {
    version: Version,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spec: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    labels: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    references: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    updated: Option<Stamp>,
    /// Whether the change started the deletion, which cannot be reverted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    active: bool,
    /// All conditions, if the list itself changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conditions: Option<RawJson>,
    /// The conditions that differ beyond their times, each with its index in the list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    replaced: IndexedConditions,
    /// The `last_updated_time` of every condition, in microseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    updated_times: Vec<i64>,
}

/// The number of conditions with a bit of their own in [`Undo::touched`]. If a later one changes, the change stores
/// the whole list.
const TRACKED_CONDITIONS: usize = 8;

/// Bits of [`Undo::touched`]: times of conditions moved; the first condition was replaced.
const TIMES_MOVED: i32 = 256;
const FIRST_CONDITION: i32 = 512;

impl Undo {
    /// The undo that leads from `after` back to `before`.
    pub fn between(before: &Resource, after: &Resource) -> Self {
        let old = |old: &RawJson, new: &RawJson| (old != new).then(|| old.clone());
        let (replaced, updated_times) =
            condition_differences(&before.conditions, &after.conditions).unwrap_or_default();
        Self {
            version: before.version,
            generation: (before.generation != after.generation).then_some(before.generation),
            spec: old(&before.spec, &after.spec),
            labels: old(&before.labels, &after.labels),
            references: old(&before.references, &after.references),
            updated: (before.updated != after.updated).then(|| before.updated.clone()),
            active: before.is_active() && !after.is_active(),
            conditions: old(&before.conditions, &after.conditions).filter(|_| updated_times.is_empty()),
            replaced,
            updated_times,
        }
    }

    /// The members that it holds, a bit for each. To go back, only the first change that replaced a member is needed.
    pub fn touched(&self) -> i32 {
        let parts = [
            self.generation.is_some(),
            self.spec.is_some(),
            self.labels.is_some(),
            self.references.is_some(),
            self.updated.is_some(),
            self.active,
            self.conditions.is_some(),
        ];
        let parts: i32 = parts.into_iter().enumerate().map(|(bit, touched)| i32::from(touched) << bit).sum();
        let times = if self.updated_times.is_empty() { 0 } else { TIMES_MOVED };
        self.replaced.iter().fold(parts | times, |bits, (index, _)| bits | FIRST_CONDITION << index)
    }

    /// About how many bytes it takes.
    pub fn size(&self) -> usize {
        let parts = [&self.spec, &self.labels, &self.references, &self.conditions];
        let replaced = self.replaced.iter().map(|(_, condition)| condition);
        parts.into_iter().flatten().chain(replaced).map(|part| part.as_str().len()).sum::<usize>() + 256
    }

    /// The state before the change that led to `after`. Its `pending_since` is unknown.
    #[must_use]
    pub fn apply(&self, after: &Resource) -> Resource {
        let mut before = Resource { version: self.version, pending_since: None, ..after.clone() };
        let replace = |member: &mut RawJson, old: &Option<RawJson>| {
            if let Some(old) = old {
                *member = old.clone();
            }
        };
        replace(&mut before.spec, &self.spec);
        replace(&mut before.labels, &self.labels);
        replace(&mut before.references, &self.references);
        replace(&mut before.conditions, &self.conditions);
        if !self.updated_times.is_empty() {
            before.conditions = self.conditions_before(&after.conditions);
        }
        before.generation = self.generation.unwrap_or(after.generation);
        if let Some(updated) = &self.updated {
            before.updated = updated.clone();
        }
        if self.active {
            before.phase = Phase::Active;
        }
        before
    }

    /// The list may have another length if changes in between were skipped. An older undo replaces the whole list then,
    /// so an index out of range is ignored.
    fn conditions_before(&self, after: &RawJson) -> RawJson {
        let conditions = ConditionRef::parse_all(after.as_str()).unwrap_or_default();
        let mut texts: Vec<&str> = conditions.iter().map(|condition| condition.text).collect();
        for (index, condition) in &self.replaced {
            if let Some(text) = texts.get_mut(*index) {
                *text = condition.as_str();
            }
        }
        let times = self.updated_times.iter().map(|micros| Timestamp::from_micros(*micros));
        condition::with_last_updated_times(&format!("[{}]", texts.join(",")), times)
    }
}

/// Conditions, each with its index in the list.
type IndexedConditions = Vec<(usize, RawJson)>;

/// The previous conditions that were replaced, and the previous times of all; `None` if the whole list is to be
/// stored.
fn condition_differences(before: &RawJson, after: &RawJson) -> Option<(IndexedConditions, Vec<i64>)> {
    if before == after {
        return None;
    }
    let (before, after) =
        (ConditionRef::parse_all(before.as_str())?, ConditionRef::parse_all(after.as_str())?);
    if before.len() != after.len() {
        return None;
    }
    let times: Vec<Timestamp> = before.iter().map(ConditionRef::last_updated_time).collect::<Option<_>>()?;
    let differ = before.iter().zip(&after).enumerate().filter(|(_, (b, a))| !b.is_equal_apart_from_time(a));
    let replaced: IndexedConditions =
        differ.map(|(index, (b, _))| (index, RawJson::from_stored(b.text))).collect();
    let all_tracked = replaced.iter().all(|(index, _)| *index < TRACKED_CONDITIONS);
    all_tracked.then(|| (replaced, times.into_iter().map(Timestamp::micros).collect()))
}

/// A whole resource as history stores it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    id: ResourceId,
    kind: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenancy: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ancestors: Vec<ResourceId>,
    generation: i64,
    spec: RawJson,
    labels: RawJson,
    references: RawJson,
    created: Stamp,
    updated: Stamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deleted: Option<Stamp>,
    conditions: RawJson,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pending_since: Option<Timestamp>,
    version: Version,
}

impl Snapshot {
    /// The resource as it is.
    pub fn of(resource: &Resource) -> Self {
        let r = resource.clone();
        Self {
            id: r.id,
            kind: r.kind.to_string(),
            name: r.name,
            tenancy: r.tenancy.map(|tenant| tenant.to_string()),
            ancestors: r.ancestors,
            generation: r.generation,
            spec: r.spec,
            labels: r.labels,
            references: r.references,
            created: r.created,
            updated: r.updated,
            deleted: match r.phase {
                Phase::Active => None,
                Phase::Finalizing(stamp) => Some(stamp),
            },
            conditions: r.conditions,
            pending_since: r.pending_since,
            version: r.version,
        }
    }

    /// About how many bytes it takes.
    pub fn size(&self) -> usize {
        let parts = [&self.spec, &self.labels, &self.references, &self.conditions];
        parts.into_iter().map(|part| part.as_str().len()).sum::<usize>() + 512
    }

    /// The resource as it was, unless its kind is not configured any more.
    pub fn into_resource(self, catalog: &Catalog) -> Option<Resource> {
        Some(Resource {
            id: self.id,
            kind: catalog.get(&self.kind)?.kind.clone(),
            name: self.name,
            tenancy: self.tenancy.as_deref().map(Tenant::from_stored),
            ancestors: self.ancestors,
            generation: self.generation,
            spec: self.spec,
            labels: self.labels,
            references: self.references,
            created: self.created,
            updated: self.updated,
            phase: self.deleted.map_or(Phase::Active, Phase::Finalizing),
            conditions: self.conditions,
            pending_since: self.pending_since,
            version: self.version,
        })
    }
}

/// The differences between the desired states of two versions of a resource (spec, labels and references), by path.
pub fn desired_state_changes(from: &Resource, to: &Resource) -> Result<Vec<FieldChange>, Error> {
    let spec = text_diff("spec", &from.spec, &to.spec)?;
    let labels = text_diff("labels", &from.labels, &to.labels)?;
    let references = text_diff("references", &from.references, &to.references)?;
    Ok([spec, labels, references].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Condition, Status};
    use proptest::prelude::*;

    /// A change of a resource in this test.
    #[derive(Debug, Clone)]
    enum Event {
        /// A condition gets another message.
        Message(usize, String),
        /// The list gets another length.
        Length(usize),
        /// Only times of conditions move, which is no change.
        Times(i64),
        /// Something else changes.
        Labels(u8),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            4 => (0..12_usize, "[a-c\"{,]{0,3}").prop_map(|(place, words)| Event::Message(place, words)),
            1 => (0..12_usize).prop_map(Event::Length),
            2 => (0..1_000_000_i64).prop_map(Event::Times),
            1 => any::<u8>().prop_map(Event::Labels),
        ];
        prop::collection::vec(event, 1..30)
    }

    fn condition(place: usize) -> Condition {
        let time = Timestamp::from_micros(0);
        Condition {
            kind: format!("C{place}"),
            status: Status::True,
            reason: String::new(),
            message: String::new(),
            observed_generation: 1,
            created_time: time,
            last_updated_time: time,
            last_transition_time: time,
        }
    }

    fn resource() -> Resource {
        let nothing = RawJson::from_stored("{}");
        let stamp = Stamp { at: Timestamp::from_micros(0), by: "me".into() };
        Resource {
            id: ResourceId::generate(),
            kind: "Cluster".into(),
            name: "c".into(),
            tenancy: None,
            ancestors: Vec::new(),
            generation: 1,
            spec: nothing.clone(),
            labels: nothing.clone(),
            references: nothing,
            created: stamp.clone(),
            updated: stamp,
            phase: Phase::Active,
            conditions: RawJson::from_value(&(0..6).map(condition).collect::<Vec<_>>()),
            pending_since: None,
            version: Version(1),
        }
    }

    /// The state after an event, and whether it is a change.
    fn after(state: &Resource, event: &Event) -> (Resource, bool) {
        let mut conditions = Condition::parse_all(state.conditions.as_str()).unwrap();
        let mut next = Resource { version: state.version.next(), ..state.clone() };
        match event {
            Event::Message(place, words) => {
                let length = conditions.len().max(1);
                if let Some(condition) = conditions.get_mut(place % length) {
                    condition.message.clone_from(words);
                }
            }
            Event::Length(length) => conditions = (0..*length).map(condition).collect(),
            Event::Times(micros) => {
                for condition in &mut conditions {
                    condition.last_updated_time = Timestamp::from_micros(*micros);
                }
                next.version = state.version;
            }
            Event::Labels(value) => next.labels = RawJson::from_value(&serde_json::json!({ "a": value })),
        }
        next.conditions = RawJson::from_value(&conditions);
        let changes = next.version != state.version;
        (next, changes)
    }

    /// The state without times of conditions, because moved times write no change row.
    fn without_times(state: &Resource) -> Resource {
        let times = condition::last_updated_times(&state.conditions).unwrap();
        let conditions = condition::with_last_updated_times(
            state.conditions.as_str(),
            vec![Timestamp::from_micros(0); times.len()],
        );
        Resource { conditions, ..state.clone() }
    }

    proptest! {
        #[test]
        fn undoing_only_the_first_change_of_each_member_restores_every_earlier_state(events in events()) {
            let (mut state, mut states, mut changes) = (resource(), Vec::new(), Vec::new());
            for event in &events {
                let (next, changed) = after(&state, event);
                if changed {
                    let undo = Undo::between(&state, &next);
                    prop_assert_eq!(&undo.apply(&next), &state);
                    let kept: Undo = serde_json::from_str(&crate::json_text(&undo)).unwrap();
                    prop_assert_eq!(&kept, &undo);
                    states.push(state);
                    changes.push(undo);
                }
                state = next;
            }
            for (first, expected) in states.iter().enumerate() {
                let later = || first..changes.len();
                let wanted: std::collections::BTreeSet<usize> = (0..17)
                    .filter_map(|bit| later().find(|at| changes[*at].touched() & (1 << bit) != 0))
                    .collect();
                let led = wanted.iter().rev().fold(state.clone(), |after, at| changes[*at].apply(&after));
                let led = Resource { version: expected.version, ..led };
                prop_assert_eq!(without_times(&led), without_times(expected));
            }
        }
    }

    #[test]
    fn an_undo_with_the_whole_list_of_conditions_restores_it() {
        let after = resource();
        let old =
            format!(r#"{{"version":1,"conditions":{}}}"#, RawJson::from_value(&[condition(7)]).as_str());
        let undo: Undo = serde_json::from_str(&old).unwrap();
        assert_eq!(Condition::parse_all(undo.apply(&after).conditions.as_str()).unwrap(), [condition(7)]);
        assert_eq!(undo.touched(), 64);
    }
}
