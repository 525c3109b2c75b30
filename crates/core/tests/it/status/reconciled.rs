//! `Reconciled`: each row of its table with its exact words, and each rule of its times.

use hyperfleet_core::{Action, RawJson, ResourceId};
use serde_json::{Value, json};

use super::condition;
use super::fixture::{Fixture, child, kind, rulebook};
use super::test_report::{TestReport, test_report};

const ALL: (&str, &str) = (
    "ReconciledAll",
    "All required adapters reported Available=True or Finalized=True at the current generation",
);

fn reconciled(status: &str, words: (&str, &str), generation: i64, times: [i64; 3]) -> Value {
    condition("Reconciled", status, words, generation, times)
}

/// A resource of two adapters, made at second 0, in configured order that is not the alphabet's.
fn pair() -> (Fixture, ResourceId) {
    let mut fixture = Fixture::new(&[kind("Pair", &["dns", "cert"])]);
    let id = fixture.create("Pair", None, 0);
    (fixture, id)
}

/// What `Reconciled` of that resource is after reports of its first generation.
fn after(reports: &[TestReport]) -> Value {
    let (mut fixture, id) = pair();
    for report in reports {
        fixture.report(id, report.clone()).unwrap();
    }
    fixture.condition(id, "Reconciled")
}

fn missing(names: &str) -> String {
    format!("Required adapters have not yet reported status at generation 1: {names}")
}

fn unavailable(names: &str) -> String {
    format!("Adapters reporting Available=False: {names}")
}

#[test]
fn each_row_for_an_active_resource_has_its_words() {
    let no = |adapter, second| test_report(adapter, 1, second).available("False");
    let quota = |adapter, second| no(adapter, second).because("NoQuota", "ask for more");
    let waits = |names| ("ReconciledMissingAdapters", missing(names));
    let fails = |names| ("ReconciledNotAvailable", unavailable(names));
    for (name, reports, (reason, message), updated) in [
        ("no adapter has reported", vec![], waits("dns, cert"), 0),
        ("the first has not", vec![test_report("cert", 1, 10)], waits("dns"), 10),
        ("the second has not", vec![test_report("dns", 1, 10)], waits("cert"), 10),
        ("one fails and one has not reported", vec![no("dns", 10)], waits("cert"), 10),
        (
            "one cannot tell",
            vec![test_report("dns", 1, 10), test_report("cert", 1, 20).available("Unknown")],
            waits("cert"),
            10,
        ),
        ("the first fails", vec![no("dns", 10), test_report("cert", 1, 20)], fails("dns"), 10),
        (
            "the second fails, with a reason",
            vec![test_report("dns", 1, 10), quota("cert", 20)],
            fails("cert (NoQuota)"),
            10,
        ),
        ("both fail", vec![quota("cert", 10), quota("dns", 20)], fails("dns (NoQuota), cert (NoQuota)"), 10),
        (
            "both fail, one with a reason",
            vec![no("cert", 10), quota("dns", 20)],
            fails("dns (NoQuota), cert"),
            10,
        ),
        (
            "a message alone is no reason",
            vec![no("cert", 10).because("", "x"), no("dns", 20)],
            fails("dns, cert"),
            10,
        ),
    ] {
        assert_eq!(after(&reports), reconciled("False", (reason, &message), 1, [0, updated, 0]), "{name}");
    }
    let all = after(&[test_report("dns", 1, 10), test_report("cert", 1, 20)]);
    assert_eq!(all, reconciled("True", ALL, 1, [0, 10, 20]));
}

#[test]
fn a_kind_without_required_adapters_is_reconciled_whatever_an_adapter_reports() {
    let mut fixture = Fixture::new(&[kind("Plain", &[])]);
    let id = fixture.create("Plain", None, 0);
    let words = ("NoRequiredAdapters", "No adapters are required for this kind");
    assert_eq!(fixture.condition(id, "Reconciled"), reconciled("True", words, 1, [0, 0, 0]));
    fixture.tell(id, test_report("audit", 1, 10).available("False"));
    assert_eq!(fixture.condition(id, "Reconciled"), reconciled("True", words, 1, [0, 0, 0]));
    fixture.change(id, 20);
    assert_eq!(fixture.condition(id, "Reconciled"), reconciled("True", words, 2, [0, 20, 0]));
}

