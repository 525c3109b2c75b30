//! Reports that repeat the last one at a later time: they move `last_report_time` and `last_updated_time`, and nothing
//! else. No report reads or writes the spec of its resource.

use hyperfleet_core::rules::{Reported, WorkingSet};
use hyperfleet_core::{FeedPosition, RawJson, Resource, ResourceId};
use serde_json::{Value, json};

use super::fixture::{Fixture, at, kind};
use super::test_report::{TestReport, test_report};

fn prepared() -> (Fixture, ResourceId) {
    let mut fixture = Fixture::new(&[kind("Pair", &["dns", "cert"])]);
    let id = fixture.create("Pair", None, 0);
    fixture.tell(id, test_report("dns", 1, 10));
    fixture.tell(id, test_report("cert", 1, 20));
    (fixture, id)
}

fn repeat(fixture: &mut Fixture, id: ResourceId, report: TestReport) {
    let (version, history) = (fixture.database.version, fixture.database.history.clone());
    let before = fixture.row(id).clone();
    let answer = fixture.report(id, report).unwrap();
    assert!(matches!(answer, Reported::Unchanged(_)), "{answer:?}");
    assert_eq!((fixture.database.version, &fixture.database.history), (version, &history));
    assert_eq!(fixture.row(id).version, before.version);
    assert_eq!(fixture.row(id).updated, before.updated);
}

/// Type and `last_updated_time` of every condition; the rest must be as it was.
fn times(fixture: &Fixture, id: ResourceId, before: &[Value]) -> Vec<(String, String)> {
    let mut now = fixture.conditions(id);
    let told = |c: &Value, member: &str| c[member].as_str().unwrap().to_owned();
    let times = now.iter().map(|c| (told(c, "type"), told(c, "last_updated_time"))).collect();
    for (now, before) in now.iter_mut().zip(before) {
        now["last_updated_time"] = before["last_updated_time"].clone();
    }
    assert_eq!(now, before, "nothing but last_updated_time moves");
    times
}

#[test]
fn a_report_that_repeats_the_last_moves_times_and_takes_no_version() {
    let (mut fixture, id) = prepared();
    let before = fixture.conditions(id);
    repeat(&mut fixture, id, test_report("dns", 1, 30));
    let moved =
        [("Reconciled", 20), ("LastKnownReconciled", 20), ("DnsSuccessful", 30), ("CertSuccessful", 20)];
    let moved = moved.map(|(kind, second)| (kind.to_owned(), at(second).to_string()));
    assert_eq!(times(&fixture, id, &before), moved);
    assert_eq!(
        fixture.stored(id, "dns"),
        json!({
            "adapter": "dns",
            "observed_generation": 1,
            "conditions": [
                {"type": "Available", "status": "True", "last_transition_time": at(10)},
                {"type": "Applied", "status": "True", "last_transition_time": at(10)},
                {"type": "Health", "status": "True", "last_transition_time": at(10)},
            ],
            "data": {},
            "created_time": at(10),
            "last_report_time": at(30),
        })
    );
}

#[test]
fn a_report_that_repeats_the_last_at_the_same_moment_moves_nothing() {
    let (mut fixture, id) = prepared();
    let contents = fixture.contents();
    repeat(&mut fixture, id, test_report("cert", 1, 20));
    assert_eq!(fixture.contents(), contents);
}

#[test]
fn the_same_data_in_another_order_repeats_the_last_report() {
    let (mut fixture, id) = prepared();
    let (data, other) = (json!({"a": 1, "b": {"c": [1, 2]}}), json!({"b": {"c": [1, 2]}, "a": 1}));
    fixture.tell(id, test_report("dns", 1, 30).data(&data).metadata(&data));
    repeat(&mut fixture, id, test_report("dns", 1, 40).data(&other).metadata(&other));
    assert_eq!(fixture.stored(id, "dns")["last_report_time"], json!(at(40)));
    fixture.tell(id, test_report("dns", 1, 50).data(&json!({"a": 1, "b": {"c": [2, 1]}})).metadata(&data));
}

#[test]
fn a_repeated_report_of_an_adapter_that_is_not_required_moves_only_its_own_time() {
    let (mut fixture, id) = prepared();
    fixture.tell(id, test_report("audit", 1, 30));
    let conditions = fixture.conditions(id);
    repeat(&mut fixture, id, test_report("audit", 1, 40));
    assert_eq!(fixture.conditions(id), conditions);
    assert_eq!(fixture.stored(id, "audit")["last_report_time"], json!(at(40)));
}

#[test]
fn a_repeated_failure_moves_times_and_not_the_flip() {
    let (mut fixture, id) = prepared();
    fixture.tell(id, test_report("dns", 1, 30).available("False"));
    let before = fixture.conditions(id);
    repeat(&mut fixture, id, test_report("dns", 1, 40).available("False"));
    let moved =
        [("Reconciled", 20), ("LastKnownReconciled", 20), ("DnsSuccessful", 40), ("CertSuccessful", 20)];
    let moved = moved.map(|(kind, second)| (kind.to_owned(), at(second).to_string()));
    assert_eq!(times(&fixture, id, &before), moved);
}

#[test]
fn a_repeated_word_on_a_finalizing_resource_moves_times_alone() {
    let (mut fixture, id) = prepared();
    fixture.delete(id, 50).unwrap();
    fixture.tell(id, test_report("dns", 2, 60).finalized());
    repeat(&mut fixture, id, test_report("dns", 2, 70).finalized());
    assert_eq!(fixture.condition(id, "Reconciled")["last_updated_time"], json!(at(70)));
}

#[test]
fn a_resource_lacks_its_spec_until_it_is_loaded_whole() {
    let (fixture, id) = prepared();
    let row = fixture.row(id).clone();
    let spec = |set: &WorkingSet| set.loaded().next().unwrap().spec.clone();
    let nothing = RawJson::from_value(&json!({}));
    let light = Resource { spec: nothing.clone(), ..row.clone() };
    let mut set =
        WorkingSet::new(FeedPosition { version: fixture.database.version, ..FeedPosition::default() });
    set.load_without_spec(light.clone());
    assert_eq!((set.lacks_spec(id), spec(&set)), (true, nothing));
    set.load(row.clone());
    assert_eq!((set.lacks_spec(id), spec(&set)), (false, row.spec.clone()));
    set.load_without_spec(light);
    assert_eq!((set.lacks_spec(id), spec(&set)), (false, row.spec));
}

#[test]
fn no_report_changes_the_spec() {
    let mut pair = kind("Pair", &["dns"]);
    pair.references = serde_json::from_value(json!([{"ref_type": "home", "target_kind": "Plain"}])).unwrap();
    let mut fixture = Fixture::new(&[kind("Plain", &[]), pair]);
    let home = fixture.create("Plain", None, 0);
    let id = fixture.create_with("Pair", None, 0, &json!({"home": [home]}));
    let before = fixture.row(id).clone();
    for report in [
        test_report("dns", 1, 10),
        test_report("dns", 1, 20),
        test_report("dns", 1, 30).available("False"),
        test_report("audit", 1, 40).available("Unknown"),
    ] {
        fixture.report(id, report).unwrap();
        let now = fixture.row(id);
        assert!(now.same_desired_state(&before));
        assert_eq!(now.references.parse::<Value>().unwrap(), json!({"home": [home]}));
        assert_eq!(now.labels.parse::<Value>().unwrap(), json!({"tier": "gold"}));
    }
    let refused = fixture.delete(home, 50).unwrap_err();
    assert_eq!(refused.code(), "HYPERFLEET-CNF-003", "the reference still holds");
}
