//! Random histories. A step says what to do in terms of "the third of what is there", and becomes
//! a request only when its turn comes, so that most steps meet something and few names meet often.

use std::collections::BTreeMap;

use hyperfleet_core::{ResourceId, ResourcePath};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::kinds::{KINDS, Kind, kind};
use super::model::{Model, ModelResource};
use super::request::{Request, Tag};

const NAMES: [&str; 3] = ["one", "two", "three"];

#[derive(Debug, Clone)]
pub(super) struct Step {
    action: Action,
    /// Which of the things that are there.
    pick: usize,
    path: Path,
    tag: TagPick,
    /// How the clock moves before this step; clocks may go back.
    pub(super) seconds: i64,
    pub(super) actor: &'static str,
}

#[derive(Debug, Clone)]
enum Action {
    Create { kind: usize, name: usize, spec: Value, labelled: bool, references: Vec<RefPick> },
    Merge { spec: Option<Value>, labels: Option<Value>, references: Option<Vec<RefPick>>, empty: bool },
    JsonPatch(Vec<OpPick>),
    Delete,
    ForceDelete,
}

/// How the path names its resource.
#[derive(Debug, Clone, Copy)]
enum Path {
    Flat,
    AnyKind,
    Nested,
    WrongKind,
    WrongOwner,
    UnknownId,
    NoId,
}

#[derive(Debug, Clone, Copy)]
enum TagPick {
    Absent,
    Any,
    Right,
    Among,
    Wrong,
    Weak,
}

/// Targets for the n-th ref type that the kind declares; `None` is `null`.
#[derive(Debug, Clone)]
struct RefPick {
    slot: usize,
    targets: Option<Vec<EntryPick>>,
}

#[derive(Debug, Clone, Copy)]
enum EntryPick {
    Right(usize),
    WithKind(usize),
    Any(usize),
    Ghost,
    BadKind(usize),
    NoId,
    Odd,
}

#[derive(Debug, Clone)]
enum OpPick {
    Plain(Value),
    AddList(RefPick),
    AddEntry(usize, EntryPick),
    RemoveEntry(usize),
    MoveEntry(usize, usize),
    CopyList(usize, usize),
}

/// Some batches of steps: usually one, sometimes several that one commit carries.
pub(super) fn history(batches: usize) -> impl Strategy<Value = Vec<Vec<Step>>> {
    let batch =
        prop_oneof![3 => 1..2_usize, 1 => 2..6_usize].prop_flat_map(|n| prop::collection::vec(step(), n));
    prop::collection::vec(batch, 1..batches)
}

/// What every history starts from: a tree that may be deleted although it refers to itself, and
/// one that may not, because of its restricted children.
pub(super) fn planting() -> Vec<Step> {
    let plant = |kind: usize, name: usize, pick: usize| Step {
        action: Action::Create { kind, name, spec: json!({}), labelled: false, references: Vec::new() },
        pick,
        path: Path::Flat,
        tag: TagPick::Absent,
        seconds: 1,
        actor: "ann@example.com",
    };
    let referring = |kind: usize, name: usize, pick: usize| {
        let mut step = plant(kind, name, pick);
        if let Action::Create { references, .. } = &mut step.action {
            references.push(RefPick { slot: 0, targets: Some(vec![EntryPick::Right(0)]) });
        }
        step
    };
    let roots = [plant(5, 0, 0), plant(0, 0, 0), plant(0, 1, 0), plant(6, 0, 0)];
    let pools = [plant(1, 0, 0), referring(1, 1, 0), plant(1, 0, 1)];
    let leaves = [referring(2, 0, 0), referring(2, 1, 0), referring(2, 0, 2), plant(3, 0, 2), plant(4, 0, 1)];
    roots.into_iter().chain(pools).chain(leaves).collect()
}

fn step() -> impl Strategy<Value = Step> {
    let action = prop_oneof![8 => create(), 4 => merge(), 4 => json_patch(), 3 => Just(Action::Delete), 2 => Just(Action::ForceDelete)];
    let path = prop_oneof![
        8 => Just(Path::Flat), 2 => Just(Path::AnyKind), 8 => Just(Path::Nested), 1 => Just(Path::WrongKind),
        1 => Just(Path::WrongOwner), 1 => Just(Path::UnknownId), 1 => Just(Path::NoId),
    ];
    let tag = prop_oneof![
        12 => Just(TagPick::Absent), 1 => Just(TagPick::Any), 2 => Just(TagPick::Right), 1 => Just(TagPick::Among),
        1 => Just(TagPick::Wrong), 1 => Just(TagPick::Weak),
    ];
    (action, 0..1000_usize, path, tag, -2..5_i64, select(&["ann@example.com", "bob@example.com"][..]))
        .prop_map(|(action, pick, path, tag, seconds, actor)| Step {
            action,
            pick,
            path,
            tag,
            seconds,
            actor,
        })
}

