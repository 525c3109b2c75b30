//! Watches and roles: an unreadable resource is never sent, and a watch ends with its permissions or its token.

use std::time::Duration;

use hyperfleet_testkit::{Event, Stream};

use super::*;
use crate::support::{assert_ended, run, watched};

both_stores!(
    start = async |backend| Guarded::on(backend, ROLES).await;
    a_watch_adds_resources_that_become_visible_and_deletes_those_that_become_hidden,
    a_watch_replays_the_changes_that_were_readable,
    a_watch_without_any_read_permission_is_refused,
    changed_roles_end_every_watch,
    a_watch_ends_when_its_token_expires,
);

async fn watch(caller: &Caller<'_>, path: &str) -> Stream {
    caller.get(&watched(path)).watch().await
}

fn environment(name: &str) -> Value {
    json!({"environment": name})
}

/// What a developer is told of a Cluster that becomes one for development and is taken back with a secret, twice; what
/// it was while they could see it.
async fn visit(guarded: &Guarded, name: &str) -> (Value, Vec<Value>) {
    let ann = admin(guarded);
    let made =
        ann.create("/clusters", &json!({"kind": "Cluster", "name": name, "spec": {"secret": "early"}})).await;
    let patch = async |patch: Value| ann.patch(href(&made), &patch).await.expect_status(200).json();
    let mut shown = Vec::new();
    for turn in 0..2 {
        shown
            .push(patch(json!({"labels": environment("dev"), "spec": {"secret": null, "turn": turn}})).await);
        shown.push(patch(json!({"spec": {"more": turn}})).await);
        patch(json!({"labels": environment("prod"), "spec": {"secret": "late"}})).await;
        patch(json!({"spec": {"secret": "later"}})).await;
    }
    (made, shown)
}

/// Each visit is an addition, a change, and an end that shows the last of what could be seen.
#[track_caller]
fn assert_visits(events: &[Event], shown: &[Value]) {
    let expected: Vec<_> = shown
        .chunks(2)
        .flat_map(|turn| [("ADDED", &turn[0]), ("MODIFIED", &turn[1]), ("DELETED", &turn[1])])
        .collect();
    let told: Vec<_> = events.iter().map(|event| (event.kind(), event.object())).collect();
    assert_eq!(told, expected);
    assert!(!events.iter().any(|event| event.text.contains("secret")), "{events:?}");
}

/// All events up to that of a new Cluster for development.
async fn until_next(guarded: &Guarded, stream: &mut Stream, name: &str) -> Vec<Event> {
    let next = admin(guarded).cluster(name, &environment("dev")).await;
    let mut events = Vec::new();
    loop {
        let event = stream.change().await;
        if event.object()["id"] == next["id"] {
            return events;
        }
        events.push(event);
    }
}

async fn a_watch_adds_resources_that_become_visible_and_deletes_those_that_become_hidden(guarded: &Guarded) {
    // An administrator watches the same list, before and after: each watch is filtered by its own caller.
    let search = format!("/clusters?{}", search("labels.environment = 'dev'"));
    let mut before = watch(&admin(guarded), &search).await;
    let mut stream = watch(&developer(guarded), "/clusters").await;
    let mut searched = watch(&developer(guarded), &search).await;
    let mut resources = watch(&developer(guarded), "/resources?showDeleted=true").await;
    let mut after = watch(&both(guarded), &search).await;
    let (made, shown) = visit(guarded, "visitor").await;
    for (number, stream) in [&mut stream, &mut searched, &mut resources].into_iter().enumerate() {
        let events = until_next(guarded, stream, &format!("next-{number}")).await;
        let events: Vec<_> = events.into_iter().filter(|event| event.object()["id"] == made["id"]).collect();
        assert_visits(&events, &shown);
    }
    for stream in [&mut before, &mut after] {
        let mut events = vec![stream.change().await];
        while events.len() < 3 {
            events.push(stream.change().await);
        }
        assert_eq!(events[2].kind(), "DELETED");
        assert_eq!(events[2].object()["spec"]["secret"], "late", "who may see it is shown its newest state");
    }
    // The present state is what a list is.
    let (present, _) = watch(&developer(guarded), "/clusters").await.until_bookmark().await;
    assert_eq!(present.len(), 3);
    assert!(present.iter().all(|event| event.object()["labels"] == environment("dev")));
}

async fn a_watch_replays_the_changes_that_were_readable(guarded: &Guarded) {
    let (made, shown) = visit(guarded, "visitor").await;
    let mut stream = watch(&developer(guarded), "/clusters?since=0&showDeleted=true").await;
    assert_visits(&until_next(guarded, &mut stream, "next").await, &shown);

    // What is forced away out of scope ends unseen, and what is visible ends as it was.
    let ann = admin(guarded);
    let mine = ann.cluster("mine", &environment("dev")).await;
    for resource in [&made, &mine] {
        ann.delete(href(resource)).await.expect_status(202);
        ann.post(&format!("{}/force-delete", href(resource)), &json!({"reason": "x"}))
            .await
            .expect_status(204);
    }
    let events = until_next(guarded, &mut stream, "another").await;
    let told: Vec<_> = events.iter().map(|event| (event.kind(), text(&event.object()["name"]))).collect();
    assert_eq!(told, [("ADDED", "mine"), ("MODIFIED", "mine"), ("DELETED", "mine")]);
}

