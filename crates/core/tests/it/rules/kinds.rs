//! The catalog that the histories run on: three levels, both policies, with and without adapters,
//! optional and required references inside and across trees.

use hyperfleet_core::{EntityDescriptor, ReferenceDescriptor};

/// A kind of the test catalog.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    plural: &'static str,
    /// The owning kind, and `cascade` or `restrict`.
    pub(crate) parent: Option<(&'static str, &'static str)>,
    pub(crate) adapters: &'static [&'static str],
    /// Ref type, target kind, min, max (0 = unlimited).
    pub(crate) references: &'static [(&'static str, &'static str, usize, usize)],
}

pub(crate) const KINDS: [Kind; 7] = [
    Kind {
        name: "Cluster",
        plural: "clusters",
        parent: None,
        adapters: &[],
        references: &[("identity", "Identity", 0, 2), ("backup", "Identity", 0, 0)],
    },
    Kind {
        name: "NodePool",
        plural: "nodepools",
        parent: Some(("Cluster", "cascade")),
        adapters: &[],
        references: &[("peer", "NodePool", 0, 0)],
    },
    Kind {
        name: "Node",
        plural: "nodes",
        parent: Some(("NodePool", "cascade")),
        adapters: &["dns", "my-tls"],
        references: &[("zone", "Zone", 1, 2)],
    },
    Kind {
        name: "Disk",
        plural: "disks",
        parent: Some(("NodePool", "restrict")),
        adapters: &[],
        references: &[],
    },
    Kind {
        name: "Addon",
        plural: "addons",
        parent: Some(("Cluster", "restrict")),
        adapters: &["addon"],
        references: &[],
    },
    Kind { name: "Identity", plural: "identities", parent: None, adapters: &["validator"], references: &[] },
    Kind {
        name: "Zone",
        plural: "zones",
        parent: None,
        adapters: &[],
        references: &[("home", "Cluster", 0, 1)],
    },
];

pub(crate) fn kind(name: &str) -> &'static Kind {
    KINDS.iter().find(|kind| kind.name == name).unwrap()
}

pub(crate) fn descriptors() -> Vec<EntityDescriptor> {
    KINDS
        .iter()
        .map(|kind| EntityDescriptor {
            kind: kind.name.into(),
            plural: kind.plural.into(),
            parent_kind: kind.parent.map(|(parent, _)| parent.into()),
            on_parent_delete: kind.parent.map(|(_, policy)| policy.into()),
            required_adapters: kind.adapters.iter().map(|&adapter| adapter.into()).collect(),
            references: kind
                .references
                .iter()
                .map(|&(ref_type, target, min, max)| ReferenceDescriptor {
                    ref_type: ref_type.into(),
                    target_kind: target.into(),
                    min,
                    max,
                })
                .collect(),
            name_min_len: Some(1),
            name_max_len: Some(20),
            ..EntityDescriptor::default()
        })
        .collect()
}
