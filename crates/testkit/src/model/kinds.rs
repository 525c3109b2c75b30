//! The kinds that a model knows, and the same kinds as the `entities` section of the product's configuration, so
//! that one declaration drives both sides of a comparison.

use serde_json::{Map, Value, json};

/// What deleting a parent means for its children of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnParentDelete {
    /// The children are deleted too.
    Cascade,
    /// An active child refuses the deletion.
    Restrict,
}

/// A reference that resources of a kind may hold, at most one of each type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its name in `references`.
    pub ref_type: String,
    /// The kind that it points at.
    pub target_kind: String,
}

/// One kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name in bodies.
    pub name: String,
    /// Its name in paths.
    pub plural: String,
    /// The kind of its owner and what the owner's deletion does, for a child kind.
    pub parent: Option<(String, OnParentDelete)>,
    /// The adapters that decide its conditions, in configured order.
    pub required_adapters: Vec<String>,
    /// What it may refer to.
    pub references: Vec<Reference>,
}

impl Kind {
    /// A kind without an owner and without references.
    pub fn root(name: &str, plural: &str, required_adapters: &[&str]) -> Self {
        Self {
            name: name.into(),
            plural: plural.into(),
            parent: None,
            required_adapters: required_adapters.iter().map(|&adapter| adapter.into()).collect(),
            references: Vec::new(),
        }
    }

    /// The same kind below `parent`.
    #[must_use]
    pub fn below(mut self, parent: &str, on_parent_delete: OnParentDelete) -> Self {
        self.parent = Some((parent.into(), on_parent_delete));
        self
    }

    /// The same kind with one more type of reference.
    #[must_use]
    pub fn referring(mut self, ref_type: &str, target_kind: &str) -> Self {
        self.references.push(Reference { ref_type: ref_type.into(), target_kind: target_kind.into() });
        self
    }

    fn entity(&self) -> Value {
        let mut entity = Map::new();
        entity.insert("kind".into(), json!(self.name));
        entity.insert("plural".into(), json!(self.plural));
        if let Some((parent, on_parent_delete)) = &self.parent {
            let word = match on_parent_delete {
                OnParentDelete::Cascade => "cascade",
                OnParentDelete::Restrict => "restrict",
            };
            entity.insert("parent_kind".into(), json!(parent));
            entity.insert("on_parent_delete".into(), json!(word));
        }
        entity.insert("required_adapters".into(), json!(self.required_adapters));
        if !self.references.is_empty() {
            let references: Vec<Value> = self
                .references
                .iter()
                .map(|reference| {
                    json!({
                        "ref_type": reference.ref_type,
                        "target_kind": reference.target_kind,
                        "min": 0,
                        "max": 1,
                    })
                })
                .collect();
            entity.insert("references".into(), json!(references));
        }
        Value::Object(entity)
    }
}

/// All kinds of a model, parents before their children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kinds(Vec<Kind>);

impl Kinds {
    /// A model's kinds; every parent and reference target must be among them.
    pub fn new(kinds: Vec<Kind>) -> Self {
        Self(kinds)
    }

    /// Kinds over three levels that meet every rule: none, one and several required adapters (in an order that is
    /// not the alphabet's), cascade and restrict, a parent that waits for nothing but its children, references into
    /// the tree that is being deleted and from outside it.
    pub fn three_levels() -> Self {
        use OnParentDelete::{Cascade, Restrict};
        Self(vec![
            Kind::root("Region", "regions", &[]),
            Kind::root("Site", "sites", &["a"]).below("Region", Cascade),
            Kind::root("Fleet", "fleets", &["validator", "dns"]).referring("home", "Region"),
            Kind::root("Fence", "fences", &[]).below("Fleet", Restrict),
            Kind::root("Zone", "zones", &["provisioner", "my-dns", "a"]).below("Fleet", Cascade),
            Kind::root("Rack", "racks", &[]).below("Zone", Cascade),
            Kind::root("Lock", "locks", &["a"]).below("Zone", Restrict),
            Kind::root("Host", "hosts", &["b", "a"]).below("Zone", Cascade).referring("rack", "Rack"),
        ])
    }

    /// Every kind, in declared order.
    pub fn all(&self) -> &[Kind] {
        &self.0
    }

    /// The kind called `name`.
    pub fn get(&self, name: &str) -> Option<&Kind> {
        self.0.iter().find(|kind| kind.name == name)
    }

    /// The same kinds with other required adapters for one of them, as after a change of the configuration.
    #[must_use]
    pub fn with_required_adapters(mut self, name: &str, adapters: &[&str]) -> Self {
        for kind in self.0.iter_mut().filter(|kind| kind.name == name) {
            kind.required_adapters = adapters.iter().map(|&adapter| adapter.into()).collect();
        }
        self
    }

    /// The `entities` section of a configuration with these kinds. JSON is YAML, so it may go into a file as it is.
    pub fn entities_json(&self) -> Value {
        Value::Array(self.0.iter().map(Kind::entity).collect())
    }
}
