//! The records of all writers, compared with the fleet at the end. Every acknowledged write must be there or have been
//! followed by one that explains its absence, and nothing else may be there. A command without an answer may have
//! happened or not.

use std::collections::{BTreeMap, BTreeSet};

use hyperfleet_testkit::model::{Kinds, check_conditions, check_invariants, mismatches};
use serde_json::{Value, json};

use super::fleet::{Act, name};
use super::writers::{CompletedCommand, Observed};
use crate::support::{id, text};

/// The fleet after the last command, read after all writers have ended.
pub(super) struct Final {
    pub(super) documents: Vec<Value>,
    pub(super) versions: BTreeMap<String, u64>,
    pub(super) statuses: BTreeMap<String, Vec<Value>>,
}

pub(super) struct Audit<'a> {
    pub(super) kinds: &'a Kinds,
    pub(super) told: Vec<CompletedCommand>,
    pub(super) observed: Observed,
    pub(super) end: Final,
}

/// The records by the resource that they are about.
type About<'a> = BTreeMap<&'a str, Vec<&'a CompletedCommand>>;

impl CompletedCommand {
    fn has_status(&self, status: u16) -> bool {
        self.reply.as_ref().is_some_and(|reply| reply.status == status)
    }

    /// It happened, or may have.
    fn may_have(&self, status: u16) -> bool {
        self.reply.is_none() || self.has_status(status)
    }

    /// The version of an acknowledged write that always changes something.
    fn version(&self) -> Option<u64> {
        let writes = matches!(self.command.act, Act::Create | Act::Spec | Act::Label);
        self.reply.as_ref().filter(|reply| writes && reply.status < 300)?.version
    }

    /// The resource that an acknowledged write was about or made.
    fn id(&self) -> Option<&str> {
        match self.command.act {
            Act::Create => self.reply.as_ref()?.body["id"].as_str(),
            _ => self.command.target.as_deref(),
        }
    }

    fn says(&self, fault: &str) -> String {
        format!("{fault}: {self:?}")
    }
}

