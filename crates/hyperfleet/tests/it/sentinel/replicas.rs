//! Replicas share the work.

use std::collections::BTreeMap;

use super::*;

/// How many ranges there are.
const ALL: f64 = 64.0;

over_brokers!(replicas_share_the_work_and_take_over_from_one_that_dies);

async fn replicas_share_the_work_and_take_over_from_one_that_dies(app: &App, broker: Variables) {
    let mut listener = EventListener::on(&broker).await;
    let program = sentinel(app, &broker, &listener);
    let (one, other) = tokio::join!(start(&program), start(&program));
    hyperfleet_testkit::eventually("fair shares", DEADLINE, async || {
        let (by_one, by_other) = (held(&one).await, held(&other).await);
        (by_one > 0.0 && by_other > 0.0 && by_one + by_other == ALL).then_some(())
    })
    .await;

    let mut clusters = Vec::new();
    for _ in 0..20 {
        clusters.push(app.create_cluster(&unique("shared")).await);
    }
    for cluster in &clusters {
        listener.event_about(cluster, 1).await;
    }
    let published = "hyperfleet_sentinel_events_published_total";
    let (by_one, by_other) = (metric(&one, published).await, metric(&other, published).await);
    assert!(by_one > 0.0 && by_other > 0.0, "{by_one} and {by_other}");
    let mut firsts: BTreeMap<String, usize> = BTreeMap::new();
    for event in &listener.received {
        *firsts.entry(event.data["id"].to_string()).or_default() += 1;
    }
    assert_eq!(firsts.len(), 20);

    drop(one);
    hyperfleet_testkit::eventually("all ranges in one hand", DEADLINE, async || {
        (held(&other).await == ALL).then_some(())
    })
    .await;
    let mut after = Vec::new();
    for _ in 0..10 {
        after.push(app.create_cluster(&unique("after")).await);
    }
    for cluster in &after {
        listener.event_about(cluster, 1).await;
    }
    assert_eq!(metric(&other, "hyperfleet_sentinel_uncovered_ranges").await, 0.0);

    let mut third = start(&program).await;
    assert!(held(&third).await > 0.0, "who is ready has begun");
    third.signal("TERM").await;
    assert_eq!(third.ended().await, Some(0));
    hyperfleet_testkit::eventually("a hand-over at once", DEADLINE, async || {
        (held(&other).await == ALL).then_some(())
    })
    .await;
}

async fn held(running: &Running) -> f64 {
    metric(running, "hyperfleet_sentinel_ranges_owned").await
}
