use serde_json::{Value, json};

use super::*;

const TEN_MINUTES: Duration = Duration::from_secs(600);

fn at(second: i64) -> Timestamp {
    Timestamp::from_micros(second * SECOND)
}

/// A resource whose `Reconciled` flipped at a second; `false` adapters fail at the present generation.
fn resource(id: &str, reconciled: bool, since: i64, adapters: &[(&str, bool)]) -> Value {
    let mut conditions = vec![json!({
        "type": "Reconciled", "status": if reconciled { "True" } else { "False" },
        "reason": if reconciled { "ReconciledAll" } else { "ReconciledMissingAdapters" },
        "message": "Required adapters have not yet reported status at generation 2: dns", "observed_generation": 2, "last_transition_time": at(since).to_string(),
    })];
    for (adapter, well) in adapters {
        let status = if *well { "True" } else { "False" };
        conditions.push(
            json!({"type": format!("{adapter}Successful"), "status": status, "reason": "Full", "observed_generation": 2}),
        );
    }
    json!({"id": id, "kind": "Cluster", "name": id, "generation": 2, "status": {"conditions": conditions}})
}

fn added(value: Value) -> WatchEvent {
    WatchEvent::Added { version: 1, resource: Resource::from_value(value).unwrap() }
}

fn deleted(value: Value) -> WatchEvent {
    WatchEvent::Deleted { version: 1, resource: Resource::from_value(value).unwrap() }
}

/// A model with this initial state.
fn model_of(state: impl IntoIterator<Item = Value>) -> Model {
    let mut model = Model::new(TEN_MINUTES);
    for value in state {
        model.take(added(value), at(0));
    }
    model.take(WatchEvent::Bookmark { version: 1 }, at(0));
    model
}

fn options() -> ViewOptions {
    ViewOptions { rows: 100, ..ViewOptions::default() }
}

fn names(view: &View) -> Vec<&str> {
    view.rows.iter().map(|row| row.name.as_str()).collect()
}

#[test]
fn phases_follow_from_conditions_and_times() {
    let mut finalizing = resource("finalizing", false, 900, &[]);
    finalizing["deleted_time"] = json!(at(950).to_string());
    let mut stuck_in_deletion = resource("stuck-in-deletion", false, 900, &[]);
    stuck_in_deletion["deleted_time"] = json!(at(300).to_string());
    let model = model_of([
        resource("reconciled", true, 0, &[("Dns", true)]),
        resource("reconciling", false, 990, &[("Dns", true)]),
        resource("degraded", false, 980, &[("Dns", false)]),
        resource("stuck", false, 399, &[("Dns", false)]),
        finalizing,
        stuck_in_deletion,
    ]);
    let view = model.view(&ViewOptions { sort: Sort::Phase, all: true, ..options() }, at(1000));
    let found: Vec<_> = view.rows.iter().map(|row| (row.name.as_str(), row.phase)).collect();
    assert_eq!(
        found,
        [
            ("stuck-in-deletion", ReconciliationPhase::Stuck),
            ("stuck", ReconciliationPhase::Stuck),
            ("degraded", ReconciliationPhase::Degraded),
            ("finalizing", ReconciliationPhase::Finalizing),
            ("reconciling", ReconciliationPhase::Reconciling),
            ("reconciled", ReconciliationPhase::Reconciled),
        ]
    );
    assert_eq!((view.total, view.phases), (6, [1, 1, 1, 1, 2]));
}

#[test]
fn a_failure_on_a_generation_that_is_past_does_not_count() {
    let mut old = resource("old", false, 990, &[("Dns", false)]);
    old["generation"] = json!(3);
    assert_eq!(model_of([old]).view(&options(), at(1000)).rows[0].phase, ReconciliationPhase::Reconciling);
}

#[test]
fn the_longest_unreconciled_come_first_and_reconciled_ones_are_left_out() {
    let model = model_of([
        resource("newer", false, 990, &[]),
        resource("older", false, 900, &[]),
        resource("fine", true, 0, &[]),
    ]);
    let view = model.view(&options(), at(1000));
    assert_eq!(names(&view), ["older", "newer"]);
    assert_eq!(view.rows[0].lasts, Duration::from_secs(100));
    let reversed = model.view(&ViewOptions { reversed: true, ..options() }, at(1000));
    assert_eq!(names(&reversed), ["newer", "older"]);
    for rows in [0, 2, 3] {
        let some = model.view(&ViewOptions { rows, ..options() }, at(1000));
        assert_eq!(names(&some), ["older", "newer"][..rows.min(2)]);
    }
    let one = model.view(&ViewOptions { rows: 1, ..options() }, at(1000));
    assert_eq!((names(&one), one.matching), (vec!["older"], 2));
}

