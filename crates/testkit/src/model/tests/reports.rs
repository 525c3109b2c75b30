//! The outcome table, row by row, and what is kept of a report.

use serde_json::{Value, json};

use super::super::view::time_text;
use super::super::{Available, Report, ReportCondition, ReportRule, Slot};
use super::{Fixture, at, finalized, plain, text};

/// A resource at generation 2 for which a has reported generation 1 at 20 and b generation 2 at 21.
fn fixture() -> (Fixture, Slot) {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    fixture.says(pair, "a", 1, 20, Available::True);
    fixture.patch(pair, 15);
    fixture.says(pair, "b", 2, 21, Available::True);
    (fixture, pair)
}

/// The rule and the status, after checking that a refusal changed nothing.
fn outcome(fixture: &mut Fixture, slot: Slot, report: Report) -> (ReportRule, u16) {
    let before = fixture.0.resources();
    let expected = fixture.report(slot, report);
    if expected.status != 201 {
        assert_eq!(before, fixture.0.resources());
        assert_eq!((expected.changed, expected.answer), (vec![], None));
    }
    (expected.rule.unwrap(), expected.status)
}

#[test]
fn row_1_an_invalid_report_is_400_even_where_nothing_is() {
    let (mut fixture, pair) = fixture();
    let free = fixture.create("Free", None, 11);
    fixture.delete(free, 12);
    let good = plain("a", 1, 30, Available::True);
    let mut twice = good.clone();
    twice.conditions.push(ReportCondition::new("Health", Available::False));
    let mut nameless = good.clone();
    nameless.conditions.push(ReportCondition::new("", Available::False));
    let faults = [
        Report { adapter: String::new(), ..good.clone() },
        Report { adapter: "é".repeat(254), ..good.clone() },
        Report { observed_generation: 0, ..good.clone() },
        Report { data: Some(json!([])), ..good.clone() },
        Report { metadata: Some(json!("x")), ..good.clone() },
        twice,
        nameless,
    ];
    for fault in faults {
        assert_eq!(outcome(&mut fixture, pair, fault.clone()), (ReportRule::Invalid, 400));
        assert_eq!(outcome(&mut fixture, free, fault), (ReportRule::Invalid, 400));
    }
    assert_eq!(fixture.report(pair, Report { adapter: "é".repeat(253), ..good }).status, 201);
}

#[test]
fn row_2_a_report_on_nothing_is_404() {
    let mut fixture = Fixture::new();
    let free = fixture.create("Free", None, 11);
    fixture.delete(free, 12);
    assert_eq!(outcome(&mut fixture, free, plain("a", 9, 30, Available::True)), (ReportRule::NotThere, 404));
}

#[test]
fn rows_3_to_5_stale_and_premature_reports_are_discarded_before_their_conditions_are_looked_at() {
    let (mut fixture, pair) = fixture();
    let mut bare = plain("b", 3, 30, Available::True);
    bare.conditions.clear();
    assert_eq!(outcome(&mut fixture, pair, bare.clone()), (ReportRule::FutureGeneration, 204));
    bare.observed_generation = 1;
    assert_eq!(outcome(&mut fixture, pair, bare.clone()), (ReportRule::OlderGeneration, 204));
    bare.observed_generation = 2;
    bare.observed_time = at(20);
    assert_eq!(outcome(&mut fixture, pair, bare.clone()), (ReportRule::OlderTime, 204));
    bare.observed_time = at(21);
    assert_eq!(outcome(&mut fixture, pair, bare), (ReportRule::MandatoryMissing, 400));
}

#[test]
fn a_newer_generation_may_carry_an_older_time() {
    let (mut fixture, pair) = fixture();
    assert_eq!(outcome(&mut fixture, pair, plain("a", 2, 5, Available::True)), (ReportRule::Accepted, 201));
    assert_eq!(fixture.statuses(pair)[0]["last_report_time"], text(5));
    assert_eq!(fixture.statuses(pair)[0]["created_time"], text(20));
}

#[test]
fn the_later_arrival_of_two_reports_of_one_time_wins() {
    let (mut fixture, pair) = fixture();
    fixture.says(pair, "b", 2, 21, Available::False);
    assert_eq!(fixture.statuses(pair)[1]["conditions"][0]["status"], "False");
}

#[test]
fn nanoseconds_are_cut_before_times_are_compared() {
    let (mut fixture, pair) = fixture();
    let mut finer = plain("b", 2, 21, Available::False);
    finer.observed_time += chrono::TimeDelta::nanoseconds(999);
    assert_eq!(finer.body()["observed_time"], "2025-01-01T00:00:21.000000999Z");
    assert_eq!(outcome(&mut fixture, pair, finer), (ReportRule::Accepted, 201));
    assert_eq!(fixture.statuses(pair)[1]["last_report_time"], text(21));
    fixture.says(pair, "b", 2, 21, Available::True);
}

