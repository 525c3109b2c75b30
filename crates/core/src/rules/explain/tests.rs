use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    Catalog, Contract, EntityDescriptor, RawJson, ReportedCondition, ReportedStatus, ResourceId, Stamp,
    Version,
};

const MINUTE: i64 = 60_000_000;
const STUCK_AFTER: Duration = Duration::from_secs(600);

fn at(minute: i64) -> Timestamp {
    Timestamp::from_micros(1_767_225_600_000_000 + minute * MINUTE)
}

/// A Cluster requires `a`, `b` and `c`; a Pool below it and a Disk below that require `p` and `d`.
fn catalog() -> Catalog {
    let kind = |kind: &str, parent: Option<&str>, adapters: &[&str]| EntityDescriptor {
        kind: kind.into(),
        plural: format!("{}s", kind.to_lowercase()),
        parent_kind: parent.map(Into::into),
        on_parent_delete: parent.map(|_| "cascade".into()),
        required_adapters: adapters.iter().map(ToString::to_string).collect(),
        ..EntityDescriptor::default()
    };
    Catalog::new(vec![
        kind("Cluster", None, &["a", "b", "c"]),
        kind("Pool", Some("Cluster"), &["p"]),
        kind("Disk", Some("Pool"), &["d"]),
        kind("Free", None, &[]),
    ])
    .unwrap()
}

fn resource(
    kind: &str,
    name: &str,
    generation: i64,
    deleted: Option<i64>,
    owner: Option<&Resource>,
) -> Resource {
    let stamp = |minute: i64| Stamp { at: at(minute), by: "someone".into() };
    let conditions = json!([{
        "type": "Reconciled", "status": "False", "reason": "", "message": format!("{name} waits for its adapter"),
        "observed_generation": generation, "created_time": at(0), "last_updated_time": at(0),
        "last_transition_time": at(0),
    }]);
    Resource {
        id: ResourceId::generate(),
        kind: kind.into(),
        name: name.into(),
        tenancy: None,
        ancestors: owner.map(|o| o.ancestors.iter().copied().chain([o.id]).collect()).unwrap_or_default(),
        generation,
        spec: RawJson::from_value(&json!({})),
        labels: RawJson::from_value(&json!({})),
        references: RawJson::from_value(&json!({})),
        created: stamp(0),
        updated: stamp(deleted.unwrap_or(2)),
        phase: deleted.map_or(Phase::Active, |minute| Phase::Finalizing(stamp(minute))),
        conditions: RawJson::from_value(&conditions),
        pending_since: Some(at(2)),
        version: Version(1),
    }
}

fn report(adapter: &str, generation: i64, minute: i64, findings: &[(&str, ReportedStatus)]) -> Report {
    let condition = |(kind, status): &(&str, ReportedStatus)| ReportedCondition {
        kind: (*kind).into(),
        status: *status,
        reason: (*status == ReportedStatus::False).then(|| format!("No{kind}").into()),
        message: None,
        last_transition_time: at(minute),
    };
    Report {
        adapter: adapter.into(),
        observed_generation: generation,
        conditions: findings.iter().map(condition).collect(),
        data: RawJson::from_value(&json!({})),
        metadata: None,
        created_time: at(0),
        last_report_time: at(minute),
    }
}

use ReportedStatus::{False, True, Unknown};

fn good(adapter: &str, generation: i64, minute: i64) -> Report {
    report(adapter, generation, minute, &[("Available", True), ("Applied", True), ("Health", True)])
}

fn cluster(generation: i64, deleted: Option<i64>, reports: Vec<Report>) -> RelatedResources {
    RelatedResources {
        reports,
        ..RelatedResources::of(resource("Cluster", "main", generation, deleted, None))
    }
}

fn explained(related: &RelatedResources, minute: i64) -> Explanation {
    let catalog = catalog();
    let view =
        View { catalog: &catalog, contract: Contract::Documented, tenancy: false, href_prefix: "/base" };
    explain(view, request, related, at(minute), STUCK_AFTER).unwrap()
}

fn request(remedy: Remedy<'_>, href: &str) -> String {
    format!("{remedy:?} {href}")
}