#[test]
fn a_row_names_the_blocker() {
    let mut waiting = resource("waiting", false, 1, &[]);
    let message = "Deletion in progress: waiting for child resources: NodePool 2";
    waiting["status"]["conditions"][0]["reason"] = json!("ReconciledWaitingForChildren");
    waiting["status"]["conditions"][0]["message"] = json!(message);
    let mut other = resource("other", false, 2, &[]);
    other["status"]["conditions"][0]["reason"] = json!("SomethingNew");
    let failing = resource("failing", false, 3, &[("Dns", false), ("MyNetwork", true), ("Machines", false)]);
    let model = model_of([waiting, other, failing, resource("missing", false, 4, &[])]);
    let view = model.view(&options(), at(10));
    let whys: Vec<_> = view.rows.iter().map(|row| row.why.as_str()).collect();
    assert_eq!(
        whys,
        [
            "waits for NodePool 2",
            "Required adapters have not yet reported status at generation 2: dns",
            "dns: Full, machines: Full",
            "waits for dns"
        ]
    );
}

#[test]
fn rows_are_found_by_kind_name_owner_phase_reason_and_adapter() {
    let mut pool = resource("workers", false, 5, &[("MyDns", false)]);
    pool["kind"] = json!("NodePool");
    pool["owner_references"] = json!({"id": "prod-1", "kind": "Cluster", "href": "/x"});
    let model = model_of([resource("prod-1", false, 6, &[]), pool]);
    for (filter, found) in [
        ("", vec!["prod-1/workers", "prod-1"]),
        ("PROD", vec!["prod-1/workers", "prod-1"]),
        ("nodepool", vec!["prod-1/workers"]),
        ("degr", vec!["prod-1/workers"]),
        ("my-dns", vec!["prod-1/workers"]),
        ("missingadapters", vec!["prod-1/workers", "prod-1"]),
        ("nowhere", vec![]),
    ] {
        let view = model.view(&ViewOptions { filter: filter.to_owned(), ..options() }, at(10));
        assert_eq!(names(&view), found, "{filter}");
        assert_eq!(view.total, 2, "counts are of the whole fleet");
    }
}

#[test]
fn changes_are_counted_by_second_and_the_state_at_the_start_is_none() {
    let mut model = model_of([resource("a", true, 0, &[]), resource("b", true, 0, &[])]);
    assert_eq!(model.view(&options(), at(0)).history.iter().sum::<u64>(), 0);
    for second in [100, 100, 104] {
        model.take(added(resource("a", false, second, &[])), at(second));
    }
    model.take(deleted(resource("b", true, 0, &[])), at(105));
    let view = model.view(&options(), at(105));
    assert_eq!(view.history[HISTORY - 6..], [2, 0, 0, 0, 1, 1]);
    assert!((view.rate - 0.4).abs() < 1e-9, "{}", view.rate);
    assert_eq!(view.total, 1);
    let later = model.view(&options(), at(105 + HISTORY as i64));
    assert_eq!((later.history.iter().sum::<u64>(), later.rate.to_bits()), (0, 0.0_f64.to_bits()));
}

#[test]
fn adapters_are_shown_by_where_they_fail_now_and_how_often_they_began_to() {
    let mut model = model_of([resource("a", false, 0, &[("Dns", false), ("MyNetwork", true)])]);
    let adapters = |model: &Model| {
        let view = model.view(&options(), at(10));
        view.adapters.into_iter().map(|one| (one.name, one.failing, one.setbacks)).collect::<Vec<_>>()
    };
    assert_eq!(adapters(&model), [("dns".to_owned(), 1, 0)]);
    // A repeated failure is not counted again.
    model.take(added(resource("a", false, 0, &[("Dns", false), ("MyNetwork", false)])), at(1));
    assert_eq!(adapters(&model), [("my-network".to_owned(), 1, 1), ("dns".to_owned(), 1, 0)]);
    model.take(added(resource("a", true, 0, &[("Dns", true), ("MyNetwork", true)])), at(2));
    assert_eq!(adapters(&model), [("my-network".to_owned(), 0, 1)]);
}

#[test]
fn after_a_restart_of_the_watch_only_the_new_state_counts() {
    let mut model = model_of([resource("a", false, 0, &[]), resource("b", false, 0, &[])]);
    model.take(WatchEvent::Restart, at(5));
    assert!(!model.view(&options(), at(5)).is_complete);
    model.take(added(resource("b", false, 0, &[])), at(5));
    model.take(WatchEvent::Bookmark { version: 9 }, at(5));
    let view = model.view(&options(), at(5));
    assert_eq!((names(&view), view.total, view.is_complete), (vec!["b"], 1, true));
}
