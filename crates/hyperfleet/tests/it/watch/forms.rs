//! The two formats of a stream, and its headers.

use hyperfleet_testkit::{Answer, eventually};

use super::*;

both_stores!(
    a_watch_is_server_sent_events_unless_lines_are_asked_for,
    an_accept_header_without_either_format_is_refused,
    a_stream_is_never_compressed,
    head_answers_the_headers_of_a_watch,
    an_idle_watch_sends_bookmarks,
);

const NDJSON: &str = "application/x-ndjson";
const SSE: &str = "text/event-stream";

async fn a_watch_is_server_sent_events_unless_lines_are_asked_for(app: &App) {
    let made = app.create_cluster("made").await;
    let path = watched("/clusters");
    let (version, tag) = (version(app, &made).await, app.etag(&made).await);
    let position = tag.trim_matches('"');
    let added = json!({"type": "ADDED", "version": version, "position": position, "object": made});
    let bookmark = json!({"type": "BOOKMARK", "version": version, "position": position});
    for accept in
        [None, Some("*/*"), Some(SSE), Some("text/*, application/json"), Some(" Text/Event-Stream ")]
    {
        let asked = app.get(&path);
        let asked = if let Some(accept) = accept { asked.header("accept", accept) } else { asked };
        let mut stream = asked.watch().await;
        assert_eq!(stream.header("content-type"), Some(SSE), "{accept:?}");
        assert!(stream.header("x-request-id").is_some() && stream.header("vary").is_some());
        assert_eq!(stream.header("content-length"), None);
        for expected in [&added, &bookmark] {
            let event = stream.event().await;
            assert_eq!(event.json, *expected);
            assert_eq!(event.id, Some(position.to_owned()));
            // An id, one line of data, and nothing else.
            let lines: Vec<_> = event.text.lines().map(|line| line.split(": ").next().unwrap()).collect();
            assert_eq!(lines, ["id", "data"], "{}", event.text);
        }
    }
    for accept in [NDJSON, "application/*", "text/event-stream;q=0.5, application/x-ndjson"] {
        let mut stream = app.get(&path).header("accept", accept).watch().await;
        assert_eq!(stream.header("content-type"), Some(NDJSON), "{accept}");
        for expected in [&added, &bookmark] {
            let event = stream.event().await;
            assert_eq!((&event.json, &event.id), (expected, &None));
            assert!(event.text.starts_with('{') && event.text.ends_with('}'), "{}", event.text);
            let alone = Answer { status: 200, headers: stream.headers.clone(), body: event.text.into() };
            app.expect_described(&path, &alone);
        }
    }
    let mut stream = app.get(&path).header("accept", NDJSON).watch().await;
    stream.until_bookmark().await;
    let later = app.create_cluster("later").await;
    assert_eq!(stream.change().await.object(), &later, "changes come in the same form");
}

async fn an_accept_header_without_either_format_is_refused(app: &App) {
    for accept in ["application/json", "text/html", "text/event-stream;q=0", "rubbish"] {
        let answer = app.get(&watched("/clusters")).header("accept", accept).await;
        assert_eq!(answer.status, 406, "{accept}: {answer}");
        answer.problem_code();
    }
    // Faults of the query come with the same Accept as those of every list.
    app.get(&watched("/clusters?since=x")).header("accept", SSE).await.expect_status(400);
}

async fn a_stream_is_never_compressed(app: &App) {
    let spec = json!({"text": "easily compressed ".repeat(1000)});
    for name in ["one", "two"] {
        app.create("/clusters", &json!({"kind": "Cluster", "name": name, "spec": spec})).await;
    }
    let list = app.get("/clusters").header("accept-encoding", "gzip").unchecked().await.expect_status(200);
    assert_eq!(list.header("content-encoding"), Some("gzip"), "a list of the same is");
    for accept in [SSE, NDJSON] {
        let asked = app.get(&watched("/clusters")).header("accept", accept);
        let mut stream = asked.header("accept-encoding", "gzip, zstd, br").watch().await;
        assert!(stream.until_bookmark().await.0.len() >= 2);
        let more = json!({"kind": "Cluster", "name": unique("more"), "spec": spec});
        let more = app.create("/clusters", &more).await;
        assert_eq!(stream.change().await.object(), &more);
    }
}

async fn head_answers_the_headers_of_a_watch(app: &App) {
    app.create_cluster("made").await;
    let answer = app.head(&watched("/clusters")).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some(SSE)));
    assert!(answer.body.is_empty());
    eventually("no watch is open", DEADLINE, async || {
        (app.metric("hyperfleet_watch_watchers").await == Some(0.0)).then_some(())
    })
    .await;
    app.head(&watched("/clusters?since=99")).await.expect_status(410);
}

async fn an_idle_watch_sends_bookmarks(app: &App) {
    let mut stream = app.watch("/nodepools").await;
    assert_eq!(stream.until_bookmark().await, (vec![], 0));
    app.create_cluster("elsewhere").await;
    // The client gives up after 30 s of silence; the contract allows 15.
    assert_eq!(stream.until_bookmark().await, (vec![], 1), "the newest version, of whatever it was");
}
