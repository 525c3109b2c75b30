//! Deletion: the whole tree is deleted, or the request is refused.

use hyperfleet_core::{Action, EntityDescriptor, Phase, RawJson, ResourceId};
use serde_json::{Value, json};

use super::fixture::{Fixture, at, child, kind};

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
    fixture: Fixture,
    cluster: ResourceId,
    pool: ResourceId,
    nodes: [ResourceId; 2],
}

/// A cluster with a pool of two nodes, made at second 0.
fn tree() -> Tree {
    let mut fixture = Fixture::new(&kinds());
    let cluster = fixture.create("Cluster", None, 0);
    let pool = fixture.create("Pool", Some(cluster), 0);
    let nodes = [(); 2].map(|()| fixture.create("Node", Some(pool), 0));
    Tree { fixture, cluster, pool, nodes }
}

#[test]
fn everything_below_is_deleted_too_each_with_a_generation_of_its_own() {
    let Tree { mut fixture, cluster, pool, nodes } = tree();
    fixture.change(pool, 5);
    let answer = fixture.delete(cluster, 10).unwrap();
    assert_eq!(&answer, fixture.row(cluster), "the answer is what is stored");
    for (id, generation) in [(cluster, 2), (pool, 3), (nodes[0], 2), (nodes[1], 2)] {
        let row = fixture.row(id);
        assert_eq!(row.generation, generation);
        assert_eq!(
            row.phase,
            Phase::Finalizing(row.updated.clone()),
            "deleted_time and deleted_by equal updated_time and updated_by"
        );
        assert_eq!((row.updated.at, row.updated.by.as_str()), (at(10), "ann@example.com"));
        assert_eq!(fixture.condition(id, "Reconciled")["observed_generation"], generation);
    }
    let order: Vec<_> = fixture.last_changes(4).into_iter().map(|(id, _)| id).collect();
    assert_eq!(order, [nodes[0], nodes[1], pool, cluster], "children first");
}

#[test]
fn a_second_delete_changes_nothing_and_shows_the_resource_as_it_is() {
    let Tree { mut fixture, cluster, pool, .. } = tree();
    fixture.delete(cluster, 10).unwrap();
    let contents = fixture.contents();
    for id in [cluster, pool] {
        assert_eq!(&fixture.delete(id, 20).unwrap(), fixture.row(id));
    }
    assert_eq!(fixture.contents(), contents);
}

#[test]
fn an_active_child_of_a_restrict_kind_refuses_the_deletion_of_all() {
    for below_the_pool in [false, true] {
        let Tree { mut fixture, cluster, pool, .. } = tree();
        let (kind, owner) = if below_the_pool { ("Disk", pool) } else { ("Addon", cluster) };
        let child = fixture.create(kind, Some(owner), 1);
        let error = fixture.delete(cluster, 10).unwrap_err();
        assert_eq!(error.code(), CONFLICT);
        assert!(error.detail.contains(&format!("{kind} (1)")), "{}", error.detail);
        fixture.delete(child, 20).unwrap();
        fixture.delete(cluster, 30).unwrap();
        assert_eq!(
            fixture.exists(child),
            below_the_pool,
            "a finalizing child does not refuse, it is waited for"
        );
    }
}

#[test]
fn a_resource_that_an_active_one_outside_the_tree_refers_to_stays_and_the_referrer_is_named() {
    let Tree { mut fixture, cluster, pool, .. } = tree();
    let zone = fixture.create_with("Zone", None, 1, &json!({"pool": [pool]}));
    for id in [cluster, pool] {
        let error = fixture.delete(id, 10).unwrap_err();
        assert_eq!(error.code(), CONFLICT);
        let told = format!("Zone '{zone}' refers to Pool '{pool}'");
        assert!(error.detail.contains(&told), "{}", error.detail);
    }
    fixture.merge(zone, 20, &json!({"references": null})).unwrap();
    fixture.delete(cluster, 30).unwrap();
}

