//! The outcome table of reports, from row 3 on: rows 1 and 2 are decided before the rules. The first row that fits
//! wins, so each row is met alone and together with a later one.

use hyperfleet_core::rules::Reported;
use hyperfleet_core::{ErrorKind, Intent, ResourceId, SubmitReport, Target};
use serde_json::Value;

use super::said::{Said, said};
use super::stage::{Stage, child, kind};

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
fn scene(finalizing: bool, before: &[Said]) -> (Stage, ResourceId) {
    let mut stage = Stage::new(&[kind("Pair", &["dns", "cert"])]);
    let id = stage.create("Pair", None, 0);
    stage.change(id, 1);
    for report in before {
        stage.tell(id, report.clone());
    }
    if finalizing {
        stage.delete(id, 50).unwrap();
    }
    (stage, id)
}

fn submit(finalizing: bool, before: &[Said], report: Said) -> Outcome {
    let adapter = report.0.adapter.clone();
    let (mut stage, id) = scene(finalizing, before);
    let contents = stage.contents();
    let (conditions, record) = (stage.conditions(id), stage.stored(id, &adapter));
    let answer = stage.report(id, report);
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
            assert_ne!(stage.stored(id, &adapter), record, "the report is kept");
            assert_eq!(stage.stored(id, &adapter)["last_report_time"], report.last_report_time.to_string());
            return if stage.conditions(id) == conditions { Kept } else { Aggregated };
        }
    };
    assert_eq!(stage.contents(), contents, "a report that is not kept changes nothing");
    outcome
}

#[test]
fn the_first_row_that_fits_an_active_resource_decides() {
    let unknown = |second| said("dns", 2, second).available("Unknown");
    let stored = || vec![said("dns", 2, 20)];
    for (name, before, report, expected) in [
        ("3: a generation not reached", vec![], said("dns", 3, 30), Future),
        ("3 before 6: and a condition missing", vec![], said("dns", 3, 30).without("Health"), Future),
        ("3 before 8: and unknown", stored(), said("dns", 3, 30).available("Unknown"), Future),
        ("4: an older generation", stored(), said("dns", 1, 30), Stale),
        ("4 before 6: and a condition missing", stored(), said("dns", 1, 30).without("Available"), Stale),
        ("4: another adapter's generation does not count", stored(), said("cert", 1, 30), Aggregated),
        ("5: an earlier moment", stored(), said("dns", 2, 19), Stale),
        ("5 before 6: and a condition missing", stored(), said("dns", 2, 19).without("Applied"), Stale),
        ("5: another adapter's moment does not count", stored(), said("cert", 2, 19), Aggregated),
        (
            "10: a newer generation at an earlier moment",
            vec![said("dns", 1, 20)],
            said("dns", 2, 10),
            Aggregated,
        ),
        ("10: the same moment again", stored(), said("dns", 2, 20).available("False"), Aggregated),
        ("6: one condition missing", vec![], said("dns", 2, 30).without("Health"), missing("Health")),
        (
            "6: all missing",
            vec![],
            said("dns", 2, 30).without("Health").without("Available").without("Applied"),
            missing("Available, Applied, Health"),
        ),
        ("6 before 9: and unknown", vec![], unknown(30).without("Applied"), missing("Applied")),
        (
            "6: also of an adapter nobody requires",
            vec![],
            said("x", 2, 3).without("Health"),
            missing("Health"),
        ),
        ("8: unknown after another report", stored(), unknown(30), Unknown),
        ("8: unknown after unknown", vec![unknown(20)], unknown(30), Unknown),
        ("8: unknown at a newer generation", vec![said("dns", 1, 20)], unknown(30), Unknown),
        ("8: finalized, but nobody deletes", stored(), unknown(30).finalized(), Unknown),
        ("9: unknown at first", vec![], unknown(30), Kept),
        ("9: finalized, but nobody deletes", vec![], unknown(30).finalized(), Kept),
        ("9: unknown at an older generation", vec![], said("dns", 1, 30).available("Unknown"), Kept),
        ("10: True", vec![], said("dns", 2, 30), Aggregated),
        ("10: False", vec![], said("dns", 2, 30).available("False"), Aggregated),
        ("10: at an older generation", vec![], said("dns", 1, 30), Aggregated),
        ("10: known after unknown", vec![unknown(20)], said("dns", 2, 30), Aggregated),
        ("10: another type is unknown", vec![], said("dns", 2, 30).with("Health", "Unknown"), Aggregated),
    ] {
        assert_eq!(submit(false, &before, report), expected, "{name}");
    }
}

