//! The feed of changes as the server tells it in the end: the account that all records are compared with.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use uuid::Uuid;

use crate::digest::digest;
use crate::history::{EventKind, OperationId, Tone, View};

/// The spec of every resource here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spec {
    /// How often it was incremented.
    pub(crate) count: u64,
    /// The operation that wrote the spec last.
    pub(crate) by: Option<OperationId>,
    /// The number of each client's last mark.
    pub(crate) marks: BTreeMap<u16, u32>,
}

/// The labels of every resource here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labels {
    /// The operation that wrote the labels last.
    pub(crate) by: Option<OperationId>,
    pub(crate) tone: Option<Tone>,
}

/// One change, with the resource as it was afterwards.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) kind: EventKind,
    pub(crate) resource: Uuid,
    pub(crate) owner: Option<Uuid>,
    pub(crate) is_node_pool: bool,
    pub(crate) generation: u64,
    pub(crate) is_finalizing: bool,
    pub(crate) is_reconciled: bool,
    pub(crate) spec: Arc<Spec>,
    pub(crate) labels: Labels,
    pub(crate) digest: u64,
}

impl Change {
    /// Reads an event of a watch of everything.
    pub(crate) fn of(event: &Value) -> Result<Self> {
        let object = &event["object"];
        let conditions = object["status"]["conditions"].as_array().context("no conditions")?;
        Ok(Self {
            version: event["version"].as_u64().context("no version")?,
            kind: event_kind(event)?,
            resource: id(&object["id"])?,
            owner: object.get("owner_references").map(|owner| id(&owner["id"])).transpose()?,
            is_node_pool: object["kind"] == "NodePool",
            generation: object["generation"].as_u64().context("no generation")?,
            is_finalizing: object.get("deleted_time").is_some(),
            is_reconciled: conditions
                .iter()
                .any(|one| one["type"] == "Reconciled" && one["status"] == "True"),
            spec: Arc::new(Spec::of(&object["spec"])?),
            labels: Labels::of(&object["labels"])?,
            digest: digest(object),
        })
    }

    /// Whether a view shows the resource after this change.
    pub(crate) fn is_shown(&self, view: View) -> bool {
        let is_there = self.kind != EventKind::Deleted;
        is_there
            && match view {
                View::Everything => true,
                View::Active => !self.is_finalizing,
                View::Red => !self.is_node_pool && !self.is_finalizing && self.labels.tone == Some(Tone::Red),
                View::NodePools => self.is_node_pool,
            }
    }
}

pub(crate) fn event_kind(event: &Value) -> Result<EventKind> {
    Ok(match event["type"].as_str() {
        Some("ADDED") => EventKind::Added,
        Some("MODIFIED") => EventKind::Modified,
        Some("DELETED") => EventKind::Deleted,
        other => bail!("no event that is known: {other:?}"),
    })
}

pub(crate) fn id(value: &Value) -> Result<Uuid> {
    value.as_str().context("no id")?.parse().context("an id that is no UUID")
}

fn operation(value: &Value) -> Result<OperationId> {
    let id = value.as_str().and_then(|text| text.parse().ok());
    id.with_context(|| format!("{value} is no operation"))
}

impl Spec {
    pub(crate) fn of(value: &Value) -> Result<Self> {
        let mut spec = Self::default();
        for (name, value) in value.as_object().context("no spec")? {
            match (name.as_str(), name.strip_prefix('w').and_then(|client| client.parse().ok())) {
                ("count", _) => spec.count = value.as_u64().context("a count that is no number")?,
                ("by", _) => spec.by = Some(operation(value)?),
                (_, Some(client)) => {
                    let number = value.as_u64().and_then(|number| number.try_into().ok());
                    spec.marks.insert(client, number.context("a mark that is no number")?);
                }
                _ => bail!("nobody wrote spec.{name}"),
            }
        }
        Ok(spec)
    }
}

impl Labels {
    fn of(value: &Value) -> Result<Self> {
        let mut labels = Self::default();
        for (name, value) in value.as_object().context("no labels")? {
            match (name.as_str(), value.as_str()) {
                ("by", _) => labels.by = Some(operation(value)?),
                ("tone", Some("red")) => labels.tone = Some(Tone::Red),
                ("tone", Some("blue")) => labels.tone = Some(Tone::Blue),
                _ => bail!("nobody wrote the label {name}={value}"),
            }
        }
        Ok(labels)
    }
}

/// Collects changes, keeping equal specs of one resource once.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    pub(crate) changes: Vec<Change>,
    specs: HashMap<Uuid, Arc<Spec>>,
}

impl Collector {
    pub(crate) fn add(&mut self, mut change: Change) {
        let known = self.specs.entry(change.resource).or_default();
        if *known == change.spec {
            change.spec = Arc::clone(known);
        } else {
            *known = Arc::clone(&change.spec);
        }
        self.changes.push(change);
    }
}
