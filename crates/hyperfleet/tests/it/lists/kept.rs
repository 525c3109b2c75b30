//! A page that was made lately is shown again without reading its rows, for as long as nothing was written. Nobody may
//! notice, but by the time it takes.

use std::sync::Arc;

use hyperfleet_testkit::Postgres;
use serde_json::{Value, json};

use crate::support::*;

both_stores!(
    a_page_is_read_again_only_after_something_was_written,
    pages_that_are_kept_keep_up_with_writers,
    a_list_below_an_owner_goes_with_it,
);

/// How many lists the store was asked for.
async fn lists_read(app: &App) -> f64 {
    let series = "hyperfleet_db_query_duration_seconds_count{operation=\"list\"}";
    app.metric(series).await.unwrap_or(0.0)
}

fn report(second: u32, message: &str) -> Value {
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "reason": "Well", "message": message});
    let conditions = ["Applied", "Available", "Health"].map(condition);
    json!({
        "adapter": "validator",
        "observed_generation": 1,
        "observed_time": format!("2026-01-01T00:00:{second:02}Z"),
        "conditions": conditions,
    })
}

async fn a_page_is_read_again_only_after_something_was_written(app: &App) {
    let cluster = app.create_cluster("kept").await;
    let path = "/clusters?orderBy=name";
    // The first shows that nothing was written since the one before, the second is kept; and every thread that is asked
    // for the first time connects to the database, behind which there might be another one.
    for _ in 0..10 {
        app.get(path).await.expect_status(200);
    }
    let mut read = lists_read(app).await;
    let mut shown = app.get(path).await.expect_status(200).body;
    for _ in 0..3 {
        assert_eq!(app.get(path).await.expect_status(200).body, shown);
    }
    assert_eq!(lists_read(app).await, read, "what is kept is not read again");

    for step in ["report", "time alone", "another message", "patch", "create", "delete"] {
        match step {
            "report" => drop(app.report(&cluster, &report(1, "first")).await.expect_status(201)),
            "time alone" => drop(app.report(&cluster, &report(2, "first")).await.expect_status(201)),
            "another message" => drop(app.report(&cluster, &report(3, "second")).await.expect_status(201)),
            "patch" => drop(app.merge(&cluster, &json!({"labels": {"a": "b"}})).await),
            "create" => drop(app.create_cluster("another").await),
            _ => drop(app.remove(&cluster).await),
        }
        let before = std::mem::take(&mut shown);
        for _ in 0..4 {
            shown = app.get(path).await.expect_status(200).body;
            assert_ne!(shown, before, "{step}");
        }
        let now: Value = serde_json::from_slice(&shown).unwrap();
        let items = now["items"].as_array().unwrap();
        for item in items {
            assert_eq!(item, &app.read(item).await, "{step}");
        }
        let is_kept = items.iter().any(|item| item["id"] == cluster["id"]);
        assert_eq!(is_kept, step != "delete", "{step}");
        let after = lists_read(app).await;
        assert!((1.0..=2.0).contains(&(after - read)), "{step}: {} of 4 were read", after - read);
        read = after;
    }
}

async fn pages_that_are_kept_keep_up_with_writers(app: &App) {
    let cluster = app.create_cluster("followed").await;
    let paths = ["/clusters", "/clusters?fields=name,labels", "/resources"];
    for round in 0..40 {
        app.merge(&cluster, &json!({"labels": {"round": round.to_string()}})).await;
        let lists = (0..9).map(async |turn| {
            let list = app.get(paths[turn % 3]).await.expect_status(200).json();
            assert_eq!(list["items"][0]["labels"]["round"], round.to_string());
        });
        futures_util::future::join_all(lists).await;
    }
}

async fn a_list_below_an_owner_goes_with_it(app: &App) {
    let cluster = app.create_cluster("owner").await;
    app.create_nodepool(&cluster, "pool").await;
    let below = format!("{}/nodepools", href(&cluster));
    for _ in 0..4 {
        assert_eq!(app.get(&below).await.expect_status(200).json()["total"], 1);
    }
    app.remove(&cluster).await;
    app.force_delete(&cluster).await;
    for _ in 0..4 {
        app.get("/clusters").await.expect_status(200);
        app.get(&below).await.expect_status(404);
    }
}

#[test]
fn what_another_server_has_written_is_shown() {
    run(async {
        let database = Arc::new(Postgres::shared().database().await);
        let one = App::on_database(launch(), Arc::clone(&database)).await;
        let other = App::on_database(launch(), database).await;
        let cluster = one.create_cluster("shared").await;
        for round in 0..10 {
            let (writer, reader) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
            for _ in 0..3 {
                reader.get("/clusters").await.expect_status(200);
            }
            writer.merge(&cluster, &json!({"labels": {"round": round.to_string()}})).await;
            let list = reader.get("/clusters").await.expect_status(200).json();
            assert_eq!(list["items"][0]["labels"]["round"], round.to_string());
            reader.report(&cluster, &report(1 + round, "first")).await.expect_status(201);
            let list = writer.get("/clusters").await.expect_status(200).json();
            assert_eq!(list["items"][0], writer.read(&cluster).await);
        }
    });
}