fn create() -> impl Strategy<Value = Action> {
    let kind = prop_oneof![2 => Just(0), 4 => Just(1), 5 => Just(2), 1 => Just(3), 1 => Just(4), 1 => Just(5), 1 => Just(6)];
    let spec = select(vec![json!({}), json!({"a": 1}), json!({"b": {"c": [1, 2.50]}})]);
    let references = prop::collection::vec(good_references(), 0..3);
    (kind, 0..NAMES.len(), spec, any::<bool>(), references).prop_map(
        |(kind, name, spec, labelled, references)| Action::Create { kind, name, spec, labelled, references },
    )
}

fn merge() -> impl Strategy<Value = Action> {
    let spec = prop_oneof![
        9 => select(vec![
            json!({"a": 1}),
            json!({"a": 1.0}),
            json!({"a": 2}),
            json!({"a": null}),
            json!({"b": {"c": 1}}),
            json!({"b": {"c": null, "d": "x"}}),
            json!({"b": [null, {"e": null}]}),
            json!({}),
        ]),
        1 => select(vec![json!(null), json!([])]),
    ];
    let labels = prop_oneof![
        9 => select(vec![
            json!({"a": "x"}),
            json!({"a": "y"}),
            json!({"a": null}),
            json!({"team/x": "z"}),
            json!({}),
            json!(null),
        ]),
        1 => select(vec![
            json!({"a b": "v"}),
            json!({"a": "x-"}),
            json!({"a b": "-", "c": 5}),
            json!("text"),
        ]),
    ];
    let references = prop::collection::vec(references(), 0..3);
    (
        proptest::option::of(spec),
        proptest::option::of(labels),
        proptest::option::weighted(0.4, references),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(spec, labels, references, empty)| Action::Merge { spec, labels, references, empty })
}

fn json_patch() -> impl Strategy<Value = Action> {
    let likely = select(vec![
        json!({"op": "add", "path": "/spec/a", "value": 1}),
        json!({"op": "add", "path": "/spec/a", "value": 1.0}),
        json!({"op": "replace", "path": "/spec", "value": {"a": 0}}),
        json!({"op": "copy", "from": "/spec", "path": "/spec/b"}),
        json!({"op": "add", "path": "/labels/a", "value": "x"}),
        json!({"op": "add", "path": "/labels/team~1x", "value": "z"}),
        json!({"op": "remove", "path": "/labels"}),
        json!({"op": "replace", "path": "/labels", "value": {"k": "v"}}),
        json!({"op": "move", "from": "/labels", "path": "/spec/l"}),
    ]);
    let unlikely = select(vec![
        json!({"op": "replace", "path": "/spec/a", "value": {"z": 0}}),
        json!({"op": "remove", "path": "/spec/a"}),
        json!({"op": "move", "from": "/spec/a", "path": "/spec/b"}),
        json!({"op": "test", "path": "/spec/a", "value": 1.0}),
        json!({"op": "test", "path": "/labels", "value": {}}),
        json!({"op": "remove", "path": "/labels/a"}),
        json!({"op": "add", "path": "/labels/a b", "value": "z"}),
        json!({"op": "remove", "path": "/spec"}),
        json!({"op": "remove", "path": "/references"}),
        json!({"op": "add", "path": "/other", "value": 1}),
        json!({"op": "add", "path": "", "value": {"spec": {"new": true}}}),
        json!({"op": "replace", "path": "", "value": 5}),
    ]);
    let op = prop_oneof![
        6 => likely.prop_map(OpPick::Plain),
        3 => unlikely.prop_map(OpPick::Plain),
        3 => references().prop_map(OpPick::AddList),
        1 => (slot(), entry()).prop_map(|(slot, entry)| OpPick::AddEntry(slot, entry)),
        1 => slot().prop_map(OpPick::RemoveEntry),
        1 => (slot(), slot()).prop_map(|(from, to)| OpPick::MoveEntry(from, to)),
        1 => (slot(), slot()).prop_map(|(from, to)| OpPick::CopyList(from, to)),
    ];
    prop::collection::vec(op, 1..4).prop_map(Action::JsonPatch)
}

fn slot() -> impl Strategy<Value = usize> {
    prop_oneof![8 => Just(0_usize), 4 => Just(1), 1 => Just(2)]
}

fn references() -> impl Strategy<Value = RefPick> {
    let targets = proptest::option::weighted(0.9, prop::collection::vec(entry(), 0..4));
    (slot(), targets).prop_map(|(slot, targets)| RefPick { slot, targets })
}