async fn a_watch_without_any_read_permission_is_refused(guarded: &Guarded) {
    let [dev, ..] = fleet(guarded).await;
    let unbound = guarded.named("unbound@example.com");
    for path in
        ["/clusters", "/resources", "/resources?kind=Cluster", "/clusters?since=0", "/clusters?since=999"]
    {
        assert_refused(&unbound.get(&watched(path)).await, 403, "AUZ-003");
    }
    assert_refused(&guarded.get(&watched("/clusters")).await, 401, "AUT-001");
    let operator = guarded.member("ops@example.com", &["operators"]);
    for path in ["/nodepools", "/resources?kind=NodePool", &format!("{}/nodepools", href(&dev))] {
        assert_refused(&operator.get(&watched(path)).await, 403, "AUZ-003");
    }
    let (present, _) = watch(&operator, "/resources").await.until_bookmark().await;
    let kinds: Vec<_> = present.iter().map(|event| text(&event.object()["kind"])).collect();
    assert_eq!(kinds, ["Cluster", "Cluster"], "of all kinds, those that may be read");
}

async fn changed_roles_end_every_watch(guarded: &Guarded) {
    let [dev, ..] = fleet(guarded).await;
    let viewer = guarded.member("vic@example.com", &["viewers"]);
    let mut streams = [
        watch(&viewer, "/clusters").await,
        watch(&developer(guarded), "/clusters").await,
        watch(&developer(guarded), "/clusters?since=0").await,
        watch(&admin(guarded), "/resources").await,
    ];
    for stream in &mut streams {
        stream.change().await;
    }
    // A configuration that changes nothing ends nothing.
    hang_up(guarded, "server: [", "roles stay as they were: the configuration has faults").await;
    let patch = json!({"spec": {"still": "told"}});
    let changed = admin(guarded).patch(href(&dev), &patch).await.expect_status(200).json();
    for stream in &mut streams {
        while stream.change().await.object() != &changed {}
    }
    let newest = viewer.get("/clusters").await.json()["version"].as_u64().unwrap();

    let fewer = ROLES.replace(
        "{role: viewer, claims: {groups: [viewers, readers]}}",
        "{role: viewer, claims: {groups: [readers]}}",
    );
    assert_ne!(fewer, ROLES);
    hang_up(guarded, &guarded.issuer.config(&fewer), "roles were read again").await;
    for stream in &mut streams {
        let rest = stream.rest().await;
        assert_ended(&rest[0]);
        assert_eq!((rest.len(), rest[0].version()), (1, newest));
    }
    let again = watched(&format!("/clusters?since={newest}"));
    assert_refused(&viewer.get(&again).await, 403, "AUZ-003");
    let mut stream = developer(guarded).get(&again).watch().await;
    let made = admin(guarded).cluster("made", &environment("dev")).await;
    assert_eq!(stream.change().await.object(), &made);
}

async fn a_watch_ends_when_its_token_expires(guarded: &Guarded) {
    admin(guarded).cluster("made", &environment("dev")).await;
    let grant = Grant { lifetime: Duration::from_secs(3), ..Grant::new("ann@example.com") };
    let brief = guarded.holder(&guarded.issuer.mint(&grant));
    let mut streams = [watch(&brief, "/clusters").await, watch(&brief, "/clusters?since=1").await];
    let mut lasting = watch(&admin(guarded), "/clusters").await;
    let second = admin(guarded).cluster("second", &environment("dev")).await;
    for stream in streams.iter_mut().chain([&mut lasting]) {
        while stream.change().await.object() != &second {}
    }
    for stream in &mut streams {
        let rest = stream.rest().await;
        assert_ended(&rest[0]);
        assert_eq!((rest.len(), rest[0].version()), (1, 2));
    }
    let third = admin(guarded).cluster("third", &environment("dev")).await;
    let mut renewed = watch(&admin(guarded), "/clusters?since=2").await;
    for stream in [&mut renewed, &mut lasting] {
        assert_eq!(stream.change().await.object(), &third);
    }
}

#[test]
fn roles_changed_during_the_opening_of_a_watch_end_it() {
    run(async {
        let guarded = Guarded::on(Backend::Postgres, ROLES).await;
        admin(&guarded).cluster("made", &environment("dev")).await;
        let url = guarded.database.as_ref().unwrap().url();
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("begin; lock table feed in access exclusive mode").await.unwrap();
        let opening = {
            let asked = developer(&guarded).get(&watched("/clusters"));
            tokio::spawn(asked.watch())
        };
        eventually("it has come in and waits", DEADLINE, async || {
            let waiting = "select 1 from pg_stat_activity where datname = current_database()
                and wait_event_type = 'Lock' and query like '%pruned_version%'";
            // Within a transaction PostgreSQL shows what it showed the first time.
            client.batch_execute("select pg_stat_clear_snapshot()").await.unwrap();
            (!client.query(waiting, &[]).await.unwrap().is_empty()).then_some(())
        })
        .await;
        hang_up(&guarded, &guarded.issuer.config(ROLES), "roles were read again").await;
        client.batch_execute("commit").await.unwrap();
        let rest = opening.await.unwrap().rest().await;
        assert_eq!(rest.last().unwrap().json["code"], "HYPERFLEET-SVC-001");
    });
}
