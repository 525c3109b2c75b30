//! Watches of servers that break off, fall silent, forget, or never knew what a watch is.

use std::time::Duration;

use hyperfleet_client::{Client, Collection, Error, Settings, Watch, WatchEvent, WatchQuery};

use crate::fake_server::{FakeServer, Reply, answer, bytes, lines};

const GONE: &str =
    r#"{"status":410,"code":"HYPERFLEET-VAL-004","errors":[{"field":"since","message":"gone"}]}"#;
const FUTURE: &str =
    r#"{"status":400,"code":"HYPERFLEET-VAL-004","errors":[{"field":"since","message":"max"}]}"#;

fn added(version: u64) -> String {
    format!("{{\"type\":\"ADDED\",\"version\":{version},\"object\":{{\"id\":\"i{version}\"}}}}\n")
}

fn watch(server: &FakeServer) -> Watch {
    server.client().watch(&Collection::of("clusters"), &WatchQuery::default())
}

/// `A3` for what was added at version 3, `B3` for a bookmark there, `R` for a new start.
fn short(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Added { version, resource } => {
            assert_eq!(resource.id(), format!("i{version}"));
            assert_eq!(resource.etag(), Some(format!("\"{version}\"").as_str()));
            format!("A{version}")
        }
        WatchEvent::Modified { version, .. } => format!("M{version}"),
        WatchEvent::Deleted { version, .. } => format!("D{version}"),
        WatchEvent::Bookmark { version } => format!("B{version}"),
        WatchEvent::Restart => "R".to_owned(),
    }
}

async fn next_events(watch: &mut Watch, count: usize) -> Vec<String> {
    let mut told = Vec::new();
    for _ in 0..count {
        told.push(short(&watch.next().await.unwrap()));
    }
    told
}

fn resumed_from(server: &FakeServer) -> Vec<Option<String>> {
    let header = |asked: &String| {
        asked.lines().find_map(|line| line.strip_prefix("last-event-id: ")).map(str::to_owned)
    };
    server.requests().iter().map(header).collect()
}

#[tokio::test]
async fn a_watch_resumes_after_half_an_event_without_duplicates() {
    let half = &added(3)[..20];
    let first = format!("{}{}{half}", added(1), added(2));
    let modified = "{\"type\":\"MODIFIED\",\"version\":4,\"object\":{\"id\":\"i1\"}}\n";
    let deleted = "{\"type\":\"DELETED\",\"version\":5,\"object\":{\"id\":\"i1\"}}\n\n";
    let later = "{\"type\":\"SOMETHING_NEW\",\"version\":6}\n{\"type\":\"BOOKMARK\",\"version\":7}\n";
    let second = format!("{}{modified}{deleted}{later}", added(3));
    let server = FakeServer::replying([
        Reply::Once(lines(&first)),
        Reply::Once(lines(&second)),
        Reply::ThenSilence(lines(&added(8))),
    ])
    .await;
    let mut watch = watch(&server);
    assert_eq!(next_events(&mut watch, 7).await, ["A1", "A2", "A3", "M4", "D5", "B7", "A8"]);
    assert!(watch.is_connected() && watch.trouble().is_none());
    assert_eq!(resumed_from(&server), [None, Some("2".to_owned()), Some("7".to_owned())]);
    assert!(server.requests().iter().all(|asked| asked.contains("accept: application/x-ndjson")));
}

#[tokio::test]
async fn a_silent_watch_reconnects() {
    let server =
        FakeServer::replying([Reply::ThenSilence(lines(&added(1))), Reply::ThenSilence(lines(&added(2)))])
            .await;
    let settings = Settings { watch_silence: Duration::from_millis(100), ..server.settings() };
    let client = Client::new(settings).unwrap();
    let mut watch = client.watch(&Collection::of("clusters"), &WatchQuery::default());
    assert_eq!(next_events(&mut watch, 2).await, ["A1", "A2"]);
}

#[tokio::test]
async fn a_watch_of_an_expired_version_restarts_with_an_event() {
    let forgotten = "{\"type\":\"ERROR\",\"version\":4,\"code\":\"HYPERFLEET-VAL-004\"}\n";
    let server = FakeServer::replying([
        Reply::Once(bytes("410 Gone", "content-type: application/problem+json\r\n", GONE)),
        Reply::Once(lines(&added(4))),
        // A server that was set back to a backup.
        Reply::Once(bytes("400 Bad Request", "content-type: application/problem+json\r\n", FUTURE)),
        Reply::Once(lines(&format!("{}{forgotten}", added(2)))),
        Reply::ThenSilence(lines(&added(5))),
    ])
    .await;
    let query = WatchQuery { since: Some("3".to_owned()), ..WatchQuery::default() };
    let mut watch = server.client().watch(&Collection::of("clusters"), &query);
    assert_eq!(next_events(&mut watch, 6).await, ["R", "A4", "R", "A2", "R", "A5"]);
}

