//! Other settings than the conditions were made by: they are computed anew, what waits for nobody any more goes,
//! and what is computed twice comes out the same.

use hyperfleet_core::rules::Rulebook;
use hyperfleet_core::{Action, EntityDescriptor, ResourceId};
use serde_json::{Value, json};

use super::said::said;
use super::stage::{Stage, at, child, kind, rulebook};

fn kinds(cluster: &[&str], pool: &[&str]) -> Vec<EntityDescriptor> {
    vec![kind("Cluster", cluster), child("Pool", "Cluster", "cascade", pool)]
}

/// A finalizing cluster with a finalizing pool, both since second 10.
fn doomed(cluster: &[&str], pool: &[&str]) -> (Stage, ResourceId, ResourceId) {
    let mut stage = Stage::new(&kinds(cluster, pool));
    let cluster = stage.create("Cluster", None, 0);
    let pool = stage.create("Pool", Some(cluster), 0);
    stage.delete(cluster, 10).unwrap();
    (stage, cluster, pool)
}

#[test]
fn with_the_same_settings_there_is_no_difference() {
    let (mut stage, cluster, pool) = doomed(&["dns", "cert"], &["dns"]);
    stage.tell(cluster, said("dns", 2, 20).finalized());
    let other = stage.create("Cluster", None, 30);
    stage.tell(other, said("cert", 1, 40).available("False"));
    let contents = stage.contents();
    stage.recompute(&[cluster, pool, other], 100);
    assert_eq!(stage.contents(), contents);
}

#[test]
fn what_waits_for_an_adapter_that_is_not_required_any_more_goes() {
    let (mut stage, cluster, pool) = doomed(&["dns", "cert"], &["old"]);
    for adapter in ["dns", "cert"] {
        stage.tell(cluster, said(adapter, 2, 20).finalized());
    }
    stage.reconfigure(rulebook(&kinds(&["dns", "cert"], &[])));
    stage.recompute(&[pool], 30);
    assert!(stage.database.rows.is_empty() && stage.database.reports.is_empty(), "and its owner with it");
    let ends: Vec<_> =
        stage.last_changes(2).into_iter().map(|(id, told)| (id, told.last().copied())).collect();
    assert_eq!(ends, [pool, cluster].map(|id| (id, Some(Action::Deleted))));
    stage.recompute(&[pool, cluster], 40);
}

#[test]
fn the_order_in_which_resources_are_named_does_not_matter() {
    for owner_first in [true, false] {
        let (mut stage, cluster, pool) = doomed(&["old"], &["old"]);
        stage.reconfigure(rulebook(&kinds(&[], &[])));
        let ids = if owner_first { [cluster, pool] } else { [pool, cluster] };
        stage.recompute(&ids, 30);
        assert!(stage.database.rows.is_empty(), "owner first: {owner_first}");
        assert_eq!(stage.last_changes(2)[0].0, pool, "the child first");
    }
}

#[test]
fn an_owner_that_is_looked_at_before_its_child_goes_once_the_child_does() {
    let (mut stage, cluster, pool) = doomed(&["old"], &["old"]);
    stage.reconfigure(rulebook(&kinds(&[], &[])));
    stage.recompute(&[cluster], 30);
    let waits = "Deletion in progress: waiting for child resources: Pool (1)";
    assert_eq!(stage.condition(cluster, "Reconciled")["message"], waits);
    stage.recompute(&[pool], 40);
    assert!(stage.database.rows.is_empty());
}

#[test]
fn an_owner_that_stays_tells_what_it_waits_for_now() {
    let (mut stage, cluster, pool) = doomed(&["dns"], &["old"]);
    stage.tell(cluster, said("dns", 2, 20).finalized());
    stage.reconfigure(rulebook(&kinds(&["dns", "new"], &[])));
    stage.recompute(&[cluster, pool], 30);
    assert!(!stage.exists(pool));
    let waits = "Required adapters not reporting Finalized=True at generation 2: new";
    assert_eq!(stage.condition(cluster, "Reconciled")["message"], waits);
    let changed: Vec<_> = stage.last_changes(2).into_iter().map(|(id, _)| id).collect();
    assert_eq!(changed, [pool, cluster], "each is written once");
}

#[test]
fn an_owner_that_loses_several_children_at_once_is_written_once() {
    let mut stage = Stage::new(&kinds(&["dns"], &["old"]));
    let cluster = stage.create("Cluster", None, 0);
    let pools = [(); 3].map(|()| stage.create("Pool", Some(cluster), 0));
    stage.delete(cluster, 10).unwrap();
    stage.tell(cluster, said("dns", 2, 20).finalized());
    stage.tell(pools[2], said("new", 2, 20).with("Finalized", "False"));
    stage.tell(pools[0], said("new", 2, 20).finalized());
    stage.tell(pools[1], said("new", 2, 20).finalized());
    stage.reconfigure(rulebook(&kinds(&["dns"], &["new"])));
    stage.recompute(&[pools[0], pools[1]], 30);
    let changed: Vec<_> = stage.last_changes(3).into_iter().map(|(id, _)| id).collect();
    assert_eq!(changed, [pools[0], pools[1], cluster]);
    let waits = "Deletion in progress: waiting for child resources: Pool (1)";
    assert_eq!(stage.condition(cluster, "Reconciled")["message"], waits);
}

