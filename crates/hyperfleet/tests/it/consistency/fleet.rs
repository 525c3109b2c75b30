//! What concurrent writers request of a fleet, and what each sees of it. The view of a writer is always a little old,
//! as it is for every client, which leads to refusals and races.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hyperfleet_core::Timestamp;
use hyperfleet_testkit::model::{Kind, Kinds};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{BASE, id, report, text, with_condition};

/// An adapter that no kind requires.
const FOREIGN: &str = "observer";

/// Beyond this number a writer deletes a resource instead of creating one, so that a long run is as crowded as a short one.
const ENOUGH: usize = 60;

/// A command before its target is chosen. Numbers are indexes into the resources that the writer has seen, modulo their count.
#[derive(Clone, Debug)]
pub(super) enum PlannedCommand {
    Create { kind: String, owner: usize, referring: bool },
    Spec(usize),
    Label(usize),
    Report { target: usize, finalizing: bool, adapter: usize, generation: i64, available: bool, age: i64 },
    Delete(usize),
    ForceDelete(usize),
}

/// A request, and the server that gets it.
#[derive(Clone, Debug)]
pub(super) struct Command {
    pub(super) act: Act,
    /// The resource, or the owner of the one to be made.
    pub(super) target: Option<String>,
    pub(super) path: String,
    pub(super) body: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Create,
    Spec,
    Label,
    Report { adapter: String, generation: u64, observed: String, finalized: bool },
    Delete,
    ForceDelete,
}

/// What a writer knows of a resource.
#[derive(Clone, Debug)]
struct SeenResource {
    id: String,
    kind: String,
    generation: i64,
    finalizing: bool,
}

/// The fleet as it was last seen, the oldest first.
pub(super) struct Fleet {
    pub(super) kinds: Kinds,
    seen: Mutex<BTreeMap<String, SeenResource>>,
}

/// Planned commands of one writer. Most go to the few oldest resources, so that writers get into each other's way.
pub(super) fn planned_commands(
    kinds: &Kinds,
    count: usize,
) -> impl Strategy<Value = Vec<PlannedCommand>> + use<> {
    let target = || prop_oneof![3 => 0..6usize, 2 => 0..60usize];
    let kinds: Vec<String> = kinds.all().iter().map(|kind| kind.name.clone()).collect();
    // Children that stop a deletion are rare, or nothing would ever be deleted.
    let kind =
        prop::sample::select(kinds).prop_flat_map(|kind| (Just(kind), 0..4u8)).prop_map(|(kind, dice)| {
            if matches!(&*kind, "Fence" | "Lock") && dice > 0 { "Host".into() } else { kind }
        });
    let report = |finalizing| {
        let generation = prop_oneof![8 => Just(0), 1 => Just(-1), 1 => Just(1)];
        (target(), 0..4usize, generation, prop::bool::weighted(0.7), 0..2_000_000i64).prop_map(
            move |(target, adapter, generation, available, age)| PlannedCommand::Report {
                target,
                finalizing,
                adapter,
                generation,
                available,
                age,
            },
        )
    };
    let planned = prop_oneof![
        8 => (kind, target(), any::<bool>())
            .prop_map(|(kind, owner, referring)| PlannedCommand::Create { kind, owner, referring }),
        5 => target().prop_map(PlannedCommand::Spec),
        2 => target().prop_map(PlannedCommand::Label),
        6 => report(false),
        9 => report(true),
        3 => target().prop_map(PlannedCommand::Delete),
        1 => target().prop_map(PlannedCommand::ForceDelete),
    ];
    prop::collection::vec(planned, count)
}

/// A few trees to begin with.
pub(super) fn initial_commands() -> Vec<PlannedCommand> {
    let levels =
        [("Region", 2), ("Site", 2), ("Fleet", 3), ("Zone", 6), ("Rack", 6), ("Host", 9), ("Lock", 1)];
    let each = |(kind, count): (&'static str, usize)| {
        (0..count).map(move |owner| PlannedCommand::Create {
            kind: kind.into(),
            owner,
            referring: owner % 2 == 1,
        })
    };
    levels.into_iter().flat_map(each).collect()
}

impl Fleet {
    pub(super) fn new(kinds: Kinds) -> Self {
        Self { kinds, seen: Mutex::default() }
    }

    /// The whole fleet was read.
    pub(super) fn saw_all(&self, documents: &[Value]) {
        let mut seen = self.seen();
        seen.clear();
        seen.extend(documents.iter().map(seen_resource));
    }

    /// One resource was read.
    pub(super) fn saw(&self, document: &Value) {
        self.seen().extend([seen_resource(document)]);
    }

    /// Chooses the target; `mark` is a number that its writer gives to no other command.
    pub(super) fn command(&self, planned: &PlannedCommand, writer: usize, mark: usize) -> Command {
        self.resolve(planned, writer, mark).unwrap_or_else(|| self.create("Fleet", 0, false, writer, mark))
    }

