//! Reports that repeat the last one at a later moment: they move `last_report_time` and `last_updated_time`, and
//! nothing else. And reports in general, which never read or write the wish of their resource.

use hyperfleet_core::rules::{Reported, WorkingSet};
use hyperfleet_core::{RawJson, Resource, ResourceId};
use serde_json::{Value, json};

use super::said::{Said, said};
use super::stage::{Stage, at, kind};

fn scene() -> (Stage, ResourceId) {
    let mut stage = Stage::new(&[kind("Pair", &["dns", "cert"])]);
    let id = stage.create("Pair", None, 0);
    stage.tell(id, said("dns", 1, 10));
    stage.tell(id, said("cert", 1, 20));
    (stage, id)
}

fn repeat(stage: &mut Stage, id: ResourceId, said: Said) {
    let (version, history) = (stage.database.version, stage.database.history.clone());
    let before = stage.row(id).clone();
    let answer = stage.report(id, said).unwrap();
    assert!(matches!(answer, Reported::Unchanged(_)), "{answer:?}");
    assert_eq!((stage.database.version, &stage.database.history), (version, &history));
    assert_eq!(stage.row(id).version, before.version);
    assert_eq!(stage.row(id).updated, before.updated);
}

/// Type and `last_updated_time` of every condition; the rest must be as it was.
fn times(stage: &Stage, id: ResourceId, before: &[Value]) -> Vec<(String, String)> {
    let mut now = stage.conditions(id);
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
    let (mut stage, id) = scene();
    let before = stage.conditions(id);
    repeat(&mut stage, id, said("dns", 1, 30));
    let moved =
        [("Reconciled", 20), ("LastKnownReconciled", 20), ("DnsSuccessful", 30), ("CertSuccessful", 20)];
    let moved = moved.map(|(kind, second)| (kind.to_owned(), at(second).to_string()));
    assert_eq!(times(&stage, id, &before), moved);
    assert_eq!(
        stage.stored(id, "dns"),
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
    let (mut stage, id) = scene();
    let contents = stage.contents();
    repeat(&mut stage, id, said("cert", 1, 20));
    assert_eq!(stage.contents(), contents);
}

#[test]
fn the_same_data_in_another_order_repeats_the_last_report() {
    let (mut stage, id) = scene();
    let (data, other) = (json!({"a": 1, "b": {"c": [1, 2]}}), json!({"b": {"c": [1, 2]}, "a": 1}));
    stage.tell(id, said("dns", 1, 30).data(&data).metadata(&data));
    repeat(&mut stage, id, said("dns", 1, 40).data(&other).metadata(&other));
    assert_eq!(stage.stored(id, "dns")["last_report_time"], json!(at(40)));
    stage.tell(id, said("dns", 1, 50).data(&json!({"a": 1, "b": {"c": [2, 1]}})).metadata(&data));
}

#[test]
fn a_repeated_report_of_an_adapter_that_nobody_requires_moves_its_own_time_alone() {
    let (mut stage, id) = scene();
    stage.tell(id, said("audit", 1, 30));
    let conditions = stage.conditions(id);
    repeat(&mut stage, id, said("audit", 1, 40));
    assert_eq!(stage.conditions(id), conditions);
    assert_eq!(stage.stored(id, "audit")["last_report_time"], json!(at(40)));
}

#[test]
fn a_repeated_failure_moves_times_and_not_the_flip() {
    let (mut stage, id) = scene();
    stage.tell(id, said("dns", 1, 30).available("False"));
    let before = stage.conditions(id);
    repeat(&mut stage, id, said("dns", 1, 40).available("False"));
    let moved =
        [("Reconciled", 20), ("LastKnownReconciled", 20), ("DnsSuccessful", 40), ("CertSuccessful", 20)];
    let moved = moved.map(|(kind, second)| (kind.to_owned(), at(second).to_string()));
    assert_eq!(times(&stage, id, &before), moved);
}

#[test]
fn a_repeated_word_on_a_finalizing_resource_moves_times_alone() {
    let (mut stage, id) = scene();
    stage.delete(id, 50).unwrap();
    stage.tell(id, said("dns", 2, 60).finalized());
    repeat(&mut stage, id, said("dns", 2, 70).finalized());
    assert_eq!(stage.condition(id, "Reconciled")["last_updated_time"], json!(at(70)));
}

#[test]
fn a_resource_is_light_exactly_while_nobody_has_loaded_it_whole() {
    let (stage, id) = scene();
    let row = stage.row(id).clone();
    let wish = |set: &WorkingSet| set.loaded().next().unwrap().spec.clone();
    let nothing = RawJson::from_value(&json!({}));
    let light = Resource { spec: nothing.clone(), ..row.clone() };
    let mut set = WorkingSet::new(stage.database.version);
    set.load_light(light.clone());
    assert_eq!((set.is_light(id), wish(&set)), (true, nothing));
    set.load(row.clone());
    assert_eq!((set.is_light(id), wish(&set)), (false, row.spec.clone()));
    set.load_light(light);
    assert_eq!((set.is_light(id), wish(&set)), (false, row.spec));
}

#[test]
fn no_report_touches_the_wish_whatever_it_leads_to() {
    let mut pair = kind("Pair", &["dns"]);
    pair.references = serde_json::from_value(json!([{"ref_type": "home", "target_kind": "Plain"}])).unwrap();
    let mut stage = Stage::new(&[kind("Plain", &[]), pair]);
    let home = stage.create("Plain", None, 0);
    let id = stage.create_with("Pair", None, 0, &json!({"home": [home]}));
    let wish = stage.row(id).clone();
    for report in [
        said("dns", 1, 10),
        said("dns", 1, 20),
        said("dns", 1, 30).available("False"),
        said("audit", 1, 40).available("Unknown"),
    ] {
        stage.report(id, report).unwrap();
        let now = stage.row(id);
        assert!(now.same_wish(&wish));
        assert_eq!(now.references.parse::<Value>().unwrap(), json!({"home": [home]}));
        assert_eq!(now.labels.parse::<Value>().unwrap(), json!({"tier": "gold"}));
    }
    let refused = stage.delete(home, 50).unwrap_err();
    assert_eq!(refused.code(), "HYPERFLEET-CNF-003", "the reference still holds");
}
