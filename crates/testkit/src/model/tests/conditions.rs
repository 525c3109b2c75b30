//! `Reconciled`, row by row, and the conditions per adapter.

use serde_json::{Value, json};

use super::super::{Action, Available, Kind, Kinds, Model};
use super::{Fixture, at, condition, finalized, plain, text};

const ALL: (&str, &str, &str) = (
    "True",
    "ReconciledAll",
    "All required adapters reported Available=True or Finalized=True at the current generation",
);
const NONE_REQUIRED: (&str, &str, &str) =
    ("True", "NoRequiredAdapters", "No adapters are required for this kind");

fn missing(message: &str) -> (&str, &str, &str) {
    ("False", "ReconciledMissingAdapters", message)
}

#[test]
fn a_kind_without_required_adapters_is_reconciled_from_its_creation() {
    let mut fixture = Fixture::new();
    let free = fixture.create("Free", None, 10);
    let expected =
        |type_: &str, generation, updated| condition(type_, NONE_REQUIRED, generation, [10, updated, 10]);
    let both = |generation, updated| {
        json!([
            expected("Reconciled", generation, updated),
            expected("LastKnownReconciled", generation, updated)
        ])
    };
    assert_eq!(fixture.conditions(free), both(1, 10));
    fixture.patch(free, 20);
    assert_eq!(fixture.conditions(free), both(2, 20));
    assert_eq!(fixture.act(free, Action::PatchLabels { tier: "x".into() }, 30).status, 200);
    assert_eq!(fixture.conditions(free), both(2, 30));
}

#[test]
fn a_new_resource_waits_for_its_required_adapters_in_configured_order() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    let message = "Required adapters have not yet reported status at generation 1: b, a";
    let unknown = ("False", "AdaptersMissingReports", "Required adapters have not yet reported status");
    assert_eq!(
        fixture.conditions(pair),
        json!([
            condition("Reconciled", missing(message), 1, [10, 10, 10]),
            condition("LastKnownReconciled", unknown, 1, [10, 10, 10]),
        ])
    );
}

#[test]
fn reconciled_turns_true_at_the_time_of_the_last_report_and_is_as_old_as_the_oldest() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    fixture.says(pair, "a", 1, 30, Available::True);
    let message = "Required adapters have not yet reported status at generation 1: b";
    assert_eq!(
        fixture.condition(pair, "Reconciled"),
        condition("Reconciled", missing(message), 1, [10, 30, 10])
    );
    fixture.says(pair, "b", 1, 20, Available::True);
    assert_eq!(fixture.condition(pair, "Reconciled"), condition("Reconciled", ALL, 1, [10, 20, 20]));
    fixture.says(pair, "b", 1, 40, Available::True);
    assert_eq!(fixture.condition(pair, "Reconciled"), condition("Reconciled", ALL, 1, [10, 30, 20]));
}

#[test]
fn an_adapter_that_is_not_available_is_named_with_its_reason() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    let mut failing = plain("a", 1, 20, Available::False);
    failing.conditions[0].reason = Some("NoQuota".into());
    fixture.report(pair, failing);
    fixture.says(pair, "b", 1, 30, Available::False);
    let content = ("False", "ReconciledNotAvailable", "Adapters reporting Available=False: b, a (NoQuota)");
    assert_eq!(fixture.condition(pair, "Reconciled"), condition("Reconciled", content, 1, [10, 20, 10]));
}

#[test]
fn a_new_generation_takes_reconciled_back_at_the_time_of_the_change() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    fixture.says(pair, "a", 1, 20, Available::True);
    fixture.says(pair, "b", 1, 20, Available::True);
    fixture.patch(pair, 50);
    let message = "Required adapters have not yet reported status at generation 2: b, a";
    assert_eq!(
        fixture.condition(pair, "Reconciled"),
        condition("Reconciled", missing(message), 2, [10, 50, 50])
    );
    fixture.says(pair, "a", 2, 45, Available::False);
    let message = "Required adapters have not yet reported status at generation 2: b";
    assert_eq!(
        fixture.condition(pair, "Reconciled"),
        condition("Reconciled", missing(message), 2, [10, 45, 50])
    );
}

#[test]
fn a_finalizing_resource_waits_for_finalized_at_its_new_generation() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    fixture.report(pair, finalized("a", 1, 15, Available::True));
    fixture.says(pair, "b", 1, 16, Available::True);
    fixture.delete(pair, 20);
    let message = "Required adapters not reporting Finalized=True at generation 2: b, a";
    assert_eq!(
        fixture.condition(pair, "Reconciled"),
        condition("Reconciled", missing(message), 2, [10, 20, 20])
    );
    fixture.report(pair, finalized("b", 2, 30, Available::False));
    fixture.says(pair, "a", 2, 25, Available::True);
    let message = "Required adapters not reporting Finalized=True at generation 2: a";
    assert_eq!(
        fixture.condition(pair, "Reconciled"),
        condition("Reconciled", missing(message), 2, [10, 25, 20])
    );
}

