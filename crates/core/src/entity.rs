//! Entity kinds: their descriptors in configuration, and the catalog of checked kinds. A kind is data; a new one needs
//! no code. A catalog without faults is the only one that can be built, and building it reports all faults at once.

mod checks;

use checks::adapter_condition_type;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::mapping::{ConditionDescriptor, Mapping};

/// One entry of `entities` as configuration writes it, not yet checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EntityDescriptor {
    /// The kind's name, such as `Cluster`.
    pub kind: String,
    /// The path segment of its collection, such as `clusters`.
    pub plural: String,
    /// The kind that owns it, for a child kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_kind: Option<String>,
    /// `cascade` or `restrict`: what a parent's deletion does here. Required for a child kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_parent_delete: Option<String>,
    /// Adapters whose reports decide the conditions.
    pub required_adapters: Vec<String>,
    /// Component of the configured OpenAPI schema that a spec must fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_schema_name: Option<String>,
    /// Makes the absence of that component a start-up error.
    pub require_spec_schema: bool,
    /// What a resource of this kind may refer to.
    pub references: Vec<ReferenceDescriptor>,
    /// Rules that lift findings of adapters into the conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionDescriptor>,
    /// Shortest name allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_min_len: Option<usize>,
    /// Longest name allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_max_len: Option<usize>,
}

/// One entry of an entity's `references`, not yet checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReferenceDescriptor {
    /// The name under which the reference appears in `references`.
    pub ref_type: String,
    /// The kind it points to.
    pub target_kind: String,
    /// Fewest targets; 0 makes the reference optional.
    pub min: usize,
    /// Most targets; 0 means unlimited.
    pub max: usize,
}

/// A checked kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// The kind's name.
    pub kind: Arc<str>,
    /// The path segment of its collection.
    pub plural: String,
    /// The owning kind, for a child.
    pub parent: Option<Parent>,
    /// Adapters whose reports decide the conditions, in configured order.
    pub required_adapters: Vec<String>,
    /// The type of the condition that each of them has, in the same order.
    pub(crate) adapter_conditions: Vec<String>,
    /// Component of the OpenAPI schema that a spec must fit.
    pub spec_schema_name: Option<String>,
    /// Whether the absence of that component stops the start.
    pub require_spec_schema: bool,
    /// What a resource may refer to, by ref type.
    pub references: Vec<ReferenceRule>,
    /// Conditions lifted out of reports, by type.
    pub mappings: Vec<Mapping>,
    /// Allowed length of a name, in characters.
    pub name_len: RangeInclusive<usize>,
}

impl Entity {
    /// Whether it requires this adapter.
    pub fn requires(&self, adapter: &str) -> bool {
        self.required_adapters.iter().any(|name| name == adapter)
    }
}

/// The owning side of a child kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The owning kind.
    pub kind: Arc<str>,
    /// What the owner's deletion does to this kind.
    pub on_delete: OnParentDelete,
}

/// What deleting a parent does to its children of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnParentDelete {
    /// The children are deleted too.
    Cascade,
    /// An active child refuses the deletion.
    Restrict,
}

/// A checked reference declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceRule {
    /// The name under which the reference appears.
    pub ref_type: String,
    /// The kind it points to.
    pub target_kind: Arc<str>,
    /// Fewest targets.
    pub min: usize,
    /// Most targets, if there is a bound.
    pub max: Option<usize>,
}

/// Every configured kind, checked as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    entities: Vec<Arc<Entity>>,
}

impl Catalog {
    /// Checks the descriptors against each other. The error lists every fault found, each with
    /// the path of the entry it is about.
    pub fn new(descriptors: Vec<EntityDescriptor>) -> Result<Self, Vec<String>> {
        let faults = checks::faults(&descriptors);
        if !faults.is_empty() {
            return Err(faults);
        }
        let entities: Vec<_> = descriptors.into_iter().map(|d| Arc::new(Entity::from(d))).collect();
        Ok(Self { entities })
    }

    /// The kinds of a configuration without `entities`: Cluster and NodePool.
    pub fn default_descriptors() -> Vec<EntityDescriptor> {
        vec![
            EntityDescriptor {
                kind: "Cluster".into(),
                plural: "clusters".into(),
                required_adapters: vec!["validator".into()],
                spec_schema_name: Some("ClusterSpec".into()),
                name_min_len: Some(3),
                name_max_len: Some(53),
                ..EntityDescriptor::default()
            },
            EntityDescriptor {
                kind: "NodePool".into(),
                plural: "nodepools".into(),
                parent_kind: Some("Cluster".into()),
                on_parent_delete: Some("cascade".into()),
                required_adapters: vec!["validator".into()],
                spec_schema_name: Some("NodePoolSpec".into()),
                name_min_len: Some(3),
                name_max_len: Some(15),
                ..EntityDescriptor::default()
            },
        ]
    }

    /// Every kind, in configured order.
    pub fn kinds(&self) -> impl Iterator<Item = &Arc<Entity>> {
        self.entities.iter()
    }

