//! `LastKnownReconciled`: every case of its table with status, words, generation and times, and the worked example.

use hyperfleet_core::{RawJson, ResourceId};
use serde_json::{Value, json};

use super::condition;
use super::said::said;
use super::stage::{Stage, kind, rulebook};

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
fn pair() -> (Stage, ResourceId) {
    let mut stage = Stage::new(&[kind("Pair", &["b", "a"])]);
    let id = stage.create("Pair", None, 0);
    (stage, id)
}

/// The same, last known reconciled at generation 1 since second 20, now at generation 2.
fn known_pair() -> (Stage, ResourceId) {
    let (mut stage, id) = pair();
    stage.tell(id, said("a", 1, 10));
    stage.tell(id, said("b", 1, 20));
    stage.change(id, 30);
    (stage, id)
}

fn now(stage: &Stage, id: ResourceId) -> Value {
    stage.condition(id, "LastKnownReconciled")
}

#[test]
fn case_1_without_required_adapters_it_is_always_true() {
    let mut stage = Stage::new(&[kind("Plain", &[])]);
    let id = stage.create("Plain", None, 0);
    let words = ("NoRequiredAdapters", "No adapters are required for this kind");
    assert_eq!(now(&stage, id), known("True", words, 1, [0, 0, 0]));
    stage.label(id, 10);
    assert_eq!(now(&stage, id), known("True", words, 1, [0, 10, 0]));
    stage.change(id, 20);
    assert_eq!(now(&stage, id), known("True", words, 2, [0, 20, 0]));
}

#[test]
fn case_2_somebody_has_not_reported() {
    let (mut stage, id) = pair();
    assert_eq!(now(&stage, id), known("False", MISSING, 1, [0, 0, 0]), "nobody has");
    stage.change(id, 5);
    assert_eq!(now(&stage, id), known("False", MISSING, 1, [0, 0, 0]), "nobody has: as before");
    stage.tell(id, said("a", 2, 10));
    assert_eq!(
        now(&stage, id),
        known("False", MISSING, 2, [0, 0, 0]),
        "one is available: as fresh as before"
    );
    stage.tell(id, said("a", 2, 20).available("False"));
    assert_eq!(now(&stage, id), known("False", MISSING, 2, [0, 20, 0]), "one fails: as fresh as its report");
}

#[test]
fn case_2_who_cannot_tell_has_not_reported() {
    let (mut stage, id) = pair();
    stage.tell(id, said("a", 1, 10));
    stage.tell(id, said("b", 1, 20).available("Unknown"));
    assert_eq!(now(&stage, id), known("False", MISSING, 1, [0, 0, 0]));
}

#[test]
fn case_3_all_are_available_at_one_generation() {
    let (mut stage, id) = pair();
    stage.tell(id, said("a", 1, 20));
    stage.tell(id, said("b", 1, 10));
    assert_eq!(now(&stage, id), known("True", RECONCILED, 1, [0, 10, 10]));
    stage.change(id, 30);
    assert_eq!(now(&stage, id), known("True", RECONCILED, 1, [0, 10, 10]), "it may be an old one");
    stage.tell(id, said("a", 2, 40));
    stage.tell(id, said("b", 2, 50));
    assert_eq!(now(&stage, id), known("True", RECONCILED, 2, [0, 40, 10]));
}

#[test]
fn case_3_an_old_generation_becomes_known_late() {
    let (mut stage, id) = pair();
    stage.change(id, 5);
    stage.tell(id, said("a", 1, 10));
    stage.tell(id, said("b", 1, 20));
    assert_eq!(now(&stage, id), known("True", RECONCILED, 1, [0, 10, 20]));
}

#[test]
fn case_4_all_are_available_at_several_generations_after_true() {
    let (mut stage, id) = known_pair();
    stage.tell(id, said("a", 2, 40));
    assert_eq!(now(&stage, id), known("True", RECONCILED, 1, [0, 10, 20]));
}

#[test]
fn case_5_all_are_available_at_several_generations_and_none_is_known() {
    let (mut stage, id) = pair();
    stage.change(id, 5);
    stage.tell(id, said("a", 2, 10));
    stage.tell(id, said("b", 1, 20));
    let (reason, message) = mixed("b (1), a (2)");
    assert_eq!(now(&stage, id), known("False", (reason, &message), 2, [0, 0, 0]), "False before");

    stage.database.rows.get_mut(&id).unwrap().conditions = RawJson::from_value(&json!([]));
    stage.recompute(&[id], 30);
    assert_eq!(now(&stage, id), known("False", (reason, &message), 2, [5, 5, 5]), "absent before");
}

#[test]
fn case_6_somebody_fails_and_none_is_known() {
    let (mut stage, id) = pair();
    stage.tell(id, said("a", 1, 20).available("False").because("NoQuota", "ask for more"));
    stage.tell(id, said("b", 1, 10));
    let (reason, message) = unavailable("a");
    assert_eq!(now(&stage, id), known("False", (reason, &message), 1, [0, 10, 0]));
    stage.tell(id, said("b", 1, 30).available("False"));
    let (reason, message) = unavailable("b, a");
    assert_eq!(now(&stage, id), known("False", (reason, &message), 1, [0, 20, 0]));
}

