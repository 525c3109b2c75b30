//! Watches of servers that break off, fall silent, forget, or never knew what a watch is.

use std::time::Duration;

use hyperfleet_client::{Client, Collection, Error, Settings, Watch, WatchEvent, WatchQuery};

use crate::stranger::{Say, Stranger, answer, bytes, lines};

const GONE: &str =
    r#"{"status":410,"code":"HYPERFLEET-VAL-004","errors":[{"field":"since","message":"gone"}]}"#;
const FUTURE: &str =
    r#"{"status":400,"code":"HYPERFLEET-VAL-004","errors":[{"field":"since","message":"max"}]}"#;

fn added(version: u64) -> String {
    format!("{{\"type\":\"ADDED\",\"version\":{version},\"object\":{{\"id\":\"i{version}\"}}}}\n")
}

fn watch(stranger: &Stranger) -> Watch {
    stranger.client().watch(&Collection::of("clusters"), &WatchQuery::default())
}

/// `A3` for what was added at version 3, `B3` for a bookmark there, `R` for a new start.
fn short(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Added { version, resource } => {
            assert_eq!((resource.id(), resource.version()), (format!("i{version}").as_str(), Some(*version)));
            format!("A{version}")
        }
        WatchEvent::Modified { version, .. } => format!("M{version}"),
        WatchEvent::Deleted { version, .. } => format!("D{version}"),
        WatchEvent::Bookmark { version } => format!("B{version}"),
        WatchEvent::Restart => "R".to_owned(),
    }
}

async fn told(watch: &mut Watch, count: usize) -> Vec<String> {
    let mut told = Vec::new();
    for _ in 0..count {
        told.push(short(&watch.next().await.unwrap()));
    }
    told
}

fn resumed_from(stranger: &Stranger) -> Vec<Option<String>> {
    let header = |asked: &String| {
        asked.lines().find_map(|line| line.strip_prefix("last-event-id: ")).map(str::to_owned)
    };
    stranger.asked().iter().map(header).collect()
}

#[tokio::test]
async fn half_an_event_is_told_whole_after_the_cut_and_nothing_twice() {
    let half = &added(3)[..20];
    let first = format!("{}{}{half}", added(1), added(2));
    let modified = "{\"type\":\"MODIFIED\",\"version\":4,\"object\":{\"id\":\"i1\"}}\n";
    let deleted = "{\"type\":\"DELETED\",\"version\":5,\"object\":{\"id\":\"i1\"}}\n\n";
    let later = "{\"type\":\"SOMETHING_NEW\",\"version\":6}\n{\"type\":\"BOOKMARK\",\"version\":7}\n";
    let second = format!("{}{modified}{deleted}{later}", added(3));
    let stranger = Stranger::saying([
        Say::This(lines(&first)),
        Say::This(lines(&second)),
        Say::ThenNothing(lines(&added(8))),
    ])
    .await;
    let mut watch = watch(&stranger);
    assert_eq!(told(&mut watch, 7).await, ["A1", "A2", "A3", "M4", "D5", "B7", "A8"]);
    assert!(watch.is_connected() && watch.trouble().is_none());
    assert_eq!(resumed_from(&stranger), [None, Some("2".to_owned()), Some("7".to_owned())]);
    assert!(stranger.asked().iter().all(|asked| asked.contains("accept: application/x-ndjson")));
}

#[tokio::test]
async fn a_connection_that_falls_silent_is_left_for_another() {
    let stranger =
        Stranger::saying([Say::ThenNothing(lines(&added(1))), Say::ThenNothing(lines(&added(2)))]).await;
    let settings = Settings { watch_silence: Duration::from_millis(100), ..stranger.settings() };
    let client = Client::new(settings).unwrap();
    let mut watch = client.watch(&Collection::of("clusters"), &WatchQuery::default());
    assert_eq!(told(&mut watch, 2).await, ["A1", "A2"]);
}

