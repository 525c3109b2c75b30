//! The end of a watch: at shutdown every watcher learns where to resume, and the process does not wait for them.

use super::*;

both_stores!(config = DEFAULT; a_stopping_server_tells_watchers_where_to_resume);

async fn a_stopping_server_tells_watchers_where_to_resume(app: &mut App) {
    // So long a grace would be noticed.
    app.restart_with("health: {shutdown_timeout: 10m}").await;
    app.create_cluster("first").await;
    let mut streams = vec![
        app.watch("/clusters").await,
        app.watch("/clusters?since=0").await,
        app.watch("/nodepools").await,
        app.get(&watched("/resources?since=1")).header("accept", "application/x-ndjson").watch().await,
    ];
    let made = app.create_cluster("second").await;
    for stream in [0, 1, 3] {
        while streams[stream].change().await.object() != &made {}
    }
    // One that has read nothing at all.
    streams.push(app.watch("/clusters").await);

    let status = app.server.terminate().await.unwrap();
    assert_eq!(status.code(), Some(0));
    let stopped = app.server.logs().into_iter().find(|line| line["message"] == "stopped").unwrap();
    assert_eq!(stopped["connections_cut"], 0, "all of them were let go");
    let mut positions = Vec::new();
    for stream in &mut streams {
        let rest = stream.rest().await;
        let last = rest.last().expect("a last word").clone();
        assert_ended(&last);
        let told = rest.iter().filter(|event| event.kind() != "ERROR").map(Event::version).max();
        assert!(told.is_none_or(|told| told <= last.version()), "{rest:?}");
        positions.push(last.version());
    }
    assert_eq!((positions[0], positions[1], positions[3]), (2, 2, 2));

    app.restart().await;
    let third = app.create_cluster("third").await;
    for position in &positions[..4] {
        let mut stream = app.watch(&format!("/clusters?since={position}")).await;
        while stream.change().await.object() != &third {}
    }
    let mut stream = app.watch("/clusters?since=2").await;
    assert_eq!(stream.change().await.object(), &third, "and nothing before it");
}
