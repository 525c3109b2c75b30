//! `Available` and `Ready` of the first API revision: every cell of its tables. `X` is the generation of a report,
//! `G` that of the resource. Reports arrive five seconds after their adapter looked, because the tables tell
//! apart when it looked, when it last reported and now.

use hyperfleet_core::ResourceId;
use hyperfleet_core::rules::Rulebook;
use serde_json::{Value, json};

use super::said::{Said, said};
use super::stage::{Stage, at, kind, rulebook};

/// Status, observed generation, last update, last transition.
type Cell = (&'static str, i64, i64, i64);

const AWAITING: (&str, &str) = ("AwaitingAdapters", "Waiting for adapters to report status");
const READY: (&str, &str) = ("ResourceReady", "All adapters report ready at current generation");
const AVAILABLE: (&str, &str) = ("ResourceAvailable", "Pair is accessible");

/// What happens to a resource of two adapters after its creation at second 0.
#[derive(Clone)]
enum Event {
    Report(Said),
    Change(i64),
    Label(i64),
    Delete(i64),
}
use Event::{Change, Delete, Label, Report};

fn yes(adapter: &str, generation: i64, second: i64) -> Event {
    Report(said(adapter, generation, second))
}

fn no(adapter: &str, generation: i64, second: i64) -> Event {
    Report(said(adapter, generation, second).available("False"))
}

fn older(kinds: &[hyperfleet_core::EntityDescriptor]) -> Rulebook {
    Rulebook { legacy_conditions: true, ..rulebook(kinds) }
}

fn play(events: &[Event]) -> (Stage, ResourceId) {
    let mut stage = Stage::by(older(&[kind("Pair", &["dns", "cert"])]));
    let id = stage.create("Pair", None, 0);
    for event in events {
        match event.clone() {
            Report(said) => {
                let arrives = (said.0.observed_time.micros() - at(0).micros()) / 1_000_000 + 5;
                stage.report_at(id, said, arrives).unwrap();
            }
            Change(second) => stage.change(id, second),
            Label(second) => stage.label(id, second),
            Delete(second) => drop(stage.delete(id, second).unwrap()),
        }
    }
    (stage, id)
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
        let (stage, id) = play(events);
        assert_eq!(cells(&stage.condition(id, which)), expected(*cell), "{which}, {name}");
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

fn words(stage: &Stage, id: ResourceId, which: &str) -> (String, String) {
    let condition = stage.condition(id, which);
    let text = |member: &str| condition[member].as_str().unwrap().to_owned();
    (text("reason"), text("message"))
}

fn owned((reason, message): (&str, &str)) -> (String, String) {
    (reason.to_owned(), message.to_owned())
}

#[test]
fn both_stand_behind_the_newer_two_and_say_why() {
    let (stage, id) = play(&[yes("dns", 1, 10)]);
    let types = ["Reconciled", "LastKnownReconciled", "Available", "Ready", "DnsSuccessful"];
    assert_eq!(stage.types(id), types);
    assert_eq!(words(&stage, id, "Available"), owned(AWAITING));
    assert_eq!(words(&stage, id, "Ready"), owned(AWAITING));

    let (stage, id) = play(&[yes("dns", 1, 10), yes("cert", 1, 20)]);
    assert_eq!(words(&stage, id, "Available"), owned(AVAILABLE));
    assert_eq!(words(&stage, id, "Ready"), owned(READY));

    let (stage, id) = play(&[yes("dns", 1, 10), yes("cert", 1, 20), Change(30), no("dns", 2, 40)]);
    assert_eq!(
        words(&stage, id, "Available"),
        owned(AVAILABLE),
        "it keeps its value while reports are mixed"
    );

    let (stage, id) = play(&[yes("dns", 1, 10), yes("cert", 1, 20), no("dns", 1, 40)]);
    assert_eq!(words(&stage, id, "Available").0, "AdapterReportedNotAvailable");
}

#[test]
fn a_report_that_is_not_aggregated_moves_neither() {
    let unknown = Report(said("dns", 1, 10).available("Unknown"));
    check("Ready", &[("unknown", std::slice::from_ref(&unknown), ("False", 1, 0, 0))]);
    check("Available", &[("unknown", &[unknown], ("False", 1, 0, 0))]);
}

#[test]
fn a_kind_without_required_adapters_has_both_from_its_creation_and_keeps_them() {
    let mut stage = Stage::by(older(&[kind("Plain", &[])]));
    let id = stage.create("Plain", None, 0);
    let check = |stage: &Stage, name: &str| {
        for which in ["Available", "Ready"] {
            let condition = stage.condition(id, which);
            assert_eq!(condition["status"], "True", "{which}, {name}");
            assert_eq!(condition["last_transition_time"], json!(at(0)), "{which}, {name}");
        }
    };
    check(&stage, "creation");
    stage.change(id, 10);
    check(&stage, "a change");
    stage.tell(id, said("audit", 2, 20).available("False"));
    check(&stage, "a report");
}

#[test]
fn they_are_there_exactly_while_they_are_asked_for() {
    let pair = [kind("Pair", &["dns", "cert"])];
    let mut stage = Stage::new(&pair);
    let id = stage.create("Pair", None, 0);
    stage.tell(id, said("dns", 1, 10));
    stage.tell(id, said("cert", 1, 20));
    let without = stage.conditions(id);
    stage.reconfigure(older(&pair));
    stage.recompute(&[id], 30);
    let status = |which: &str| stage.condition(id, which)["status"].clone();
    assert_eq!((status("Available"), status("Ready")), (json!("True"), json!("True")));
    stage.reconfigure(rulebook(&pair));
    stage.recompute(&[id], 40);
    assert_eq!(stage.conditions(id), without);
}