#[tokio::test]
async fn what_is_forgotten_starts_anew_and_says_so() {
    let forgotten = "{\"type\":\"ERROR\",\"version\":4,\"code\":\"HYPERFLEET-VAL-004\"}\n";
    let stranger = Stranger::saying([
        Say::This(bytes("410 Gone", "content-type: application/problem+json\r\n", GONE)),
        Say::This(lines(&added(4))),
        // A server that was set back to a backup.
        Say::This(bytes("400 Bad Request", "content-type: application/problem+json\r\n", FUTURE)),
        Say::This(lines(&format!("{}{forgotten}", added(2)))),
        Say::ThenNothing(lines(&added(5))),
    ])
    .await;
    let query = WatchQuery { since: Some(3), ..WatchQuery::default() };
    let mut watch = stranger.client().watch(&Collection::of("clusters"), &query);
    assert_eq!(told(&mut watch, 6).await, ["R", "A4", "R", "A2", "R", "A5"]);
}

#[tokio::test]
async fn a_server_that_stops_says_from_where_to_go_on() {
    let stopped = |version: u64| {
        format!("{{\"type\":\"ERROR\",\"version\":{version},\"code\":\"HYPERFLEET-SVC-001\"}}\n")
    };
    let stranger = Stranger::saying([
        Say::This(lines(&stopped(0))),
        Say::This(lines(&format!("{}{}", added(1), stopped(9)))),
        Say::ThenNothing(lines(&added(10))),
    ])
    .await;
    let mut watch = watch(&stranger);
    assert_eq!(told(&mut watch, 2).await, ["A1", "A10"]);
    assert_eq!(resumed_from(&stranger), [None, None, Some("9".to_owned())]);
}

#[tokio::test]
async fn a_server_that_knows_no_watch_is_known_by_its_answer() {
    let refusal = r#"{"code":"HYPERFLEET-VAL-004","errors":[{"field":"watch","message":"unknown"}]}"#;
    for say in [
        answer("200 OK", "application/json", "{\"items\":[]}"),
        answer("200 OK", "application/json; charset=utf-8", "{\"items\":[]}"),
        answer("400 Bad Request", "application/problem+json", refusal),
        answer("406 Not Acceptable", "application/problem+json", "{}"),
    ] {
        let stranger = Stranger::saying([say]).await;
        let mut watch = watch(&stranger);
        for _ in 0..2 {
            let told = watch.next().await;
            assert!(matches!(told, Err(Error::NoWatch)), "{told:?}");
        }
        assert!(!watch.is_connected() && stranger.asked().len() == 1);
    }
}

#[tokio::test]
async fn a_refusal_is_told_and_asking_again_tries_again() {
    let stranger = Stranger::saying([
        answer("403 Forbidden", "application/problem+json", "{\"code\":\"HYPERFLEET-AUZ-003\"}"),
        answer("503 Service Unavailable", "text/plain", ""),
        Say::ThenNothing(lines(&added(1))),
    ])
    .await;
    let mut watch = watch(&stranger);
    let denied = watch.next().await.unwrap_err();
    assert!(denied.is_denied() && watch.trouble().is_some_and(|trouble| trouble.is_denied()), "{denied}");
    // What passes by itself is not told.
    assert_eq!(told(&mut watch, 1).await, ["A1"]);
}

#[tokio::test]
async fn what_is_no_event_is_malformed() {
    for say in [
        Say::This(lines("no JSON\n")),
        Say::This(lines("{\"type\":\"ADDED\",\"version\":1}\n")),
        Say::This(lines("{\"type\":\"ADDED\",\"version\":-1,\"object\":{\"id\":\"1\"}}\n")),
        answer("200 OK", "text/html", "<html>Please log in</html>"),
    ] {
        let stranger = Stranger::saying([say, Say::ThenNothing(lines(&added(1)))]).await;
        let mut watch = watch(&stranger);
        let error = watch.next().await.unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }), "{error}");
        assert_eq!(told(&mut watch, 1).await, ["A1"]);
    }
}

#[tokio::test]
async fn a_line_without_an_end_is_cut_off() {
    let head = lines("{\"type\":\"ADDED\",\"version\":1,\"object\":\"");
    let stranger = Stranger::saying([Say::Endless(head, vec![b'x'; 1 << 20])]).await;
    let error = watch(&stranger).next().await.unwrap_err();
    assert!(matches!(&error, Error::Malformed { why, .. } if why.contains("longer than")), "{error}");
}
