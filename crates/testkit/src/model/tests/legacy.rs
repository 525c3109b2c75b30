//! The older conditions, by the tables of the first API revision.

use serde_json::{Value, json};

use super::super::{Action, Available, Learned, Model, Slot, mismatches};
use super::{Scene, at, plain, text};

fn scene() -> (Scene, Slot) {
    let mut scene = Scene(Model::with_legacy_conditions(super::kinds()));
    let pair = scene.create("Pair", None, 10);
    (scene, pair)
}

/// A plain report that reaches the server at the second `now`.
fn says(
    scene: &mut Scene,
    slot: Slot,
    adapter: &str,
    generation: u64,
    seconds: (i64, i64),
    available: Available,
) {
    let (observed, now) = seconds;
    let report = Action::Report(plain(adapter, generation, observed, available));
    assert_eq!(scene.act(slot, report, now).status, 201);
}

/// status, observed generation, updated and transition seconds.
fn expect(scene: &Scene, slot: Slot, type_: &str, expected: (&str, u64, i64, i64)) {
    let (status, generation, updated, transition) = expected;
    let members = json!({
        "type": type_,
        "status": status,
        "observed_generation": generation,
        "created_time": text(10),
        "last_updated_time": text(updated),
        "last_transition_time": text(transition),
    });
    assert_eq!(mismatches(&members, &scene.condition(slot, type_)), Vec::<String>::new());
}

#[test]
fn both_await_adapters_after_creation_and_stand_behind_the_newer_two() {
    let (scene, pair) = scene();
    let conditions = scene.conditions(pair);
    let types: Vec<&Value> = conditions.as_array().unwrap().iter().map(|it| &it["type"]).collect();
    assert_eq!(types, ["Reconciled", "LastKnownReconciled", "Available", "Ready"]);
    for type_ in ["Available", "Ready"] {
        let verdict = ("False", "AwaitingAdapters", "Waiting for adapters to report status");
        assert_eq!(scene.condition(pair, type_), super::condition(type_, verdict, 1, [10, 10, 10]));
    }
}

#[test]
fn both_turn_true_with_the_last_adapter_and_only_ready_falls_with_a_new_generation() {
    let (mut scene, pair) = scene();
    says(&mut scene, pair, "a", 1, (20, 22), Available::True);
    expect(&scene, pair, "Ready", ("False", 1, 22, 10));
    expect(&scene, pair, "Available", ("False", 1, 10, 10));
    says(&mut scene, pair, "b", 1, (30, 33), Available::True);
    expect(&scene, pair, "Ready", ("True", 1, 20, 30));
    expect(&scene, pair, "Available", ("True", 1, 20, 30));
    assert_eq!(scene.condition(pair, "Ready")["reason"], "ResourceReady");
    assert_eq!(scene.condition(pair, "Available")["reason"], "ResourceAvailable");
    scene.patch(pair, 40);
    expect(&scene, pair, "Ready", ("False", 2, 40, 40));
    expect(&scene, pair, "Available", ("True", 1, 20, 30));
    says(&mut scene, pair, "a", 2, (50, 51), Available::False);
    expect(&scene, pair, "Ready", ("False", 2, 30, 40));
    expect(&scene, pair, "Available", ("True", 1, 20, 30));
    says(&mut scene, pair, "b", 2, (60, 61), Available::True);
    expect(&scene, pair, "Ready", ("False", 2, 30, 40));
    expect(&scene, pair, "Available", ("False", 2, 60, 60));
    assert_eq!(scene.condition(pair, "Available")["reason"], "AdapterReportedNotAvailable");
    says(&mut scene, pair, "a", 2, (70, 71), Available::True);
    expect(&scene, pair, "Ready", ("True", 2, 60, 70));
    expect(&scene, pair, "Available", ("True", 2, 60, 70));
}

#[test]
fn both_fall_with_an_adapter_that_fails_at_the_current_generation() {
    let (mut scene, pair) = scene();
    says(&mut scene, pair, "a", 1, (20, 20), Available::True);
    says(&mut scene, pair, "b", 1, (21, 21), Available::True);
    says(&mut scene, pair, "a", 1, (30, 31), Available::False);
    expect(&scene, pair, "Ready", ("False", 1, 30, 30));
    expect(&scene, pair, "Available", ("False", 1, 30, 30));
    says(&mut scene, pair, "a", 1, (40, 41), Available::False);
    expect(&scene, pair, "Ready", ("False", 1, 21, 30));
    expect(&scene, pair, "Available", ("False", 1, 21, 30));
}

#[test]
fn a_kind_without_required_adapters_has_both_from_its_creation() {
    let mut scene = Scene(Model::with_legacy_conditions(super::kinds()));
    let free = scene.create("Free", None, 10);
    scene.patch(free, 20);
    assert_eq!(scene.condition(free, "Available")["status"], "True");
    assert_eq!(scene.condition(free, "Ready")["status"], "True");
}

#[test]
fn a_time_that_only_the_server_knows_is_left_open() {
    let (mut scene, pair) = scene();
    let request = scene.0.request(pair, Action::Report(plain("a", 1, 20, Available::True))).unwrap();
    scene.0.apply(&request, &Learned::nothing());
    assert_eq!(scene.condition(pair, "Ready").get("last_updated_time"), None);
    assert_eq!(scene.condition(pair, "Ready")["last_transition_time"], super::time_text(at(10)));
}
