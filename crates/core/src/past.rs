//! The past of a resource: what each change took away, and what was left when it went. From the newest state, undoing
//! one change after the other leads to the state after any version that history still holds; so nothing that did
//! not change is ever kept twice.

use serde::{Deserialize, Serialize};

use crate::diff::text_diff;
use crate::{
    Catalog, Error, FieldChange, Phase, RawJson, Resource, ResourceId, Stamp, Tenant, Timestamp, Version,
    condition,
};

/// What a resource was before a change, as far as the change touched it.
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
    /// Whether it was active and is not any more. There is no way back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    active: bool,
    /// All conditions, where their list became another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conditions: Option<RawJson>,
    /// Those that said something else, each with its place in the list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    said: Said,
    /// When each of the list was confirmed, in microseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    confirmed: Vec<i64>,
}

/// The places in the list of conditions that have a bit of their own. Who says something else behind them is kept with
/// the whole list.
const PLACES: usize = 8;

/// Bits of [`Undo::touched`]: that conditions were confirmed, and that the first of them said something else.
const CONFIRMED: i32 = 256;
const FIRST_PLACE: i32 = 512;

impl Undo {
    /// What leads from `after` back to `before`.
    pub fn between(before: &Resource, after: &Resource) -> Self {
        let old = |old: &RawJson, new: &RawJson| (old != new).then(|| old.clone());
        let (said, confirmed) = told_apart(&before.conditions, &after.conditions).unwrap_or_default();
        Self {
            version: before.version,
            generation: (before.generation != after.generation).then_some(before.generation),
            spec: old(&before.spec, &after.spec),
            labels: old(&before.labels, &after.labels),
            references: old(&before.references, &after.references),
            updated: (before.updated != after.updated).then(|| before.updated.clone()),
            active: before.is_active() && !after.is_active(),
            conditions: old(&before.conditions, &after.conditions).filter(|_| confirmed.is_empty()),
            said,
            confirmed,
        }
    }

    /// Which parts it holds, a bit for each. The way back needs, for each part, only the first change that took it away.
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
        let confirmed = if self.confirmed.is_empty() { 0 } else { CONFIRMED };
        self.said.iter().fold(parts | confirmed, |bits, (place, _)| bits | FIRST_PLACE << place)
    }

    /// About how many bytes it takes.
    pub fn size(&self) -> usize {
        let parts = [&self.spec, &self.labels, &self.references, &self.conditions];
        let said = self.said.iter().map(|(_, condition)| condition);
        parts.into_iter().flatten().chain(said).map(|part| part.as_str().len()).sum::<usize>() + 256
    }

    /// The state before the change that led to `after`. Since when it waited then is not told.
    #[must_use]
    pub fn of(&self, after: &Resource) -> Resource {
        let mut before = Resource { version: self.version, pending_since: None, ..after.clone() };
        let replace = |place: &mut RawJson, old: &Option<RawJson>| {
            if let Some(old) = old {
                *place = old.clone();
            }
        };
        replace(&mut before.spec, &self.spec);
        replace(&mut before.labels, &self.labels);
        replace(&mut before.references, &self.references);
        replace(&mut before.conditions, &self.conditions);
        if !self.confirmed.is_empty() {
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

    /// Where changes were passed over that are undone by an older one, the list may be another: what does not fit in it
    /// is left to that one.
    fn conditions_before(&self, after: &RawJson) -> RawJson {
        let mut texts = condition::each(after.as_str());
        for (place, condition) in &self.said {
            if let Some(text) = texts.get_mut(*place) {
                *text = condition.as_str();
            }
        }
        let times = self.confirmed.iter().map(|micros| Timestamp::from_micros(*micros));
        condition::with_last_updated_times(&condition::joined(&texts), times)
    }
}

/// What conditions said, each with its place in the list.
type Said = Vec<(usize, RawJson)>;

/// What conditions said before, with their places, and when all of them were confirmed; `None` if the list is kept
/// better as a whole.
fn told_apart(before: &RawJson, after: &RawJson) -> Option<(Said, Vec<i64>)> {
    if before == after {
        return None;
    }
    let times = condition::last_updated_times(before).ok()?;
    let (before, after) = (condition::each(before.as_str()), condition::each(after.as_str()));
    if before.len() != after.len() || before.len() != times.len() {
        return None;
    }
    let differ = before.iter().zip(&after).enumerate().filter(|(_, (b, a))| !condition::says_the_same(b, a));
    let said: Said = differ.map(|(place, (b, _))| (place, RawJson::from_stored(*b))).collect();
    let all_have_places = said.iter().all(|(place, _)| *place < PLACES);
    all_have_places.then(|| (said, times.into_iter().map(Timestamp::micros).collect()))
}

/// A whole resource as history keeps it.
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

/// What differs between two states of a resource in what callers wish: spec, labels and references, path by path.
pub fn wish_changes(from: &Resource, to: &Resource) -> Result<Vec<FieldChange>, Error> {
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

    /// What happens to a resource in this test.
    #[derive(Debug, Clone)]
    enum Event {
        /// A condition says something else.
        Says(usize, String),
        /// The list has another length.
        Lists(usize),
        /// Conditions are confirmed, which is no change.
        Confirms(i64),
        /// Something else changes.
        Labels(u8),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            4 => (0..12_usize, "[a-c\"{,]{0,3}").prop_map(|(place, words)| Event::Says(place, words)),
            1 => (0..12_usize).prop_map(Event::Lists),
            2 => (0..1_000_000_i64).prop_map(Event::Confirms),
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
        let mut conditions: Vec<Condition> = state.conditions.parse().unwrap();
        let mut next = Resource { version: state.version.next(), ..state.clone() };
        match event {
            Event::Says(place, words) => {
                let length = conditions.len().max(1);
                if let Some(condition) = conditions.get_mut(place % length) {
                    condition.message.clone_from(words);
                }
            }
            Event::Lists(length) => conditions = (0..*length).map(condition).collect(),
            Event::Confirms(micros) => {
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

    /// What no change row tells is when conditions were confirmed that nobody spoke of since.
    fn lasting(state: &Resource) -> Resource {
        let times = condition::last_updated_times(&state.conditions).unwrap();
        let conditions = condition::with_last_updated_times(
            state.conditions.as_str(),
            vec![Timestamp::from_micros(0); times.len()],
        );
        Resource { conditions, ..state.clone() }
    }

    proptest! {
        #[test]
        fn the_first_change_that_touched_each_part_leads_back_as_all_of_them_do(events in events()) {
            let (mut state, mut states, mut changes) = (resource(), Vec::new(), Vec::new());
            for event in &events {
                let (next, changed) = after(&state, event);
                if changed {
                    let undo = Undo::between(&state, &next);
                    prop_assert_eq!(&undo.of(&next), &state);
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
                let led = wanted.iter().rev().fold(state.clone(), |after, at| changes[*at].of(&after));
                let led = Resource { version: expected.version, ..led };
                prop_assert_eq!(lasting(&led), lasting(expected));
            }
        }
    }

    #[test]
    fn a_change_that_kept_the_whole_list_is_undone_as_before() {
        let after = resource();
        let old =
            format!(r#"{{"version":1,"conditions":{}}}"#, RawJson::from_value(&[condition(7)]).as_str());
        let undo: Undo = serde_json::from_str(&old).unwrap();
        assert_eq!(undo.of(&after).conditions.parse::<Vec<Condition>>().unwrap(), [condition(7)]);
        assert_eq!(undo.touched(), 64);
    }
}
