//! Recomputation after a change of configuration: conditions are computed anew, resources without further blockers are
//! removed, and a second recomputation changes nothing.

use hyperfleet_core::rules::Rulebook;
use hyperfleet_core::{Action, EntityDescriptor, ResourceId};
use serde_json::{Value, json};

use super::fixture::{Fixture, at, child, kind, rulebook};
use super::test_report::test_report;

fn kinds(cluster: &[&str], pool: &[&str]) -> Vec<EntityDescriptor> {
    vec![kind("Cluster", cluster), child("Pool", "Cluster", "cascade", pool)]
}

/// A finalizing cluster with a finalizing pool, both since second 10.
fn doomed(cluster: &[&str], pool: &[&str]) -> (Fixture, ResourceId, ResourceId) {
    let mut fixture = Fixture::new(&kinds(cluster, pool));
    let cluster = fixture.create("Cluster", None, 0);
    let pool = fixture.create("Pool", Some(cluster), 0);
    fixture.delete(cluster, 10).unwrap();
    (fixture, cluster, pool)
}

#[test]
fn with_the_same_settings_there_is_no_difference() {
    let (mut fixture, cluster, pool) = doomed(&["dns", "cert"], &["dns"]);
    fixture.tell(cluster, test_report("dns", 2, 20).finalized());
    let other = fixture.create("Cluster", None, 30);
    fixture.tell(other, test_report("cert", 1, 40).available("False"));
    let contents = fixture.contents();
    fixture.recompute(&[cluster, pool, other], 100);
    assert_eq!(fixture.contents(), contents);
}

#[test]
fn a_resource_that_waits_for_an_adapter_that_is_no_longer_required_is_removed() {
    let (mut fixture, cluster, pool) = doomed(&["dns", "cert"], &["old"]);
    for adapter in ["dns", "cert"] {
        fixture.tell(cluster, test_report(adapter, 2, 20).finalized());
    }
    fixture.reconfigure(rulebook(&kinds(&["dns", "cert"], &[])));
    fixture.recompute(&[pool], 30);
    assert!(fixture.database.rows.is_empty() && fixture.database.reports.is_empty(), "and its owner with it");
    let ends: Vec<_> =
        fixture.last_changes(2).into_iter().map(|(id, told)| (id, told.last().copied())).collect();
    assert_eq!(ends, [pool, cluster].map(|id| (id, Some(Action::Deleted))));
    fixture.recompute(&[pool, cluster], 40);
}

#[test]
fn the_order_in_which_resources_are_named_does_not_matter() {
    for owner_first in [true, false] {
        let (mut fixture, cluster, pool) = doomed(&["old"], &["old"]);
        fixture.reconfigure(rulebook(&kinds(&[], &[])));
        let ids = if owner_first { [cluster, pool] } else { [pool, cluster] };
        fixture.recompute(&ids, 30);
        assert!(fixture.database.rows.is_empty(), "owner first: {owner_first}");
        assert_eq!(fixture.last_changes(2)[0].0, pool, "the child first");
    }
}

#[test]
fn an_owner_that_is_looked_at_before_its_child_goes_once_the_child_does() {
    let (mut fixture, cluster, pool) = doomed(&["old"], &["old"]);
    fixture.reconfigure(rulebook(&kinds(&[], &[])));
    fixture.recompute(&[cluster], 30);
    let waits = "Deletion in progress: waiting for child resources: Pool (1)";
    assert_eq!(fixture.condition(cluster, "Reconciled")["message"], waits);
    fixture.recompute(&[pool], 40);
    assert!(fixture.database.rows.is_empty());
}

#[test]
fn an_owner_that_stays_names_its_present_blockers() {
    let (mut fixture, cluster, pool) = doomed(&["dns"], &["old"]);
    fixture.tell(cluster, test_report("dns", 2, 20).finalized());
    fixture.reconfigure(rulebook(&kinds(&["dns", "new"], &[])));
    fixture.recompute(&[cluster, pool], 30);
    assert!(!fixture.exists(pool));
    let waits = "Required adapters not reporting Finalized=True at generation 2: new";
    assert_eq!(fixture.condition(cluster, "Reconciled")["message"], waits);
    let changed: Vec<_> = fixture.last_changes(2).into_iter().map(|(id, _)| id).collect();
    assert_eq!(changed, [pool, cluster], "each is written once");
}

