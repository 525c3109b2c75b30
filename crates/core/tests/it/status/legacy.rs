//! `Available` and `Ready` of the first API revision: every cell of its tables. `X` is the generation of a report,
//! `G` that of the resource. Reports arrive five seconds after their adapter looked, because the tables tell
//! apart when it looked, when it last reported and now.

use hyperfleet_core::ResourceId;
use hyperfleet_core::rules::Rulebook;
use serde_json::{Value, json};

use super::fixture::{Fixture, at, kind, rulebook};
use super::test_report::{TestReport, test_report};

/// Status, observed generation, last update, last transition.
type Cell = (&'static str, i64, i64, i64);

const AWAITING: (&str, &str) = ("AwaitingAdapters", "Waiting for adapters to report status");
const READY: (&str, &str) = ("ResourceReady", "All adapters report ready at current generation");
const AVAILABLE: (&str, &str) = ("ResourceAvailable", "Pair is accessible");

/// What happens to a resource of two adapters after its creation at second 0.
#[derive(Clone)]
enum Event {
    Report(TestReport),
    Change(i64),
    Label(i64),
    Delete(i64),
}
use Event::{Change, Delete, Label, Report};

fn yes(adapter: &str, generation: i64, second: i64) -> Event {
    Report(test_report(adapter, generation, second))
}

fn no(adapter: &str, generation: i64, second: i64) -> Event {
    Report(test_report(adapter, generation, second).available("False"))
}

fn older(kinds: &[hyperfleet_core::EntityDescriptor]) -> Rulebook {
    Rulebook { legacy_conditions: true, ..rulebook(kinds) }
}

fn play(events: &[Event]) -> (Fixture, ResourceId) {
    let mut fixture = Fixture::by(older(&[kind("Pair", &["dns", "cert"])]));
    let id = fixture.create("Pair", None, 0);
    for event in events {
        match event.clone() {
            Report(report) => {
                let arrives = (report.0.observed_time.unwrap().micros() - at(0).micros()) / 1_000_000 + 5;
                fixture.report_at(id, report, arrives).unwrap();
            }
            Change(second) => fixture.change(id, second),
            Label(second) => fixture.label(id, second),
            Delete(second) => drop(fixture.delete(id, second).unwrap()),
        }
    }
    (fixture, id)
}

fn cells(condition: &Value) -> Value {
    let mut cells = condition.clone();
    cells.as_object_mut().unwrap().retain(|member, _| !["type", "reason", "message"].contains(&&**member));
    cells
}

fn expected((status, generation, updated, transition): Cell) -> Value {
    json!({
        "status": status, "observed_generation": generation, "created_time": at(0),
        "last_updated_time": at(updated), "last_transition_time": at(transition),
    })
}

/// Plays each row and compares the cells of one condition.
fn check(which: &str, rows: &[(&str, &[Event], Cell)]) {
    for (name, events, cell) in rows {
        let (fixture, id) = play(events);
        assert_eq!(cells(&fixture.condition(id, which)), expected(*cell), "{which}, {name}");
    }
}

#[test]
fn ready_follows_the_table_of_changes() {
    let ready = [yes("dns", 1, 10), yes("cert", 1, 20)];
    let then = |event: Event| [&ready[..], &[event]].concat();
    check(
        "Ready",
        &[
            ("creation", &[], ("False", 1, 0, 0)),
            ("change, was True", &then(Change(30)), ("False", 2, 30, 30)),
            ("change, was False", &[Change(30)], ("False", 2, 30, 0)),
            ("two changes", &[Change(30), Change(40)], ("False", 3, 40, 0)),
            ("deletion, was True", &then(Delete(30)), ("False", 2, 30, 30)),
            ("deletion, was False", &[Delete(30)], ("False", 2, 30, 0)),
            ("a label is no change, was True", &then(Label(30)), ("True", 1, 10, 20)),
            ("a label is no change, was False", &[Label(30)], ("False", 1, 0, 0)),
        ],
    );
}

#[test]
fn available_follows_the_table_of_changes() {
    let ready = [yes("dns", 1, 10), yes("cert", 1, 20)];
    let then = |event: Event| [&ready[..], &[event]].concat();
    check(
        "Available",
        &[
            ("creation", &[], ("False", 1, 0, 0)),
            ("change, was True", &then(Change(30)), ("True", 1, 10, 20)),
            ("change, was False", &[Change(30)], ("False", 1, 0, 0)),
            ("deletion, was True", &then(Delete(30)), ("True", 1, 10, 20)),
            ("deletion, was False", &[Delete(30)], ("False", 1, 0, 0)),
            ("a label", &then(Label(30)), ("True", 1, 10, 20)),
        ],
    );
}

#[test]
fn ready_follows_the_table_of_reports_that_are_true() {
    let (dns, cert) = (yes("dns", 1, 10), yes("cert", 1, 20));
    let mixed = [dns.clone(), cert.clone(), Change(30), yes("dns", 2, 40)];
    check(
        "Ready",
        &[
            ("was True, all at G", &[dns.clone(), cert.clone(), yes("dns", 1, 40)], ("True", 1, 20, 20)),
            ("was False, all at G", &[dns.clone(), cert.clone()], ("True", 1, 10, 20)),
            ("was False, all at G, looked at earlier", &[yes("dns", 1, 30), cert], ("True", 1, 20, 20)),
            ("was False, one has not reported", std::slice::from_ref(&dns), ("False", 1, 15, 0)),
            ("was False, one has not reported, X below G", &[Change(5), dns.clone()], ("False", 2, 15, 0)),
            ("any: one is still below G", &mixed, ("False", 2, 30, 30)),
            ("any: one fails at G", &[no("dns", 1, 10), yes("cert", 1, 20)], ("False", 1, 10, 0)),
        ],
    );
}

#[test]
fn ready_follows_the_table_of_reports_that_are_false() {
    let ready = [yes("dns", 1, 10), yes("cert", 1, 20)];
    let then = |events: &[Event]| [&ready[..], events].concat();
    check(
        "Ready",
        &[
            ("was False, X is G, one has not reported", &[no("dns", 1, 10)], ("False", 1, 10, 0)),
            ("was False, X is G", &[no("cert", 1, 20), no("dns", 1, 10)], ("False", 1, 10, 0)),
            (
                "was False, X is G, the oldest of any generation counts",
                &then(&[Change(30), no("dns", 2, 40)]),
                ("False", 2, 20, 30),
            ),
            ("was True, X is G", &then(&[no("dns", 1, 40)]), ("False", 1, 40, 40)),
            ("and again", &then(&[no("dns", 1, 40), no("dns", 1, 50)]), ("False", 1, 20, 40)),
            ("any: X below G", &then(&[Change(30), no("dns", 1, 40)]), ("False", 2, 30, 30)),
            ("any: X below G, one has not reported", &[Change(30), no("dns", 1, 40)], ("False", 2, 30, 0)),
        ],
    );
}

#[test]
fn available_follows_the_table_of_reports_that_are_true() {
    let ready = [yes("dns", 1, 10), yes("cert", 1, 20)];
    let then = |events: &[Event]| [&ready[..], events].concat();
    check(
        "Available",
        &[
            ("was False, all at X", &ready, ("True", 1, 10, 20)),
            ("was False, all at X below G", &[&[Change(5)], &ready[..]].concat(), ("True", 1, 10, 20)),
            ("was True, all at X", &then(&[yes("dns", 1, 40)]), ("True", 1, 20, 20)),
            (
                "was True, all at X, a newer one",
                &then(&[Change(30), yes("dns", 2, 40), yes("cert", 2, 50)]),
                ("True", 2, 40, 20),
            ),
            ("any: mixed after True", &then(&[Change(30), yes("dns", 2, 40)]), ("True", 1, 10, 20)),
            (
                "any: mixed after False",
                &[Change(5), yes("dns", 2, 10), yes("cert", 1, 20)],
                ("False", 1, 0, 0),
            ),
            ("any: one has not reported", &[yes("dns", 1, 10)], ("False", 1, 0, 0)),
            ("was False, another fails at X", &[no("dns", 1, 10), yes("cert", 1, 20)], ("False", 1, 10, 0)),
            (
                "was True, another fails at X",
                &then(&[Change(30), no("dns", 2, 40), yes("cert", 2, 50)]),
                ("False", 2, 50, 50),
            ),
        ],
    );
}

#[test]
fn available_follows_the_table_of_reports_that_are_false() {
    let ready = [yes("dns", 1, 10), yes("cert", 1, 20)];
    let then = |events: &[Event]| [&ready[..], events].concat();
    check(
        "Available",
        &[
            ("was False, all at X", &[no("cert", 1, 20), no("dns", 1, 10)], ("False", 1, 10, 0)),
            (
                "was False, all at X, a newer one",
                &[no("dns", 1, 10), no("cert", 1, 20), Change(30), no("dns", 2, 40), no("cert", 2, 50)],
                ("False", 2, 40, 0),
            ),
            ("was True, all at X", &then(&[no("dns", 1, 40)]), ("False", 1, 40, 40)),
            ("was True, all at X below G", &then(&[Change(30), no("dns", 1, 40)]), ("False", 1, 40, 40)),
            ("any: mixed after True", &then(&[Change(30), no("dns", 2, 40)]), ("True", 1, 10, 20)),
            ("any: one has not reported", &[no("dns", 1, 10)], ("False", 1, 0, 0)),
        ],
    );
}

fn words(fixture: &Fixture, id: ResourceId, which: &str) -> (String, String) {
    let condition = fixture.condition(id, which);
    let text = |member: &str| condition[member].as_str().unwrap().to_owned();
    (text("reason"), text("message"))
}

fn owned((reason, message): (&str, &str)) -> (String, String) {
    (reason.to_owned(), message.to_owned())
}

#[test]
fn both_stand_behind_the_newer_two_and_say_why() {
    let (fixture, id) = play(&[yes("dns", 1, 10)]);
    let types = ["Reconciled", "LastKnownReconciled", "Available", "Ready", "DnsSuccessful"];
    assert_eq!(fixture.types(id), types);
    assert_eq!(words(&fixture, id, "Available"), owned(AWAITING));
    assert_eq!(words(&fixture, id, "Ready"), owned(AWAITING));

    let (fixture, id) = play(&[yes("dns", 1, 10), yes("cert", 1, 20)]);
    assert_eq!(words(&fixture, id, "Available"), owned(AVAILABLE));
    assert_eq!(words(&fixture, id, "Ready"), owned(READY));

    let (fixture, id) = play(&[yes("dns", 1, 10), yes("cert", 1, 20), Change(30), no("dns", 2, 40)]);
    assert_eq!(
        words(&fixture, id, "Available"),
        owned(AVAILABLE),
        "it keeps its value while reports are mixed"
    );

    let (fixture, id) = play(&[yes("dns", 1, 10), yes("cert", 1, 20), no("dns", 1, 40)]);
    assert_eq!(words(&fixture, id, "Available").0, "AdapterReportedNotAvailable");
}

#[test]
fn a_report_that_is_not_aggregated_moves_neither() {
    let unknown = Report(test_report("dns", 1, 10).available("Unknown"));
    check("Ready", &[("unknown", std::slice::from_ref(&unknown), ("False", 1, 0, 0))]);
    check("Available", &[("unknown", &[unknown], ("False", 1, 0, 0))]);
}

#[test]
fn a_kind_without_required_adapters_has_both_from_its_creation_and_keeps_them() {
    let mut fixture = Fixture::by(older(&[kind("Plain", &[])]));
    let id = fixture.create("Plain", None, 0);
    let check = |fixture: &Fixture, name: &str| {
        for which in ["Available", "Ready"] {
            let condition = fixture.condition(id, which);
            assert_eq!(condition["status"], "True", "{which}, {name}");
            assert_eq!(condition["last_transition_time"], json!(at(0)), "{which}, {name}");
        }
    };
    check(&fixture, "creation");
    fixture.change(id, 10);
    check(&fixture, "a change");
    fixture.tell(id, test_report("audit", 2, 20).available("False"));
    check(&fixture, "a report");
}

#[test]
fn legacy_conditions_exist_exactly_while_they_are_configured() {
    let pair = [kind("Pair", &["dns", "cert"])];
    let mut fixture = Fixture::new(&pair);
    let id = fixture.create("Pair", None, 0);
    fixture.tell(id, test_report("dns", 1, 10));
    fixture.tell(id, test_report("cert", 1, 20));
    let without = fixture.conditions(id);
    fixture.reconfigure(older(&pair));
    fixture.recompute(&[id], 30);
    let status = |which: &str| fixture.condition(id, which)["status"].clone();
    assert_eq!((status("Available"), status("Ready")), (json!("True"), json!("True")));
    fixture.reconfigure(rulebook(&pair));
    fixture.recompute(&[id], 40);
    assert_eq!(fixture.conditions(id), without);
}
