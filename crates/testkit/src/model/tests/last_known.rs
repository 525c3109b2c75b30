//! `LastKnownReconciled`: the worked example, and every row of the table.

use serde_json::Value;

use super::super::{Available, Slot};
use super::{Fixture, condition, finalized, plain};

const KNOWN: (&str, &str, &str) = (
    "True",
    "AllAdaptersReconciled",
    "All required adapters report Available=True for the tracked generation",
);
const SILENT: (&str, &str, &str) =
    ("False", "AdaptersMissingReports", "Required adapters have not yet reported status");

fn failing(message: &str) -> (&str, &str, &str) {
    ("False", "AdapterReportedNotAvailable", message)
}

fn expect(fixture: &Fixture, slot: Slot, content: (&str, &str, &str), generation: u64, seconds: [i64; 3]) {
    let actual: Value = fixture.condition(slot, "LastKnownReconciled");
    assert_eq!(actual, condition("LastKnownReconciled", content, generation, seconds));
}

/// A resource made at 10 whose adapters both are available at generation 1: b at 20, a at 21.
fn known_at_1() -> (Fixture, Slot) {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    fixture.says(pair, "b", 1, 20, Available::True);
    fixture.says(pair, "a", 1, 21, Available::True);
    expect(&fixture, pair, KNOWN, 1, [10, 20, 21]);
    (fixture, pair)
}

#[test]
fn the_worked_example_of_the_rules_holds() {
    let (mut fixture, pair) = known_at_1();
    fixture.patch(pair, 30);
    expect(&fixture, pair, KNOWN, 1, [10, 20, 21]);
    fixture.says(pair, "a", 2, 40, Available::False);
    expect(&fixture, pair, KNOWN, 1, [10, 20, 21]);
    fixture.says(pair, "b", 1, 50, Available::False);
    let both = "One or more required adapters report Available=False: b, a";
    expect(&fixture, pair, failing(both), 2, [10, 40, 50]);
    fixture.says(pair, "a", 2, 60, Available::True);
    let one = "One or more required adapters report Available=False: b";
    expect(&fixture, pair, failing(one), 2, [10, 40, 50]);
    fixture.says(pair, "b", 2, 55, Available::True);
    expect(&fixture, pair, KNOWN, 2, [10, 55, 55]);
}

#[test]
fn case_2_some_adapter_has_not_reported() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    expect(&fixture, pair, SILENT, 1, [10, 10, 10]);
    fixture.says(pair, "a", 1, 20, Available::True);
    expect(&fixture, pair, SILENT, 1, [10, 10, 10]);
    fixture.patch(pair, 30);
    expect(&fixture, pair, SILENT, 1, [10, 10, 10]);
    fixture.says(pair, "a", 2, 40, Available::False);
    expect(&fixture, pair, SILENT, 2, [10, 40, 10]);
}

#[test]
fn case_3_holds_at_an_old_generation_too() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    fixture.patch(pair, 11);
    fixture.patch(pair, 12);
    fixture.says(pair, "a", 2, 25, Available::True);
    fixture.says(pair, "b", 2, 20, Available::True);
    expect(&fixture, pair, KNOWN, 2, [10, 20, 20]);
}

#[test]
fn case_4_mixed_generations_keep_what_was_true() {
    let (mut fixture, pair) = known_at_1();
    fixture.patch(pair, 30);
    fixture.says(pair, "a", 2, 40, Available::True);
    expect(&fixture, pair, KNOWN, 1, [10, 20, 21]);
    fixture.says(pair, "b", 2, 41, Available::True);
    expect(&fixture, pair, KNOWN, 2, [10, 40, 21]);
}

#[test]
fn case_5_mixed_generations_prove_nothing_that_was_not_true() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    fixture.says(pair, "a", 1, 20, Available::True);
    fixture.patch(pair, 30);
    fixture.says(pair, "b", 2, 40, Available::True);
    let content = (
        "False",
        "AdaptersNotAtSameGeneration",
        "Required adapters report different generations: b (2), a (1)",
    );
    expect(&fixture, pair, content, 2, [10, 10, 10]);
}

#[test]
fn case_6_one_not_available_and_never_true() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    fixture.says(pair, "a", 1, 20, Available::False);
    expect(&fixture, pair, SILENT, 1, [10, 20, 10]);
    fixture.patch(pair, 30);
    fixture.says(pair, "b", 2, 40, Available::True);
    let message = "One or more required adapters report Available=False: a";
    expect(&fixture, pair, failing(message), 2, [10, 20, 10]);
    fixture.says(pair, "a", 2, 35, Available::False);
    expect(&fixture, pair, failing(message), 2, [10, 35, 10]);
}

#[test]
fn case_7_not_available_at_the_generation_that_was_true() {
    let (mut fixture, pair) = known_at_1();
    fixture.says(pair, "a", 1, 30, Available::False);
    let message = "One or more required adapters report Available=False: a";
    expect(&fixture, pair, failing(message), 1, [10, 20, 30]);
}

#[test]
fn case_8_not_available_at_another_generation() {
    let (mut fixture, pair) = known_at_1();
    fixture.patch(pair, 30);
    fixture.says(pair, "a", 2, 40, Available::False);
    fixture.says(pair, "b", 2, 41, Available::False);
    expect(&fixture, pair, KNOWN, 1, [10, 20, 21]);
}

#[test]
fn the_reason_of_an_adapter_is_not_repeated() {
    let (mut fixture, pair) = known_at_1();
    let mut report = plain("b", 1, 30, Available::False);
    report.conditions[0].reason = Some("NoQuota".into());
    fixture.report(pair, report);
    let message = "One or more required adapters report Available=False: b";
    expect(&fixture, pair, failing(message), 1, [10, 21, 30]);
}

#[test]
fn a_deletion_leaves_it_and_an_adapter_of_unknown_availability_counts_as_not_available() {
    let (mut fixture, pair) = known_at_1();
    fixture.create("Limb", Some(pair), 25);
    fixture.delete(pair, 30);
    expect(&fixture, pair, KNOWN, 1, [10, 20, 21]);
    fixture.report(pair, finalized("a", 2, 40, Available::Unknown));
    expect(&fixture, pair, KNOWN, 1, [10, 20, 21]);
    fixture.report(pair, finalized("b", 1, 45, Available::Unknown));
    let message = "One or more required adapters report Available=False: b, a";
    expect(&fixture, pair, failing(message), 2, [10, 40, 45]);
}
