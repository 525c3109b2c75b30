//! `LastKnownReconciled`: every case of its table with status, words, generation and times, and the worked example.

use hyperfleet_core::{RawJson, ResourceId};
use serde_json::{Value, json};

use super::condition;
use super::fixture::{Fixture, kind, rulebook};
use super::test_report::test_report;

const RECONCILED: (&str, &str) =
    ("AllAdaptersReconciled", "All required adapters report Available=True for the tracked generation");
const MISSING: (&str, &str) = ("AdaptersMissingReports", "Required adapters have not yet reported status");

fn unavailable(names: &str) -> (&'static str, String) {
    let message = format!("One or more required adapters report Available=False: {names}");
    ("AdapterReportedNotAvailable", message)
}

fn mixed(names: &str) -> (&'static str, String) {
    ("AdaptersNotAtSameGeneration", format!("Required adapters report different generations: {names}"))
}

fn known(status: &str, words: (&str, &str), generation: i64, times: [i64; 3]) -> Value {
    condition("LastKnownReconciled", status, words, generation, times)
}

/// A resource of `b` and `a`, in that order, made at second 0.
fn pair() -> (Fixture, ResourceId) {
    let mut fixture = Fixture::new(&[kind("Pair", &["b", "a"])]);
    let id = fixture.create("Pair", None, 0);
    (fixture, id)
}

/// The same, last known reconciled at generation 1 since second 20, now at generation 2.
fn known_pair() -> (Fixture, ResourceId) {
    let (mut fixture, id) = pair();
    fixture.tell(id, test_report("a", 1, 10));
    fixture.tell(id, test_report("b", 1, 20));
    fixture.change(id, 30);
    (fixture, id)
}

fn now(fixture: &Fixture, id: ResourceId) -> Value {
    fixture.condition(id, "LastKnownReconciled")
}

#[test]
fn case_1_without_required_adapters_it_is_always_true() {
    let mut fixture = Fixture::new(&[kind("Plain", &[])]);
    let id = fixture.create("Plain", None, 0);
    let words = ("NoRequiredAdapters", "No adapters are required for this kind");
    assert_eq!(now(&fixture, id), known("True", words, 1, [0, 0, 0]));
    fixture.label(id, 10);
    assert_eq!(now(&fixture, id), known("True", words, 1, [0, 10, 0]));
    fixture.change(id, 20);
    assert_eq!(now(&fixture, id), known("True", words, 2, [0, 20, 0]));
}

#[test]
fn case_2_an_adapter_has_not_reported() {
    let (mut fixture, id) = pair();
    assert_eq!(now(&fixture, id), known("False", MISSING, 1, [0, 0, 0]), "no adapter has reported");
    fixture.change(id, 5);
    assert_eq!(
        now(&fixture, id),
        known("False", MISSING, 1, [0, 0, 0]),
        "no adapter has reported: as before"
    );
    fixture.tell(id, test_report("a", 2, 10));
    assert_eq!(
        now(&fixture, id),
        known("False", MISSING, 2, [0, 0, 0]),
        "one is available: as fresh as before"
    );
    fixture.tell(id, test_report("a", 2, 20).available("False"));
    assert_eq!(
        now(&fixture, id),
        known("False", MISSING, 2, [0, 20, 0]),
        "one fails: as fresh as its report"
    );
}

#[test]
fn case_2_an_adapter_with_available_unknown_has_not_reported() {
    let (mut fixture, id) = pair();
    fixture.tell(id, test_report("a", 1, 10));
    fixture.tell(id, test_report("b", 1, 20).available("Unknown"));
    assert_eq!(now(&fixture, id), known("False", MISSING, 1, [0, 0, 0]));
}

#[test]
fn case_3_all_are_available_at_one_generation() {
    let (mut fixture, id) = pair();
    fixture.tell(id, test_report("a", 1, 20));
    fixture.tell(id, test_report("b", 1, 10));
    assert_eq!(now(&fixture, id), known("True", RECONCILED, 1, [0, 10, 10]));
    fixture.change(id, 30);
    assert_eq!(now(&fixture, id), known("True", RECONCILED, 1, [0, 10, 10]), "it may be an old one");
    fixture.tell(id, test_report("a", 2, 40));
    fixture.tell(id, test_report("b", 2, 50));
    assert_eq!(now(&fixture, id), known("True", RECONCILED, 2, [0, 40, 10]));
}

#[test]
fn case_3_an_old_generation_becomes_known_late() {
    let (mut fixture, id) = pair();
    fixture.change(id, 5);
    fixture.tell(id, test_report("a", 1, 10));
    fixture.tell(id, test_report("b", 1, 20));
    assert_eq!(now(&fixture, id), known("True", RECONCILED, 1, [0, 10, 20]));
}

#[test]
fn case_4_all_are_available_at_several_generations_after_true() {
    let (mut fixture, id) = known_pair();
    fixture.tell(id, test_report("a", 2, 40));
    assert_eq!(now(&fixture, id), known("True", RECONCILED, 1, [0, 10, 20]));
}

#[test]
fn case_5_all_are_available_at_several_generations_and_none_is_known() {
    let (mut fixture, id) = pair();
    fixture.change(id, 5);
    fixture.tell(id, test_report("a", 2, 10));
    fixture.tell(id, test_report("b", 1, 20));
    let (reason, message) = mixed("b (1), a (2)");
    assert_eq!(now(&fixture, id), known("False", (reason, &message), 2, [0, 0, 0]), "False before");

    fixture.database.rows.get_mut(&id).unwrap().conditions = RawJson::from_value(&json!([]));
    fixture.recompute(&[id], 30);
    assert_eq!(now(&fixture, id), known("False", (reason, &message), 2, [5, 5, 5]), "absent before");
}

