//! A resume is exact: from every version, with every filter, exactly the later events are sent.

use std::collections::BTreeMap;

use super::*;

both_stores!(
    config = CATALOG;
    a_watch_from_any_version_sends_exactly_the_later_events,
    an_interrupted_initial_list_resumes_after_its_last_object,
    a_watch_resumed_under_writes_sends_each_event_once,
    a_received_event_is_not_sent_again,
);

/// Some of everything that can happen.
async fn history(app: &App) {
    let one = app.create_cluster("one").await;
    let pool = app.create_nodepool(&one, "pool").await;
    let two = app
        .create(
            "/clusters",
            &json!({"kind": "Cluster", "name": "two", "spec": {"n": 1}, "labels": {"tone": "red"}}),
        )
        .await;
    for number in 2..6 {
        app.merge(&two, &json!({"spec": {"n": number}})).await;
        let tone = if number % 2 == 0 { "blue" } else { "red" };
        app.merge(&two, &json!({"labels": {"tone": tone}})).await;
        for adapter in ["validator", "dns"] {
            let available = if number == 3 { "False" } else { "True" };
            let report = report(adapter, number, available, "2026-01-01T10:00:00Z");
            app.report(&two, &report).await.expect_status(201);
        }
    }
    app.merge(&pool, &json!({"labels": {"tone": "red"}})).await;
    app.remove(&two).await;
    app.remove(&one).await;
    for adapter in ["validator", "dns"] {
        app.report(&two, &finalized(adapter, 6, &at(0))).await.expect_status(201);
    }
    app.force_delete(&one).await;
    app.create_cluster("last").await;
}

async fn a_watch_from_any_version_sends_exactly_the_later_events(app: &App) {
    history(app).await;
    let newest = newest(app).await;
    for query in [
        "",
        "showDeleted=true",
        "kind=Cluster&showDeleted=true",
        "fields=name,labels&showDeleted=true",
        "search=labels.tone%3D'red'%20or%20name%3D'last'",
        "search=not%20labels.tone%3D'red'&showDeleted=true",
        "search=status.conditions.Reconciled%3D'True'%20or%20name%3D'last'",
        "search=spec.n%3E%3D3%20or%20name%3D'last'",
    ] {
        let rest = async |since: u64| {
            let mut stream = app.watch(&format!("/resources?{query}&since={since}")).await;
            let mut events = vec![stream.change().await];
            while events.last().unwrap().object()["name"] != "last" {
                events.push(stream.change().await);
            }
            events
        };
        let all = rest(0).await;
        assert!(all.is_sorted_by(|one, next| one.version() < next.version()), "{query}");
        if query == "showDeleted=true" {
            assert_eq!(versions(&all), (1..=newest).collect::<Vec<_>>(), "every version is an event");
        }
        for position in 1..newest {
            let after: Vec<_> = all.iter().filter(|event| event.version() > position).cloned().collect();
            assert_eq!(rest(position).await, after, "{query} from {position}");
        }
    }
}

async fn an_interrupted_initial_list_resumes_after_its_last_object(app: &App) {
    let mut made = Vec::new();
    for number in 0..12 {
        made.push(app.create_cluster(&format!("made-{number}")).await);
    }
    for number in [3, 0, 7] {
        app.merge(&made[number], &json!({"spec": {"n": 1}})).await;
    }
    let (present, _) = app.watch("/clusters").await.until_bookmark().await;
    let newest = present.last().unwrap().version();
    let contents = |events: &[Event]| -> BTreeMap<String, (u64, Value)> {
        let content =
            |event: &Event| (id(event.object()).to_owned(), (event.version(), event.object().clone()));
        events.iter().map(content).collect()
    };
    for cut in 1..present.len() {
        let mut state = events_of(&mut app.watch("/clusters").await, cut).await;
        let mut position = state.last().unwrap().version();
        let mut stream = app.watch(&format!("/clusters?since={position}")).await;
        while position < newest {
            let event = stream.change().await;
            assert!(event.version() > position);
            position = event.version();
            state.push(event);
        }
        assert_eq!(contents(&state), contents(&present), "cut after {cut}");
    }
}

async fn a_watch_resumed_under_writes_sends_each_event_once(app: &App) {
    let cluster = app.create_cluster("busy").await;
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(app.watch("/clusters?since=0").await);
    }
    let writer = {
        let (api, path) = (app.api(), href(&cluster).to_owned());
        tokio::spawn(async move {
            for number in 0..400 {
                api.patch(&path).json(&json!({"spec": {"n": number}})).await.expect_status(200);
            }
        })
    };
    // Each of them goes away after a few events and comes back; all share what they follow.
    let (mut seen, mut position) = (Vec::new(), 0);
    while seen.len() < 401 {
        let mut stream = app.watch(&format!("/clusters?since={position}")).await;
        for _ in 0..(seen.len() % 5 + 1).min(401 - seen.len()) {
            let event = stream.change().await;
            assert!(event.version() > position, "{} at or below {position}", event.version());
            position = event.version();
            seen.push(event);
        }
    }
    writer.await.unwrap();
    assert_eq!(versions(&seen), (1..=401).collect::<Vec<_>>());
    for other in &mut others {
        assert_eq!(events_of(other, 401).await, seen);
    }
}

async fn a_received_event_is_not_sent_again(app: &App) {
    let cluster = app.create_cluster("busy").await;
    // Another watch of the same list may be behind.
    let _other = app.watch("/clusters").await;
    for number in 0..100 {
        app.merge(&cluster, &json!({"spec": {"n": number}})).await;
        let list = app.get("/clusters?pageSize=1").await.expect_status(200).json();
        let mut since = app.watch(&format!("/clusters?since={}", list["version"])).await;
        app.merge(&cluster, &json!({"labels": {"n": number.to_string()}})).await;
        let mut present = app.watch("/clusters").await;
        let last = app.merge(&cluster, &json!({"labels": {"again": number.to_string()}})).await;

        let version = list["version"].as_u64().unwrap();
        assert_eq!(versions(&events_of(&mut since, 2).await), [version + 1, version + 2]);
        assert_eq!(versions(&present.until_bookmark().await.0), [version + 1]);
        let event = present.change().await;
        assert_eq!((event.version(), event.object()), (version + 2, &last));
    }
}
