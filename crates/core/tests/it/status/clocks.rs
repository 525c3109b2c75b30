//! Reports of adapters whose clocks are wrong: no stored time is in the future when it is stored, and a time from the future
//! never wins over a newer report.

use hyperfleet_core::rules::Reported;
use hyperfleet_core::{Report, ResourceId};
use proptest::prelude::*;

use super::fixture::{Fixture, at, kind};
use super::test_report::{TestReport, test_report};
use crate::cases;

/// A resource with one adapter, created at second 0.
fn prepared() -> (Fixture, ResourceId) {
    let mut fixture = Fixture::new(&[kind("Lone", &["dns"])]);
    let id = fixture.create("Lone", None, 0);
    (fixture, id)
}

/// A report without a time.
fn timeless(available: &str) -> TestReport {
    let mut report = test_report("dns", 1, 0).available(available);
    report.0.observed_time = None;
    report
}

fn stored(reported: Reported) -> Report {
    match reported {
        Reported::Stored(report) | Reported::Unchanged(report) => report,
        other => panic!("{other:?} instead of a stored report"),
    }
}

#[test]
fn a_time_ahead_of_the_store_is_stored_as_the_time_of_arrival() {
    let (mut fixture, id) = prepared();
    let ahead = stored(fixture.report_at(id, test_report("dns", 1, 250), 10).unwrap());
    assert_eq!((ahead.last_report_time, ahead.created_time), (at(10), at(10)));
    assert_eq!(ahead.conditions[0].last_transition_time, at(10));
    for condition in fixture.conditions(id) {
        assert_eq!(condition["last_updated_time"], at(10).to_string(), "{condition}");
    }
    assert_eq!(fixture.condition(id, "Reconciled")["last_transition_time"], at(10).to_string());
    // The failure is told by a clock that is right.
    stored(fixture.report_at(id, test_report("dns", 1, 11).available("False"), 12).unwrap());
    assert_eq!(fixture.condition(id, "Reconciled")["status"], "False");
}

#[test]
fn a_report_without_a_time_is_of_the_time_of_arrival() {
    let (mut fixture, id) = prepared();
    assert_eq!(stored(fixture.report_at(id, timeless("True"), 10).unwrap()).last_report_time, at(10));
    assert_eq!(fixture.report_at(id, test_report("dns", 1, 9), 11).unwrap(), Reported::Stale);
}

#[test]
fn a_stored_time_in_the_future_makes_no_report_stale() {
    for report in [test_report("dns", 1, 20), timeless("True")] {
        let (mut fixture, id) = prepared();
        // The clock of the store was an hour ahead, and is set back.
        stored(fixture.report_at(id, timeless("True"), 3600).unwrap());
        let report = stored(fixture.report_at(id, report.available("False"), 20).unwrap());
        assert_eq!(report.last_report_time, at(20));
        assert_eq!(fixture.condition(id, "Reconciled")["status"], "False");
        assert_eq!(fixture.report_at(id, test_report("dns", 1, 19), 21).unwrap(), Reported::Stale);
    }
}

#[test]
fn times_of_changes_do_not_go_back_when_the_clock_does() {
    let (mut fixture, id) = prepared();
    fixture.label(id, 100);
    let child = fixture.create("Lone", None, 50);
    fixture.change(child, 60);
    fixture.delete(id, 70).unwrap();
    let times: Vec<_> = fixture.database.history.iter().map(|change| change.at).collect();
    assert_eq!(times, [at(0), at(100), at(100), at(100), at(100)]);
    assert_eq!((fixture.row(child).created.at, fixture.row(child).updated.at), (at(100), at(100)));
    // A report is judged by the clock alone.
    let report = stored(fixture.report_at(child, timeless("True"), 80).unwrap());
    assert_eq!(report.last_report_time, at(80));
    fixture.label(child, 101);
    assert_eq!(fixture.row(child).updated.at, at(101));
}

proptest! {
    #![proptest_config(cases(256))]

    /// Each report is made when it arrives, by a clock that is off by some seconds; 999 is a report without a time.
    #[test]
    fn whatever_clocks_said_before_a_report_by_a_right_clock_is_accepted(
        offsets in prop::collection::vec(prop_oneof![-300..300_i64, Just(999)], 0..12),
    ) {
        let (mut fixture, id) = prepared();
        let mut second = 1_000;
        for (number, offset) in offsets.iter().enumerate() {
            second += 1;
            let available = if number % 2 == 0 { "True" } else { "False" };
            let report = match offset {
                999 => timeless(available),
                offset => test_report("dns", 1, second + offset).available(available),
            };
            if let Reported::Stored(report) | Reported::Unchanged(report) = fixture.report_at(id, report, second).unwrap() {
                prop_assert!(report.last_report_time <= at(second));
            }
        }
        for available in ["False", "True"] {
            second += 1;
            let right = test_report("dns", 1, second).available(available);
            let report = stored(fixture.report_at(id, right, second).unwrap());
            prop_assert_eq!(report.last_report_time, at(second));
            prop_assert_eq!(&fixture.condition(id, "Reconciled")["status"], available);
        }
    }
}
