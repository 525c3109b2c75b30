//! What a DELETE reaches and what stops it: the whole tree or nothing.

use hyperfleet_core::{Action, EntityDescriptor, Phase, RawJson, ResourceId};
use serde_json::{Value, json};

use super::stage::{Stage, at, child, kind};

const CONFLICT: &str = "HYPERFLEET-CNF-003";

/// Cluster → Pool → Node and Disk by cascade and restrict, Addon below Cluster by restrict; Zone refers to pools.
fn kinds() -> Vec<EntityDescriptor> {
    let mut zone = kind("Zone", &[]);
    let mut node = child("Node", "Pool", "cascade", &["dns"]);
    let refers = json!([{"ref_type": "pool", "target_kind": "Pool"}]);
    zone.references = serde_json::from_value(refers.clone()).unwrap();
    node.references = serde_json::from_value(refers).unwrap();
    vec![
        kind("Cluster", &["validator"]),
        child("Pool", "Cluster", "cascade", &[]),
        node,
        child("Disk", "Pool", "restrict", &["dns"]),
        child("Addon", "Cluster", "restrict", &[]),
        zone,
    ]
}

struct Tree {
    stage: Stage,
    cluster: ResourceId,
    pool: ResourceId,
    nodes: [ResourceId; 2],
}

/// A cluster with a pool of two nodes, made at second 0.
fn tree() -> Tree {
    let mut stage = Stage::new(&kinds());
    let cluster = stage.create("Cluster", None, 0);
    let pool = stage.create("Pool", Some(cluster), 0);
    let nodes = [(); 2].map(|()| stage.create("Node", Some(pool), 0));
    Tree { stage, cluster, pool, nodes }
}

#[test]
fn everything_below_is_deleted_too_each_with_a_generation_of_its_own() {
    let Tree { mut stage, cluster, pool, nodes } = tree();
    stage.change(pool, 5);
    let answer = stage.delete(cluster, 10).unwrap();
    assert_eq!(&answer, stage.row(cluster), "the answer is what is stored");
    for (id, generation) in [(cluster, 2), (pool, 3), (nodes[0], 2), (nodes[1], 2)] {
        let row = stage.row(id);
        assert_eq!(row.generation, generation);
        assert_eq!(
            row.phase,
            Phase::Finalizing(row.updated.clone()),
            "deleted when and by whom it was updated"
        );
        assert_eq!((row.updated.at, row.updated.by.as_str()), (at(10), "ann@example.com"));
        assert_eq!(stage.condition(id, "Reconciled")["observed_generation"], generation);
    }
    let order: Vec<_> = stage.last_changes(4).into_iter().map(|(id, _)| id).collect();
    assert_eq!(order, [nodes[0], nodes[1], pool, cluster], "children first");
}

#[test]
fn a_second_delete_changes_nothing_and_shows_the_resource_as_it_is() {
    let Tree { mut stage, cluster, pool, .. } = tree();
    stage.delete(cluster, 10).unwrap();
    let contents = stage.contents();
    for id in [cluster, pool] {
        assert_eq!(&stage.delete(id, 20).unwrap(), stage.row(id));
    }
    assert_eq!(stage.contents(), contents);
}

#[test]
fn an_active_child_of_a_restrict_kind_refuses_the_deletion_of_all() {
    for below_the_pool in [false, true] {
        let Tree { mut stage, cluster, pool, .. } = tree();
        let (kind, owner) = if below_the_pool { ("Disk", pool) } else { ("Addon", cluster) };
        let child = stage.create(kind, Some(owner), 1);
        let error = stage.delete(cluster, 10).unwrap_err();
        assert_eq!(error.code(), CONFLICT);
        assert!(error.detail.contains(&format!("{kind} (1)")), "{}", error.detail);
        stage.delete(child, 20).unwrap();
        stage.delete(cluster, 30).unwrap();
        assert_eq!(
            stage.exists(child),
            below_the_pool,
            "a finalizing child does not refuse, it is waited for"
        );
    }
}

#[test]
fn a_resource_that_an_active_one_outside_the_tree_refers_to_stays_and_the_referrer_is_named() {
    let Tree { mut stage, cluster, pool, .. } = tree();
    let zone = stage.create_with("Zone", None, 1, &json!({"pool": [pool]}));
    for id in [cluster, pool] {
        let error = stage.delete(id, 10).unwrap_err();
        assert_eq!(error.code(), CONFLICT);
        let told = format!("Zone '{zone}' refers to Pool '{pool}'");
        assert!(error.detail.contains(&told), "{}", error.detail);
    }
    stage.merge(zone, 20, &json!({"references": null})).unwrap();
    stage.delete(cluster, 30).unwrap();
}

