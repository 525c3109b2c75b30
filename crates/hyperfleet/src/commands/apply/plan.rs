//! The order of documents: owners and targets of references come first. Lookups of the same call are remembered here.

use std::collections::HashMap;

use hyperfleet_client::Kind;

use crate::commands::Failure;
use crate::remote::documents::{Document, Pointer};
use crate::remote::kinds::Kinds;
use crate::remote::target::{FoundResource, display_name};

/// A document whose kind is known.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) document: Document,
    pub(crate) kind: Kind,
    /// The owner's kind, and the names that lead to it.
    pub(crate) owner: Option<(Kind, Vec<String>)>,
}

impl Step {
    /// `nodepool/prod-1/workers`.
    pub(crate) fn display_name(&self) -> String {
        display_name(&self.kind.kind, &self.path().join("/"))
    }

    /// The names of its owners and its own, as far as the document has them.
    pub(crate) fn path(&self) -> Vec<String> {
        let mut path = self.owner.as_ref().map(|(_, path)| path.clone()).unwrap_or_default();
        path.push(self.document.name.clone());
        path
    }
}

/// The resources that documents of this call refer to, by kind and path.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    found: HashMap<(String, Vec<String>), Lookup>,
    /// Failed lookups, so that a thousand documents with one wrong owner cause one request.
    failures: HashMap<(String, Vec<String>), Failure>,
}

/// A resource that a document refers to.
#[derive(Debug, Clone)]
pub(crate) enum Lookup {
    FoundResource(Box<FoundResource>),
    /// A dry run would create it, or a printed request will.
    Planned,
}

impl Lookups {
    pub(crate) fn get(&self, kind: &Kind, path: &[String]) -> Option<&Lookup> {
        self.found.get(&(kind.kind.clone(), path.to_vec()))
    }

    pub(crate) fn record(&mut self, kind: &Kind, path: &[String], lookup: Lookup) {
        self.found.insert((kind.kind.clone(), path.to_vec()), lookup);
    }

    /// Why a lookup failed.
    pub(crate) fn failure(&self, kind: &Kind, path: &[String]) -> Option<&Failure> {
        self.failures.get(&(kind.kind.clone(), path.to_vec()))
    }

    pub(crate) fn record_failure(&mut self, kind: &Kind, path: &[String], failure: Failure) {
        self.failures.insert((kind.kind.clone(), path.to_vec()), failure);
    }
}

/// The documents by levels: each needs nothing but what is in levels before it.
pub(crate) fn levels(kinds: &Kinds, documents: Vec<Document>) -> Result<Vec<Vec<Step>>, Failure> {
    let steps = documents.into_iter().map(|document| step(kinds, document)).collect::<Result<Vec<_>, _>>()?;
    refuse_twice(&steps)?;
    let mut by_name: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    for (at, step) in steps.iter().enumerate() {
        by_name.entry((&step.kind.kind, &step.document.name)).or_default().push(at);
    }
    // A pointer may leave out owners, so it means every document whose path ends as it does.
    let meant = |kind: Option<&Kind>, path: &[String]| -> Vec<usize> {
        let Some(name) = path.last() else { return Vec::new() };
        let candidates: Vec<usize> = match kind {
            Some(kind) => by_name.get(&(&*kind.kind, name.as_str())).cloned().unwrap_or_default(),
            None => by_name
                .iter()
                .filter(|((_, other), _)| other == name)
                .flat_map(|(_, at)| at.clone())
                .collect(),
        };
        candidates.into_iter().filter(|at| steps[*at].path().ends_with(path)).collect()
    };
    let mut needs: Vec<Vec<usize>> = Vec::with_capacity(steps.len());
    for step in &steps {
        let mut before = step.owner.as_ref().map(|(kind, path)| meant(Some(kind), path)).unwrap_or_default();
        for (_, targets) in step.document.references.iter().flatten() {
            for target in targets {
                before.extend(meant(kinds.find(&target.kind).ok(), &target.path));
            }
        }
        needs.push(before);
    }
    let depths =
        depths(&needs).ok_or_else(|| Failure::usage("references between the documents form a cycle"))?;
    let mut levels: Vec<Vec<Step>> = vec![Vec::new(); depths.iter().max().map_or(0, |deepest| deepest + 1)];
    for (step, depth) in steps.into_iter().zip(depths) {
        levels[depth].push(step);
    }
    Ok(levels)
}

