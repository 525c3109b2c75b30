//! When a finalizing resource is gone: by the report that was the last to wait for, by its last child, and so on
//! upwards in the same commit; and by force.

use hyperfleet_core::rules::Reported;
use hyperfleet_core::{Action, EntityDescriptor, ResourceId};
use serde_json::json;

use super::fixture::{Fixture, child, kind, rulebook};
use super::test_report::test_report;

/// Three levels; the middle one waits for nothing but its children.
fn kinds() -> Vec<EntityDescriptor> {
    vec![
        kind("Cluster", &["dns", "cert"]),
        child("Pool", "Cluster", "cascade", &[]),
        child("Node", "Pool", "cascade", &["dns"]),
    ]
}

struct Tree {
    fixture: Fixture,
    cluster: ResourceId,
    pool: ResourceId,
    nodes: [ResourceId; 2],
}

/// A tree that is being deleted since second 10. Every resource is at generation 2.
fn doomed() -> Tree {
    let mut fixture = Fixture::new(&kinds());
    let cluster = fixture.create("Cluster", None, 0);
    let pool = fixture.create("Pool", Some(cluster), 0);
    let nodes = [(); 2].map(|()| fixture.create("Node", Some(pool), 0));
    fixture.delete(cluster, 10).unwrap();
    Tree { fixture, cluster, pool, nodes }
}

#[test]
fn the_report_of_the_last_adapter_removes_the_resource_and_its_reports() {
    let mut fixture = Fixture::new(&kinds());
    let cluster = fixture.create("Cluster", None, 0);
    fixture.tell(cluster, test_report("audit", 1, 5));
    fixture.delete(cluster, 10).unwrap();
    fixture.tell(cluster, test_report("dns", 2, 20).finalized());
    assert!(fixture.exists(cluster));
    let answer =
        fixture.report(cluster, test_report("cert", 2, 30).available("Unknown").finalized()).unwrap();
    assert!(matches!(&answer, Reported::Stored(report) if *report.adapter == *"cert"), "{answer:?}");
    assert!(!fixture.exists(cluster));
    assert_eq!(fixture.database.reports_on(cluster).count(), 0);
    let actions = [Action::ReportChanged, Action::ConditionChanged, Action::Deleted];
    assert_eq!(fixture.last_changes(1), [(cluster, actions.to_vec())]);
    assert_eq!(fixture.database.history.len(), 5, "the timeline stays");
}

#[test]
fn nothing_is_removed_by_a_report_that_does_not_finalize_the_present_generation() {
    for (name, report) in [
        ("finalized at the generation before", test_report("cert", 1, 30).finalized()),
        ("available", test_report("cert", 2, 30)),
        ("not finalized", test_report("cert", 2, 30).with("Finalized", "False")),
        ("by an adapter that is not required", test_report("audit", 2, 30).finalized()),
    ] {
        let mut fixture = Fixture::new(&kinds());
        let cluster = fixture.create("Cluster", None, 0);
        fixture.delete(cluster, 10).unwrap();
        fixture.tell(cluster, test_report("dns", 2, 20).finalized());
        fixture.tell(cluster, report);
        assert!(fixture.exists(cluster), "{name}");
    }
}

#[test]
fn an_adapter_that_finalized_before_the_deletion_has_to_say_so_again() {
    let mut fixture = Fixture::new(&kinds());
    let cluster = fixture.create("Cluster", None, 0);
    for adapter in ["dns", "cert"] {
        fixture.tell(cluster, test_report(adapter, 1, 5).finalized());
    }
    fixture.delete(cluster, 10).unwrap();
    assert!(fixture.exists(cluster));
}

#[test]
fn an_adapter_that_takes_its_word_back_is_waited_for_again() {
    let mut fixture = Fixture::new(&kinds());
    let cluster = fixture.create("Cluster", None, 0);
    fixture.delete(cluster, 10).unwrap();
    fixture.tell(cluster, test_report("dns", 2, 20).finalized());
    fixture.tell(cluster, test_report("dns", 2, 25));
    fixture.tell(cluster, test_report("cert", 2, 30).finalized());
    let waits = "Required adapters not reporting Finalized=True at generation 2: dns";
    assert_eq!(fixture.condition(cluster, "Reconciled")["message"], waits);
}

#[test]
fn the_last_child_takes_its_waiting_owners_along_in_one_commit() {
    let Tree { mut fixture, cluster, pool, nodes } = doomed();
    for adapter in ["dns", "cert"] {
        fixture.tell(cluster, test_report(adapter, 2, 20).finalized());
    }
    fixture.tell(nodes[0], test_report("dns", 2, 30).finalized());
    assert!(!fixture.exists(nodes[0]) && fixture.exists(pool) && fixture.exists(cluster));
    let ends = fixture.last_changes(2);
    assert_eq!((ends[0].0, &ends[1]), (nodes[0], &(pool, vec![])), "the pool tells how many it waits for");
    assert_eq!(
        fixture.condition(pool, "Reconciled")["message"],
        "Deletion in progress: waiting for child resources: Node (1)"
    );

    fixture.tell(nodes[1], test_report("dns", 2, 40).finalized());
    assert!(fixture.database.rows.is_empty() && fixture.database.reports.is_empty());
    let ends: Vec<_> =
        fixture.last_changes(3).into_iter().map(|(id, told)| (id, told.last().copied())).collect();
    assert_eq!(
        ends,
        [nodes[1], pool, cluster].map(|id| (id, Some(Action::Deleted))),
        "each after its children"
    );
}