    /// The entity of a kind, if it is configured.
    pub fn get(&self, kind: &str) -> Option<&Arc<Entity>> {
        // There are a handful: to compare them all takes less than to hash a name.
        self.entities.iter().find(|entity| *entity.kind == *kind)
    }

    /// Whether any kind has conditions by rules.
    pub fn has_mappings(&self) -> bool {
        self.entities.iter().any(|entity| !entity.mappings.is_empty())
    }

    /// Whether the rules of a kind read reports.
    pub fn reads_reports(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(|entity| entity.mappings.iter().any(crate::Mapping::reads_reports))
    }

    /// The adapters that any kind requires, each once.
    pub fn required_adapters(&self) -> impl Iterator<Item = &str> {
        let adapters: BTreeSet<&str> =
            self.entities.iter().flat_map(|entity| &entity.required_adapters).map(String::as_str).collect();
        adapters.into_iter()
    }

    /// The kinds owned directly by `kind`, in configured order.
    pub fn children_of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Arc<Entity>> {
        self.entities.iter().filter(move |e| e.parent.as_ref().is_some_and(|p| &*p.kind == kind))
    }

    /// The kinds from the root down to and including `entity`.
    pub fn lineage<'a>(&'a self, entity: &'a Arc<Entity>) -> Vec<&'a Arc<Entity>> {
        let mut line = vec![entity];
        let mut at = entity;
        while let Some(owner) = at.parent.as_ref().and_then(|p| self.get(&p.kind)) {
            line.push(owner);
            at = owner;
        }
        line.reverse();
        line
    }
}

impl EntityDescriptor {
    /// Allowed length of a name, in characters.
    fn name_len(&self) -> RangeInclusive<usize> {
        let (min, max) = match self.kind.as_str() {
            "Cluster" => (3, 53),
            "NodePool" => (3, 15),
            _ => (1, 100),
        };
        self.name_min_len.unwrap_or(min)..=self.name_max_len.unwrap_or(max)
    }
}