#[test]
fn an_owner_that_loses_several_children_at_once_is_written_once() {
    let mut fixture = Fixture::new(&kinds(&["dns"], &["old"]));
    let cluster = fixture.create("Cluster", None, 0);
    let pools = [(); 3].map(|()| fixture.create("Pool", Some(cluster), 0));
    fixture.delete(cluster, 10).unwrap();
    fixture.tell(cluster, test_report("dns", 2, 20).finalized());
    fixture.tell(pools[2], test_report("new", 2, 20).with("Finalized", "False"));
    fixture.tell(pools[0], test_report("new", 2, 20).finalized());
    fixture.tell(pools[1], test_report("new", 2, 20).finalized());
    fixture.reconfigure(rulebook(&kinds(&["dns"], &["new"])));
    fixture.recompute(&[pools[0], pools[1]], 30);
    let changed: Vec<_> = fixture.last_changes(3).into_iter().map(|(id, _)| id).collect();
    assert_eq!(changed, [pools[0], pools[1], cluster]);
    let waits = "Deletion in progress: waiting for child resources: Pool (1)";
    assert_eq!(fixture.condition(cluster, "Reconciled")["message"], waits);
}

#[test]
fn one_adapter_more_unreconciles_as_of_the_last_change_and_only_once() {
    let mut fixture = Fixture::new(&kinds(&["dns"], &[]));
    let cluster = fixture.create("Cluster", None, 0);
    fixture.tell(cluster, test_report("dns", 1, 10));
    fixture.label(cluster, 20);
    let version = fixture.row(cluster).version;
    let updated = fixture.row(cluster).updated.clone();
    fixture.reconfigure(rulebook(&kinds(&["dns", "cert"], &[])));
    fixture.recompute(&[cluster], 100);
    let message = "Required adapters have not yet reported status at generation 1: cert";
    let expected =
        super::condition("Reconciled", "False", ("ReconciledMissingAdapters", message), 1, [0, 10, 20]);
    assert_eq!(fixture.condition(cluster, "Reconciled"), expected);
    let row = fixture.row(cluster);
    assert_eq!((row.version, row.generation, &row.updated), (version.next(), 1, &updated));
    assert_eq!(row.pending_since, Some(at(20)));
    assert_eq!(
        fixture.last_changes(1),
        [(cluster, vec![Action::ConditionChanged, Action::ConditionChanged])]
    );

    let contents = fixture.contents();
    fixture.recompute(&[cluster], 200);
    assert_eq!(fixture.contents(), contents);
}

#[test]
fn a_report_that_was_kept_before_its_adapter_was_required_counts_from_then_on() {
    let mut fixture = Fixture::new(&kinds(&["dns"], &[]));
    let cluster = fixture.create("Cluster", None, 0);
    fixture.tell(cluster, test_report("dns", 1, 10));
    fixture.tell(cluster, test_report("cert", 1, 5).available("False").because("NoQuota", ""));
    fixture.reconfigure(rulebook(&kinds(&["cert", "dns"], &[])));
    fixture.recompute(&[cluster], 100);
    let reconciled = fixture.condition(cluster, "Reconciled");
    assert_eq!(reconciled["message"], "Adapters reporting Available=False: cert (NoQuota)");
    assert_eq!(reconciled["last_updated_time"], json!(at(5)));
    let types = ["Reconciled", "LastKnownReconciled", "CertSuccessful", "DnsSuccessful"];
    assert_eq!(fixture.types(cluster), types);
}

/// The message of `Reconciled` after a repeated report that comes before the conditions are computed anew. It is
/// aggregated by the new settings, so more than times changes.
fn after_a_repeated_report(required: &[&str], new: &[&str]) -> Value {
    let mut fixture = Fixture::new(&kinds(required, &[]));
    let cluster = fixture.create("Cluster", None, 0);
    fixture.tell(cluster, test_report("dns", 1, 10));
    let version = fixture.row(cluster).version;
    fixture.reconfigure(rulebook(&kinds(new, &[])));
    fixture.report(cluster, test_report("dns", 1, 20)).unwrap();
    assert_eq!(fixture.row(cluster).version, version.next(), "more than times changed");
    fixture.condition(cluster, "Reconciled")["message"].clone()
}

