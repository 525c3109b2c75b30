//! Metrics of the fleet: outcomes of reports, waiting and stuck resources, and removed ones.

use hyperfleet_testkit::eventually;
use serde_json::json;

use super::*;
use crate::support::*;

/// Everything that waits is stuck at once.
const IMPATIENT: &str = "
metrics: {reconciliation_stuck_threshold: 1ms}
entities:
  - {kind: Cluster, plural: clusters, required_adapters: [validator]}
  - {kind: NodePool, plural: nodepools, parent_kind: Cluster, on_parent_delete: cascade, required_adapters: [validator]}
  - {kind: Network, plural: networks}
";

both_stores!(
    config = IMPATIENT;
    reports_are_counted_by_outcome,
    a_resource_that_starts_to_wait_is_counted_once,
    waiting_resources_are_counted_by_kind_and_deletion,
    removed_resources_are_counted_by_kind_and_force,
);
both_stores!(a_resource_that_waits_briefly_is_not_stuck);

async fn reports_are_counted_by_outcome(app: &App) {
    let outcomes = ["stored", "unchanged", "stale", "future_generation", "unknown"];
    let counted = async || {
        let mut counts = Vec::new();
        for outcome in outcomes {
            let series = format!("hyperfleet_api_reports_total{{outcome=\"{outcome}\"}}");
            counts.push(app.metric(&series).await.unwrap());
        }
        counts
    };
    assert_eq!(counted().await, [0.0; 5], "all are there from the start");
    let cluster = app.create_cluster("counted").await;
    for (sent, status, expected) in [
        (report("validator", 1, "Unknown", &at(1)), 201, [1, 0, 0, 0, 0]),
        (report("validator", 1, "True", &at(2)), 201, [2, 0, 0, 0, 0]),
        (report("validator", 1, "True", &at(3)), 201, [2, 1, 0, 0, 0]),
        (report("validator", 1, "True", &at(3)), 201, [2, 2, 0, 0, 0]),
        (report("validator", 1, "True", &at(2)), 204, [2, 2, 1, 0, 0]),
        (report("validator", 2, "True", &at(4)), 204, [2, 2, 1, 1, 0]),
        (report("validator", 1, "Unknown", &at(4)), 204, [2, 2, 1, 1, 1]),
        (report("guest", 1, "False", &at(4)), 201, [3, 2, 1, 1, 1]),
        (with_members(report("guest", 1, "True", &at(4)), &json!({"conditions": []})), 400, [3, 2, 1, 1, 1]),
        (json!({}), 400, [3, 2, 1, 1, 1]),
    ] {
        app.report(&cluster, &sent).await.expect_status(status);
        assert_eq!(counted().await, expected.map(f64::from), "{sent}");
    }
    app.remove(&cluster).await;
    app.report(&cluster, &finalized("validator", 2, &at(5))).await.expect_status(201);
    assert_eq!(counted().await[0], 4.0, "the report that removes its resource counts too");
}

fn series(name: &str, kind: &str, is_delete: bool) -> String {
    format!("hyperfleet_api_{name}{{resource_type=\"{kind}\",is_delete=\"{is_delete}\"}}")
}

async fn a_resource_that_starts_to_wait_is_counted_once(app: &App) {
    let started = async |kind: &str, is_delete: bool| {
        app.metric(&series("reconciliation_started_total", kind, is_delete)).await.unwrap_or(0.0)
    };
    let cluster = app.create_cluster("waiting").await;
    app.create_nodepool(&cluster, "pool").await;
    app.create_named("/networks", "Network", "network").await;
    assert_eq!((started("Cluster", false).await, started("NodePool", false).await), (1.0, 1.0));
    assert_eq!(started("Network", false).await, 0.0);
    app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    assert_eq!(started("Cluster", false).await, 1.0, "it waits already");
    app.report(&cluster, &report("validator", 2, "True", &at(1))).await.expect_status(201);
    app.report(&cluster, &report("validator", 2, "True", &at(2))).await.expect_status(201);
    assert_eq!(started("Cluster", false).await, 1.0);
    app.merge(&cluster, &json!({"spec": {"a": 2}})).await;
    assert_eq!(started("Cluster", false).await, 2.0);
    app.report(&cluster, &report("validator", 3, "True", &at(3))).await.expect_status(201);
    app.remove(&cluster).await;
    assert_eq!((started("Cluster", false).await, started("Cluster", true).await), (2.0, 1.0));
}

