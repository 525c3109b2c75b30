//! A list shows every write that was acknowledged before it, also where equal lists are coalesced and another server wrote.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::*;

both_stores!(
    a_list_shows_each_write_at_once,
    concurrent_equal_lists_show_the_write_before_them,
    a_list_below_an_owner_ends_with_the_owner,
);

fn validator_report(second: u32, message: &str) -> Value {
    with_reason(report("validator", 1, "True", &at(second)), "Well", message)
}

async fn a_list_shows_each_write_at_once(app: &App) {
    let cluster = app.create_cluster("listed").await;
    let path = "/clusters?orderBy=name";
    let mut shown = app.get(path).await.expect_status(200).body;
    for step in ["report", "time alone", "another message", "patch", "create", "delete"] {
        match step {
            "report" => drop(app.report(&cluster, &validator_report(1, "first")).await.expect_status(201)),
            "time alone" => {
                drop(app.report(&cluster, &validator_report(2, "first")).await.expect_status(201));
            }
            "another message" => {
                drop(app.report(&cluster, &validator_report(3, "second")).await.expect_status(201));
            }
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
        let is_there = items.iter().any(|item| item["id"] == cluster["id"]);
        assert_eq!(is_there, step != "delete", "{step}");
    }
}

async fn concurrent_equal_lists_show_the_write_before_them(app: &App) {
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

async fn a_list_below_an_owner_ends_with_the_owner(app: &App) {
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
fn a_list_shows_what_another_server_wrote() {
    run(async {
        let database = Arc::new(database().await);
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
            reader.report(&cluster, &validator_report(1 + round, "first")).await.expect_status(201);
            let list = writer.get("/clusters").await.expect_status(200).json();
            assert_eq!(list["items"][0], writer.read(&cluster).await);
        }
    });
}