#[test]
fn a_finalized_resource_waits_for_its_children_by_kind_and_count() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    let limbs = [fixture.create("Limb", Some(pair), 11), fixture.create("Limb", Some(pair), 12)];
    fixture.create("Twig", Some(limbs[0]), 13);
    let guard = fixture.create("Guard", Some(pair), 14);
    assert_eq!(fixture.delete(guard, 15).status, 202);
    fixture.delete(pair, 20);
    fixture.report(pair, finalized("a", 2, 30, Available::True));
    fixture.report(pair, finalized("b", 2, 31, Available::Unknown));
    let waiting = |message| ("False", "ReconciledWaitingForChildren", message);
    let message = "Deletion in progress: waiting for child resources: Guard (1), Limb (2)";
    assert_eq!(
        fixture.condition(pair, "Reconciled"),
        condition("Reconciled", waiting(message), 2, [10, 30, 10])
    );
    fixture.report(guard, finalized("a", 2, 40, Available::True));
    let message = "Deletion in progress: waiting for child resources: Limb (2)";
    assert_eq!(
        fixture.condition(pair, "Reconciled"),
        condition("Reconciled", waiting(message), 2, [10, 30, 10])
    );
}

#[test]
fn a_resource_removed_at_once_is_answered_as_reconciled() {
    let mut fixture = Fixture::new();
    let free = fixture.create("Free", None, 10);
    let expected = fixture.delete(free, 20);
    let answer = expected.answer.unwrap();
    assert_eq!((expected.status, expected.removed), (202, vec![free]));
    assert_eq!(answer["status"]["conditions"][0], condition("Reconciled", ALL, 2, [10, 20, 10]));
    assert_eq!((&answer["generation"], &answer["deleted_time"]), (&json!(2), &json!(text(20))));
}

#[test]
fn conditions_per_adapter_follow_the_reports_of_required_adapters_only() {
    let kinds = Kinds::new(vec![Kind::root("Pair", "pairs", &["my-own-dns", "x1"])]);
    let mut fixture = Fixture(Model::new(kinds));
    let pair = fixture.create("Pair", None, 10);
    let mut first = plain("x1", 1, 20, Available::False);
    first.conditions[0].reason = Some("Busy".into());
    first.conditions[0].message = Some("not yet".into());
    fixture.report(pair, first);
    fixture.says(pair, "foreign", 1, 21, Available::True);
    let x1 = condition("X1Successful", ("False", "Busy", "not yet"), 1, [10, 20, 20]);
    assert_eq!(fixture.conditions(pair).as_array().unwrap()[2..], [x1]);

    fixture.patch(pair, 30);
    fixture.says(pair, "my-own-dns", 2, 40, Available::True);
    fixture.says(pair, "x1", 2, 41, Available::False);
    let dns = condition("MyOwnDnsSuccessful", ("True", "", ""), 2, [30, 40, 40]);
    let x1 = condition("X1Successful", ("False", "", ""), 2, [10, 41, 20]);
    assert_eq!(fixture.conditions(pair).as_array().unwrap()[2..], [dns, x1]);

    fixture.says(pair, "x1", 2, 42, Available::True);
    let x1 = condition("X1Successful", ("True", "", ""), 2, [10, 42, 42]);
    assert_eq!(fixture.condition(pair, "X1Successful"), x1);
}

#[test]
fn an_adapter_that_finalized_without_knowing_its_availability_is_not_successful() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    let mut early = finalized("a", 1, 12, Available::Unknown);
    early.conditions[0].reason = Some("Lost".into());
    assert_eq!(fixture.report(pair, early).status, 201);
    assert_eq!(fixture.condition(pair, "ASuccessful"), Value::Null);
    fixture.delete(pair, 20);
    let expected = condition("ASuccessful", ("False", "Lost", ""), 1, [20, 12, 12]);
    assert_eq!(fixture.condition(pair, "ASuccessful"), expected);
}

#[test]
fn other_required_adapters_at_a_restart_are_weighed_at_once() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    fixture.says(pair, "a", 1, 20, Available::True);
    let kinds = super::kinds().with_required_adapters("Pair", &["a"]);
    fixture.0.reconfigure(kinds.clone());
    assert_eq!(fixture.condition(pair, "Reconciled"), condition("Reconciled", ALL, 1, [10, 20, 10]));
    fixture.0.reconfigure(kinds.with_required_adapters("Pair", &["c"]));
    let message = "Required adapters have not yet reported status at generation 1: c";
    assert_eq!(
        fixture.condition(pair, "Reconciled"),
        condition("Reconciled", missing(message), 1, [10, 10, 10])
    );
    assert_eq!(fixture.conditions(pair).as_array().unwrap().len(), 2);
}

#[test]
fn a_restart_with_fewer_adapters_completes_deletions_upwards() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    let limb = fixture.create("Limb", Some(pair), 11);
    fixture.delete(pair, 20);
    fixture.report(pair, finalized("a", 2, 30, Available::True));
    let kinds = super::kinds().with_required_adapters("Pair", &["a"]).with_required_adapters("Limb", &[]);
    fixture.0.reconfigure(kinds);
    assert!(!fixture.0.is_living(limb) && !fixture.0.is_living(pair));
    assert_eq!(fixture.0.resources(), []);
}

#[test]
fn times_are_written_with_six_digits() {
    assert_eq!(super::time_text(at(1)), "2025-01-01T00:00:01.000000Z");
}