#[test]
fn case_6_a_failure_at_an_older_generation_refreshes_nothing() {
    let (mut stage, id) = pair();
    stage.change(id, 5);
    stage.tell(id, said("a", 1, 10).available("False"));
    assert_eq!(now(&stage, id), known("False", MISSING, 1, [0, 10, 0]));
    stage.tell(id, said("b", 2, 20));
    let (reason, message) = unavailable("a");
    assert_eq!(now(&stage, id), known("False", (reason, &message), 2, [0, 10, 0]));
}

#[test]
fn case_7_somebody_fails_at_the_tracked_generation() {
    let (mut stage, id) = known_pair();
    stage.tell(id, said("a", 1, 40).available("False"));
    let (reason, message) = unavailable("a");
    assert_eq!(now(&stage, id), known("False", (reason, &message), 1, [0, 20, 40]), "nobody is further");

    let (mut stage, id) = known_pair();
    stage.tell(id, said("b", 2, 40));
    stage.tell(id, said("a", 1, 50).available("False"));
    assert_eq!(now(&stage, id), known("False", (reason, &message), 2, [0, 10, 50]), "another is further");
}

#[test]
fn case_8_somebody_fails_elsewhere_than_at_the_tracked_generation() {
    let (mut stage, id) = known_pair();
    stage.tell(id, said("a", 2, 40).available("False"));
    assert_eq!(now(&stage, id), known("True", RECONCILED, 1, [0, 10, 20]), "the other is still there");
    stage.tell(id, said("b", 2, 50).available("False"));
    assert_eq!(now(&stage, id), known("True", RECONCILED, 1, [0, 10, 20]), "nobody is there any more");
}

#[test]
fn the_worked_example_goes_as_it_is_told() {
    let (mut stage, id) = pair();
    stage.tell(id, said("a", 1, 10));
    stage.tell(id, said("b", 1, 20));
    assert_eq!(now(&stage, id), known("True", RECONCILED, 1, [0, 10, 20]), "both True at 1");
    stage.change(id, 30);
    assert_eq!(now(&stage, id), known("True", RECONCILED, 1, [0, 10, 20]), "generation 2");
    stage.tell(id, said("a", 2, 40).available("False"));
    assert_eq!(now(&stage, id), known("True", RECONCILED, 1, [0, 10, 20]), "a False at 2");
    stage.tell(id, said("b", 1, 50).available("False"));
    let (reason, message) = unavailable("b, a");
    assert_eq!(now(&stage, id), known("False", (reason, &message), 2, [0, 40, 50]), "b False at 1");
    stage.tell(id, said("a", 2, 60));
    let (reason, message) = unavailable("b");
    assert_eq!(now(&stage, id), known("False", (reason, &message), 2, [0, 40, 50]));
    stage.tell(id, said("b", 2, 70));
    assert_eq!(now(&stage, id), known("True", RECONCILED, 2, [0, 60, 70]), "both True at 2");
}

#[test]
fn a_deletion_leaves_it_until_somebody_fails_where_it_was_known() {
    let (mut stage, id) = known_pair();
    stage.delete(id, 40).unwrap();
    assert_eq!(now(&stage, id), known("True", RECONCILED, 1, [0, 10, 20]));
    stage.tell(id, said("a", 3, 50).available("False").finalized());
    assert_eq!(now(&stage, id), known("True", RECONCILED, 1, [0, 10, 20]));
}

#[test]
fn an_adapter_that_could_not_tell_counts_once_what_it_finalized_is_being_deleted() {
    let (mut stage, id) = pair();
    stage.tell(id, said("a", 1, 10));
    stage.tell(id, said("b", 1, 20).available("Unknown").finalized());
    stage.tell(id, said("a", 1, 25).because("Fine", ""));
    assert_eq!(now(&stage, id), known("False", MISSING, 1, [0, 0, 0]), "nobody deletes it yet");
    stage.delete(id, 30).unwrap();
    let (reason, message) = unavailable("b");
    assert_eq!(now(&stage, id), known("False", (reason, &message), 1, [0, 20, 0]));
}

#[test]
fn a_flip_by_other_adapters_happened_when_the_resource_last_changed() {
    let (mut stage, id) = pair();
    stage.tell(id, said("a", 1, 10));
    stage.reconfigure(rulebook(&[kind("Pair", &["a"])]));
    stage.recompute(&[id], 100);
    assert_eq!(now(&stage, id), known("True", RECONCILED, 1, [0, 10, 0]));
    stage.label(id, 110);
    stage.reconfigure(rulebook(&[kind("Pair", &["b", "a"])]));
    stage.recompute(&[id], 200);
    assert_eq!(now(&stage, id), known("False", MISSING, 1, [0, 10, 110]));
}