/// The blockers, with the time since when each blocks.
fn blockers_since(explanation: &Explanation) -> Vec<(&str, Timestamp)> {
    explanation.blockers.iter().map(|blocker| (blocker.name.as_str(), blocker.since)).collect()
}

#[test]
fn blockers_are_sorted_by_severity_and_have_their_times() {
    let failing = report("c", 3, 6, &[("Available", False), ("Applied", True), ("Health", True)]);
    let related = cluster(3, None, vec![good("b", 1, 1), failing]);
    let explanation = explained(&related, 7);
    assert_eq!(explanation.phase, ReconciliationPhase::Degraded);
    assert_eq!(blockers_since(&explanation), [("c", at(6)), ("a", at(2)), ("b", at(2))]);
    assert_eq!(explanation.summary, "Cluster 'main' is degraded at generation 3 by adapter c.");
    let details: Vec<_> = explanation.blockers.iter().map(|b| b.detail.as_str()).collect();
    assert_eq!(details[0], "Reports at generation 3: Available=False (NoAvailable).");
    assert_eq!(details[1], "Has never reported on this resource; a report on generation 3 is awaited.");
    let behind = "Silent since 2026-01-01T00:01:00.000000Z, behind by 2 generations: its last report is on \
                  generation 1 of 3; a report on generation 3 is awaited.";
    assert_eq!(details[2], behind);
}

#[test]
fn an_adapter_is_behind_since_between_its_last_report_and_the_last_change() {
    // Pending since minute 2, changed in minute 2.
    for (reported, since) in [(1, 2), (2, 2), (5, 2)] {
        let related = cluster(2, None, vec![good("a", 1, reported), good("b", 2, 3), good("c", 2, 3)]);
        assert_eq!(blockers_since(&explained(&related, 6)), [("a", at(since))]);
    }
    let mut related = cluster(2, None, vec![good("a", 1, 3), good("b", 2, 3), good("c", 2, 3)]);
    related.resource.updated.at = at(5);
    assert_eq!(blockers_since(&explained(&related, 6)), [("a", at(3))]);
}

#[test]
fn a_resource_unreconciled_for_longer_than_the_threshold_is_stuck() {
    for (deleted, phase, what) in [
        (None, ReconciliationPhase::Reconciling, "reconciliation"),
        (Some(3), ReconciliationPhase::Finalizing, "deletion"),
    ] {
        let related = cluster(2, deleted, vec![]);
        assert_eq!(explained(&related, 12).phase, phase);
        let explanation = explained(&related, 13);
        assert_eq!(explanation.phase, ReconciliationPhase::Stuck);
        let summary = format!(
            "Cluster 'main' is stuck in its {what}, unreconciled for 11 min, and waits for adapter a, adapter b, adapter c."
        );
        assert_eq!(explanation.summary, summary);
    }
    let well = cluster(1, None, vec![good("a", 1, 1), good("b", 1, 1), good("c", 1, 1)]);
    assert_eq!(explained(&well, 1_000_000).phase, ReconciliationPhase::Reconciled);
}

#[test]
fn a_clock_that_is_behind_makes_no_resource_stuck() {
    assert_eq!(explained(&cluster(1, None, vec![]), -60).phase, ReconciliationPhase::Reconciling);
}

#[test]
fn a_child_is_explained_with_the_deepest_blocker_below_it() {
    let finished =
        ["a", "b", "c"].map(|name| report(name, 2, 4, &[("Available", False), ("Finalized", True)]));
    let mut related = cluster(2, Some(3), finished.to_vec());
    let owner = related.resource.clone();
    let pool = resource("Pool", "pool", 2, Some(3), Some(&owner));
    let other = resource("Pool", "early", 2, Some(1), Some(&owner));
    let disks = ["d1", "d2"].map(|name| resource("Disk", name, 2, Some(3), Some(&pool)));
    let bottom = disks[0].id;
    related.children = [("Pool".into(), 2)].into();
    related.below = disks.into_iter().rev().chain([pool, other]).collect();
    let explanation = explained(&related, 5);
    assert_eq!(blockers_since(&explanation), [("early", at(3)), ("pool", at(3))]);
    let blocker = &explanation.blockers[1];
    assert_eq!(blocker.kind, BlockerKind::Child);
    assert_eq!(
        blocker.detail,
        "Pool 'pool' is not finalized: pool waits for its adapter. Left below it: Disk (2). At the bottom of \
         Pool 'pool' > Disk 'd1': d1 waits for its adapter."
    );
    assert!(blocker.action.contains(&format!("Explain /base/disks/{bottom}")), "{blocker:?}");
    assert!(blocker.action.contains(&format!("ForceDelete /base/disks/{bottom}")), "{blocker:?}");
    related.more_below = true;
    assert!(explained(&related, 5).blockers[1].detail.contains("at least Disk (2)"));
}

