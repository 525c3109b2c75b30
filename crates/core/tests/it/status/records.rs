//! What is stored of a report, and what counts as a change.

use hyperfleet_core::rules::Reported;
use hyperfleet_core::{Action, ResourceId};
use serde_json::{Value, json};

use super::fixture::{Fixture, at, kind};
use super::test_report::{TestReport, test_report};

fn prepared() -> (Fixture, ResourceId) {
    let mut fixture = Fixture::new(&[kind("Single", &["dns"])]);
    let id = fixture.create("Single", None, 0);
    (fixture, id)
}

#[test]
fn a_first_report_is_stored_with_its_own_time_everywhere() {
    let (mut fixture, id) = prepared();
    let report = test_report("dns", 1, 10)
        .because("Resolves", "all names resolve")
        .with("Warm", "Unknown")
        .data(&json!({"records": 12, "zone": "b"}))
        .metadata(&json!({"attempt": 3}));
    fixture.tell(id, report);
    let expected = json!({
        "adapter": "dns",
        "observed_generation": 1,
        "conditions": [
            {
                "type": "Available", "status": "True", "reason": "Resolves",
                "message": "all names resolve", "last_transition_time": at(10),
            },
            {"type": "Applied", "status": "True", "last_transition_time": at(10)},
            {"type": "Health", "status": "True", "last_transition_time": at(10)},
            {"type": "Warm", "status": "Unknown", "last_transition_time": at(10)},
        ],
        "data": {"records": 12, "zone": "b"},
        "metadata": {"attempt": 3},
        "created_time": at(10),
        "last_report_time": at(10),
    });
    assert_eq!(fixture.stored(id, "dns"), expected);
}

#[test]
fn the_next_report_replaces_everything_but_when_the_first_came_and_when_a_status_last_changed() {
    let (mut fixture, id) = prepared();
    let first =
        test_report("dns", 1, 10).with("Warm", "True").data(&json!({"a": 1})).metadata(&json!({"b": 2}));
    fixture.tell(id, first);
    let mut second = test_report("dns", 1, 20).available("False").with("Cold", "True").data(&json!({"c": 3}));
    second.0.conditions.reverse();
    fixture.tell(id, second);
    let expected = json!({
        "adapter": "dns",
        "observed_generation": 1,
        "conditions": [
            {"type": "Cold", "status": "True", "last_transition_time": at(20)},
            {"type": "Health", "status": "True", "last_transition_time": at(10)},
            {"type": "Applied", "status": "True", "last_transition_time": at(10)},
            {"type": "Available", "status": "False", "last_transition_time": at(20)},
        ],
        "data": {"c": 3},
        "created_time": at(10),
        "last_report_time": at(20),
    });
    assert_eq!(fixture.stored(id, "dns"), expected);

    fixture.tell(id, test_report("dns", 1, 30).available("False").with("Warm", "True"));
    let since = |kind: &str| {
        let stored = fixture.stored(id, "dns");
        let conditions = stored["conditions"].as_array().unwrap().clone();
        conditions.into_iter().find(|c| c["type"] == *kind).unwrap()["last_transition_time"].clone()
    };
    assert_eq!(since("Available"), json!(at(20)));
    assert_eq!(since("Warm"), json!(at(30)), "a type that was away starts anew");
}

#[test]
fn at_an_equal_moment_the_later_arrival_wins() {
    let (mut fixture, id) = prepared();
    fixture.tell(id, test_report("dns", 1, 10));
    fixture.tell(id, test_report("dns", 1, 10).available("False").because("NoQuota", ""));
    let stored = fixture.stored(id, "dns");
    assert_eq!(stored["conditions"][0]["status"], "False");
    assert_eq!((&stored["created_time"], &stored["last_report_time"]), (&json!(at(10)), &json!(at(10))));
    assert_eq!(fixture.condition(id, "DnsSuccessful")["reason"], "NoQuota");
}

#[test]
fn each_adapter_has_a_record_of_its_own() {
    let (mut fixture, id) = prepared();
    for (adapter, second) in [("dns", 10), ("Zeta", 11), ("alpha", 12)] {
        fixture.tell(id, test_report(adapter, 1, second));
    }
    let adapters: Vec<_> = fixture.database.reports_on(id).map(|report| &*report.adapter).collect();
    assert_eq!(adapters, ["Zeta", "alpha", "dns"], "by code points");
}