    fn resolve(&self, planned: &PlannedCommand, writer: usize, mark: usize) -> Option<Command> {
        let (act, seen, below, body) = match planned {
            PlannedCommand::Create { kind, owner, referring } => {
                if self.seen().len() > ENOUGH {
                    return self.resolve(&PlannedCommand::Delete(*owner), writer, mark);
                }
                return Some(self.create(kind, *owner, *referring, writer, mark));
            }
            PlannedCommand::Spec(target) => {
                let body = json!({"spec": {format!("w{writer}"): mark, "size": mark % 8}});
                (Act::Spec, self.pick(*target, |_| true)?, "", body)
            }
            PlannedCommand::Label(target) => {
                let tone = ["red", "green", "blue"][mark % 3];
                let body = json!({"labels": {format!("w{writer}"): mark.to_string(), "tone": tone}});
                (Act::Label, self.pick(*target, |_| true)?, "", body)
            }
            PlannedCommand::Report { target, finalizing, adapter, generation, available, age } => {
                let seen = self.pick_preferably(*target, |it| it.finalizing == *finalizing)?;
                let generation = u64::try_from((seen.generation + generation).max(1)).unwrap();
                let observed = Timestamp::from_micros(Timestamp::now().micros() - age).to_string();
                let required = &self.kinds.get(&seen.kind)?.required_adapters;
                let adapter = required.get(adapter % (required.len() + 1)).map_or(FOREIGN, |name| name);
                let status = if *available { "True" } else { "False" };
                let mut body = report(adapter, generation, status, &observed);
                body["conditions"][0]["reason"] = format!("Writer{writer}").into();
                body["data"] = json!({"writer": writer, "mark": mark});
                if *finalizing {
                    body = with_condition(body, "Finalized", "True");
                }
                let adapter = adapter.to_owned();
                let act = Act::Report { adapter, generation, observed, finalized: *finalizing };
                (act, seen, "/statuses", body)
            }
            PlannedCommand::Delete(target) => {
                (Act::Delete, self.pick_preferably(*target, |it| !it.finalizing)?, "", Value::Null)
            }
            PlannedCommand::ForceDelete(target) => {
                let seen = self.pick_preferably(*target, |it| it.finalizing)?;
                (Act::ForceDelete, seen, "/force-delete", json!({"reason": "stuck for good"}))
            }
        };
        let plural = &self.kinds.get(&seen.kind)?.plural;
        let path = format!("{BASE}/{plural}/{}{below}", seen.id);
        Some(Command { act, target: Some(seen.id), path, body })
    }

    /// A creation below the owner of that number; of an owner, where none is visible.
    fn create(&self, kind: &str, owner: usize, referring: bool, writer: usize, mark: usize) -> Command {
        let Kind { plural, parent, references, .. } = self.kinds.get(kind).expect("a kind of the fleet");
        let mut body = json!({"kind": kind, "name": name(writer, mark), "spec": {}});
        let (target, path) = match parent {
            None => (None, format!("{BASE}/{plural}")),
            Some((parent, _)) => {
                let Some(seen) = self.pick(owner, |it| it.kind == *parent) else {
                    return self.create(parent, owner, referring, writer, mark);
                };
                let parents = &self.kinds.get(parent).expect("a kind of the fleet").plural;
                let path = format!("{BASE}/{parents}/{}/{plural}", seen.id);
                (Some(seen.id), path)
            }
        };
        if let Some(reference) = references.first().filter(|_| referring)
            && let Some(to) = self.pick(owner, |it| it.kind == reference.target_kind)
        {
            body["references"] = json!({&*reference.ref_type: [{"id": to.id}]});
        }
        Command { act: Act::Create, target, path, body }
    }

    fn pick(&self, number: usize, wanted: impl Fn(&SeenResource) -> bool) -> Option<SeenResource> {
        let seen = self.seen();
        let wanted: Vec<_> = seen.values().filter(|it| wanted(it)).collect();
        wanted.get(number % wanted.len().max(1)).map(|it| SeenResource::clone(it))
    }

    fn pick_preferably(&self, number: usize, wanted: impl Fn(&SeenResource) -> bool) -> Option<SeenResource> {
        self.pick(number, wanted).or_else(|| self.pick(number, |_| true))
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<String, SeenResource>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Command {
    pub(super) fn method(&self) -> &'static str {
        match self.act {
            Act::Create | Act::ForceDelete => "POST",
            Act::Spec | Act::Label => "PATCH",
            Act::Report { .. } => "PUT",
            Act::Delete => "DELETE",
        }
    }
}

/// The name of what a writer makes.
pub(super) fn name(writer: usize, mark: usize) -> String {
    format!("w{writer}-{mark}")
}

fn seen_resource(document: &Value) -> (String, SeenResource) {
    let seen_resource = SeenResource {
        id: id(document).to_owned(),
        kind: text(&document["kind"]).to_owned(),
        generation: document["generation"].as_i64().unwrap(),
        finalizing: document.get("deleted_time").is_some(),
    };
    (seen_resource.id.clone(), seen_resource)
}
