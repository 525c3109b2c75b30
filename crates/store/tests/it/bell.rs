//! What other replicas hear of commits: not each of them, but of the newest always.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use hyperfleet_testkit::{Database, Postgres, eventually};
use serde_json::json;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::replica::{DEADLINE, Replica, sql};

/// Someone who listens, and the newest version that they heard of.
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
async fn whoever_listens_hears_of_the_newest_version_after_one_commit_and_after_many() {
    let database = Postgres::shared().database().await;
    let replica = Replica::open(database.url()).await;
    let (_client, heard) = listener(&database).await;
    let ids = replica.clusters(20).await;
    let hears_of_all = async |after: &str| {
        let newest = sql(&database, "select version from feed").await.unwrap();
        eventually(&format!("{after} is heard of"), DEADLINE, async || {
            (heard.load(Ordering::SeqCst) == newest).then_some(())
        })
        .await;
    };
    hears_of_all("the making of clusters").await;
    for number in 0..50 {
        replica.patch(ids[0], json!({"spec": {"number": number}})).await.unwrap();
    }
    hears_of_all("one patch behind the other").await;
    let patches = (0..200).map(|number| replica.patch(ids[number % 20], json!({"spec": {"all": number}})));
    assert!(join_all(patches).await.iter().all(Result::is_ok));
    hears_of_all("many at once").await;
    // What was owed when the connection was lost is told with the next commit, though that has no version of its own.
    for number in 0..5 {
        replica.patch(ids[1], json!({"spec": {"last": number}})).await.unwrap();
    }
    let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity
         where datname = current_database() and application_name = 'hyperfleet' and query like '%feed%'";
    sql(&database, cut).await;
    eventually("a report is taken", DEADLINE, async || replica.report(ids[0], "dns", 2, "first").await.ok())
        .await;
    hears_of_all("what came before the connection was lost").await;
    // Whoever only tries something out rings for those before, too.
    for number in 0..5 {
        replica.patch(ids[1], json!({"spec": {"very last": number}})).await.unwrap();
        replica.try_to_create("a-try").await.unwrap();
    }
    hears_of_all("patches between tries").await;
}