#[test]
fn children_are_named_up_to_a_number_and_counted_beyond_it() {
    let mut related = cluster(2, Some(3), vec![]);
    let owner = related.resource.clone();
    related.below =
        (0..15).map(|n| resource("Pool", &format!("p{n:02}"), 2, Some(3), Some(&owner))).collect();
    related.children = [("Pool".into(), 4_000), ("Ghost".into(), 2)].into();
    let explanation = explained(&related, 5);
    let names: Vec<_> = explanation.blockers.iter().map(|b| b.name.as_str()).collect();
    let expected = [
        "Ghost (2)",
        "a",
        "b",
        "c",
        "p00",
        "p01",
        "p02",
        "p03",
        "p04",
        "p05",
        "p06",
        "p07",
        "p08",
        "p09",
        "Pool (3990)",
    ];
    assert_eq!(names, expected);
    let list = format!("ListChildren(\"pools\") /base/clusters/{}", owner.id);
    assert!(explanation.blockers[14].action.contains(&list), "{explanation:?}");
    assert!(explanation.blockers[0].action.contains("Put kind Ghost back"), "{explanation:?}");
}

#[test]
fn referrers_are_named_up_to_a_number_and_counted_beyond_it() {
    let mut related = cluster(2, Some(3), vec![]);
    related.referrers =
        vec![resource("Free", "zeta", 1, None, None), resource("Free", "alpha", 1, None, None)];
    related.references = 5;
    let explanation = explained(&related, 5);
    let names: Vec<_> = explanation.blockers.iter().map(|b| (b.kind, b.name.as_str())).collect();
    let reference = |name| (BlockerKind::Reference, name);
    assert_eq!(names[..3], [reference("alpha"), reference("zeta"), reference("others (3)")]);
    related.resource = resource("Cluster", "main", 2, None, None);
    assert!(explained(&related, 5).blockers.iter().all(|b| b.kind == BlockerKind::Adapter));
}

#[test]
fn texts_of_adapters_are_cut_and_escaped() {
    let mut failing = report("a", 1, 1, &[("Available", False), ("Applied", True), ("Health", True)]);
    let available = &mut Arc::make_mut(&mut failing.conditions)[0];
    available.reason = Some("line\nbreak".into());
    available.message = Some("x".repeat(100_000).into());
    let related = cluster(1, None, vec![failing, good("b", 1, 1), good("c", 1, 1)]);
    let detail = &explained(&related, 5).blockers[0].detail;
    assert!(detail.contains("(linebreak)") && detail.len() < 400, "{}", detail.len());
}

fn status() -> impl Strategy<Value = ReportedStatus> {
    prop_oneof![Just(True), Just(False), Just(Unknown)]
}

/// Any report of an adapter that the rules may have kept on a resource of this generation.
fn any_report(adapter: &'static str, generation: i64) -> impl Strategy<Value = Option<Report>> {
    let findings = (status(), status(), status(), prop::option::of(status()));
    prop::option::of((1..=generation, 0..9_i64, findings).prop_map(move |(of, minute, findings)| {
        let (available, applied, health, finalized) = findings;
        let mut list = vec![("Available", available), ("Applied", applied), ("Health", health)];
        list.extend(finalized.map(|status| ("Finalized", status)));
        report(adapter, of, minute, &list)
    }))
}

