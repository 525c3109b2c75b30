//! The contract once more, as a map and plain recursion: no working set, no batches, no care for
//! speed. It knows everything at any time, so it cannot forget to load something.

use std::collections::BTreeMap;

use hyperfleet_core::{Labels, References, ResourceId, ResourcePath, Timestamp};
use serde_json::{Value, json};

use super::document::{BODY, Code, MISSING, STATE, VALUE, any, labels, not_found, references};
use super::kinds::{Kind, kind};
use super::request::{Request, Tag};
use crate::naive;

/// A resource as the model has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelResource {
    pub(crate) id: ResourceId,
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) owner: Option<ResourceId>,
    pub(crate) generation: i64,
    pub(crate) spec: Value,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) references: References,
    pub(crate) created: (Timestamp, String),
    pub(crate) updated: (Timestamp, String),
    pub(crate) deleted: Option<(Timestamp, String)>,
    pub(crate) reconciled: Option<ModelCondition>,
    pub(crate) last_known: Option<ModelCondition>,
}

/// One condition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelCondition {
    status: bool,
    reason: &'static str,
    message: String,
    observed_generation: i64,
    created: Timestamp,
    updated: Timestamp,
    flipped: Timestamp,
}

impl ModelCondition {
    fn json(&self, name: &str) -> Value {
        json!({
            "type": name, "status": if self.status { "True" } else { "False" }, "reason": self.reason,
            "message": self.message, "observed_generation": self.observed_generation,
            "created_time": self.created.to_string(), "last_updated_time": self.updated.to_string(),
            "last_transition_time": self.flipped.to_string(),
        })
    }
}

impl ModelResource {
    pub(crate) fn conditions(&self) -> Value {
        json!([
            self.reconciled.as_ref().unwrap().json("Reconciled"),
            self.last_known.as_ref().unwrap().json("LastKnownReconciled")
        ])
    }
}

/// Everything there is, and the last state of what is gone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) things: BTreeMap<ResourceId, ModelResource>,
    pub(crate) gone: BTreeMap<ResourceId, ModelResource>,
}

impl Model {
    /// Does what is asked. `version` tells the version of a thing, `fresh` is the id of whatever
    /// is created. Returns the id of what the answer shows.
    pub(crate) fn obey(
        &mut self,
        request: &Request,
        stamp: &(Timestamp, String),
        version: impl Fn(ResourceId) -> i64,
        fresh: ResourceId,
    ) -> Result<ResourceId, Code> {
        if let Request::Create { kind, path, name, spec, labels, references } = request {
            return self.create(kind, path, name, spec, labels, references, stamp, fresh);
        }
        let (Request::Merge { target, tag, .. }
        | Request::JsonPatch { target, tag, .. }
        | Request::Delete { target, tag }
        | Request::ForceDelete { target, tag }) = request
        else {
            unreachable!("a create is done")
        };
        let id = self.find(target)?;
        let matches = match tag {
            Tag::Absent | Tag::Any => true,
            Tag::Strong(tags) => tags.contains(&version(id)),
            Tag::Weak(_) => false,
        };
        if !matches {
            return Err("HYPERFLEET-CNF-002");
        }
        match request {
            Request::Merge { body, .. } => {
                let document = naive::merge(Some(&self.document(id)), body);
                self.change(id, &document, stamp)?;
            }
            Request::JsonPatch { operations, .. } => {
                self.refuse_finalizing(id)?;
                let document =
                    naive::patch(&self.document(id), operations).map_err(|refusal| match refusal {
                        naive::Refusal::TestFailed => STATE,
                        naive::Refusal::NoSuchPath => VALUE,
                    })?;
                self.change(id, &document, stamp)?;
            }
            Request::Delete { .. } => self.delete(id, stamp)?,
            Request::ForceDelete { .. } => self.force_delete(id)?,
            Request::Create { .. } => {}
        }
        Ok(id)
    }

    fn walk(&self, path: impl Iterator<Item = (String, String)>) -> Result<Option<ResourceId>, Code> {
        let mut owner: Option<ResourceId> = None;
        for (kind, id) in path {
            let found = self.things.values().find(|t| t.id.to_string() == id && t.kind == kind);
            let found = found.filter(|t| owner.is_none() || t.owner == owner).ok_or(not_found(&kind))?;
            owner = Some(found.id);
        }
        Ok(owner)
    }

    fn find(&self, target: &ResourcePath) -> Result<ResourceId, Code> {
        let owner = self.walk(target.ancestors.iter().map(|(k, id)| (k.to_string(), id.clone())))?;
        self.things
            .values()
            .find(|t| t.id.to_string() == target.id)
            .filter(|t| target.kind.as_deref().is_none_or(|kind| kind == t.kind))
            .filter(|t| owner.is_none() || t.owner == owner)
            .map(|t| t.id)
            .ok_or(not_found(target.kind.as_deref().unwrap_or("Resource")))
    }

