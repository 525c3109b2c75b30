//! Random histories: the model keeps its own invariants, and the strategy reaches every rule.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::super::{
    Kinds, LastKnownCase, Learned, Model, Operation, ReportRule, Slot, check_conditions, check_invariants,
    check_progress, operations,
};

const HISTORIES: usize = 300;
const STEPS: usize = 80;

/// What happened in a history, by name.
type Seen = BTreeMap<String, usize>;

fn documents(model: &Model) -> Vec<Value> {
    model.resources().into_iter().map(|view| view.document).collect()
}

/// The status of `LastKnownReconciled` of each resource.
fn known_reconciled(model: &Model) -> BTreeMap<Slot, bool> {
    let status = |slot: Slot| model.state(slot).is_some_and(|state| state.conditions[1].content.status);
    model.living().into_iter().map(|slot| (slot, status(slot))).collect()
}

fn see(seen: &mut Seen, event: impl Into<String>) {
    *seen.entry(event.into()).or_insert(0) += 1;
}

fn run(history: &[Operation], seen: &mut Seen) -> Result<(), TestCaseError> {
    let mut model = Model::new(Kinds::three_levels());
    for operation in history {
        let Some(request) = model.resolve(operation) else { continue };
        let before = documents(&model);
        let known = known_reconciled(&model);
        let predicted = model.predict(&request);
        let expected = model.apply(&request, &Learned::nothing());
        prop_assert_eq!(predicted, expected.status);
        prop_assert_eq!(model.invariants(), Vec::<String>::new());
        let after = documents(&model);
        prop_assert_eq!(check_progress(&before, &after), Vec::<String>::new());
        if expected.status >= 300 {
            prop_assert_eq!(&before, &after, "a refusal changes nothing");
        }

        see(seen, format!("{} {}", request.method(), expected.status));
        if let Some(rule) = expected.rule {
            see(seen, format!("{rule:?}"));
            if expected.removed.len() > 1 {
                see(seen, "completion upwards");
            }
            if expected.removed.len() > 2 {
                see(seen, "completion over three levels");
            }
        }
        if known_reconciled(&model).iter().any(|(slot, now)| !now && known.get(slot) == Some(&true)) {
            see(seen, "last known lost");
        }
        if expected.status == 201 && expected.changed.is_empty() && expected.removed.is_empty() {
            see(seen, "only times");
        }
        for slot in model.living() {
            let (Some(facts), Some(state)) = (model.facts(slot), model.state(slot)) else { continue };
            see(seen, format!("{:?}", LastKnownCase::of(&facts, state.conditions.get(1))));
            see(seen, state.conditions[0].content.reason.clone());
            see(seen, state.conditions[1].content.reason.clone());
        }
    }
    Ok(())
}

#[test]
fn random_histories_keep_the_invariants_and_reach_every_rule() {
    let mut runner = TestRunner::deterministic();
    let strategy = operations(&Kinds::three_levels(), STEPS);
    let mut seen = Seen::new();
    for _ in 0..HISTORIES {
        let history = strategy.new_tree(&mut runner).unwrap().current();
        if let Err(failure) = run(&history, &mut seen) {
            panic!("{failure}\n{history:#?}");
        }
    }
    use LastKnownCase as Case;
    let cases = [
        Case::NoRequiredAdapters,
        Case::MissingReports,
        Case::AllAtOneGeneration,
        Case::MixedAfterTrue,
        Case::MixedAfterFalse,
        Case::NotAvailableAfterFalse,
        Case::NotAvailableElsewhere,
    ]
    .map(|case| format!("{case:?}"));
    use ReportRule as Rule;
    let rules = [
        Rule::Invalid,
        Rule::NotThere,
        Rule::FutureGeneration,
        Rule::OlderGeneration,
        Rule::OlderTime,
        Rule::MandatoryMissing,
        Rule::Finalized,
        Rule::UnknownAgain,
        Rule::UnknownFirst,
        Rule::Accepted,
    ]
    .map(|rule| format!("{rule:?}"));
    let events = [
        "POST 201",
        "POST 204",
        "POST 400",
        "POST 404",
        "POST 409",
        "PATCH 200",
        "PATCH 400",
        "PATCH 404",
        "PATCH 409",
        "DELETE 202",
        "DELETE 404",
        "DELETE 409",
        "ReconciledAll",
        "ReconciledMissingAdapters",
        "ReconciledNotAvailable",
        "ReconciledWaitingForChildren",
        "AdapterReportedNotAvailable",
        "completion upwards",
        "completion over three levels",
        "last known lost",
        "only times",
    ]
    .map(String::from);
    for event in cases.into_iter().chain(rules).chain(events) {
        assert!(seen.get(&event).is_some_and(|&times| times >= 3), "{event} is too rare in {seen:#?}");
    }
}

#[test]
fn a_fleet_that_breaks_an_invariant_is_reported() {
    let kinds = Kinds::three_levels();
    let mut model = Model::new(kinds.clone());
    for kind in ["Fleet", "Zone", "Rack"] {
        let request = model.resolve(&Operation::create(kind)).unwrap();
        model.apply(&request, &Learned::nothing());
    }
    let fleet = documents(&model);
    let none = BTreeMap::new();
    let faults = |resources: &[Value]| check_invariants(&kinds, resources, &none).join("; ");
    assert_eq!(faults(&fleet), "");
    assert_eq!(faults(&fleet[1..]), "Zone id-1 outlived its owner");

    let mut broken = fleet.clone();
    broken[1]["deleted_time"] = broken[1]["updated_time"].clone();
    broken[1]["generation"] = json!(2);
    assert_eq!(faults(&broken), "Rack id-2 is active below a finalizing owner");
    assert_eq!(check_progress(&broken, &fleet).len(), 2);

    let mut broken = fleet.clone();
    broken[2]["deleted_time"] = broken[2]["updated_time"].clone();
    broken[2]["generation"] = json!(2);
    let late = "Rack id-2 is finalizing although its adapters have finalized and no child is left";
    assert_eq!(faults(&broken), late);

    let orphan = BTreeMap::from([("id-9".to_owned(), vec![])]);
    assert_eq!(
        check_invariants(&kinds, &fleet, &orphan),
        ["there are reports for id-9, which does not exist"]
    );

    let mut broken = fleet;
    broken[0]["status"]["conditions"][0]["status"] = json!("True");
    assert_eq!(check_conditions(&kinds, &broken, &none).len(), 1);
    assert_eq!(model.id(Slot(0)), Some("id-0"));
}

#[test]
fn the_configuration_names_every_kind_with_its_keys() {
    let entities = Kinds::three_levels().entities_json();
    assert_eq!(entities.as_array().map(Vec::len), Some(8));
    assert_eq!(
        entities[7],
        json!({
            "kind": "Host",
            "plural": "hosts",
            "parent_kind": "Zone",
            "on_parent_delete": "cascade",
            "required_adapters": ["b", "a"],
            "references": [{"ref_type": "rack", "target_kind": "Rack", "min": 0, "max": 1}],
        })
    );
}
