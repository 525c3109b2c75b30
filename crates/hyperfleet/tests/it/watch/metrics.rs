//! Metrics of watches.

use hyperfleet_testkit::eventually;

use super::*;

both_stores!(watchers_and_their_events_are_counted);

async fn expect(app: &App, series: &str, value: f64) {
    eventually(&format!("{series} {value}"), DEADLINE, async || {
        (app.metric(series).await == Some(value)).then_some(())
    })
    .await;
}

async fn watchers_and_their_events_are_counted(app: &App) {
    let (watchers, events) = ("hyperfleet_watch_watchers", "hyperfleet_watch_events_total");
    assert_eq!(app.metric(watchers).await, Some(0.0));
    assert_eq!(app.metric("hyperfleet_watch_cut_off_total").await, Some(0.0));
    for name in ["one", "two"] {
        app.create_cluster(name).await;
    }
    let mut stream = app.watch("/clusters").await;
    assert_eq!(stream.until_bookmark().await.0.len(), 2);
    let mut other = app.watch("/clusters?since=2").await;
    expect(app, watchers, 2.0).await;
    expect(app, events, 2.0).await;
    app.create_cluster("three").await;
    for stream in [&mut stream, &mut other] {
        stream.change().await;
    }
    expect(app, events, 4.0).await;
    expect(app, "hyperfleet_watch_delivery_seconds_count", 2.0).await;
    drop(stream);
    expect(app, watchers, 1.0).await;
    drop(other);
    expect(app, watchers, 0.0).await;

    app.get(&watched("/clusters?since=9")).await.expect_status(410);
    assert_eq!(app.metric(watchers).await, Some(0.0), "who is refused never watched");
    assert_eq!(app.metric("hyperfleet_feed_lag_versions").await, Some(0.0));
    assert!(app.metric("hyperfleet_feed_lag_seconds").await.unwrap() >= 0.0);
    let hears_of_others = if app.database.is_some() { 1.0 } else { 0.0 };
    expect(app, "hyperfleet_feed_listening", hears_of_others).await;
    assert!(app.metric("hyperfleet_history_rows").await.is_some());
}