#[test]
fn every_difference_of_a_report_is_a_change_with_a_version_and_a_timeline_entry() {
    let words = "all names resolve";
    let says = |generation, second| {
        test_report("dns", generation, second)
            .because("Resolves", words)
            .with("Warm", "True")
            .data(&json!({"a": 1}))
            .metadata(&json!({"b": 2}))
    };
    let without_metadata = |mut report: TestReport| {
        report.0.metadata = None;
        report
    };
    for (name, report, path, from, to) in [
        (
            "status",
            says(1, 20).with("Warm", "False"),
            "conditions.Warm.status",
            json!("True"),
            json!("False"),
        ),
        (
            "reason",
            says(1, 20).because("Works", words),
            "conditions.Available.reason",
            json!("Resolves"),
            json!("Works"),
        ),
        (
            "message",
            says(1, 20).because("Resolves", "most do"),
            "conditions.Available.message",
            json!(words),
            json!("most do"),
        ),
        ("data", says(1, 20).data(&json!({"a": 2})), "data.a", json!(1), json!(2)),
        ("metadata", says(1, 20).metadata(&json!({"b": 3})), "metadata.b", json!(2), json!(3)),
        ("no metadata", without_metadata(says(1, 20)), "metadata", json!({"b": 2}), json!(null)),
        ("generation", says(2, 20), "observed_generation", json!(1), json!(2)),
        (
            "a type more",
            says(1, 20).with("Cold", "True"),
            "conditions.Cold",
            json!(null),
            json!({"status": "True"}),
        ),
        (
            "a type less",
            says(1, 20).without("Warm"),
            "conditions.Warm",
            json!({"status": "True"}),
            json!(null),
        ),
    ] {
        let (mut fixture, id) = prepared();
        fixture.change(id, 1);
        fixture.tell(id, says(1, 10));
        let version = fixture.row(id).version;
        fixture.tell(id, report);
        assert_eq!(fixture.row(id).version, version.next(), "{name}");
        let entry = &fixture.database.history.last().unwrap().entries[0];
        assert_eq!((entry.action, entry.adapter.as_deref()), (Action::ReportChanged, Some("dns")), "{name}");
        let [change] = entry.changes.as_slice() else { panic!("{name}: {entry:#?}") };
        let side = |side: &Option<Value>| side.clone().unwrap_or_default();
        assert_eq!((change.path.as_str(), side(&change.from), side(&change.to)), (path, from, to), "{name}");
    }
}

#[test]
fn a_report_in_another_order_is_shown_in_that_order() {
    let (mut fixture, id) = prepared();
    fixture.tell(id, test_report("dns", 1, 10));
    let mut reordered = test_report("dns", 1, 20);
    reordered.0.conditions.reverse();
    fixture.tell(id, reordered);
    assert_eq!(fixture.stored(id, "dns")["conditions"][0]["type"], "Health");
}

#[test]
fn the_timeline_holds_the_report_before_the_flips_that_it_caused() {
    let (mut fixture, id) = prepared();
    fixture.tell(id, test_report("dns", 1, 10));
    let change = fixture.database.history.last().unwrap();
    let told: Vec<_> = change.entries.iter().map(|e| (e.action, e.condition.as_deref())).collect();
    let flipped = |condition| (Action::ConditionChanged, Some(condition));
    assert_eq!(
        told,
        [(Action::ReportChanged, None), flipped("Reconciled"), flipped("LastKnownReconciled")],
        "a condition that was not there before did not flip"
    );
    assert!(change.entries.iter().all(|entry| entry.adapter.as_deref() == Some("dns")), "{change:#?}");
    let flip = &change.entries[1].changes[0];
    assert_eq!(
        (flip.path.as_str(), &flip.from, &flip.to),
        ("status.conditions.Reconciled", &Some(json!("False")), &Some(json!("True")),)
    );

    let answer = fixture.report(id, test_report("dns", 1, 11).available("False")).unwrap();
    assert!(matches!(answer, Reported::Stored(_)));
    let told = fixture.last_changes(1).remove(0).1;
    assert_eq!(
        told,
        [Action::ReportChanged, Action::ConditionChanged, Action::ConditionChanged, Action::ConditionChanged]
    );
}

#[test]
fn a_flip_that_no_report_caused_names_no_adapter() {
    let (mut fixture, id) = prepared();
    fixture.tell(id, test_report("dns", 1, 10));
    fixture.delete(id, 20).unwrap();
    let change = fixture.database.history.last().unwrap();
    let flips: Vec<_> = change.entries.iter().filter(|e| e.action == Action::ConditionChanged).collect();
    assert!(!flips.is_empty() && flips.iter().all(|flip| flip.adapter.is_none()), "{change:#?}");
}