/// Any cluster with reports, children and referrers.
fn any_related_resources() -> impl Strategy<Value = RelatedResources> {
    (1..4_i64, any::<bool>()).prop_flat_map(|(generation, finalizing)| {
        let reports = (
            any_report("a", generation),
            any_report("b", generation),
            any_report("c", generation),
            any_report("stranger", generation),
        );
        (reports, 0..4_usize, 0..3_usize, 0..3_usize).prop_map(move |(reports, pools, disks, unseen)| {
            let (a, b, c, stranger) = reports;
            let reports = [a, b, c, stranger].into_iter().flatten().collect();
            let mut related = cluster(generation, finalizing.then_some(3), reports);
            if finalizing {
                let owner = related.resource.clone();
                for pool in 0..pools {
                    let pool = resource("Pool", &format!("p{pool}"), 2, Some(3), Some(&owner));
                    related.below.extend(
                        (0..disks).map(|n| resource("Disk", &format!("d{n}"), 2, Some(3), Some(&pool))),
                    );
                    related.below.push(pool);
                }
                related.children = [("Pool".into(), pools + unseen)].into();
                related.children.retain(|_, count| *count > 0);
            }
            related
        })
    })
}

/// The required adapters that should be named, by the words of the tables.
fn expected(related: &RelatedResources) -> Vec<&'static str> {
    let generation = related.resource.generation;
    let says = |report: &Report, kind: &str, status| {
        report.conditions.iter().any(|c| *c.kind == *kind && c.status == status)
    };
    let is_well = |name: &&str| {
        let report =
            related.reports.iter().find(|r| *r.adapter == **name && r.observed_generation == generation);
        report.is_some_and(|report| match related.resource.is_active() {
            true => says(report, "Available", True) && !says(report, "Health", False),
            false => says(report, "Finalized", True),
        })
    };
    ["a", "b", "c"].into_iter().filter(|name| !is_well(name)).collect()
}

proptest! {
    #[test]
    fn exactly_the_blockers_of_reconciled_are_named(related in any_related_resources(), minute in 0..30_i64) {
        let explanation = explained(&related, minute);
        let of_kind = |kind| explanation.blockers.iter().filter(move |b| b.kind == kind);
        let mut named: Vec<_> = of_kind(BlockerKind::Adapter).map(|b| b.name.as_str()).collect();
        named.sort_unstable();
        prop_assert_eq!(named, expected(&related));
        let children: usize = related.children.values().sum();
        prop_assert_eq!(of_kind(BlockerKind::Child).count() > 0, children > 0);
        prop_assert!(explanation.blockers.iter().all(|b| !b.detail.is_empty() && !b.action.is_empty()));
    }

    #[test]
    fn the_phase_agrees_with_the_condition(related in any_related_resources(), minute in 0..30_i64) {
        let catalog = catalog();
        let summaries: ReportSummaries = related.reports.iter().map(Report::summary).collect();
        let latest = Latest { stored: &summaries, newest: None };
        let entity = catalog.get("Cluster").unwrap();
        let facts = Facts::of(entity, &related.resource, latest, &related.children, None, at(minute));
        let reconciled = reconciled::content(&facts).status == Status::True;
        let Explanation { phase, blockers, .. } = explained(&related, minute);
        prop_assert_eq!(phase == ReconciliationPhase::Stuck, !reconciled && minute > 12);
        prop_assert!(reconciled || !blockers.is_empty());
        if related.resource.is_active() {
            prop_assert_eq!(phase == ReconciliationPhase::Reconciled, blockers.is_empty());
            prop_assert!(!reconciled || blockers.iter().all(|b| b.detail.starts_with("Unhealthy")));
        } else {
            prop_assert!(matches!(phase, ReconciliationPhase::Finalizing | ReconciliationPhase::Stuck));
        }
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(mut related in any_related_resources(), by in 0..7_usize) {
        let before = explained(&related, 5);
        let turn = |length: usize| if length == 0 { 0 } else { by % length };
        let (reports, below) = (turn(related.reports.len()), turn(related.below.len()));
        related.reports.rotate_left(reports);
        related.below.rotate_left(below);
        prop_assert_eq!(explained(&related, 5), before);
    }
}
