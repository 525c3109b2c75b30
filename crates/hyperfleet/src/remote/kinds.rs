//! The kinds that the server has, found by any spelling: `Cluster`, `cluster`, `clusters`. Custom kinds
//! are kinds like any other, for the list comes from the server itself.

use hyperfleet_client::Kind;

use crate::commands::Failure;

/// The kinds of a server; never empty in practice, but nothing relies on it.
#[derive(Debug, Clone)]
pub(crate) struct Kinds(Vec<Kind>);

impl Kinds {
    /// Reads the kinds of a server.
    pub(crate) fn new(kinds: Vec<Kind>) -> Self {
        Self(kinds)
    }

    /// All of them, owners before what they own.
    pub(crate) fn all(&self) -> &[Kind] {
        &self.0
    }

    /// The kind that a word means, in any case, in the singular or the plural.
    pub(crate) fn find(&self, word: &str) -> Result<&Kind, Failure> {
        let wanted = folded(word);
        let names = |kind: &&Kind| {
            let singular = folded(&kind.kind);
            folded(&kind.plural) == wanted || singular == wanted || format!("{singular}s") == wanted
        };
        self.0.iter().find(names).ok_or_else(|| {
            let plurals: Vec<&str> = self.0.iter().map(|kind| kind.plural.as_str()).collect();
            let meant =
                hyperfleet_core::nearest(word, self.0.iter().flat_map(|kind| [&*kind.plural, &*kind.kind]));
            let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
            Failure::usage(format!(
                "the server has no kind {word:?}{meant}\n  it has: {}",
                plurals.join(", ")
            ))
        })
    }

    /// The kind by its exact name.
    pub(crate) fn named(&self, kind: &str) -> Option<&Kind> {
        self.0.iter().find(|known| known.kind == kind)
    }

    /// The kind of its owner.
    pub(crate) fn parent(&self, kind: &Kind) -> Option<&Kind> {
        self.named(kind.parent_kind.as_deref()?)
    }

    /// The kinds directly below it.
    pub(crate) fn children(&self, kind: &str) -> impl Iterator<Item = &Kind> {
        self.0.iter().filter(move |known| known.parent_kind.as_deref() == Some(kind))
    }

    /// Kinds for tests.
    #[cfg(test)]
    pub(crate) fn example() -> Self {
        let kind = |kind: &str, plural: &str, parent: Option<&str>| Kind {
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            parent_kind: parent.map(str::to_owned),
        };
        Self::new(vec![
            kind("Cluster", "clusters", None),
            kind("NodePool", "nodepools", Some("Cluster")),
            kind("Policy", "policies", None),
            kind("Zone", "zones", None),
        ])
    }
}

/// The prefix of a kind before a name: `nodepool`.
pub(crate) fn singular(kind: &str) -> String {
    kind.to_lowercase()
}

fn folded(word: &str) -> String {
    word.chars().filter(|c| *c != '-' && *c != '_').flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_any_of_its_names() {
        let kinds = Kinds::example();
        for (word, kind) in [
            ("clusters", "Cluster"),
            ("Cluster", "Cluster"),
            ("CLUSTER", "Cluster"),
            ("nodepool", "NodePool"),
            ("node-pools", "NodePool"),
            ("policies", "Policy"),
            ("policy", "Policy"),
        ] {
            assert_eq!(kinds.find(word).ok().map(|found| found.kind.as_str()), Some(kind), "{word}");
        }
        let children: Vec<_> = kinds.children("Cluster").map(|kind| kind.plural.as_str()).collect();
        assert_eq!(children, ["nodepools"]);
    }

    #[test]
    fn a_misspelt_kind_finds_its_neighbour() {
        let failure = Kinds::example().find("clutsers").unwrap_err();
        assert_eq!(failure.code, 2);
        assert!(failure.text.contains("did you mean clusters?"), "{}", failure.text);
        assert!(failure.text.contains("it has: clusters, nodepools, policies, zones"), "{}", failure.text);
    }
}