impl From<EntityDescriptor> for Entity {
    /// Only for descriptors that passed the checks: an unknown `on_parent_delete` cannot occur, nor a rule
    /// that does not compile.
    fn from(d: EntityDescriptor) -> Self {
        let name_len = d.name_len();
        let mut mappings: Vec<_> =
            d.conditions.iter().filter_map(|rule| Mapping::compile(rule).ok()).collect();
        mappings.sort_by(|a, b| a.kind.cmp(&b.kind));
        let on_delete = match d.on_parent_delete.as_deref() {
            Some("restrict") => OnParentDelete::Restrict,
            _ => OnParentDelete::Cascade,
        };
        Self {
            kind: d.kind.into(),
            plural: d.plural,
            parent: d.parent_kind.map(|kind| Parent { kind: kind.into(), on_delete }),
            adapter_conditions: d.required_adapters.iter().map(|name| adapter_condition_type(name)).collect(),
            required_adapters: d.required_adapters,
            spec_schema_name: d.spec_schema_name,
            require_spec_schema: d.require_spec_schema,
            references: d
                .references
                .into_iter()
                .map(|r| ReferenceRule {
                    ref_type: r.ref_type,
                    target_kind: r.target_kind.into(),
                    min: r.min,
                    max: (r.max > 0).then_some(r.max),
                })
                .collect(),
            mappings,
            name_len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::{ExpressionDescriptor, OutputDescriptor};

    fn kind(kind: &str, plural: &str) -> EntityDescriptor {
        EntityDescriptor { kind: kind.into(), plural: plural.into(), ..EntityDescriptor::default() }
    }

    fn child(name: &str, plural: &str, parent: &str) -> EntityDescriptor {
        EntityDescriptor {
            parent_kind: Some(parent.into()),
            on_parent_delete: Some("cascade".into()),
            ..kind(name, plural)
        }
    }

    fn required(ref_type: &str, target: &str) -> ReferenceDescriptor {
        ReferenceDescriptor { ref_type: ref_type.into(), target_kind: target.into(), min: 1, max: 0 }
    }

    #[test]
    fn the_default_kinds_are_cluster_and_node_pool() {
        let catalog = Catalog::new(Catalog::default_descriptors()).unwrap();
        let pool = catalog.get("NodePool").unwrap();
        assert_eq!(pool.name_len, 3..=15);
        assert_eq!(catalog.get("Cluster").unwrap().name_len, 3..=53);
        let line: Vec<_> = catalog.lineage(pool).iter().map(|e| &*e.kind).collect();
        assert_eq!(line, ["Cluster", "NodePool"]);
    }

    #[test]
    fn every_fault_is_reported_at_once() {
        let mut orphan = child("Orphan", "orphans", "Nobody");
        orphan.on_parent_delete = Some("explode".into());
        let mut twice = kind("Twice", "orphans");
        twice.references = vec![
            ReferenceDescriptor { ref_type: "r".into(), target_kind: "Ghost".into(), min: 3, max: 2 },
            ReferenceDescriptor { ref_type: "r".into(), target_kind: "Orphan".into(), min: 0, max: 0 },
        ];
        twice.required_adapters = vec!["my-dns".into(), "My-dns".into()];
        let faults =
            Catalog::new(vec![orphan, twice, kind("Res", "resources"), kind("", "x y")]).unwrap_err();
        for expected in [
            "entities[0].on_parent_delete: must be cascade or restrict, not 'explode'",
            "entities[0].parent_kind: no entity of kind 'Nobody'",
            "entities[1].plural: 'orphans' is declared by entities[0]",
            "entities[1].references[0].target_kind: no entity of kind 'Ghost'",
            "entities[1].references[0].max: must be at least min (3), not 2",
            "entities[1].references[1].ref_type: 'r' is declared twice",
            "entities[1].required_adapters[1]",
            "entities[2].plural: 'resources' is taken",
            "entities[3].kind",
            "entities[3].plural",
        ] {
            assert!(faults.iter().any(|f| f.starts_with(expected)), "{expected} not in {faults:#?}");
        }
    }

    fn rule(kind: &str, when: &str) -> ConditionDescriptor {
        ConditionDescriptor {
            kind: kind.into(),
            when: ExpressionDescriptor { expression: when.into() },
            output: OutputDescriptor {
                status: ExpressionDescriptor { expression: "'True'".into() },
                ..OutputDescriptor::default()
            },
        }
    }

    #[test]
    fn rules_for_conditions_are_kept_by_type() {
        let mut cluster = kind("Cluster", "clusters");
        cluster.conditions =
            vec![rule("ZonesReady", "true"), rule("DnsAvailable", "resource.generation > 1")];
        let catalog = Catalog::new(vec![cluster]).unwrap();
        let kinds: Vec<_> =
            catalog.get("Cluster").unwrap().mappings.iter().map(|m| m.kind.as_str()).collect();
        assert_eq!(kinds, ["DnsAvailable", "ZonesReady"]);
    }

    #[test]
    fn every_faulty_rule_for_a_condition_is_reported_at_once() {
        let mut cluster = kind("Cluster", "clusters");
        cluster.conditions = vec![
            rule("", "true"),
            rule(&"x".repeat(101), "true"),
            rule("bell\u{7}", "true"),
            rule("Twice", "true"),
            rule("Twice", "statuss.size() > 0"),
            rule("Reconciled", "true"),
            rule("LastKnownReconciled", "true"),
            rule("MyAdapterSuccessful", "true"),
            rule("Ready", "true"),
            rule("Available", ""),
        ];
        let reserved = |kind| format!("'{kind}' is a type of the API's own conditions");
        assert_eq!(
            Catalog::new(vec![kind("Rack", "racks"), cluster]).unwrap_err(),
            [
                "entities[1].conditions[0].type: must be 1 to 100 characters, none of them a control character".into(),
                "entities[1].conditions[1].type: must be 1 to 100 characters, none of them a control character".into(),
                "entities[1].conditions[2].type: must be 1 to 100 characters, none of them a control character".into(),
                "entities[1].conditions[4].type: 'Twice' is declared twice".into(),
                "entities[1].conditions[4].when.expression: line 1, column 1: unknown name 'statuss'; did you mean \
                 statuses?"
                    .into(),
                format!("entities[1].conditions[5].type: {}", reserved("Reconciled")),
                format!("entities[1].conditions[6].type: {}", reserved("LastKnownReconciled")),
                format!("entities[1].conditions[7].type: {}", reserved("MyAdapterSuccessful")),
                format!("entities[1].conditions[8].type: {}", reserved("Ready")),
                format!("entities[1].conditions[9].type: {}", reserved("Available")),
                "entities[1].conditions[9].when.expression: required".to_owned(),
            ]
        );
    }

    #[test]
    fn a_rule_reads_as_configuration_writes_it() {
        let given = serde_json::json!({
            "type": "ZonesReady",
            "when": {"expression": "true"},
            "output": {"status": {"expression": "'True'"}, "message": {"expression": "'all'"}},
        });
        let read: ConditionDescriptor = serde_json::from_value(given.clone()).unwrap();
        assert_eq!(read.kind, "ZonesReady");
        assert_eq!(read.output.reason, None);
        assert_eq!(serde_json::to_value(&read).unwrap(), given);
    }

    #[test]
    fn ownership_cycles_are_refused() {
        let faults = Catalog::new(vec![child("A", "as", "B"), child("B", "bs", "A"), child("C", "cs", "A")])
            .unwrap_err();
        assert_eq!(faults.len(), 2, "{faults:#?}");
    }

    #[test]
    fn cycles_of_required_references_are_refused_and_optional_ones_are_not() {
        let mut a = kind("A", "as");
        a.references = vec![required("b", "B")];
        let mut b = kind("B", "bs");
        b.references = vec![required("a", "A")];
        assert_eq!(Catalog::new(vec![a.clone(), b.clone()]).unwrap_err().len(), 2);
        b.references[0].min = 0;
        assert!(Catalog::new(vec![a, b]).is_ok());
    }
}