#[tokio::test]
async fn a_watch_resumes_from_the_version_of_a_stopping_server() {
    let stopped = |version: u64| {
        format!("{{\"type\":\"ERROR\",\"version\":{version},\"code\":\"HYPERFLEET-SVC-001\"}}\n")
    };
    let server = FakeServer::replying([
        Reply::Once(lines(&stopped(0))),
        Reply::Once(lines(&format!("{}{}", added(1), stopped(9)))),
        Reply::ThenSilence(lines(&added(10))),
    ])
    .await;
    let mut watch = watch(&server);
    assert_eq!(next_events(&mut watch, 2).await, ["A1", "A10"]);
    assert_eq!(resumed_from(&server), [None, None, Some("9".to_owned())]);
}

#[tokio::test]
async fn a_watch_resumes_from_positions_as_they_came() {
    let at = |version: u64, position: &str| {
        let position = format!("\"version\":{version},\"position\":\"{position}\"");
        added(version).replace(&format!("\"version\":{version}"), &position)
    };
    let stopped = "{\"type\":\"ERROR\",\"version\":4,\"position\":\"4-b\",\"code\":\"HYPERFLEET-SVC-001\"}\n";
    let server = FakeServer::replying([
        Reply::Once(lines(&at(2, "2-a"))),
        Reply::Once(lines(&format!("{}{stopped}", at(3, "opaque")))),
        Reply::ThenSilence(lines(&at(5, "5-b"))),
    ])
    .await;
    let query = WatchQuery { since: Some("1-a".to_owned()), ..WatchQuery::default() };
    let mut watch = server.client().watch(&Collection::of("clusters"), &query);
    for (version, position) in [(2, "2-a"), (3, "opaque"), (5, "5-b")] {
        let WatchEvent::Added { version: told, resource } = watch.next().await.unwrap() else {
            panic!("none")
        };
        assert_eq!((told, resource.etag()), (version, Some(format!("\"{position}\"").as_str())));
    }
    assert!(server.requests()[0].contains("since=1-a"));
    assert_eq!(resumed_from(&server), [None, Some("2-a".to_owned()), Some("4-b".to_owned())]);
}

#[tokio::test]
async fn a_server_without_watch_is_recognised_by_its_answer() {
    let refusal = r#"{"code":"HYPERFLEET-VAL-004","errors":[{"field":"watch","message":"unknown"}]}"#;
    for reply in [
        answer("200 OK", "application/json", "{\"items\":[]}"),
        answer("200 OK", "application/json; charset=utf-8", "{\"items\":[]}"),
        answer("400 Bad Request", "application/problem+json", refusal),
        answer("406 Not Acceptable", "application/problem+json", "{}"),
    ] {
        let server = FakeServer::replying([reply]).await;
        let mut watch = watch(&server);
        for _ in 0..2 {
            let told = watch.next().await;
            assert!(matches!(told, Err(Error::NoWatch)), "{told:?}");
        }
        assert!(!watch.is_connected() && server.requests().len() == 1);
    }
}

#[tokio::test]
async fn a_refused_watch_is_an_error_and_is_retried() {
    let server = FakeServer::replying([
        answer("403 Forbidden", "application/problem+json", "{\"code\":\"HYPERFLEET-AUZ-003\"}"),
        answer("503 Service Unavailable", "text/plain", ""),
        Reply::ThenSilence(lines(&added(1))),
    ])
    .await;
    let mut watch = watch(&server);
    let denied = watch.next().await.unwrap_err();
    assert!(denied.is_denied() && watch.trouble().is_some_and(|trouble| trouble.is_denied()), "{denied}");
    // What passes by itself is not told.
    assert_eq!(next_events(&mut watch, 1).await, ["A1"]);
}

#[tokio::test]
async fn a_line_that_is_no_event_is_malformed() {
    for reply in [
        Reply::Once(lines("no JSON\n")),
        Reply::Once(lines("{\"type\":\"ADDED\",\"version\":1}\n")),
        Reply::Once(lines("{\"type\":\"ADDED\",\"version\":-1,\"object\":{\"id\":\"1\"}}\n")),
        answer("200 OK", "text/html", "<html>Please log in</html>"),
    ] {
        let server = FakeServer::replying([reply, Reply::ThenSilence(lines(&added(1)))]).await;
        let mut watch = watch(&server);
        let error = watch.next().await.unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }), "{error}");
        assert_eq!(next_events(&mut watch, 1).await, ["A1"]);
    }
}

#[tokio::test]
async fn an_endless_line_is_cut_off() {
    let head = lines("{\"type\":\"ADDED\",\"version\":1,\"object\":\"");
    let server = FakeServer::replying([Reply::Endless(head, vec![b'x'; 1 << 20])]).await;
    let error = watch(&server).next().await.unwrap_err();
    assert!(
        matches!(&error, Error::Malformed { source, .. } if source.to_string().contains("longer than")),
        "{error}"
    );
}