#[test]
fn a_reference_inside_the_tree_stops_nothing_and_is_dropped() {
    let Tree { mut fixture, cluster, pool, .. } = tree();
    let node = fixture.create_with("Node", Some(pool), 1, &json!({"pool": [pool]}));
    fixture.delete(cluster, 10).unwrap();
    assert_eq!(fixture.row(node).references.parse::<Value>().unwrap(), json!({}));
    let history = &fixture.database.history;
    let change = history.iter().rfind(|change| change.resource == node).unwrap();
    assert_eq!(change.entries[0].action, Action::DeletionRequested);
    assert_eq!(change.entries[0].changes[0].from, Some(json!({"pool": [pool]})));
}

#[test]
fn references_of_finalizing_resources_do_not_block_a_deletion() {
    let Tree { mut fixture, cluster, pool, .. } = tree();
    let other = fixture.create("Cluster", None, 1);
    let elsewhere = fixture.create("Pool", Some(other), 1);
    let node = fixture.create_with("Node", Some(elsewhere), 1, &json!({"pool": [pool]}));
    assert_eq!(fixture.delete(cluster, 10).unwrap_err().code(), CONFLICT);
    fixture.delete(node, 20).unwrap();
    let left_behind = RawJson::from_value(&json!({"pool": [pool]}));
    fixture.database.rows.get_mut(&node).unwrap().references = left_behind;
    fixture.delete(cluster, 30).unwrap();
    assert!(!fixture.row(cluster).is_active());
}

#[test]
fn the_last_child_takes_its_waiting_owner_along_however_it_was_left_behind() {
    let Tree { mut fixture, pool, nodes, .. } = tree();
    fixture.delete(pool, 10).unwrap();
    fixture.force_delete(nodes[0], 20).unwrap();
    let active = fixture.database.rows.get_mut(&nodes[1]).unwrap();
    active.phase = Phase::Active;
    let without_adapters: Vec<_> =
        kinds().into_iter().map(|kind| EntityDescriptor { required_adapters: Vec::new(), ..kind }).collect();
    fixture.reconfigure(super::fixture::rulebook(&without_adapters));
    fixture.delete(nodes[1], 30).unwrap();
    assert!(!fixture.exists(nodes[1]) && !fixture.exists(pool));
}

#[test]
fn a_resource_without_blockers_is_removed_at_once_and_returned() {
    let mut fixture = Fixture::new(&kinds());
    let cluster = fixture.create("Cluster", None, 0);
    let pools = [(); 2].map(|()| fixture.create("Pool", Some(cluster), 0));
    let shown = fixture.delete(pools[0], 10).unwrap();
    assert_eq!((shown.generation, shown.is_active()), (2, false));
    assert!(!fixture.exists(pools[0]));
    assert_eq!(fixture.last_changes(1), [(pools[0], vec![Action::DeletionRequested, Action::Deleted])]);

    fixture.delete(cluster, 20).unwrap();
    assert!(
        !fixture.exists(pools[1]) && fixture.exists(cluster),
        "the pool waits for nothing, the cluster does"
    );
    let waits = "Required adapters not reporting Finalized=True at generation 2: validator";
    assert_eq!(fixture.condition(cluster, "Reconciled")["message"], waits);
}

#[test]
fn a_resource_that_waits_only_for_its_children_is_kept() {
    let Tree { mut fixture, pool, nodes, .. } = tree();
    fixture.delete(pool, 10).unwrap();
    assert!(fixture.exists(pool) && nodes.iter().all(|node| !fixture.row(*node).is_active()));
    let waits = "Deletion in progress: waiting for child resources: Node (2)";
    assert_eq!(fixture.condition(pool, "Reconciled")["message"], waits);
}

#[test]
fn children_of_a_kind_that_is_not_configured_any_more_are_not_left_alone() {
    let Tree { mut fixture, cluster, .. } = tree();
    let known: Vec<_> =
        kinds().into_iter().filter(|kind| !["Pool", "Node", "Disk", "Zone"].contains(&&*kind.kind)).collect();
    fixture.reconfigure(super::fixture::rulebook(&known));
    let error = fixture.delete(cluster, 10).unwrap_err();
    assert_eq!(error.code(), CONFLICT);
    assert!(error.detail.ends_with("not configured any more: Pool (1)"), "{}", error.detail);
}