#[test]
fn one_adapter_more_unreconciles_as_of_the_last_change_and_only_once() {
    let mut stage = Stage::new(&kinds(&["dns"], &[]));
    let cluster = stage.create("Cluster", None, 0);
    stage.tell(cluster, said("dns", 1, 10));
    stage.label(cluster, 20);
    let version = stage.row(cluster).version;
    let updated = stage.row(cluster).updated.clone();
    stage.reconfigure(rulebook(&kinds(&["dns", "cert"], &[])));
    stage.recompute(&[cluster], 100);
    let message = "Required adapters have not yet reported status at generation 1: cert";
    let expected =
        super::condition("Reconciled", "False", ("ReconciledMissingAdapters", message), 1, [0, 10, 20]);
    assert_eq!(stage.condition(cluster, "Reconciled"), expected);
    let row = stage.row(cluster);
    assert_eq!((row.version, row.generation, &row.updated), (version.next(), 1, &updated));
    assert_eq!(row.pending_since, Some(at(20)));
    assert_eq!(stage.last_changes(1), [(cluster, vec![Action::ConditionChanged, Action::ConditionChanged])]);

    let contents = stage.contents();
    stage.recompute(&[cluster], 200);
    assert_eq!(stage.contents(), contents);
}

#[test]
fn a_report_that_was_kept_before_its_adapter_was_required_counts_from_then_on() {
    let mut stage = Stage::new(&kinds(&["dns"], &[]));
    let cluster = stage.create("Cluster", None, 0);
    stage.tell(cluster, said("dns", 1, 10));
    stage.tell(cluster, said("cert", 1, 5).available("False").because("NoQuota", ""));
    stage.reconfigure(rulebook(&kinds(&["cert", "dns"], &[])));
    stage.recompute(&[cluster], 100);
    let reconciled = stage.condition(cluster, "Reconciled");
    assert_eq!(reconciled["message"], "Adapters reporting Available=False: cert (NoQuota)");
    assert_eq!(reconciled["last_updated_time"], json!(at(5)));
    let types = ["Reconciled", "LastKnownReconciled", "CertSuccessful", "DnsSuccessful"];
    assert_eq!(stage.types(cluster), types);
}

/// The message of `Reconciled` after a repeated report that comes before the conditions are computed anew. It is
/// aggregated by the new settings, so more than times changes.
fn told_by_a_repeated_report(required: &[&str], new: &[&str]) -> Value {
    let mut stage = Stage::new(&kinds(required, &[]));
    let cluster = stage.create("Cluster", None, 0);
    stage.tell(cluster, said("dns", 1, 10));
    let version = stage.row(cluster).version;
    stage.reconfigure(rulebook(&kinds(new, &[])));
    stage.report(cluster, said("dns", 1, 20)).unwrap();
    assert_eq!(stage.row(cluster).version, version.next(), "more than times changed");
    stage.condition(cluster, "Reconciled")["message"].clone()
}

#[test]
fn a_repeated_report_that_comes_first_brings_a_status_up_to_date() {
    let message = "Required adapters have not yet reported status at generation 1: cert";
    assert_eq!(told_by_a_repeated_report(&["dns"], &["dns", "cert"]), message);
}

#[test]
fn a_repeated_report_that_comes_first_brings_the_words_up_to_date() {
    let message = "Required adapters have not yet reported status at generation 1: cert, tls";
    assert_eq!(told_by_a_repeated_report(&["dns", "cert"], &["dns", "cert", "tls"]), message);
}

#[test]
fn a_repeated_report_that_comes_first_drops_who_is_not_required_any_more() {
    for generation in [1, 2] {
        let mut stage = Stage::new(&kinds(&["a", "b", "c"], &[]));
        let cluster = stage.create("Cluster", None, 0);
        stage.change(cluster, 5);
        stage.tell(cluster, said("a", generation, 10));
        stage.tell(cluster, said("b", 2, 20));
        stage.reconfigure(rulebook(&kinds(&["a", "c"], &[])));
        stage.report(cluster, said("a", generation, 30)).unwrap();
        assert_eq!(stage.types(cluster), ["Reconciled", "LastKnownReconciled", "ASuccessful"]);
        assert_eq!(stage.condition(cluster, "LastKnownReconciled")["observed_generation"], generation);
    }
}

#[test]
fn the_wish_of_a_recomputed_resource_stays_as_it_is() {
    let mut stage = Stage::new(&kinds(&["dns"], &[]));
    let cluster = stage.create("Cluster", None, 0);
    let before = stage.row(cluster).clone();
    stage.reconfigure(rulebook(&kinds(&[], &[])));
    stage.recompute(&[cluster], 100);
    assert!(stage.row(cluster).same_wish(&before) && stage.row(cluster).conditions != before.conditions);
    assert_eq!(stage.row(cluster).spec.parse::<Value>().unwrap(), json!({"size": 1, "zone": "a"}));
}

#[test]
fn ids_that_nobody_has_are_passed_over() {
    let mut stage = Stage::new(&kinds(&["dns"], &[]));
    stage.recompute(&[ResourceId::generate()], 10);
    assert_eq!(stage.database.version.0, 0);
}

#[test]
fn what_conditions_were_made_by_differs_exactly_when_they_could() {
    let basis = |rulebook: &Rulebook| rulebook.basis(rulebook.catalog.get("Cluster").unwrap());
    let one = rulebook(&kinds(&["dns", "cert"], &["a"]));
    assert_eq!(basis(&one), basis(&rulebook(&kinds(&["dns", "cert"], &["b"]))), "another kind's adapters");
    assert_ne!(basis(&one), basis(&rulebook(&kinds(&["cert", "dns"], &["a"]))), "the order shows");
    assert_ne!(basis(&one), basis(&rulebook(&kinds(&["dns"], &["a"]))));
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
        basis(&rulebook(&mapped))
    };
    assert_ne!(basis(&one), by_rule("'True'"));
    assert_ne!(by_rule("'True'"), by_rule("'False'"));
    assert_ne!(
        basis(&one),
        basis(&Rulebook { legacy_conditions: true, ..rulebook(&kinds(&["dns", "cert"], &["a"])) })
    );
}