/// References that a POST could hold: their shape is right, their targets may not be.
fn good_references() -> impl Strategy<Value = RefPick> {
    let entry = prop_oneof![12 => (0..100_usize).prop_map(EntryPick::Right), 1 => (0..100_usize).prop_map(EntryPick::Any)];
    (slot(), prop::collection::vec(entry, 1..3)).prop_map(|(slot, t)| RefPick { slot, targets: Some(t) })
}

fn entry() -> impl Strategy<Value = EntryPick> {
    prop_oneof![
        20 => (0..100_usize).prop_map(EntryPick::Right),
        8 => (0..100_usize).prop_map(EntryPick::WithKind),
        1 => (0..100_usize).prop_map(EntryPick::Any),
        1 => Just(EntryPick::Ghost),
        1 => (0..100_usize).prop_map(EntryPick::BadKind),
        1 => Just(EntryPick::NoId),
        1 => Just(EntryPick::Odd),
    ]
}

impl Step {
    /// What this step asks for now. `version` tells the version of a thing.
    pub(super) fn request(&self, model: &Model, version: impl Fn(ResourceId) -> i64) -> Request {
        match &self.action {
            Action::Create { kind, name, spec, labelled, references } => {
                let kind = &KINDS[*kind];
                let mut good = BTreeMap::new();
                for RefPick { slot, targets } in references {
                    let Some((ref_type, target, _, max)) = kind.references.get(*slot) else { continue };
                    let mut ids: Vec<ResourceId> = Vec::new();
                    for id in targets.iter().flatten().map(|entry| entry.id(model, target)) {
                        if !ids.contains(&id) && (*max == 0 || ids.len() < *max) {
                            ids.push(id);
                        }
                    }
                    good.insert((*ref_type).to_owned(), ids);
                }
                Request::Create {
                    kind,
                    path: self.new_path(model, kind),
                    name: NAMES[*name],
                    spec: spec.clone(),
                    labels: labelled.then(|| ("a".to_owned(), "x".to_owned())).into_iter().collect(),
                    references: good,
                }
            }
            Action::Merge { spec, labels, references, empty } => {
                let (target, tag, kind) = self.aim(model, version);
                let mut body = json!({});
                for (member, value) in [("spec", spec), ("labels", labels)] {
                    if let Some(value) = value {
                        body[member] = value.clone();
                    }
                }
                if let Some(picks) = references {
                    body["references"] = json!({});
                    for pick in picks {
                        body["references"][ref_type(kind, pick.slot).0] = pick.json(model, kind);
                    }
                    if *empty {
                        body["references"] = Value::Null;
                    }
                }
                Request::Merge { target, tag, body }
            }
            Action::JsonPatch(picks) => {
                let (target, tag, kind) = self.aim(model, version);
                let operations = picks.iter().map(|pick| pick.json(model, kind)).collect();
                Request::JsonPatch { target, tag, operations }
            }
            Action::Delete => {
                let (target, tag, _) = self.aim(model, version);
                Request::Delete { target, tag }
            }
            Action::ForceDelete => {
                let (target, tag, _) = self.aim(model, version);
                Request::ForceDelete { target, tag }
            }
        }
    }

    fn aim(&self, model: &Model, version: impl Fn(ResourceId) -> i64) -> (ResourcePath, Tag, &'static Kind) {
        let all: Vec<&ModelResource> = model.things.values().collect();
        let ghosts: Vec<&ModelResource> = model.gone.values().collect();
        let unknown =
            || ResourcePath { kind: Some("Zone".into()), id: ghost().to_string(), ancestors: Vec::new() };
        if all.is_empty() {
            return (unknown(), Tag::Absent, &KINDS[6]);
        }
        let worthwhile: Vec<_> = match self.action {
            Action::ForceDelete => all.iter().copied().filter(|t| t.deleted.is_some()).collect(),
            Action::Delete => all.iter().copied().filter(|t| !model.children(t.id).is_empty()).collect(),
            _ => Vec::new(),
        };
        let among = if worthwhile.is_empty() || self.pick.is_multiple_of(3) { &all } else { &worthwhile };
        let thing = among[self.pick % among.len()];
        let flat =
            ResourcePath { kind: Some(thing.kind.into()), id: thing.id.to_string(), ancestors: Vec::new() };
        let path = || path_to(model, thing.owner).into_iter().map(|(kind, id)| (kind.into(), id)).collect();
        let target = match self.path {
            Path::Flat => flat,
            Path::AnyKind => ResourcePath { kind: None, ..flat },
            Path::Nested => ResourcePath { ancestors: path(), ..flat },
            Path::WrongKind => {
                ResourcePath { kind: Some(KINDS[self.pick % KINDS.len()].name.into()), ..flat }
            }
            Path::WrongOwner => {
                let mut ancestors: Vec<_> = path();
                if let Some(last) = ancestors.last_mut() {
                    last.1 = all[self.pick / 7 % all.len()].id.to_string();
                }
                ResourcePath { ancestors, ..flat }
            }
            Path::UnknownId => match ghosts.get(self.pick % (ghosts.len() + 1)) {
                Some(gone) => ResourcePath { kind: Some(gone.kind.into()), id: gone.id.to_string(), ..flat },
                None => unknown(),
            },
            Path::NoId => ResourcePath { id: thing.id.to_string().to_uppercase() + "x", ..flat },
        };
        let right = version(thing.id);
        let tag = match self.tag {
            TagPick::Absent => Tag::Absent,
            TagPick::Any => Tag::Any,
            TagPick::Right => Tag::Strong(vec![right]),
            TagPick::Among => Tag::Strong(vec![right + 5, right]),
            TagPick::Wrong => Tag::Strong(vec![right - 1]),
            TagPick::Weak => Tag::Weak(right),
        };
        (target, tag, kind(thing.kind))
    }