#[test]
fn row_6_any_missing_mandatory_condition_is_400() {
    let (mut fixture, pair) = fixture();
    for missing in 0..3 {
        let mut report = plain("c", 2, 30, Available::Unknown);
        report.conditions.remove(missing);
        assert_eq!(outcome(&mut fixture, pair, report), (ReportRule::MandatoryMissing, 400));
    }
}

#[test]
fn row_7_finalized_is_stored_whatever_available_says_once_the_resource_is_finalizing() {
    let (mut fixture, pair) = fixture();
    let report = finalized("a", 2, 30, Available::Unknown);
    assert_eq!(outcome(&mut fixture, pair, report.clone()), (ReportRule::UnknownAgain, 204));
    fixture.delete(pair, 31);
    assert_eq!(outcome(&mut fixture, pair, report), (ReportRule::Finalized, 201));
}

#[test]
fn rows_8_and_9_unknown_is_stored_only_as_a_first_report_and_never_aggregated() {
    let (mut fixture, pair) = fixture();
    let before = fixture.conditions(pair);
    assert_eq!(
        outcome(&mut fixture, pair, plain("c", 1, 30, Available::Unknown)),
        (ReportRule::UnknownFirst, 201)
    );
    assert_eq!(
        outcome(&mut fixture, pair, plain("c", 2, 40, Available::Unknown)),
        (ReportRule::UnknownAgain, 204)
    );
    assert_eq!(fixture.conditions(pair), before);
    assert_eq!(fixture.statuses(pair)[2]["observed_generation"], 1);

    let mut silent = Fixture::new();
    let pair = silent.create("Pair", None, 10);
    let before = silent.conditions(pair);
    silent.says(pair, "a", 1, 20, Available::Unknown);
    silent.says(pair, "b", 1, 20, Available::Unknown);
    assert_eq!(silent.conditions(pair), before);
}

#[test]
fn a_report_is_kept_whole_and_in_its_order() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    let mut first = plain("z", 1, 20, Available::True);
    first.conditions.insert(0, ReportCondition::new("Progressing", Available::Unknown));
    first.conditions[1].reason = Some("Fine".into());
    first.data = Some(json!({"n": 1}));
    first.metadata = Some(json!({}));
    let expected = fixture.report(pair, first);
    let stored = json!({
        "adapter": "z",
        "observed_generation": 1,
        "conditions": [
            {"type": "Progressing", "status": "Unknown", "last_transition_time": text(20)},
            {"type": "Available", "status": "True", "reason": "Fine", "last_transition_time": text(20)},
            {"type": "Applied", "status": "True", "last_transition_time": text(20)},
            {"type": "Health", "status": "True", "last_transition_time": text(20)},
        ],
        "data": {"n": 1},
        "metadata": {},
        "created_time": text(20),
        "last_report_time": text(20),
    });
    assert_eq!(expected.answer, Some(stored));
    assert_eq!(expected.changed, [pair]);

    let mut second = plain("z", 1, 30, Available::False);
    second.data = Some(Value::Null);
    second.metadata = Some(Value::Null);
    fixture.report(pair, second);
    let stored = json!({
        "adapter": "z",
        "observed_generation": 1,
        "conditions": [
            {"type": "Available", "status": "False", "last_transition_time": text(30)},
            {"type": "Applied", "status": "True", "last_transition_time": text(20)},
            {"type": "Health", "status": "True", "last_transition_time": text(20)},
        ],
        "data": {},
        "created_time": text(20),
        "last_report_time": text(30),
    });
    assert_eq!(fixture.statuses(pair), [stored]);
}

#[test]
fn reports_are_listed_by_the_code_points_of_their_adapters() {
    let mut fixture = Fixture::new();
    let pair = fixture.create("Pair", None, 10);
    for adapter in ["é", "b", "Z", "a-b", "a", "a.b"] {
        fixture.says(pair, adapter, 1, 20, Available::True);
    }
    let names: Vec<Value> = fixture.statuses(pair).into_iter().map(|item| item["adapter"].clone()).collect();
    assert_eq!(names, ["Z", "a", "a-b", "a.b", "b", "é"]);
}

#[test]
fn a_report_that_moves_only_times_is_no_change_and_still_moves_them() {
    let (mut fixture, pair) = fixture();
    let expected = fixture.report(pair, plain("b", 2, 50, Available::True));
    assert_eq!((expected.status, expected.changed), (201, vec![]));
    assert_eq!(fixture.condition(pair, "Reconciled")["last_updated_time"], time_text(at(50)));
    let mut reasoned = plain("b", 2, 50, Available::True);
    reasoned.conditions[2].message = Some("still here".into());
    assert_eq!(fixture.report(pair, reasoned).changed, [pair]);
}