fn step(kinds: &Kinds, document: Document) -> Result<Step, Failure> {
    let at = |failure: Failure| Failure::usage(format!("{}: {}", document.source, failure.text));
    let kind = kinds.find(&document.kind).map_err(at)?.clone();
    let owner = match (&document.owner, kinds.parent(&kind)) {
        (None, None) => None,
        (None, Some(parent)) => {
            return Err(Failure::usage(format!(
                "{}: a {} belongs to a {}; add owner: {}/NAME",
                document.source,
                kind.kind,
                parent.kind,
                parent.kind.to_lowercase()
            )));
        }
        (Some(_), None) => {
            return Err(Failure::usage(format!("{}: a {} cannot have an owner", document.source, kind.kind)));
        }
        (Some(Pointer { kind: word, path }), Some(parent)) => {
            let said = if word.is_empty() { parent } else { kinds.find(word).map_err(at)? };
            if said.kind != parent.kind {
                return Err(Failure::usage(format!(
                    "{}: a {} belongs to a {}, not to a {}",
                    document.source, kind.kind, parent.kind, said.kind
                )));
            }
            Some((parent.clone(), path.clone()))
        }
    };
    Ok(Step { document, kind, owner })
}

/// Two documents of one resource would overwrite each other in an undefined order.
fn refuse_twice(steps: &[Step]) -> Result<(), Failure> {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for step in steps {
        if let Some(first) = seen.insert(step.display_name(), &step.document.source) {
            return Err(Failure::usage(format!(
                "{} is defined twice: in {first} and in {}",
                step.display_name(),
                step.document.source
            )));
        }
    }
    Ok(())
}

/// The level of each document; `None` for a cycle.
fn depths(needs: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut depths = vec![None; needs.len()];
    // Each round finds the level of at least one, or there is a cycle.
    let mut settled = 0;
    while settled < needs.len() {
        let before = settled;
        for at in 0..needs.len() {
            if depths[at].is_some() {
                continue;
            }
            let deepest = needs[at]
                .iter()
                .filter(|other| **other != at)
                .map(|other| depths[*other])
                .try_fold(0, |deepest, depth| depth.map(|depth: usize| deepest.max(depth + 1)));
            if let Some(depth) = deepest {
                depths[at] = Some(depth);
                settled += 1;
            }
        }
        if settled == before {
            return None;
        }
    }
    depths.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::documents;

    fn planned(text: &str) -> Result<Vec<Vec<String>>, String> {
        let documents = documents::read("x", text).map_err(|failure| failure.text)?;
        let levels = levels(&Kinds::example(), documents).map_err(|failure| failure.text)?;
        Ok(levels.iter().map(|level| level.iter().map(Step::display_name).collect()).collect())
    }

    #[test]
    fn owners_and_targets_come_first_whatever_the_order_of_the_documents() {
        let levels = planned(
            "kind: NodePool\nname: w\nowner: clusters/a\n---\nkind: cluster\nname: a\nreferences: {dns: [zone/z]}\n---\nkind: Zone\nname: z\n",
        );
        assert_eq!(levels.unwrap(), [vec!["zone/z"], vec!["cluster/a"], vec!["nodepool/a/w"]]);
    }

    #[test]
    fn documents_that_cannot_be_ordered_or_placed_are_refused() {
        for (text, told) in [
            ("kind: NodePool\nname: w\n", "add owner: cluster/NAME"),
            ("kind: Cluster\nname: a\nowner: zone/z\n", "cannot have an owner"),
            ("kind: NodePool\nname: w\nowner: zone/z\n", "not to a Zone"),
            (
                "kind: Cluster\nname: a\n---\nkind: clusters\nname: a\n",
                "defined twice: in x, document 1 and in x, document 2",
            ),
            (
                "kind: Zone\nname: y\nreferences: {r: [zone/z]}\n---\nkind: Zone\nname: z\nreferences: {r: [zone/y]}\n",
                "cycle",
            ),
            ("kind: Rocket\nname: r\n", "no kind"),
        ] {
            let told_us = planned(text).unwrap_err();
            assert!(told_us.contains(told), "{text}: {told_us}");
        }
    }
}