    /// The path below which a new thing is posted.
    fn new_path(&self, model: &Model, kind: &Kind) -> Vec<(&'static str, String)> {
        let Some((parent, _)) = kind.parent else { return Vec::new() };
        let owners: Vec<&ModelResource> = model.things.values().filter(|t| t.kind == parent).collect();
        if owners.is_empty() || matches!(self.path, Path::UnknownId) {
            return vec![(parent, ghost().to_string())];
        }
        let owner = owners[self.pick % owners.len()];
        let mut path = path_to(model, Some(owner.id));
        if matches!(self.path, Path::WrongOwner) {
            let wrong = model.things.values().nth(self.pick / 7 % model.things.len()).unwrap();
            path[0].1 = wrong.id.to_string();
        }
        path
    }
}

impl RefPick {
    fn json(&self, model: &Model, kind: &Kind) -> Value {
        let (_, target) = ref_type(kind, self.slot);
        self.targets
            .as_ref()
            .map_or(Value::Null, |entries| entries.iter().map(|entry| entry.json(model, target)).collect())
    }
}

impl EntryPick {
    fn id(self, model: &Model, target: &str) -> ResourceId {
        let right: Vec<_> = model.things.values().filter(|t| t.kind == target).map(|t| t.id).collect();
        let all: Vec<_> = model.things.keys().chain(model.gone.keys()).copied().collect();
        match self {
            Self::Right(n) | Self::WithKind(n) | Self::BadKind(n) if !right.is_empty() => {
                right[n % right.len()]
            }
            Self::Any(n) if !all.is_empty() => all[n % all.len()],
            _ => ghost(),
        }
    }

    fn json(self, model: &Model, target: &str) -> Value {
        let id = self.id(model, target);
        match self {
            Self::Right(_) | Self::Any(_) | Self::Ghost => json!({"id": id}),
            Self::WithKind(_) => json!({"kind": target, "id": id, "href": "/anything"}),
            Self::BadKind(_) => json!({"kind": "Nothing", "id": id}),
            Self::NoId => json!({"kind": target}),
            Self::Odd => json!({"id": "not-an-id", "extra": 1}),
        }
    }
}

impl OpPick {
    fn json(&self, model: &Model, kind: &Kind) -> Value {
        let at = |slot: usize| format!("/references/{}", ref_type(kind, slot).0);
        match self {
            Self::Plain(op) => op.clone(),
            Self::AddList(pick) => {
                json!({"op": "add", "path": at(pick.slot), "value": pick.json(model, kind)})
            }
            Self::AddEntry(slot, entry) => {
                let value = entry.json(model, ref_type(kind, *slot).1);
                json!({"op": "add", "path": at(*slot) + "/-", "value": value})
            }
            Self::RemoveEntry(slot) => json!({"op": "remove", "path": at(*slot) + "/0"}),
            Self::MoveEntry(from, to) => {
                json!({"op": "move", "from": at(*from) + "/0", "path": at(*to) + "/0"})
            }
            Self::CopyList(from, to) => json!({"op": "copy", "from": at(*from), "path": at(*to)}),
        }
    }
}

/// The n-th ref type of a kind and its target kind; an undeclared one past the end.
fn ref_type(kind: &Kind, slot: usize) -> (&'static str, &'static str) {
    kind.references.get(slot).map_or(("undeclared", "Zone"), |(ref_type, target, ..)| (ref_type, target))
}

fn path_to(model: &Model, owner: Option<ResourceId>) -> Vec<(&'static str, String)> {
    let Some(owner) = owner.and_then(|id| model.things.get(&id)) else { return Vec::new() };
    let mut path = path_to(model, owner.owner);
    path.push((owner.kind, owner.id.to_string()));
    path
}

/// An id that nothing ever had.
fn ghost() -> ResourceId {
    ResourceId::parse("01900000-0000-7000-8000-000000000000").unwrap()
}