#[test]
fn a_new_generation_waits_for_all_adapters_again() {
    let (mut fixture, id) = pair();
    fixture.tell(id, test_report("dns", 1, 10));
    fixture.tell(id, test_report("cert", 1, 20));
    fixture.change(id, 30);
    let waits =
        |names: &str| format!("Required adapters have not yet reported status at generation 2: {names}");
    let reason = "ReconciledMissingAdapters";
    let now = fixture.condition(id, "Reconciled");
    assert_eq!(now, reconciled("False", (reason, &waits("dns, cert")), 2, [0, 30, 30]));
    fixture.tell(id, test_report("cert", 2, 40));
    let now = fixture.condition(id, "Reconciled");
    assert_eq!(now, reconciled("False", (reason, &waits("dns")), 2, [0, 40, 30]));
    fixture.tell(id, test_report("dns", 1, 50).available("False"));
    assert_eq!(fixture.condition(id, "Reconciled"), now, "an older generation is none of its business");
    fixture.tell(id, test_report("dns", 2, 60));
    assert_eq!(fixture.condition(id, "Reconciled"), reconciled("True", ALL, 2, [0, 40, 60]));
}

#[test]
fn each_row_for_a_finalizing_resource_has_its_words() {
    let kinds = [kind("Cluster", &["dns", "cert"]), child("Pool", "Cluster", "cascade", &["dns"])];
    let waits =
        |names: &str| format!("Required adapters not reporting Finalized=True at generation 2: {names}");
    let adapters = "ReconciledMissingAdapters";
    let mut fixture = Fixture::new(&kinds);
    let cluster = fixture.create("Cluster", None, 0);
    let pools = [1, 2].map(|second| fixture.create("Pool", Some(cluster), second));
    fixture.tell(cluster, test_report("dns", 1, 10).finalized());
    fixture.delete(cluster, 30).unwrap();
    let now = |fixture: &Fixture| fixture.condition(cluster, "Reconciled");
    let both = waits("dns, cert");
    assert_eq!(
        now(&fixture),
        reconciled("False", (adapters, &both), 2, [0, 30, 0]),
        "finalized at 1 is not at 2"
    );

    fixture.tell(cluster, test_report("dns", 2, 40));
    assert_eq!(
        now(&fixture),
        reconciled("False", (adapters, &both), 2, [0, 40, 0]),
        "available is not finalized"
    );
    fixture.tell(cluster, test_report("dns", 2, 50).finalized());
    assert_eq!(now(&fixture), reconciled("False", (adapters, &waits("cert")), 2, [0, 50, 0]));
    fixture.tell(cluster, test_report("cert", 2, 60).available("Unknown").finalized());
    let children = "ReconciledWaitingForChildren";
    let left = |left: &str| format!("Deletion in progress: waiting for child resources: {left}");
    assert_eq!(now(&fixture), reconciled("False", (children, &left("Pool (2)")), 2, [0, 50, 0]));
    fixture.tell(pools[0], test_report("dns", 2, 70).finalized());
    assert_eq!(now(&fixture), reconciled("False", (children, &left("Pool (1)")), 2, [0, 50, 0]));
}

#[test]
fn a_resource_removed_at_once_is_reconciled() {
    let mut fixture = Fixture::new(&[kind("Plain", &[])]);
    let id = fixture.create("Plain", None, 0);
    let conditions: Vec<Value> = fixture.delete(id, 10).unwrap().conditions.parse().unwrap();
    assert_eq!(conditions[0], reconciled("True", ALL, 2, [0, 10, 0]));
}

#[test]
fn reconciled_is_as_fresh_as_the_oldest_report_of_the_current_generation() {
    let (mut fixture, id) = pair();
    fixture.tell(id, test_report("dns", 1, 20));
    fixture.tell(id, test_report("cert", 1, 5).available("False"));
    let updated = |fixture: &Fixture| fixture.condition(id, "Reconciled")["last_updated_time"].clone();
    let second = |second| Value::from(super::fixture::at(second).to_string());
    assert_eq!(updated(&fixture), second(5), "whatever it said");
    fixture.label(id, 30);
    assert_eq!(updated(&fixture), second(5), "a label is not a generation");
    fixture.change(id, 40);
    assert_eq!(updated(&fixture), second(40), "no adapter has reported on it");
    fixture.label(id, 50);
    assert_eq!(updated(&fixture), second(50), "and still none has");
    fixture.tell(id, test_report("cert", 2, 60));
    assert_eq!(updated(&fixture), second(60), "the older generation does not count");
}