#[test]
fn the_first_row_that_fits_a_finalizing_resource_decides() {
    let unknown = |second| said("dns", 3, second).available("Unknown");
    let stored = || vec![said("dns", 2, 20)];
    for (name, before, report, expected) in [
        ("3 before 7", vec![], said("dns", 4, 60).finalized(), Future),
        ("4 before 7", stored(), said("dns", 1, 60).finalized(), Stale),
        ("5 before 7", stored(), said("dns", 2, 19).finalized(), Stale),
        ("6 before 7", stored(), said("dns", 3, 60).finalized().without("Health"), missing("Health")),
        ("7: available", vec![], said("dns", 3, 60).finalized(), Aggregated),
        ("7: not available", vec![], said("dns", 3, 60).available("False").finalized(), Aggregated),
        ("7 before 8: unknown after another report", stored(), unknown(60).finalized(), Aggregated),
        ("7 before 9: unknown at first", vec![], unknown(60).finalized(), Aggregated),
        ("7: at an older generation", vec![], said("dns", 2, 60).finalized(), Aggregated),
        ("8: unknown and not finalized", stored(), unknown(60).with("Finalized", "False"), Unknown),
        ("8: unknown whether finalized", stored(), unknown(60).with("Finalized", "Unknown"), Unknown),
        ("9: unknown at first", vec![], unknown(60), Kept),
        ("10: not finalized", stored(), said("dns", 3, 60).with("Finalized", "False"), Aggregated),
    ] {
        assert_eq!(submit(true, &before, report), expected, "{name}");
    }
}

#[test]
fn a_report_on_what_is_gone_is_not_found() {
    let (mut stage, id) = scene(true, &[]);
    stage.tell(id, said("dns", 3, 60).finalized());
    stage.tell(id, said("cert", 3, 61).finalized());
    assert!(!stage.exists(id));
    let error = stage.report(id, said("dns", 3, 62).finalized()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound { kind: "Resource".to_owned() });
}

#[test]
fn a_report_whose_path_names_other_owners_is_not_found() {
    let kinds = [
        kind("Cluster", &[]),
        child("Pool", "Cluster", "cascade", &[]),
        child("Node", "Pool", "cascade", &["dns"]),
    ];
    let mut stage = Stage::new(&kinds);
    let clusters = [(); 2].map(|()| stage.create("Cluster", None, 0));
    let pools = [0, 0, 1].map(|cluster| stage.create("Pool", Some(clusters[cluster]), 0));
    let node = stage.create("Node", Some(pools[0]), 0);
    let mut second = 10;
    let mut found = |kind: Option<&str>, owners: &[(&str, ResourceId)]| {
        let ancestors = owners.iter().map(|(kind, id)| ((*kind).into(), id.to_string())).collect();
        let target = Target { kind: kind.map(Into::into), id: node.to_string(), ancestors };
        second += 1;
        let submit = SubmitReport { target, submission: said("dns", 1, second).0 };
        match stage.run(Intent::Report(submit), 100) {
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
fn a_first_report_that_knows_nothing_is_a_change_of_its_own() {
    let (mut stage, id) = scene(false, &[]);
    let (version, conditions) = (stage.row(id).version, stage.row(id).conditions.clone());
    stage.tell(id, said("dns", 2, 30).available("Unknown"));
    assert_eq!((stage.row(id).version, &stage.row(id).conditions), (version.next(), &conditions));
    assert_ne!(stage.stored(id, "dns"), Value::Null);
}

#[test]
fn a_report_of_an_adapter_that_nobody_requires_is_kept_and_moves_no_condition() {
    let (mut stage, id) = scene(false, &[said("dns", 2, 20)]);
    let conditions = stage.conditions(id);
    stage.tell(id, said("audit", 2, 30).available("False"));
    assert_eq!(stage.conditions(id), conditions);
    assert_eq!(stage.stored(id, "audit")["last_report_time"], super::stage::at(30).to_string());
}