#[test]
fn case_6_an_adapter_fails_and_no_generation_is_tracked() {
    let (mut fixture, id) = pair();
    fixture.tell(id, test_report("a", 1, 20).available("False").because("NoQuota", "ask for more"));
    fixture.tell(id, test_report("b", 1, 10));
    let (reason, message) = unavailable("a");
    assert_eq!(now(&fixture, id), known("False", (reason, &message), 1, [0, 10, 0]));
    fixture.tell(id, test_report("b", 1, 30).available("False"));
    let (reason, message) = unavailable("b, a");
    assert_eq!(now(&fixture, id), known("False", (reason, &message), 1, [0, 20, 0]));
}

#[test]
fn case_6_a_failure_at_an_older_generation_refreshes_nothing() {
    let (mut fixture, id) = pair();
    fixture.change(id, 5);
    fixture.tell(id, test_report("a", 1, 10).available("False"));
    assert_eq!(now(&fixture, id), known("False", MISSING, 1, [0, 10, 0]));
    fixture.tell(id, test_report("b", 2, 20));
    let (reason, message) = unavailable("a");
    assert_eq!(now(&fixture, id), known("False", (reason, &message), 2, [0, 10, 0]));
}

#[test]
fn case_7_an_adapter_fails_at_the_tracked_generation() {
    let (mut fixture, id) = known_pair();
    fixture.tell(id, test_report("a", 1, 40).available("False"));
    let (reason, message) = unavailable("a");
    assert_eq!(
        now(&fixture, id),
        known("False", (reason, &message), 1, [0, 20, 40]),
        "no adapter is further"
    );

    let (mut fixture, id) = known_pair();
    fixture.tell(id, test_report("b", 2, 40));
    fixture.tell(id, test_report("a", 1, 50).available("False"));
    assert_eq!(now(&fixture, id), known("False", (reason, &message), 2, [0, 10, 50]), "another is further");
}

#[test]
fn case_8_an_adapter_fails_at_another_than_the_tracked_generation() {
    let (mut fixture, id) = known_pair();
    fixture.tell(id, test_report("a", 2, 40).available("False"));
    assert_eq!(now(&fixture, id), known("True", RECONCILED, 1, [0, 10, 20]), "the other is still there");
    fixture.tell(id, test_report("b", 2, 50).available("False"));
    assert_eq!(now(&fixture, id), known("True", RECONCILED, 1, [0, 10, 20]), "no adapter is left");
}

#[test]
fn the_worked_example_of_the_contract_holds() {
    let (mut fixture, id) = pair();
    fixture.tell(id, test_report("a", 1, 10));
    fixture.tell(id, test_report("b", 1, 20));
    assert_eq!(now(&fixture, id), known("True", RECONCILED, 1, [0, 10, 20]), "both True at 1");
    fixture.change(id, 30);
    assert_eq!(now(&fixture, id), known("True", RECONCILED, 1, [0, 10, 20]), "generation 2");
    fixture.tell(id, test_report("a", 2, 40).available("False"));
    assert_eq!(now(&fixture, id), known("True", RECONCILED, 1, [0, 10, 20]), "a False at 2");
    fixture.tell(id, test_report("b", 1, 50).available("False"));
    let (reason, message) = unavailable("b, a");
    assert_eq!(now(&fixture, id), known("False", (reason, &message), 2, [0, 40, 50]), "b False at 1");
    fixture.tell(id, test_report("a", 2, 60));
    let (reason, message) = unavailable("b");
    assert_eq!(now(&fixture, id), known("False", (reason, &message), 2, [0, 40, 50]));
    fixture.tell(id, test_report("b", 2, 70));
    assert_eq!(now(&fixture, id), known("True", RECONCILED, 2, [0, 60, 70]), "both True at 2");
}

#[test]
fn a_deletion_keeps_the_condition_until_an_adapter_fails_at_the_tracked_generation() {
    let (mut fixture, id) = known_pair();
    fixture.delete(id, 40).unwrap();
    assert_eq!(now(&fixture, id), known("True", RECONCILED, 1, [0, 10, 20]));
    fixture.tell(id, test_report("a", 3, 50).available("False").finalized());
    assert_eq!(now(&fixture, id), known("True", RECONCILED, 1, [0, 10, 20]));
}

#[test]
fn an_adapter_with_available_unknown_counts_once_it_has_finalized_a_deletion() {
    let (mut fixture, id) = pair();
    fixture.tell(id, test_report("a", 1, 10));
    fixture.tell(id, test_report("b", 1, 20).available("Unknown").finalized());
    fixture.tell(id, test_report("a", 1, 25).because("Fine", ""));
    assert_eq!(now(&fixture, id), known("False", MISSING, 1, [0, 0, 0]), "it is not deleted yet");
    fixture.delete(id, 30).unwrap();
    let (reason, message) = unavailable("b");
    assert_eq!(now(&fixture, id), known("False", (reason, &message), 1, [0, 20, 0]));
}

#[test]
fn a_flip_by_other_adapters_happened_when_the_resource_last_changed() {
    let (mut fixture, id) = pair();
    fixture.tell(id, test_report("a", 1, 10));
    fixture.reconfigure(rulebook(&[kind("Pair", &["a"])]));
    fixture.recompute(&[id], 100);
    assert_eq!(now(&fixture, id), known("True", RECONCILED, 1, [0, 10, 0]));
    fixture.label(id, 110);
    fixture.reconfigure(rulebook(&[kind("Pair", &["b", "a"])]));
    fixture.recompute(&[id], 200);
    assert_eq!(now(&fixture, id), known("False", MISSING, 1, [0, 10, 110]));
}
