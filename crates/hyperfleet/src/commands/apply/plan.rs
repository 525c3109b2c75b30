//! The order of documents: whatever another one in the same call belongs to or refers to comes before it. Pure, but for
//! what is learnt on the way about where things are.

use std::collections::HashMap;

use hyperfleet_client::Kind;

use crate::commands::Failure;
use crate::remote::documents::{Document, Pointer};
use crate::remote::kinds::Kinds;
use crate::remote::target::{Found, called};

/// A document whose kind is known.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) document: Document,
    pub(crate) kind: Kind,
    /// The kind is settled here too.
    pub(crate) owner: Option<(Kind, Vec<String>)>,
}

impl Step {
    /// `nodepool/prod-1/workers`.
    pub(crate) fn called(&self) -> String {
        called(&self.kind.kind, &self.path().join("/"))
    }

    /// The names that lead to it, as far as the document tells.
    pub(crate) fn path(&self) -> Vec<String> {
        let mut path = self.owner.as_ref().map(|(_, path)| path.clone()).unwrap_or_default();
        path.push(self.document.name.clone());
        path
    }
}

/// Where things are, as far as this call has learnt it.
#[derive(Debug, Default)]
pub(crate) struct Known {
    places: HashMap<(String, Vec<String>), Place>,
    /// What names led nowhere, so that a thousand documents with one wrong owner ask for it once.
    failures: HashMap<(String, Vec<String>), Failure>,
}

/// Where a resource is.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    Found(Box<Found>),
    /// A dry run would have made it, or a printed request will.
    Pretended,
}

impl Known {
    pub(crate) fn get(&self, kind: &Kind, path: &[String]) -> Option<&Place> {
        self.places.get(&(kind.kind.clone(), path.to_vec()))
    }

    pub(crate) fn learn(&mut self, kind: &Kind, path: &[String], place: Place) {
        self.places.insert((kind.kind.clone(), path.to_vec()), place);
    }

    /// Why it was not found, unless it was made since.
    pub(crate) fn failure(&self, kind: &Kind, path: &[String]) -> Option<&Failure> {
        self.failures.get(&(kind.kind.clone(), path.to_vec()))
    }

    pub(crate) fn learn_failure(&mut self, kind: &Kind, path: &[String], failure: Failure) {
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
                .filter(|((_, known), _)| known == name)
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
        depths(&needs).ok_or_else(|| Failure::usage("the documents refer to each other in a circle"))?;
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
                "{}: a {} belongs to a {}: say owner: {}/NAME",
                document.source,
                kind.kind,
                parent.kind,
                parent.kind.to_lowercase()
            )));
        }
        (Some(_), None) => {
            return Err(Failure::usage(format!(
                "{}: a {} belongs to nothing, so it has no owner",
                document.source, kind.kind
            )));
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

/// Two documents of one resource would overwrite each other in an order that nobody chose.
fn refuse_twice(steps: &[Step]) -> Result<(), Failure> {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for step in steps {
        if let Some(first) = seen.insert(step.called(), &step.document.source) {
            return Err(Failure::usage(format!(
                "{} is wished for twice: in {first} and in {}",
                step.called(),
                step.document.source
            )));
        }
    }
    Ok(())
}

/// How far each is from the start; `None` for a circle.
fn depths(needs: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut depths = vec![None; needs.len()];
    // Each round settles at least one, or there is a circle.
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

    fn kinds() -> Kinds {
        let kind = |kind: &str, plural: &str, parent: Option<&str>| Kind {
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            parent_kind: parent.map(str::to_owned),
        };
        Kinds::new(vec![
            kind("Cluster", "clusters", None),
            kind("NodePool", "nodepools", Some("Cluster")),
            kind("Zone", "zones", None),
        ])
    }

    fn planned(text: &str) -> Result<Vec<Vec<String>>, String> {
        let documents = documents::read("x", text).map_err(|failure| failure.text)?;
        let levels = levels(&kinds(), documents).map_err(|failure| failure.text)?;
        Ok(levels.iter().map(|level| level.iter().map(Step::called).collect()).collect())
    }

    #[test]
    fn owners_and_targets_come_first_whatever_the_order_of_the_documents() {
        let levels = planned(
            "kind: NodePool\nname: w\nowner: clusters/a\n---\nkind: cluster\nname: a\nreferences: {dns: [zone/z]}\n---\nkind: Zone\nname: z\n",
        );
        assert_eq!(levels.unwrap(), [vec!["zone/z"], vec!["cluster/a"], vec!["nodepool/a/w"]]);
    }

    #[test]
    fn wishes_that_cannot_be_ordered_or_placed_are_refused() {
        for (text, told) in [
            ("kind: NodePool\nname: w\n", "say owner: cluster/NAME"),
            ("kind: Cluster\nname: a\nowner: zone/z\n", "belongs to nothing"),
            ("kind: NodePool\nname: w\nowner: zone/z\n", "not to a Zone"),
            (
                "kind: Cluster\nname: a\n---\nkind: clusters\nname: a\n",
                "wished for twice: in x, document 1 and in x, document 2",
            ),
            (
                "kind: Zone\nname: y\nreferences: {r: [zone/z]}\n---\nkind: Zone\nname: z\nreferences: {r: [zone/y]}\n",
                "circle",
            ),
            ("kind: Rocket\nname: r\n", "no kind"),
        ] {
            let told_us = planned(text).unwrap_err();
            assert!(told_us.contains(told), "{text}: {told_us}");
        }
    }
}