    #[allow(clippy::too_many_arguments, reason = "the members of a POST")]
    fn create(
        &mut self,
        kind: &'static Kind,
        path: &[(&'static str, String)],
        name: &str,
        spec: &Value,
        labels: &Labels,
        references: &References,
        stamp: &(Timestamp, String),
        id: ResourceId,
    ) -> Result<ResourceId, Code> {
        let owner = self.walk(path.iter().map(|(kind, id)| ((*kind).to_owned(), id.clone())))?;
        if owner.is_some_and(|owner| self.things[&owner].deleted.is_some()) {
            return Err(STATE);
        }
        self.check_targets(kind, references, &References::new())?;
        let taken = |t: &ModelResource| {
            t.kind == kind.name && t.owner == owner && t.name == name && t.deleted.is_none()
        };
        if self.things.values().any(taken) {
            return Err("HYPERFLEET-CNF-001");
        }
        let thing = ModelResource {
            id,
            kind: kind.name,
            name: name.to_owned(),
            owner,
            generation: 1,
            spec: spec.clone(),
            labels: labels.clone(),
            references: references.clone(),
            created: stamp.clone(),
            updated: stamp.clone(),
            deleted: None,
            reconciled: None,
            last_known: None,
        };
        self.things.insert(id, thing);
        self.recompute(id);
        Ok(id)
    }

    fn check_targets(&self, kind: &Kind, references: &References, before: &References) -> Result<(), Code> {
        let (mut faults, mut finalizing) = (Vec::new(), false);
        for (ref_type, target_kind, min, _) in kind.references {
            let before = before.get(*ref_type).cloned().unwrap_or_default();
            let now = references.get(*ref_type).cloned().unwrap_or_default();
            for id in now.iter().filter(|id| !before.contains(id)) {
                match self.things.get(id).filter(|t| t.kind == *target_kind) {
                    None => faults.push(VALUE),
                    Some(target) => finalizing |= target.deleted.is_some(),
                }
            }
            if *min > 0 && now.is_empty() {
                faults.push(MISSING);
            }
        }
        any(&faults)?;
        if finalizing { Err(STATE) } else { Ok(()) }
    }

    /// The document that a patch is applied to.
    fn document(&self, id: ResourceId) -> Value {
        let thing = &self.things[&id];
        let mut references = json!({});
        for (ref_type, target_kind, ..) in kind(thing.kind).references {
            if let Some(ids) = thing.references.get(*ref_type) {
                references[*ref_type] = ids.iter().map(|id| json!({"kind": target_kind, "id": id})).collect();
            }
        }
        json!({"spec": thing.spec, "labels": thing.labels, "references": references})
    }

    fn refuse_finalizing(&self, id: ResourceId) -> Result<(), Code> {
        let finalizing = |id: ResourceId| self.things[&id].deleted.is_some();
        if finalizing(id) || self.things[&id].owner.is_some_and(finalizing) { Err(STATE) } else { Ok(()) }
    }

    fn change(&mut self, id: ResourceId, document: &Value, stamp: &(Timestamp, String)) -> Result<(), Code> {
        self.refuse_finalizing(id)?;
        let thing = self.things[&id].clone();
        let mut faults = Vec::new();
        let Value::Object(members) = document else { return Err(VALUE) };
        if !document["spec"].is_object() {
            faults.push(VALUE);
        }
        let labels = labels(&document["labels"], &mut faults);
        let references = references(kind(thing.kind), &document["references"], &mut faults);
        for name in members.keys() {
            if !matches!(name.as_str(), "spec" | "labels" | "references") {
                faults.push(BODY);
            }
        }
        any(&faults)?;
        let rewished = !naive::equal(&thing.spec, &document["spec"]) || thing.references != references;
        if thing.references != references {
            self.check_targets(kind(thing.kind), &references, &thing.references)?;
        }
        if !rewished && thing.labels == labels {
            return Ok(());
        }
        let thing = self.things.get_mut(&id).unwrap();
        thing.spec = document["spec"].clone();
        thing.labels = labels;
        thing.references = references;
        thing.generation += i64::from(rewished);
        thing.updated = (stamp.0.max(thing.updated.0), stamp.1.clone());
        self.recompute(id);
        Ok(())
    }

    pub(crate) fn children(&self, id: ResourceId) -> Vec<ModelResource> {
        self.things.values().filter(|t| t.owner == Some(id)).cloned().collect()
    }

    fn delete(&mut self, id: ResourceId, stamp: &(Timestamp, String)) -> Result<(), Code> {
        if self.things[&id].deleted.is_some() {
            return Ok(());
        }
        let mut tree = Vec::new();
        self.gather(id, &mut tree)?;
        let outside = self.things.values().filter(|t| t.deleted.is_none() && !tree.contains(&t.id));
        if outside.flat_map(|t| t.references.values().flatten()).any(|target| tree.contains(target)) {
            return Err(STATE);
        }
        self.condemn(id, stamp);
        Ok(())
    }

    fn gather(&self, id: ResourceId, tree: &mut Vec<ResourceId>) -> Result<(), Code> {
        tree.push(id);
        for child in self.children(id).iter().filter(|c| c.deleted.is_none()) {
            if kind(child.kind).parent.unwrap().1 == "restrict" {
                return Err(STATE);
            }
            self.gather(child.id, tree)?;
        }
        Ok(())
    }

    fn condemn(&mut self, id: ResourceId, stamp: &(Timestamp, String)) {
        for child in self.children(id).iter().filter(|c| c.deleted.is_none()) {
            self.condemn(child.id, stamp);
        }
        let thing = self.things.get_mut(&id).unwrap();
        thing.updated = (stamp.0.max(thing.updated.0), stamp.1.clone());
        thing.deleted = Some(thing.updated.clone());
        thing.generation += 1;
        thing.references.clear();
        self.settle(id);
    }

    /// Recomputes a finalizing thing, and lets it go when nothing is left to wait for.
    fn settle(&mut self, id: ResourceId) {
        self.recompute(id);
        if kind(self.things[&id].kind).adapters.is_empty() && self.children(id).is_empty() {
            self.gone.extend(self.things.remove_entry(&id));
        }
    }

    fn force_delete(&mut self, id: ResourceId) -> Result<(), Code> {
        if self.things[&id].deleted.is_none() {
            return Err(STATE);
        }
        let mut owner = self.things[&id].owner;
        self.erase(id);
        while let Some(id) = owner {
            if self.things[&id].deleted.is_none() {
                break;
            }
            owner = self.things[&id].owner;
            self.settle(id);
            if self.things.contains_key(&id) {
                break;
            }
        }
        Ok(())
    }

    fn erase(&mut self, id: ResourceId) {
        for child in self.children(id) {
            self.erase(child.id);
        }
        self.gone.extend(self.things.remove_entry(&id));
        let holders: Vec<_> = self
            .things
            .values()
            .filter(|t| t.references.values().flatten().any(|target| *target == id))
            .map(|t| t.id)
            .collect();
        assert!(holders.is_empty(), "nothing active may refer to what was finalizing: {holders:?}");
    }

    /// status.md, sections 3 and 4, for things without reports.
    fn recompute(&mut self, id: ResourceId) {
        let mut left = BTreeMap::new();
        for child in self.children(id) {
            *left.entry(child.kind).or_insert(0) += 1;
        }
        let thing = self.things.get_mut(&id).unwrap();
        let adapters = kind(thing.kind).adapters;
        let (generation, changed) = (thing.generation, thing.updated.0);
        let names = adapters.join(", ");
        let waiting: Vec<_> = left.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
        let (status, reason, message) = match (adapters, &thing.deleted) {
            ([], None) => (true, "NoRequiredAdapters", "No adapters are required for this kind".to_owned()),
            ([], Some(_)) if waiting.is_empty() => (
                true,
                "ReconciledAll",
                "All required adapters reported Available=True or Finalized=True at the current generation"
                    .to_owned(),
            ),
            ([], Some(_)) => (
                false,
                "ReconciledWaitingForChildren",
                format!("Deletion in progress: waiting for child resources: {}", waiting.join(", ")),
            ),
            (_, None) => (
                false,
                "ReconciledMissingAdapters",
                format!("Required adapters have not yet reported status at generation {generation}: {names}"),
            ),
            (_, Some(_)) => (
                false,
                "ReconciledMissingAdapters",
                format!("Required adapters not reporting Finalized=True at generation {generation}: {names}"),
            ),
        };
        let before = thing.reconciled.take();
        thing.reconciled = Some(ModelCondition {
            status,
            reason,
            message,
            observed_generation: generation,
            created: thing.created.0,
            updated: changed,
            flipped: before.filter(|b| b.status == status).map_or(changed, |b| b.flipped),
        });
        thing.last_known = Some(if adapters.is_empty() {
            ModelCondition {
                status: true,
                reason: "NoRequiredAdapters",
                message: "No adapters are required for this kind".to_owned(),
                observed_generation: generation,
                created: thing.created.0,
                updated: changed,
                flipped: thing.created.0,
            }
        } else {
            ModelCondition {
                status: false,
                reason: "AdaptersMissingReports",
                message: "Required adapters have not yet reported status".to_owned(),
                observed_generation: 1,
                created: thing.created.0,
                updated: thing.created.0,
                flipped: thing.created.0,
            }
        });
    }
}
