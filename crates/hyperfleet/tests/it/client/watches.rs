//! Watches of the real server: what they show, and how they start anew.

use hyperfleet_client::{Error, ListQuery, PatchKind, WatchEvent, WatchQuery};
use hyperfleet_testkit::eventually;

use super::*;
use crate::support::any_store;

any_store!(
    a_list_and_a_watch_from_its_version_show_everything_once,
    a_watch_follows_its_query,
    a_watch_from_a_future_version_starts_anew,
    a_refused_watch_returns_the_problem,
);

any_store!(
    config = "compatibility: {contract: go-0.2}";
    a_watch_works_under_the_go_contract,
);

fn short(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Added { resource, .. } => format!("added {}", resource.name()),
        WatchEvent::Modified { resource, .. } => format!("modified {}", resource.name()),
        WatchEvent::Deleted { resource, .. } => format!("deleted {}", resource.name()),
        WatchEvent::Bookmark { .. } => "bookmark".to_owned(),
        WatchEvent::Restart => "restart".to_owned(),
    }
}

async fn next_events(watch: &mut hyperfleet_client::Watch, count: usize) -> Vec<String> {
    let mut told = Vec::new();
    while told.len() < count {
        let event = tokio::time::timeout(DEADLINE, watch.next()).await.unwrap().unwrap();
        told.push(short(&event));
    }
    told
}

async fn a_list_and_a_watch_from_its_version_show_everything_once(app: &App) {
    let client = client(app);
    create_cluster(&client, "before").await;
    let page = client.list(&clusters(), &ListQuery::default()).await.unwrap();
    assert_eq!(page.items.len(), 1);
    let mut watch = client.watch(&clusters(), &WatchQuery { since: page.position, ..WatchQuery::default() });
    assert!(!watch.is_connected());
    eventually("the watch is connected", DEADLINE, async || watch.is_connected().then_some(())).await;
    let after = create_cluster(&client, "after").await;
    let item = after.path().unwrap();
    let patched =
        client.patch(&item, &json!({"labels": {"a": "b"}}), PatchKind::Merge, None, false).await.unwrap();
    assert_eq!(watch.next().await.unwrap(), WatchEvent::Added { version: 2, resource: after });
    assert_eq!(watch.next().await.unwrap(), WatchEvent::Modified { version: 3, resource: patched });
    client.delete(&item, None, false).await.unwrap();
    assert_eq!(next_events(&mut watch, 1).await, ["deleted after"]);
}

async fn a_watch_follows_its_query(app: &App) {
    let client = client(app);
    let east = create_cluster(&client, "east").await.path().unwrap();
    let pool = json!({"kind": "NodePool", "name": "pool", "spec": {}});
    client.create(&east.below("nodepools"), &pool, false).await.unwrap();
    create_cluster(&client, "west").await;
    let query = WatchQuery::default();
    let mut below = client.watch(&east.below("nodepools"), &query);
    assert_eq!(next_events(&mut below, 2).await, ["added pool", "bookmark"]);
    let mut any = client.watch(&Collection::any(), &query);
    assert_eq!(next_events(&mut any, 4).await, ["added east", "added pool", "added west", "bookmark"]);
    let mut kind =
        client.watch(&Collection::any(), &WatchQuery { kind: Some("NodePool".into()), ..query.clone() });
    assert_eq!(next_events(&mut kind, 2).await, ["added pool", "bookmark"]);
    let fields = Some("labels".to_owned());
    let search = Some("name = 'east'".to_owned());
    let mut found = client.watch(&clusters(), &WatchQuery { search, fields, show_deleted: true, ..query });
    let WatchEvent::Added { resource, .. } = found.next().await.unwrap() else { panic!("it is there") };
    assert_eq!(serde_json::to_value(&resource).unwrap(), json!({"id": resource.id(), "labels": {}}));
    client.delete(&east, None, false).await.unwrap();
    let event = loop {
        match found.next().await.unwrap() {
            WatchEvent::Bookmark { .. } => {}
            event => break event,
        }
    };
    assert!(matches!(&event, WatchEvent::Modified { .. }), "what is being deleted is still shown: {event:?}");
}

async fn a_watch_from_a_future_version_starts_anew(app: &App) {
    let client = client(app);
    create_cluster(&client, "east").await;
    for since in [999_999, u64::MAX] {
        let mut watch = client
            .watch(&clusters(), &WatchQuery { since: Some(since.to_string()), ..WatchQuery::default() });
        assert_eq!(next_events(&mut watch, 3).await, ["restart", "added east", "bookmark"]);
    }
}

async fn a_refused_watch_returns_the_problem(app: &App) {
    let client = client(app);
    let query = WatchQuery { search: Some("nme = 'x'".into()), ..WatchQuery::default() };
    let error = client.watch(&clusters(), &query).next().await.unwrap_err();
    assert!(matches!(&error, Error::Problem(problem) if problem.errors[0].field == "search"), "{error}");
    let nowhere = clusters().item("absent").below("nodepools");
    assert!(client.watch(&nowhere, &WatchQuery::default()).next().await.unwrap_err().is_not_found());
}

async fn a_watch_works_under_the_go_contract(app: &App) {
    let client = client(app);
    let east = create_cluster(&client, "east").await;
    client.delete(&clusters().item(east.id()), None, false).await.unwrap();
    let mut watch = client.watch(&clusters(), &WatchQuery::default());
    assert_eq!(
        next_events(&mut watch, 2).await,
        ["added east", "bookmark"],
        "what is being deleted is shown"
    );
}
