//! Parameters of a watch, and the versions from which it may begin.

use hyperfleet_testkit::eventually;

use super::*;

both_stores!(
    the_present_state_comes_by_version_and_then_a_bookmark,
    a_watch_from_the_version_of_a_list_sends_later_changes,
    a_watch_from_zero_sends_the_whole_feed,
    a_version_of_the_future_is_gone,
    a_malformed_version_is_refused,
    last_event_id_overrides_since,
    paging_parameters_are_refused_for_a_watch,
    watch_is_true_or_false,
);
both_stores!(config = DEFAULT; an_expired_version_is_gone);

async fn the_present_state_comes_by_version_and_then_a_bookmark(app: &App) {
    let mut stream = app.watch("/clusters").await;
    assert_eq!(stream.until_bookmark().await, (vec![], 0), "an empty list is a bookmark");

    let first = app.create_cluster("first").await;
    for name in ["second", "third", "fourth"] {
        app.create_cluster(name).await;
    }
    app.merge(&first, &json!({"spec": {"n": 1}})).await;
    let (events, bookmark) = app.watch("/clusters").await.until_bookmark().await;
    assert_eq!(
        named(&events),
        [("ADDED", "second"), ("ADDED", "third"), ("ADDED", "fourth"), ("ADDED", "first")]
    );
    assert_eq!((versions(&events), bookmark), (vec![2, 3, 4, 5], 5));
    for event in &events {
        assert_eq!(event.object(), &app.read(event.object()).await);
    }
    // A watch that began earlier received each change by itself.
    let seen = events_of(&mut stream, 5).await;
    assert_eq!(versions(&seen), [1, 2, 3, 4, 5]);
    assert_eq!(named(&seen)[4], ("MODIFIED", "first"));
}

async fn a_watch_from_the_version_of_a_list_sends_later_changes(app: &App) {
    let early = app.create_cluster("early").await;
    let list = app.get("/clusters").await.expect_status(200).json();
    let since = list["version"].as_u64().unwrap();
    app.create_cluster("late").await;
    app.merge(&early, &json!({"labels": {"a": "b"}})).await;
    let mut stream = app.watch(&format!("/clusters?since={since}")).await;
    let told = event_names(app, &mut stream).await;
    assert_eq!(told, [("ADDED".into(), "late".into()), ("MODIFIED".into(), "early".into())]);
}

async fn a_watch_from_zero_sends_the_whole_feed(app: &App) {
    let made = app.create_cluster("made").await;
    let mut states = vec![made.clone(), app.merge(&made, &json!({"spec": {"n": 1}})).await];
    states.push(app.remove(&made).await);
    app.force_delete(&made).await;
    let mut stream = app.watch("/clusters?since=0&showDeleted=true").await;
    let events = events(app, &mut stream).await;
    assert_eq!(versions(&events), [1, 2, 3, 4]);
    let kinds: Vec<_> = events.iter().map(Event::kind).collect();
    assert_eq!(kinds, ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]);
    states.push(states[2].clone());
    assert_eq!(events.iter().map(|event| event.object().clone()).collect::<Vec<_>>(), states);
}

async fn a_version_of_the_future_is_gone(app: &App) {
    app.create_cluster("made").await;
    app.get(&watched("/clusters?since=1")).watch().await;
    for since in ["2", "9223372036854775807"] {
        let answer = app.get(&watched(&format!("/clusters?since={since}"))).await.expect_status(410);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004", "{since}");
        assert_eq!(answer.json()["errors"][0]["field"], "since");
        let answer = app.get(&watched("/clusters")).header("last-event-id", since).await.expect_status(410);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004", "{since}");
    }
}

async fn a_malformed_version_is_refused(app: &App) {
    app.create_cluster("made").await;
    for since in ["-1", "x", "1.0", "0x1", "9223372036854775808", "1&since=1", "1-", "1-x", "1-00000000-"] {
        let answer = app.get(&watched(&format!("/clusters?since={since}"))).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004", "{since}");
        assert_eq!(answer.json()["errors"][0]["field"], "since", "{since}");
    }
    for last in ["-1", "x", "1.0"] {
        let answer = app.get(&watched("/clusters")).header("last-event-id", last).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004", "{last}");
    }
    // A blank value counts as absent: the present state comes.
    let (events, _) = app.watch("/clusters?since=").await.until_bookmark().await;
    assert_eq!(named(&events), [("ADDED", "made")]);
}