async fn waiting_resources_are_counted_by_kind_and_deletion(app: &App) {
    let shows = async |name: &str, expected: [f64; 6]| {
        eventually(&format!("{name} {expected:?}"), DEADLINE, async || {
            let mut shown = Vec::new();
            for kind in ["Cluster", "NodePool", "Network"] {
                for is_delete in [false, true] {
                    shown.push(app.metric(&series(name, kind, is_delete)).await);
                }
            }
            (shown == expected.map(Some)).then_some(())
        })
        .await;
    };
    let (pending, stuck) = ("resource_pending_reconciliation", "resource_pending_reconciliation_stuck");
    let done = app.create_cluster("done").await;
    app.report(&done, &report("validator", 1, "True", &at(1))).await.expect_status(201);
    let waiting = app.create_cluster("waiting").await;
    let going = app.create_cluster("going").await;
    for pool in ["one", "two"] {
        app.create_nodepool(&going, pool).await;
    }
    app.create_nodepool(&waiting, "pool").await;
    app.create_named("/networks", "Network", "network").await;
    app.remove(&going).await;
    for name in [pending, stuck] {
        shows(name, [1.0, 1.0, 1.0, 2.0, 0.0, 0.0]).await;
    }
    let duration = format!("{stuck}_duration_seconds");
    eventually("a second of waiting", DEADLINE, async || {
        let seconds = app.metric(&series(&duration, "Cluster", false)).await?;
        (1.0..60.0).contains(&seconds).then_some(())
    })
    .await;
    assert_eq!(app.metric(&series(&duration, "Network", false)).await, Some(0.0));

    app.report(&waiting, &report("validator", 1, "True", &at(1))).await.expect_status(201);
    app.merge(&done, &json!({"spec": {"a": 1}})).await;
    app.remove(&done).await;
    app.force_delete(&going).await;
    for name in [pending, stuck] {
        shows(name, [0.0, 1.0, 1.0, 0.0, 0.0, 0.0]).await;
    }
    assert_eq!(app.metric(&series(&duration, "Cluster", false)).await, Some(0.0));
}

async fn a_resource_that_waits_briefly_is_not_stuck(app: &App) {
    app.create_cluster("patient").await;
    eventually("one that waits", DEADLINE, async || {
        let waiting = app.metric(&series("resource_pending_reconciliation", "Cluster", false)).await?;
        (waiting == 1.0).then_some(())
    })
    .await;
    for name in ["stuck", "stuck_duration_seconds"] {
        let name = format!("resource_pending_reconciliation_{name}");
        assert_eq!(app.metric(&series(&name, "Cluster", false)).await, Some(0.0));
    }
}

async fn removed_resources_are_counted_by_kind_and_force(app: &App) {
    let gone = async |kind: &str, forced: bool| {
        let series =
            format!("hyperfleet_api_hard_deletes_total{{resource_type=\"{kind}\",forced=\"{forced}\"}}");
        app.metric(&series).await.unwrap_or(0.0)
    };
    let network = app.create_named("/networks", "Network", "network").await;
    app.remove(&network).await;
    assert_eq!(gone("Network", false).await, 1.0);

    let cluster = app.create_cluster("finishing").await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    app.remove(&cluster).await;
    app.report(&cluster, &finalized("validator", 2, &at(1))).await.expect_status(201);
    assert_eq!(gone("Cluster", false).await, 0.0);
    app.report(&pool, &finalized("validator", 2, &at(1))).await.expect_status(201);
    assert_eq!((gone("Cluster", false).await, gone("NodePool", false).await), (1.0, 1.0));

    let cluster = app.create_cluster("forced").await;
    for pool in ["one", "two"] {
        app.create_nodepool(&cluster, pool).await;
    }
    app.remove(&cluster).await;
    app.force_delete(&cluster).await;
    assert_eq!((gone("Cluster", true).await, gone("NodePool", true).await), (1.0, 2.0));
    assert_eq!((gone("Cluster", false).await, gone("NodePool", false).await), (1.0, 1.0));
}
