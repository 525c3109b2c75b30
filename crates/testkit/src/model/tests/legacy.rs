//! The older conditions, by the tables of the first API revision.

use serde_json::{Value, json};

use super::super::{Action, Available, Learned, Model, Slot, mismatches};
use super::{Fixture, at, plain, text};

fn fixture() -> (Fixture, Slot) {
    let mut fixture = Fixture(Model::with_legacy_conditions(super::kinds()));
    let pair = fixture.create("Pair", None, 10);
    (fixture, pair)
}

/// A plain report that reaches the server at the second `now`.
fn says(
    fixture: &mut Fixture,
    slot: Slot,
    adapter: &str,
    generation: u64,
    seconds: (i64, i64),
    available: Available,
) {
    let (observed, now) = seconds;
    let report = Action::Report(plain(adapter, generation, observed, available));
    assert_eq!(fixture.act(slot, report, now).status, 201);
}

/// status, observed generation, updated and transition seconds.
fn expect(fixture: &Fixture, slot: Slot, type_: &str, expected: (&str, u64, i64, i64)) {
    let (status, generation, updated, transition) = expected;
    let members = json!({
        "type": type_,
        "status": status,
        "observed_generation": generation,
        "created_time": text(10),
        "last_updated_time": text(updated),
        "last_transition_time": text(transition),
    });
    assert_eq!(mismatches(&members, &fixture.condition(slot, type_)), Vec::<String>::new());
}

#[test]
fn both_await_adapters_after_creation_and_stand_behind_the_newer_two() {
    let (fixture, pair) = fixture();
    let conditions = fixture.conditions(pair);
    let types: Vec<&Value> = conditions.as_array().unwrap().iter().map(|it| &it["type"]).collect();
    assert_eq!(types, ["Reconciled", "LastKnownReconciled", "Available", "Ready"]);
    for type_ in ["Available", "Ready"] {
        let content = ("False", "AwaitingAdapters", "Waiting for adapters to report status");
        assert_eq!(fixture.condition(pair, type_), super::condition(type_, content, 1, [10, 10, 10]));
    }
}

#[test]
fn both_turn_true_with_the_last_adapter_and_only_ready_falls_with_a_new_generation() {
    let (mut fixture, pair) = fixture();
    says(&mut fixture, pair, "a", 1, (20, 22), Available::True);
    expect(&fixture, pair, "Ready", ("False", 1, 22, 10));
    expect(&fixture, pair, "Available", ("False", 1, 10, 10));
    says(&mut fixture, pair, "b", 1, (30, 33), Available::True);
    expect(&fixture, pair, "Ready", ("True", 1, 20, 30));
    expect(&fixture, pair, "Available", ("True", 1, 20, 30));
    assert_eq!(fixture.condition(pair, "Ready")["reason"], "ResourceReady");
    assert_eq!(fixture.condition(pair, "Available")["reason"], "ResourceAvailable");
    fixture.patch(pair, 40);
    expect(&fixture, pair, "Ready", ("False", 2, 40, 40));
    expect(&fixture, pair, "Available", ("True", 1, 20, 30));
    says(&mut fixture, pair, "a", 2, (50, 51), Available::False);
    expect(&fixture, pair, "Ready", ("False", 2, 30, 40));
    expect(&fixture, pair, "Available", ("True", 1, 20, 30));
    says(&mut fixture, pair, "b", 2, (60, 61), Available::True);
    expect(&fixture, pair, "Ready", ("False", 2, 30, 40));
    expect(&fixture, pair, "Available", ("False", 2, 60, 60));
    assert_eq!(fixture.condition(pair, "Available")["reason"], "AdapterReportedNotAvailable");
    says(&mut fixture, pair, "a", 2, (70, 71), Available::True);
    expect(&fixture, pair, "Ready", ("True", 2, 60, 70));
    expect(&fixture, pair, "Available", ("True", 2, 60, 70));
}

#[test]
fn both_fall_with_an_adapter_that_fails_at_the_current_generation() {
    let (mut fixture, pair) = fixture();
    says(&mut fixture, pair, "a", 1, (20, 20), Available::True);
    says(&mut fixture, pair, "b", 1, (21, 21), Available::True);
    says(&mut fixture, pair, "a", 1, (30, 31), Available::False);
    expect(&fixture, pair, "Ready", ("False", 1, 30, 30));
    expect(&fixture, pair, "Available", ("False", 1, 30, 30));
    says(&mut fixture, pair, "a", 1, (40, 41), Available::False);
    expect(&fixture, pair, "Ready", ("False", 1, 21, 30));
    expect(&fixture, pair, "Available", ("False", 1, 21, 30));
}

#[test]
fn a_kind_without_required_adapters_has_both_from_its_creation() {
    let mut fixture = Fixture(Model::with_legacy_conditions(super::kinds()));
    let free = fixture.create("Free", None, 10);
    fixture.patch(free, 20);
    assert_eq!(fixture.condition(free, "Available")["status"], "True");
    assert_eq!(fixture.condition(free, "Ready")["status"], "True");
}

#[test]
fn a_time_that_only_the_server_knows_is_left_open() {
    let (mut fixture, pair) = fixture();
    let request = fixture.0.request(pair, Action::Report(plain("a", 1, 20, Available::True))).unwrap();
    fixture.0.apply(&request, &Learned::nothing());
    assert_eq!(fixture.condition(pair, "Ready").get("last_updated_time"), None);
    assert_eq!(fixture.condition(pair, "Ready")["last_transition_time"], super::time_text(at(10)));
}