#[test]
fn a_repeated_report_that_comes_first_brings_a_status_up_to_date() {
    let message = "Required adapters have not yet reported status at generation 1: cert";
    assert_eq!(after_a_repeated_report(&["dns"], &["dns", "cert"]), message);
}

#[test]
fn a_repeated_report_that_comes_first_brings_the_words_up_to_date() {
    let message = "Required adapters have not yet reported status at generation 1: cert, tls";
    assert_eq!(after_a_repeated_report(&["dns", "cert"], &["dns", "cert", "tls"]), message);
}

#[test]
fn a_repeated_report_before_the_recomputation_drops_adapters_that_are_no_longer_required() {
    for generation in [1, 2] {
        let mut fixture = Fixture::new(&kinds(&["a", "b", "c"], &[]));
        let cluster = fixture.create("Cluster", None, 0);
        fixture.change(cluster, 5);
        fixture.tell(cluster, test_report("a", generation, 10));
        fixture.tell(cluster, test_report("b", 2, 20));
        fixture.reconfigure(rulebook(&kinds(&["a", "c"], &[])));
        fixture.report(cluster, test_report("a", generation, 30)).unwrap();
        assert_eq!(fixture.types(cluster), ["Reconciled", "LastKnownReconciled", "ASuccessful"]);
        assert_eq!(fixture.condition(cluster, "LastKnownReconciled")["observed_generation"], generation);
    }
}

#[test]
fn a_recomputation_keeps_the_spec() {
    let mut fixture = Fixture::new(&kinds(&["dns"], &[]));
    let cluster = fixture.create("Cluster", None, 0);
    let before = fixture.row(cluster).clone();
    fixture.reconfigure(rulebook(&kinds(&[], &[])));
    fixture.recompute(&[cluster], 100);
    assert!(
        fixture.row(cluster).same_desired_state(&before)
            && fixture.row(cluster).conditions != before.conditions
    );
    assert_eq!(fixture.row(cluster).spec.parse::<Value>().unwrap(), json!({"size": 1, "zone": "a"}));
}

#[test]
fn unknown_ids_are_skipped() {
    let mut fixture = Fixture::new(&kinds(&["dns"], &[]));
    fixture.recompute(&[ResourceId::generate()], 10);
    assert_eq!(fixture.database.version.0, 0);
}

#[test]
fn the_condition_settings_differ_exactly_when_conditions_could() {
    let settings =
        |rulebook: &Rulebook| rulebook.condition_settings(rulebook.catalog.get("Cluster").unwrap());
    let one = rulebook(&kinds(&["dns", "cert"], &["a"]));
    assert_eq!(
        settings(&one),
        settings(&rulebook(&kinds(&["dns", "cert"], &["b"]))),
        "another kind's adapters"
    );
    assert_ne!(settings(&one), settings(&rulebook(&kinds(&["cert", "dns"], &["a"]))), "the order shows");
    assert_ne!(settings(&one), settings(&rulebook(&kinds(&["dns"], &["a"]))));
    let mut mapped = kinds(&["dns", "cert"], &["a"]);
    let rule = |status: &str| {
        json!([{
            "type": "Warm",
            "when": {"expression": "true"},
            "output": {"status": {"expression": status}},
        }])
    };
    let mut by_rule = |status: &str| {
        mapped[0].conditions = serde_json::from_value(rule(status)).unwrap();
        settings(&rulebook(&mapped))
    };
    assert_ne!(settings(&one), by_rule("'True'"));
    assert_ne!(by_rule("'True'"), by_rule("'False'"));
    assert_ne!(
        settings(&one),
        settings(&Rulebook { legacy_conditions: true, ..rulebook(&kinds(&["dns", "cert"], &["a"])) })
    );
}
