//! A Sentinel whose clock is set while it runs.

use hyperfleet_testkit::FakeClock;

use super::*;

/// Waits for three searches that begin after now.
async fn searched_again(running: &Running) {
    let searches = "hyperfleet_sentinel_poll_duration_seconds_count";
    let before = metric(running, searches).await;
    hyperfleet_testkit::eventually("further searches", DEADLINE, async || {
        (metric(running, searches).await >= before + 4.0).then_some(())
    })
    .await;
}

async fn assert_repeats_nothing(running: &Running) {
    let metrics = metrics(running).await;
    assert!(!metrics.contains("reason=\"stale\""), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_whose_clock_is_set_repeats_nothing_and_misses_nothing() {
    let app = App::sqlite(CATALOG).await;
    let broker = nats(Nats::shared().url());
    let mut listener = EventListener::on(&broker).await;
    // Nothing is due of a cluster that is confirmed.
    let confirmed = app.create_cluster("confirmed").await;
    for adapter in ["validator", "dns"] {
        app.report(&confirmed, &report_now(adapter, 1, "True")).await.expect_status(201);
    }
    let clock = FakeClock::ahead_by(0).unwrap();
    let program = clock
        .environment()
        .iter()
        .fold(sentinel(&app, &broker, &listener), |program, (name, value)| program.env(name, value))
        .env("HYPERFLEET_POLL_INTERVAL", "200ms");
    let running = start(&program).await;
    searched_again(&running).await;
    for seconds in [3_600, -3_600, 0] {
        clock.set_ahead(seconds).unwrap();
        searched_again(&running).await;
        let new = app.create_cluster(&unique("new")).await;
        listener.event_about(&new, 1).await;
        assert_eq!(metric(&running, "hyperfleet_sentinel_ranges_owned").await, 64.0);
        assert_eq!(metric(&running, "hyperfleet_sentinel_uncovered_ranges").await, 0.0);
        assert_repeats_nothing(&running).await;
    }
    // So does one that starts with a wrong clock.
    drop(running);
    clock.set_ahead(3_600).unwrap();
    let running = start(&program).await;
    searched_again(&running).await;
    assert_repeats_nothing(&running).await;
    let about = |event: &&Event| event.data["id"] == confirmed["id"];
    assert_eq!(listener.received.iter().filter(about).count(), 0);
}