#[test]
fn a_flip_happens_when_its_cause_did() {
    let (mut fixture, id) = pair();
    let flipped = |fixture: &Fixture| {
        let reconciled = fixture.condition(id, "Reconciled");
        (reconciled["status"].as_str().unwrap().to_owned(), reconciled["last_transition_time"].clone())
    };
    let since =
        |status: &str, second| (status.to_owned(), Value::from(super::fixture::at(second).to_string()));
    assert_eq!(flipped(&fixture), since("False", 0), "creation");
    fixture.tell(id, test_report("dns", 1, 30));
    fixture.tell(id, test_report("cert", 1, 20));
    assert_eq!(flipped(&fixture), since("True", 20), "by the report that came last, when its adapter looked");
    fixture.tell(id, test_report("dns", 1, 40).because("Fine", ""));
    assert_eq!(flipped(&fixture), since("True", 20), "no flip");
    fixture.tell(id, test_report("dns", 1, 50).available("False"));
    assert_eq!(flipped(&fixture), since("False", 50), "by a report");
    fixture.tell(id, test_report("dns", 1, 60));
    fixture.label(id, 70);
    assert_eq!(flipped(&fixture), since("True", 60), "a label flips nothing");
    fixture.change(id, 80);
    assert_eq!(flipped(&fixture), since("False", 80), "by a generation");
    fixture.change(id, 90);
    assert_eq!(flipped(&fixture), since("False", 80), "no flip");
    fixture.tell(id, test_report("dns", 3, 100));
    fixture.tell(id, test_report("cert", 3, 110));
    fixture.delete(id, 120).unwrap();
    assert_eq!(flipped(&fixture), since("False", 120), "by a deletion");
}

#[test]
fn a_condition_that_was_not_there_is_as_old_as_the_last_change_even_when_a_report_makes_it() {
    let (mut fixture, id) = pair();
    fixture.label(id, 5);
    fixture.database.rows.get_mut(&id).unwrap().conditions = RawJson::from_value(&json!([]));
    fixture.tell(id, test_report("dns", 1, 10));
    let words = ("ReconciledMissingAdapters", &*missing("cert"));
    assert_eq!(fixture.condition(id, "Reconciled"), reconciled("False", words, 1, [5, 10, 5]));
}

#[test]
fn a_flip_by_other_adapters_happened_when_the_resource_last_changed() {
    let (mut fixture, id) = pair();
    fixture.tell(id, test_report("dns", 1, 10));
    fixture.reconfigure(rulebook(&[kind("Pair", &["dns"])]));
    fixture.recompute(&[id], 100);
    assert_eq!(fixture.condition(id, "Reconciled"), reconciled("True", ALL, 1, [0, 10, 0]));
    fixture.label(id, 110);
    fixture.reconfigure(rulebook(&[kind("Pair", &["dns", "cert"])]));
    fixture.recompute(&[id], 200);
    let words = ("ReconciledMissingAdapters", &*missing("cert"));
    assert_eq!(fixture.condition(id, "Reconciled"), reconciled("False", words, 1, [0, 10, 110]));
}

#[test]
fn a_flip_by_a_removed_child_comes_before_the_removal_in_the_timeline() {
    let mut fixture = Fixture::new(&[kind("Cluster", &[]), child("Pool", "Cluster", "cascade", &["dns"])]);
    let cluster = fixture.create("Cluster", None, 0);
    let pool = fixture.create("Pool", Some(cluster), 0);
    fixture.delete(cluster, 10).unwrap();
    let words =
        ("ReconciledWaitingForChildren", "Deletion in progress: waiting for child resources: Pool (1)");
    assert_eq!(fixture.condition(cluster, "Reconciled"), reconciled("False", words, 2, [0, 10, 10]));
    fixture.tell(pool, test_report("dns", 2, 20).finalized());
    let ends = fixture.last_changes(1);
    assert_eq!(ends, [(cluster, vec![Action::ConditionChanged, Action::Deleted])]);
}
