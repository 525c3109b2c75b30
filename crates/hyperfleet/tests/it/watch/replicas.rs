//! Two servers on one PostgreSQL: a watch at one sends what is written through the other, also when the notifications
//! are lost or the database was away.

use std::sync::Arc;

use hyperfleet_testkit::{Postgres, eventually};
use tokio_postgres::NoTls;

use super::*;

/// Two servers on a database.
async fn pair(database: hyperfleet_testkit::Database) -> [App; 2] {
    let database = Arc::new(database);
    let launch = || launch().env("HYPERFLEET_DATABASE_POOL_REQUEST_TIMEOUT", "5s");
    [App::on_database(launch(), Arc::clone(&database)).await, App::on_database(launch(), database).await]
}

/// One column of one row, as text.
async fn ask(database: &hyperfleet_testkit::Database, query: &str) -> Option<String> {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.query_one(query, &[]).await.unwrap().get(0)
}

#[test]
fn a_watch_at_one_server_sees_writes_of_another() {
    run(async {
        let [one, other] = pair(database().await).await;
        let mut streams = [one.watch("/clusters").await, other.watch("/clusters").await];
        for stream in &mut streams {
            assert_eq!(stream.until_bookmark().await, (vec![], 0));
        }
        for turn in 0..20 {
            let writer = if turn % 2 == 0 { &one } else { &other };
            let made = writer.create_cluster(&format!("made-{turn}")).await;
            for stream in &mut streams {
                let event = stream.event().await;
                assert_eq!((event.kind(), event.version(), event.object()), ("ADDED", turn + 1, &made));
            }
        }
        // What one server told can be gone on with at the other.
        let mut stream = other.watch("/clusters?since=18").await;
        assert_eq!(versions(&events_of(&mut stream, 2).await), [19, 20]);
    });
}

#[test]
fn without_notifications_a_watch_still_sees_writes_of_another_server_and_the_listener_reconnects() {
    run(async {
        let [one, other] = pair(database().await).await;
        let database = one.database.clone().unwrap();
        let listeners = "select count(*)::text from pg_stat_activity
            where datname = current_database() and query ilike 'listen %'";
        let kill = "select count(pg_terminate_backend(pid))::text from pg_stat_activity
            where datname = current_database() and query ilike 'listen %'";
        let mut stream = one.watch("/clusters").await;
        assert_eq!(stream.until_bookmark().await, (vec![], 0));
        for turn in 0..3 {
            eventually("both servers listen", DEADLINE, async || {
                (ask(&database, listeners).await? == "2").then_some(())
            })
            .await;
            assert_eq!(ask(&database, kill).await.unwrap(), "2");
            let made = other.create_cluster(&format!("made-{turn}")).await;
            assert_eq!(stream.change().await.object(), &made);
        }
        eventually("both servers listen again", DEADLINE, async || {
            let heard = one.metric("hyperfleet_feed_listening").await == Some(1.0);
            (heard && ask(&database, listeners).await? == "2").then_some(())
        })
        .await;
        let made = other.create_cluster("after").await;
        assert_eq!(stream.change().await.object(), &made);
    });
}

#[test]
fn a_watch_is_exact_after_an_outage_of_the_database() {
    run(async {
        let postgres = Postgres::durable().await.unwrap();
        let [one, other] = pair(postgres.database().await).await;
        let mut readers = Vec::new();
        for (app, query) in
            [(&one, "?since=0"), (&other, "?since=0"), (&one, ""), (&other, "?search=name+like+'made%25'")]
        {
            readers.push((app, app.watch(&format!("/clusters{query}")).await, Vec::new()));
        }
        let mut made = Vec::new();
        for turn in 0..4 {
            for number in 0..5 {
                let writer = if number % 2 == 0 { &one } else { &other };
                made.push(writer.create_cluster(&format!("made-{turn}-{number}")).await);
            }
            if turn == 3 {
                break;
            }
            for (_, stream, seen) in &mut readers {
                // Some go on from here, some from before.
                if seen.len() < made.len() - turn {
                    read(stream, seen, 3).await;
                }
            }
            match turn {
                1 => postgres.stop_immediate().await.unwrap(),
                _ => postgres.stop_fast().await.unwrap(),
            }
            for app in [&one, &other] {
                eventually("the outage is noticed", DEADLINE, async || {
                    (app.server.health().get("/readyz").await.status == 503).then_some(())
                })
                .await;
            }
            postgres.start().await.unwrap();
            for app in [&one, &other] {
                eventually("ready again", DEADLINE, async || {
                    (app.server.health().get("/readyz").await.status == 200).then_some(())
                })
                .await;
            }
        }
        for (app, mut stream, mut seen) in readers {
            while seen.len() < made.len() {
                if !read(&mut stream, &mut seen, made.len()).await {
                    let last = seen.last().map_or(0, Event::version);
                    stream = app.watch(&format!("/clusters?since={last}")).await;
                }
            }
            assert_eq!(versions(&seen), (1..=made.len() as u64).collect::<Vec<_>>());
            let objects: Vec<_> = seen.iter().map(|event| event.object().clone()).collect();
            assert_eq!(objects, made);
        }
    });
}

/// Reads until so many events were seen in all; no bookmarks, and no last word. Whether the watch goes on.
async fn read(stream: &mut Stream, seen: &mut Vec<Event>, count: usize) -> bool {
    while seen.len() < count {
        match stream.next().await {
            Ok(Some(event)) if event.kind() == "BOOKMARK" => {}
            Ok(Some(event)) if event.kind() == "ERROR" => {
                let last = seen.last().map_or(0, Event::version);
                assert!(
                    event.version() >= last && text(&event.json["code"]).starts_with("HYPERFLEET-SVC-"),
                    "{event:?}"
                );
                return false;
            }
            Ok(Some(event)) => seen.push(event),
            Ok(None) | Err(_) => return false,
        }
    }
    true
}