#[test]
fn an_owner_that_waits_for_an_adapter_stays_and_its_owners_are_not_evaluated() {
    let Tree { mut fixture, cluster, pool, nodes } = doomed();
    fixture.tell(cluster, test_report("dns", 2, 20).finalized());
    for node in nodes {
        fixture.tell(node, test_report("dns", 2, 30).finalized());
    }
    assert!(!fixture.exists(pool) && fixture.exists(cluster));
    let waits = "Required adapters not reporting Finalized=True at generation 2: cert";
    assert_eq!(fixture.condition(cluster, "Reconciled")["message"], waits);
    fixture.tell(cluster, test_report("cert", 2, 40).finalized());
    assert!(fixture.database.rows.is_empty());
}

#[test]
fn an_active_owner_does_not_notice_that_a_child_is_gone() {
    let mut fixture = Fixture::new(&kinds());
    let cluster = fixture.create("Cluster", None, 0);
    let pool = fixture.create("Pool", Some(cluster), 0);
    let node = fixture.create("Node", Some(pool), 0);
    fixture.delete(node, 10).unwrap();
    let owners = [fixture.row(pool).clone(), fixture.row(cluster).clone()];
    fixture.tell(node, test_report("dns", 2, 20).finalized());
    assert!(!fixture.exists(node));
    assert_eq!([fixture.row(pool).clone(), fixture.row(cluster).clone()], owners);
}

#[test]
fn children_of_a_kind_that_is_not_configured_any_more_are_waited_for() {
    let mut fixture = Fixture::new(&kinds());
    let cluster = fixture.create("Cluster", None, 0);
    let pool = fixture.create("Pool", Some(cluster), 0);
    fixture.create("Node", Some(pool), 0);
    fixture.delete(cluster, 10).unwrap();
    fixture.reconfigure(rulebook(&kinds()[..1]));
    for adapter in ["dns", "cert"] {
        fixture.tell(cluster, test_report(adapter, 2, 20).finalized());
    }
    let waits = "Deletion in progress: waiting for child resources: Pool (1)";
    assert_eq!(fixture.condition(cluster, "Reconciled")["message"], waits);
}

#[test]
fn force_takes_everything_below_with_all_reports_and_leaves_a_record() {
    let Tree { mut fixture, cluster, pool, nodes } = doomed();
    fixture.tell(nodes[0], test_report("dns", 2, 20));
    fixture.tell(cluster, test_report("dns", 2, 20).finalized());
    fixture.force_delete(cluster, 30).unwrap();
    assert!(fixture.database.rows.is_empty() && fixture.database.reports.is_empty());
    let gone = [nodes[0], nodes[1], pool, cluster];
    assert_eq!(fixture.last_changes(4), gone.map(|id| (id, vec![Action::ForceDeleted])));
    let record = fixture.database.history.last().unwrap();
    assert_eq!(record.entries[0].reason.as_deref(), Some("it hangs"));
    assert_eq!(record.entries[0].removed, gone[..3]);
    assert_eq!(record.actor, "ann@example.com");
}

#[test]
fn force_on_the_last_child_lets_its_owners_go_the_usual_way() {
    let Tree { mut fixture, cluster, pool, nodes } = doomed();
    for adapter in ["dns", "cert"] {
        fixture.tell(cluster, test_report(adapter, 2, 20).finalized());
    }
    fixture.tell(nodes[0], test_report("dns", 2, 30).finalized());
    fixture.force_delete(nodes[1], 40).unwrap();
    assert!(fixture.database.rows.is_empty());
    let ends: Vec<_> =
        fixture.last_changes(3).into_iter().map(|(id, told)| (id, told.last().copied())).collect();
    let usual = |id| (id, Some(Action::Deleted));
    assert_eq!(ends, [(nodes[1], Some(Action::ForceDeleted)), usual(pool), usual(cluster)]);
}

#[test]
fn force_delete_needs_an_existing_finalizing_resource() {
    let mut fixture = Fixture::new(&kinds());
    let cluster = fixture.create("Cluster", None, 0);
    assert_eq!(fixture.force_delete(cluster, 10).unwrap_err().code(), "HYPERFLEET-CNF-003");
    fixture.delete(cluster, 20).unwrap();
    fixture.force_delete(cluster, 30).unwrap();
    assert_eq!(fixture.force_delete(cluster, 40).unwrap_err().code(), "HYPERFLEET-NTF-001");
    assert_eq!(fixture.delete(cluster, 50).unwrap_err().code(), "HYPERFLEET-NTF-001");
}

#[test]
fn no_resource_can_be_created_or_changed_below_a_finalizing_one() {
    let Tree { mut fixture, pool, nodes, .. } = doomed();
    let refused = fixture.merge(nodes[0], 20, &json!({"labels": {"a": "b"}})).unwrap_err();
    assert_eq!(refused.code(), "HYPERFLEET-CNF-003");
    let create = hyperfleet_core::Intent::Create(hyperfleet_core::Create {
        id: ResourceId::generate(),
        kind: "Node".into(),
        ancestors: vec![("Pool".into(), pool.to_string())],
        name: "late".to_owned(),
        spec: json!({}),
        labels: Default::default(),
        references: Default::default(),
    });
    assert_eq!(fixture.run(create, 20).unwrap_err().code(), "HYPERFLEET-CNF-003");
}
