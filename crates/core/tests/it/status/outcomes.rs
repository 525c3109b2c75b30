//! The outcome table of reports, from row 3 on: rows 1 and 2 are decided before the rules. The first row that fits
//! wins, so each row is met alone and together with a later one.

use hyperfleet_core::rules::Reported;
use hyperfleet_core::{ErrorKind, Intent, ResourceId, ResourcePath, SubmitReport};
use serde_json::Value;

use super::fixture::{Fixture, child, kind};
use super::test_report::{TestReport, test_report};

#[derive(Debug, PartialEq)]
enum Outcome {
    Future,
    Stale,
    Unknown,
    /// Refused, naming these types.
    Missing(String),
    /// Kept without a look at the conditions.
    Kept,
    /// Kept, and the conditions follow it.
    Aggregated,
}
use Outcome::{Aggregated, Future, Kept, Missing, Stale, Unknown};

fn missing(types: &str) -> Outcome {
    Missing(types.to_owned())
}

/// A resource of two adapters at generation 2, or at 3 when it is being deleted.
fn prepared(finalizing: bool, before: &[TestReport]) -> (Fixture, ResourceId) {
    let mut fixture = Fixture::new(&[kind("Pair", &["dns", "cert"])]);
    let id = fixture.create("Pair", None, 0);
    fixture.change(id, 1);
    for report in before {
        fixture.tell(id, report.clone());
    }
    if finalizing {
        fixture.delete(id, 50).unwrap();
    }
    (fixture, id)
}

fn submit(finalizing: bool, before: &[TestReport], report: TestReport) -> Outcome {
    let adapter = report.0.adapter.clone();
    let (mut fixture, id) = prepared(finalizing, before);
    let contents = fixture.contents();
    let (conditions, record) = (fixture.conditions(id), fixture.stored(id, &adapter));
    let answer = fixture.report(id, report);
    let outcome = match answer {
        Ok(Reported::FutureGeneration) => Future,
        Ok(Reported::Stale) => Stale,
        Ok(Reported::Unknown) => Unknown,
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::Invalid);
            let [fault] = error.faults.as_slice() else { panic!("{error:?}") };
            assert_eq!(fault.field, "conditions");
            Missing(fault.message.rsplit_once("missing: ").unwrap().1.to_owned())
        }
        Ok(Reported::Stored(report) | Reported::Unchanged(report)) => {
            assert_ne!(fixture.stored(id, &adapter), record, "the report is kept");
            assert_eq!(fixture.stored(id, &adapter)["last_report_time"], report.last_report_time.to_string());
            return if fixture.conditions(id) == conditions { Kept } else { Aggregated };
        }
    };
    assert_eq!(fixture.contents(), contents, "a report that is not kept changes nothing");
    outcome
}

#[test]
fn the_first_row_that_fits_an_active_resource_decides() {
    let unknown = |second| test_report("dns", 2, second).available("Unknown");
    let stored = || vec![test_report("dns", 2, 20)];
    for (name, before, report, expected) in [
        ("3: a generation not reached", vec![], test_report("dns", 3, 30), Future),
        ("3 before 6: and a condition missing", vec![], test_report("dns", 3, 30).without("Health"), Future),
        ("3 before 8: and unknown", stored(), test_report("dns", 3, 30).available("Unknown"), Future),
        ("4: an older generation", stored(), test_report("dns", 1, 30), Stale),
        (
            "4 before 6: and a condition missing",
            stored(),
            test_report("dns", 1, 30).without("Available"),
            Stale,
        ),
        ("4: another adapter's generation does not count", stored(), test_report("cert", 1, 30), Aggregated),
        ("5: an earlier moment", stored(), test_report("dns", 2, 19), Stale),
        (
            "5 before 6: and a condition missing",
            stored(),
            test_report("dns", 2, 19).without("Applied"),
            Stale,
        ),
        ("5: another adapter's moment does not count", stored(), test_report("cert", 2, 19), Aggregated),
        (
            "10: a newer generation at an earlier moment",
            vec![test_report("dns", 1, 20)],
            test_report("dns", 2, 10),
            Aggregated,
        ),
        ("10: the same moment again", stored(), test_report("dns", 2, 20).available("False"), Aggregated),
        ("6: one condition missing", vec![], test_report("dns", 2, 30).without("Health"), missing("Health")),
        (
            "6: all missing",
            vec![],
            test_report("dns", 2, 30).without("Health").without("Available").without("Applied"),
            missing("Available, Applied, Health"),
        ),
        ("6 before 9: and unknown", vec![], unknown(30).without("Applied"), missing("Applied")),
        (
            "6: also of an adapter that is not required",
            vec![],
            test_report("x", 2, 3).without("Health"),
            missing("Health"),
        ),
        ("8: unknown after another report", stored(), unknown(30), Unknown),
        ("8: unknown after unknown", vec![unknown(20)], unknown(30), Unknown),
        ("8: unknown at a newer generation", vec![test_report("dns", 1, 20)], unknown(30), Unknown),
        ("8: finalized, but not deleted", stored(), unknown(30).finalized(), Unknown),
        ("9: unknown at first", vec![], unknown(30), Kept),
        ("9: finalized, but not deleted", vec![], unknown(30).finalized(), Kept),
        ("9: unknown at an older generation", vec![], test_report("dns", 1, 30).available("Unknown"), Kept),
        ("10: True", vec![], test_report("dns", 2, 30), Aggregated),
        ("10: False", vec![], test_report("dns", 2, 30).available("False"), Aggregated),
        ("10: at an older generation", vec![], test_report("dns", 1, 30), Aggregated),
        ("10: known after unknown", vec![unknown(20)], test_report("dns", 2, 30), Aggregated),
        (
            "10: another type is unknown",
            vec![],
            test_report("dns", 2, 30).with("Health", "Unknown"),
            Aggregated,
        ),
    ] {
        assert_eq!(submit(false, &before, report), expected, "{name}");
    }
}