async fn last_event_id_overrides_since(app: &App) {
    for name in ["one", "two", "three"] {
        app.create_cluster(name).await;
    }
    for since in ["", "&since=0", "&since=3", "&since=99"] {
        let asked = app.get(&format!("/clusters?watch=true{since}"));
        let mut stream = asked.header("last-event-id", 2).watch().await;
        assert_eq!(stream.change().await.version(), 3, "{since}");
    }
    let asked = app.get(&watched("/clusters?since=2")).header("last-event-id", "");
    assert_eq!(asked.watch().await.change().await.version(), 3, "an empty one is none");
}

async fn paging_parameters_are_refused_for_a_watch(app: &App) {
    app.create_cluster("one").await;
    app.create_cluster("two").await;
    let page = app.get("/clusters?pageSize=1").await.expect_status(200).json();
    let token = format!("pageToken={}", text(&page["next_page_token"]));
    for parameter in [
        "page=1",
        "pageSize=20",
        "size=20",
        "orderBy=name",
        "order=asc",
        &token,
        "total=none",
        "ref_type=wif&ref_target_id=x",
        "kind=Cluster",
        "colour=red",
    ] {
        let answer = app.get(&watched(&format!("/clusters?{parameter}"))).await.expect_status(400);
        let field = parameter.split('=').next().unwrap();
        assert_eq!(answer.json()["errors"][0]["field"], field, "{answer}");
    }
    for parameter in ["search=nothing%3D1", "fields=nothing", "showDeleted=1"] {
        let answer = app.get(&watched(&format!("/clusters?{parameter}"))).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004", "{parameter}");
    }
    let answer = app.get(&watched("/clusters?page=1&since=x&size=2")).await.expect_status(400);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-000");
    let fields = answer.json()["errors"].as_array().unwrap().len();
    assert_eq!(fields, 3, "every bad parameter is reported at once: {answer}");
    assert_eq!(app.get(&watched("/resources?kind=Castle")).await.status, 400);
}

async fn watch_is_true_or_false(app: &App) {
    app.create_cluster("made").await;
    for query in ["watch=false", "watch=", "watch=false&page=1&orderBy=name"] {
        let list = app.get(&format!("/clusters?{query}")).await.expect_status(200).json();
        assert_eq!(list["total"], 1, "{query}");
    }
    for query in ["watch=yes", "watch=TRUE", "watch=1", "watch=true&watch=true", "watch=false&watch=true"] {
        let answer = app.get(&format!("/clusters?{query}")).await.expect_status(400);
        assert_eq!(answer.json()["errors"][0]["field"], "watch", "{query}: {answer}");
    }
    let answer = app.get(&watched(&format!("/clusters/{}", id(&app.create_cluster("one").await)))).await;
    assert_eq!(answer.status, 400, "only lists can be watched");
}

async fn an_expired_version_is_gone(app: &mut App) {
    for name in ["old", "older", "young", "younger"] {
        app.create_cluster(name).await;
    }
    app.server.terminate().await.unwrap();
    let aged = match &app.database {
        None => {
            let file = rusqlite::Connection::open(app.server.directory().join("hyperfleet.db")).unwrap();
            file.execute(
                "update changes set changed_time = changed_time - 40 * 86400000000 where version <= 2",
                (),
            )
            .unwrap()
        }
        Some(database) => {
            let (client, connection) =
                tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            let aged =
                "update changes set changed_time = changed_time - interval '40 days' where version <= 2";
            client.execute(aged, &[]).await.unwrap() as usize
        }
    };
    assert_eq!(aged, 2);
    app.restart().await;
    eventually("what is old is forgotten", DEADLINE, async || {
        let asked = app.get(&watched("/clusters?since=1")).unchecked().open().await.unwrap();
        (asked.status == 410).then_some(())
    })
    .await;
    let answer = app.get(&watched("/clusters?since=1")).await.expect_status(410);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004");
    let answer = app.get(&watched("/clusters")).header("last-event-id", 1).await;
    assert_eq!(answer.expect_status(410).problem_code(), "HYPERFLEET-VAL-004");

    for since in ["2", "0"] {
        let mut stream = app.watch(&format!("/clusters?since={since}")).await;
        let events = events_of(&mut stream, 2).await;
        assert_eq!(named(&events), [("ADDED", "young"), ("ADDED", "younger")], "{since}");
    }
    let (events, bookmark) = app.watch("/clusters").await.until_bookmark().await;
    assert_eq!((versions(&events), bookmark), (vec![1, 2, 3, 4], 4), "the present needs no past");
}