impl Audit<'_> {
    /// One sentence for each thing that should not be.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = self.observed.faults.clone();
        faults.extend(check_invariants(self.kinds, &self.end.documents, &self.end.statuses));
        faults.extend(check_conditions(self.kinds, &self.end.documents, &self.end.statuses));
        faults.extend(self.told.iter().filter_map(unexpected));
        faults.extend(self.versions_out_of_order());
        faults.extend(self.gone_ones_that_are_there());
        faults.extend(self.writes_after_a_deletion());
        let mut about = About::new();
        for told in &self.told {
            if let Some(id) = told.id() {
                about.entry(id).or_default().push(told);
            }
        }
        for document in &self.end.documents {
            let about = about.get(id(document)).map_or(&[][..], Vec::as_slice);
            let mut found = Vec::from_iter(self.origin(document));
            found.extend(self.accounts(document, about));
            found.extend(self.reports(id(document), about));
            faults.extend(found.iter().map(|fault| format!("{} {fault}", id(document))));
        }
        faults.extend(self.unexplained_absences(&about));
        faults
    }

    /// Versions are the order of commits: a write that began after another was acknowledged has a higher one, and no
    /// two have the same.
    fn versions_out_of_order(&self) -> Vec<String> {
        let mut by_begin: Vec<&CompletedCommand> =
            self.told.iter().filter(|told| told.version().is_some()).collect();
        let mut by_end = by_begin.clone();
        by_begin.sort_unstable_by_key(|told| told.begun);
        by_end.sort_unstable_by_key(|told| told.ended);
        let mut earlier = by_end.iter().peekable();
        let mut highest = None;
        let mut given = BTreeSet::new();
        let mut faults = Vec::new();
        for told in by_begin {
            while let Some(before) = earlier.next_if(|before| before.ended < told.begun) {
                highest = highest.max(before.version());
            }
            if told.version() <= highest {
                faults.push(told.says(&format!("version {highest:?} had been acknowledged before")));
            }
            if !given.insert(told.version()) {
                faults.push(told.says("the version was given twice"));
            }
        }
        faults
    }

    /// An id that was not found, or was removed at once, never comes back.
    fn gone_ones_that_are_there(&self) -> Vec<String> {
        let gone = |told: &&CompletedCommand| {
            told.has_status(404) || (told.command.act == Act::ForceDelete && told.has_status(204))
        };
        let is_there = |told: &&CompletedCommand| {
            told.command.target.as_deref().is_some_and(|target| self.end.versions.contains_key(target))
        };
        self.told.iter().filter(gone).filter(is_there).map(|told| told.says("should be gone")).collect()
    }

    /// A finalizing resource takes no more patches and no more children.
    fn writes_after_a_deletion(&self) -> Vec<String> {
        let mut deleted: BTreeMap<&str, u64> = BTreeMap::new();
        let deletions =
            self.told.iter().filter(|told| told.command.act == Act::Delete && told.has_status(202));
        for told in deletions {
            let first = deleted.entry(told.id().unwrap()).or_insert(u64::MAX);
            *first = told.ended.min(*first);
        }
        let late = |told: &&CompletedCommand| {
            let target = told.command.target.as_deref();
            target.and_then(|target| deleted.get(target)).is_some_and(|deleted| *deleted < told.begun)
        };
        let writes = self.told.iter().filter(|told| told.version().is_some());
        writes.filter(late).map(|told| told.says("happened after the deletion")).collect()
    }

    /// Every resource was created by a recorded command.
    fn origin(&self, document: &Value) -> Option<String> {
        let is_it = |told: &&CompletedCommand| {
            told.command.act == Act::Create && name(told.writer, told.mark) == text(&document["name"])
        };
        let made = self.told.iter().find(is_it);
        let fits = made.is_some_and(|told| match told.id() {
            Some(made) => made == id(document),
            None => told.reply.is_none(),
        });
        (!fits).then(|| format!("was created by no recorded command: {made:?}"))
    }

    /// The spec, the labels, the generation, the deletion and the version of a resource, by the commands about it.
    fn accounts(&self, document: &Value, about: &[&CompletedCommand]) -> Vec<String> {
        let mut faults = Vec::new();
        for (act, member, status) in [(Act::Spec, "spec", 200), (Act::Label, "labels", 200)] {
            let writers: BTreeSet<usize> = about.iter().map(|told| told.writer).collect();
            for writer in writers {
                let of_writer = about.iter().filter(|told| told.writer == writer && told.command.act == act);
                let path = format!("/{member}/w{writer}");
                let found = document.pointer(&path);
                let mut possible = vec![None];
                for told in of_writer.filter(|told| told.may_have(status)) {
                    if told.reply.is_some() {
                        possible.clear();
                    }
                    possible.push(told.command.body.pointer(&path));
                }
                if !possible.contains(&found) {
                    faults.push(format!("has {found:?} at {path}, expected one of {possible:?}"));
                }
            }
        }
        let count = |certain: bool| {
            let counts = |told: &&&CompletedCommand| {
                told.command.act == Act::Spec && told.may_have(200) && told.reply.is_some() == certain
            };
            about.iter().filter(counts).count() as u64
        };
        let finalizing = document.get("deleted_time").is_some();
        let least = 1 + count(true) + u64::from(finalizing);
        let generation = document["generation"].as_u64().unwrap();
        if !(least..=least + count(false)).contains(&generation) {
            faults.push(format!("is at generation {generation}, expected {least} + {}", count(false)));
        }
        for told in about.iter().filter(|told| told.command.act == Act::Delete && told.has_status(202)) {
            let acknowledged = told.reply.as_ref().map(|reply| &reply.body["deleted_time"]);
            if acknowledged != document.get("deleted_time") {
                faults.push(told.says("the deletion is not as acknowledged"));
            }
        }
        let newest = about.iter().filter_map(|told| told.version()).max().unwrap_or(0);
        let version = self.end.versions[id(document)];
        if version < newest {
            faults.push(format!("is at version {version} after {newest} was acknowledged"));
        }
        faults
    }

    /// Each stored report was sent, and none that was accepted is newer.
    fn reports(&self, id: &str, about: &[&CompletedCommand]) -> Vec<String> {
        let mut faults = Vec::new();
        let mut by_adapter: BTreeMap<&str, Vec<(&CompletedCommand, Value)>> = BTreeMap::new();
        for told in about.iter().filter(|told| told.may_have(201)) {
            if let Act::Report { adapter, observed, .. } = &told.command.act {
                let mut stored = told.command.body.clone();
                stored.as_object_mut().unwrap().shift_remove("observed_time");
                stored["last_report_time"] = json!(observed);
                by_adapter.entry(adapter).or_default().push((told, stored));
            }
        }
        let found = &self.end.statuses[id];
        for stored in found {
            let sent = by_adapter.get(text(&stored["adapter"])).map_or(&[][..], Vec::as_slice);
            if !sent.iter().any(|(_, sent)| mismatches(sent, stored).is_empty()) {
                faults.push(format!("has a report that was not sent: {stored}"));
            }
            for (told, _) in sent.iter().filter(|(told, _)| told.reply.is_some()) {
                let kept = (stored["observed_generation"].as_u64(), text(&stored["last_report_time"]));
                if age(told) > kept {
                    faults.push(told.says(&format!("an older report is in its place: {stored}")));
                }
            }
        }
        for (adapter, sent) in &by_adapter {
            let acknowledged = || sent.iter().map(|(told, _)| *told).filter(|told| told.reply.is_some());
            if acknowledged().next().is_some() && !found.iter().any(|stored| stored["adapter"] == *adapter) {
                faults.push(format!("has lost the report of {adapter}"));
            }
            for told in acknowledged() {
                if acknowledged().any(|before| before.ended < told.begun && age(before) > age(told)) {
                    faults.push(told.says("was accepted after a newer one"));
                }
            }
        }
        faults
    }

    /// Every resource that is gone was deleted, and was either finalized by all its adapters or force-deleted.
    fn unexplained_absences(&self, about: &About<'_>) -> Vec<String> {
        let mut faults = Vec::new();
        let gone = self.observed.owners.iter().filter(|(id, _)| !self.end.versions.contains_key(*id));
        for (id, (kind, _)) in gone {
            let commands = |id: &str| about.get(id).into_iter().flatten();
            let line = self.line(id);
            let happened = |act: &Act, status: u16| {
                let mut commands = line.iter().flat_map(|id| commands(id));
                commands.any(|told| told.command.act == *act && told.may_have(status))
            };
            if !happened(&Act::Delete, 202) {
                faults.push(format!("{kind} {id} is gone without a deletion"));
            }
            let let_go = |name: &String| {
                commands(id).filter(|told| told.may_have(201)).any(|told| {
                    matches!(&told.command.act, Act::Report { adapter, finalized: true, .. } if adapter == name)
                })
            };
            let required = &self.kinds.get(kind).unwrap().required_adapters;
            if !required.iter().all(let_go) && !happened(&Act::ForceDelete, 204) {
                faults.push(format!("{kind} {id} is gone although not all adapters have let it go"));
            }
        }
        faults
    }

    /// A resource and its owners.
    fn line<'a>(&'a self, id: &'a str) -> Vec<&'a str> {
        let owner = |id: &&'a str| self.observed.owners.get(*id)?.1.as_deref();
        std::iter::successors(Some(id), owner).collect()
    }
}

/// What decides which of two reports of one adapter is the newer.
fn age(told: &CompletedCommand) -> (Option<u64>, &str) {
    match &told.command.act {
        Act::Report { generation, observed, .. } => (Some(*generation), observed),
        _ => (None, ""),
    }
}

/// An answer that the command cannot have.
fn unexpected(told: &CompletedCommand) -> Option<String> {
    let Some(reply) = &told.reply else { return None };
    let possible: &[u16] = match told.command.act {
        // 400: what it refers to is gone.
        Act::Create => &[201, 400, 404, 409],
        Act::Spec | Act::Label => &[200, 404, 409],
        Act::Report { .. } => &[201, 204, 404],
        Act::Delete => &[202, 404, 409],
        Act::ForceDelete => &[204, 404, 409],
    };
    (!possible.contains(&reply.status)).then(|| told.says("unexpected answer"))
}