#[test]
fn the_first_row_that_fits_a_finalizing_resource_decides() {
    let unknown = |second| test_report("dns", 3, second).available("Unknown");
    let stored = || vec![test_report("dns", 2, 20)];
    for (name, before, report, expected) in [
        ("3 before 7", vec![], test_report("dns", 4, 60).finalized(), Future),
        ("4 before 7", stored(), test_report("dns", 1, 60).finalized(), Stale),
        ("5 before 7", stored(), test_report("dns", 2, 19).finalized(), Stale),
        ("6 before 7", stored(), test_report("dns", 3, 60).finalized().without("Health"), missing("Health")),
        ("7: available", vec![], test_report("dns", 3, 60).finalized(), Aggregated),
        ("7: not available", vec![], test_report("dns", 3, 60).available("False").finalized(), Aggregated),
        ("7 before 8: unknown after another report", stored(), unknown(60).finalized(), Aggregated),
        ("7 before 9: unknown at first", vec![], unknown(60).finalized(), Aggregated),
        ("7: at an older generation", vec![], test_report("dns", 2, 60).finalized(), Aggregated),
        ("8: unknown and not finalized", stored(), unknown(60).with("Finalized", "False"), Unknown),
        ("8: unknown whether finalized", stored(), unknown(60).with("Finalized", "Unknown"), Unknown),
        ("9: unknown at first", vec![], unknown(60), Kept),
        ("10: not finalized", stored(), test_report("dns", 3, 60).with("Finalized", "False"), Aggregated),
    ] {
        assert_eq!(submit(true, &before, report), expected, "{name}");
    }
}

#[test]
fn a_report_on_a_removed_resource_is_not_found() {
    let (mut fixture, id) = prepared(true, &[]);
    fixture.tell(id, test_report("dns", 3, 60).finalized());
    fixture.tell(id, test_report("cert", 3, 61).finalized());
    assert!(!fixture.exists(id));
    let error = fixture.report(id, test_report("dns", 3, 62).finalized()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound { kind: "Resource".to_owned() });
}

#[test]
fn a_report_whose_path_names_other_owners_is_not_found() {
    let kinds = [
        kind("Cluster", &[]),
        child("Pool", "Cluster", "cascade", &[]),
        child("Node", "Pool", "cascade", &["dns"]),
    ];
    let mut fixture = Fixture::new(&kinds);
    let clusters = [(); 2].map(|()| fixture.create("Cluster", None, 0));
    let pools = [0, 0, 1].map(|cluster| fixture.create("Pool", Some(clusters[cluster]), 0));
    let node = fixture.create("Node", Some(pools[0]), 0);
    let mut second = 10;
    let mut found = |kind: Option<&str>, owners: &[(&str, ResourceId)]| {
        let ancestors = owners.iter().map(|(kind, id)| ((*kind).into(), id.to_string())).collect();
        let target = ResourcePath { kind: kind.map(Into::into), id: node.to_string(), ancestors };
        second += 1;
        let submit = SubmitReport { target, submission: test_report("dns", 1, second).0 };
        match fixture.run(Intent::Report(submit), 100) {
            Ok(_) => true,
            Err(error) => {
                assert!(matches!(error.kind, ErrorKind::NotFound { .. }), "{error:?}");
                false
            }
        }
    };
    let (cluster, pool) = (("Cluster", clusters[0]), ("Pool", pools[0]));
    assert!(found(None, &[]) && found(Some("Node"), &[]), "flat");
    assert!(found(Some("Node"), &[cluster, pool]) && found(Some("Node"), &[pool]), "nested");
    assert!(!found(Some("Pool"), &[]), "another kind");
    assert!(!found(Some("Node"), &[cluster, ("Pool", pools[1])]), "another owner");
    assert!(!found(Some("Node"), &[("Cluster", clusters[1]), pool]), "another owner's owner");
    assert!(!found(Some("Node"), &[("Cluster", clusters[1]), ("Pool", pools[2])]), "another branch");
    assert!(!found(Some("Node"), &[cluster, cluster, pool]), "more owners than it has");
}

#[test]
fn a_first_report_with_available_unknown_is_stored_without_aggregation() {
    let (mut fixture, id) = prepared(false, &[]);
    let (version, conditions) = (fixture.row(id).version, fixture.row(id).conditions.clone());
    fixture.tell(id, test_report("dns", 2, 30).available("Unknown"));
    assert_eq!((fixture.row(id).version, &fixture.row(id).conditions), (version.next(), &conditions));
    assert_ne!(fixture.stored(id, "dns"), Value::Null);
}

#[test]
fn a_report_of_an_adapter_that_is_not_required_is_stored_and_moves_no_condition() {
    let (mut fixture, id) = prepared(false, &[test_report("dns", 2, 20)]);
    let conditions = fixture.conditions(id);
    fixture.tell(id, test_report("audit", 2, 30).available("False"));
    assert_eq!(fixture.conditions(id), conditions);
    assert_eq!(fixture.stored(id, "audit")["last_report_time"], super::fixture::at(30).to_string());
}
