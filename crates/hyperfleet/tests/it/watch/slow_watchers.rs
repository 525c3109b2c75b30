//! A watcher that does not read: it costs the server bounded memory, disturbs no other, and can resume where it was
//! cut.

use hyperfleet_testkit::eventually;

use super::*;

/// Far more than buffers on the way and in the server can hold.
const CHANGES: u64 = 2_400;

/// Each event is about so large.
const SIZE: usize = 32 << 10;

const MIB: f64 = 1_048_576.0;

/// How much the server may grow meanwhile, for whatever reason; what the idle ones do not read is three times as much.
const BOUND: f64 = 128.0 * MIB;

both_stores!(config = "server: {timeouts: {write: 10m}}"; a_watch_that_is_not_read_is_ended_and_can_resume);
both_stores!(config = "server: {timeouts: {write: 1s}}"; a_watch_blocked_beyond_the_write_timeout_loses_its_connection);

/// Changes the cluster so often, many times at once.
async fn change(app: &App, cluster: &Value, times: u64) {
    let spec = "x".repeat(SIZE);
    let writers = (0..8).map(|writer| {
        let (api, path, spec) = (app.api(), href(cluster).to_owned(), spec.clone());
        tokio::spawn(async move {
            for number in 0..times / 8 {
                let patch = json!({"spec": {"text": spec, format!("w{writer}"): number}});
                api.patch(&path).json(&patch).await.expect_status(200);
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

async fn resident(app: &App) -> f64 {
    app.metric("process_resident_memory_bytes").await.unwrap()
}

async fn a_watch_that_is_not_read_is_ended_and_can_resume(app: &App) {
    let cluster = app.create_cluster("busy").await;
    let mut idle = Vec::new();
    let paths = ["/clusters", "/clusters?since=0", "/resources?showDeleted=true"];
    for path in paths.into_iter().chain(["/clusters"; 4]) {
        idle.push((path, app.watch(path).await));
    }
    let mut reader = app.watch("/clusters?since=1&fields=generation").await;
    let reading = tokio::spawn(async move {
        for version in 2..CHANGES + 2 {
            assert_eq!(reader.change().await.version(), version);
        }
    });
    change(app, &cluster, CHANGES / 4).await;
    let before = resident(app).await;
    change(app, &cluster, CHANGES - CHANGES / 4).await;
    reading.await.expect("who reads is told everything");
    let after = resident(app).await;
    assert!(after - before < BOUND, "grew from {} to {} MiB", before / MIB, after / MIB);

    for (path, mut stream) in idle {
        let rest = stream.rest().await;
        let (end, told) = rest.split_last().unwrap();
        assert_ended(end);
        let told: Vec<_> = told.iter().filter(|event| event.kind() != "BOOKMARK").collect();
        assert!(told.is_sorted_by(|one, next| one.version() + 1 == next.version()), "{path}");
        let position = told.last().unwrap().version();
        assert_eq!(end.version(), position, "{path}: it ends where it was cut");
        assert!(position < CHANGES / 2, "{path}: was told as much as {position}");

        let mut stream = app.watch(&format!("/clusters?fields=generation&since={position}")).await;
        for version in position + 1..=CHANGES + 1 {
            assert_eq!(stream.change().await.version(), version, "{path}");
        }
    }
    assert_eq!(app.metric("hyperfleet_watch_cut_off_total").await, Some(7.0));
}

async fn a_watch_blocked_beyond_the_write_timeout_loses_its_connection(app: &App) {
    let cluster = app.create_cluster("busy").await;
    let mut idle = app.watch("/clusters?since=0").await;
    change(app, &cluster, CHANGES / 4).await;
    eventually("the connection is given up", DEADLINE, async || {
        (app.metric("hyperfleet_watch_watchers").await == Some(0.0)).then_some(())
    })
    .await;
    let mut position = 0;
    let broken = loop {
        match idle.next().await {
            Ok(Some(event)) => {
                assert_eq!(event.version(), position + 1);
                position += 1;
            }
            other => break other,
        }
    };
    assert!(broken.is_err(), "it was not ended in good order: {broken:?}");
    let mut stream = app.watch(&format!("/clusters?fields=id&since={position}")).await;
    for version in position + 1..=CHANGES / 4 + 1 {
        assert_eq!(stream.change().await.version(), version);
    }
}
