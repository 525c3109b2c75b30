//! Notifications between replicas: not every commit sends one, but the newest version is always announced.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use hyperfleet_testkit::{Database, Postgres, eventually};
use serde_json::json;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::replica::{DEADLINE, Replica, sql};

/// A listener, and the newest version that it was notified of.
async fn listener(database: &Database) -> (Client, Arc<AtomicI64>) {
    let (client, mut connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    let heard = Arc::new(AtomicI64::new(0));
    let newest = heard.clone();
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(|context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message {
                newest.fetch_max(notification.payload().parse().unwrap(), Ordering::SeqCst);
            }
        }
    });
    client.batch_execute("listen hyperfleet_feed").await.unwrap();
    (client, heard)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_is_notified_of_the_newest_version_after_one_commit_and_after_many() {
    let database = Postgres::shared().database().await;
    let replica = Replica::open(database.url()).await;
    let (_client, heard) = listener(&database).await;
    let ids = replica.clusters(20).await;
    let is_notified = async |after: &str| {
        let newest = sql(&database, "select version from feed").await.unwrap();
        eventually(&format!("{after} is announced"), DEADLINE, async || {
            (heard.load(Ordering::SeqCst) == newest).then_some(())
        })
        .await;
    };
    is_notified("the making of clusters").await;
    for number in 0..50 {
        replica.patch(ids[0], json!({"spec": {"number": number}})).await.unwrap();
    }
    is_notified("one patch behind the other").await;
    let patches = (0..200).map(|number| replica.patch(ids[number % 20], json!({"spec": {"all": number}})));
    assert!(join_all(patches).await.iter().all(Result::is_ok));
    is_notified("many at once").await;
    // A notification that was pending when the connection broke goes with the next commit, though that has no version.
    for number in 0..5 {
        replica.patch(ids[1], json!({"spec": {"last": number}})).await.unwrap();
    }
    let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity
         where datname = current_database() and application_name = 'hyperfleet' and query like '%feed%'";
    sql(&database, cut).await;
    eventually("a report is taken", DEADLINE, async || replica.report(ids[0], "dns", 2, "first").await.ok())
        .await;
    is_notified("what came before the connection was lost").await;
    // Dry runs commit nothing, so the pending notification goes by itself.
    for number in 0..5 {
        replica.patch(ids[1], json!({"spec": {"very last": number}})).await.unwrap();
        replica.try_to_create("a-try").await.unwrap();
    }
    is_notified("patches between tries").await;
}