#[test]
fn a_reference_inside_the_tree_stops_nothing_and_is_dropped() {
    let Tree { mut stage, cluster, pool, .. } = tree();
    let node = stage.create_with("Node", Some(pool), 1, &json!({"pool": [pool]}));
    stage.delete(cluster, 10).unwrap();
    assert_eq!(stage.row(node).references.parse::<Value>().unwrap(), json!({}));
    let history = &stage.database.history;
    let change = history.iter().rfind(|change| change.resource == node).unwrap();
    assert_eq!(change.entries[0].action, Action::DeletionRequested);
    assert_eq!(change.entries[0].changes[0].from, Some(json!({"pool": [pool]})));
}

#[test]
fn a_reference_of_what_is_finalizing_stops_nothing() {
    let Tree { mut stage, cluster, pool, .. } = tree();
    let other = stage.create("Cluster", None, 1);
    let elsewhere = stage.create("Pool", Some(other), 1);
    let node = stage.create_with("Node", Some(elsewhere), 1, &json!({"pool": [pool]}));
    assert_eq!(stage.delete(cluster, 10).unwrap_err().code(), CONFLICT);
    stage.delete(node, 20).unwrap();
    let left_behind = RawJson::from_value(&json!({"pool": [pool]}));
    stage.database.rows.get_mut(&node).unwrap().references = left_behind;
    stage.delete(cluster, 30).unwrap();
    assert!(!stage.row(cluster).is_active());
}

#[test]
fn the_last_child_takes_its_waiting_owner_along_however_it_was_left_behind() {
    let Tree { mut stage, pool, nodes, .. } = tree();
    stage.delete(pool, 10).unwrap();
    stage.force_delete(nodes[0], 20).unwrap();
    let active = stage.database.rows.get_mut(&nodes[1]).unwrap();
    active.phase = Phase::Active;
    let without_adapters: Vec<_> =
        kinds().into_iter().map(|kind| EntityDescriptor { required_adapters: Vec::new(), ..kind }).collect();
    stage.reconfigure(super::stage::rulebook(&without_adapters));
    stage.delete(nodes[1], 30).unwrap();
    assert!(!stage.exists(nodes[1]) && !stage.exists(pool));
}

#[test]
fn what_waits_for_nothing_is_removed_at_once_and_still_shown() {
    let mut stage = Stage::new(&kinds());
    let cluster = stage.create("Cluster", None, 0);
    let pools = [(); 2].map(|()| stage.create("Pool", Some(cluster), 0));
    let shown = stage.delete(pools[0], 10).unwrap();
    assert_eq!((shown.generation, shown.is_active()), (2, false));
    assert!(!stage.exists(pools[0]));
    assert_eq!(stage.last_changes(1), [(pools[0], vec![Action::DeletionRequested, Action::Deleted])]);

    stage.delete(cluster, 20).unwrap();
    assert!(!stage.exists(pools[1]) && stage.exists(cluster), "the pool waits for nothing, the cluster does");
    let waits = "Required adapters not reporting Finalized=True at generation 2: validator";
    assert_eq!(stage.condition(cluster, "Reconciled")["message"], waits);
}

#[test]
fn what_waits_for_its_children_alone_is_kept_for_them() {
    let Tree { mut stage, pool, nodes, .. } = tree();
    stage.delete(pool, 10).unwrap();
    assert!(stage.exists(pool) && nodes.iter().all(|node| !stage.row(*node).is_active()));
    let waits = "Deletion in progress: waiting for child resources: Node (2)";
    assert_eq!(stage.condition(pool, "Reconciled")["message"], waits);
}

#[test]
fn children_of_a_kind_that_is_not_configured_any_more_are_not_left_alone() {
    let Tree { mut stage, cluster, .. } = tree();
    let known: Vec<_> =
        kinds().into_iter().filter(|kind| !["Pool", "Node", "Disk", "Zone"].contains(&&*kind.kind)).collect();
    stage.reconfigure(super::stage::rulebook(&known));
    let error = stage.delete(cluster, 10).unwrap_err();
    assert_eq!(error.code(), CONFLICT);
    assert!(error.detail.ends_with("not configured any more: Pool (1)"), "{}", error.detail);
}
