//! How long the answers to requests with a key are kept.

use hyperfleet_testkit::{Answer, Server, eventually};

use super::home::Home;
use super::{CLUSTERS, DEADLINE, cluster};

on_both_stores!(a_key_is_forgotten_after_a_day);

async fn a_key_is_forgotten_after_a_day(home: &Home) {
    let post = async |server: &Server, name: &str| {
        server
            .api()
            .post(CLUSTERS)
            .header("idempotency-key", "k")
            .json(&cluster(name))
            .await
            .expect_status(201)
    };
    let is_replayed = |answer: Answer| answer.header("idempotency-replayed").is_some();
    let a_day_later = match home {
        Home::Sqlite(_) => "update retries set at = at - 86401000000",
        Home::Postgres(_) => "update retries set at = at - interval '24 hours 1 second'",
    };
    let mut server = home.serve().start().await.unwrap();
    post(&server, "old").await;
    assert!(is_replayed(post(&server, "old").await));

    home.execute(a_day_later).await;
    assert!(
        !is_replayed(post(&server, "new").await),
        "it is too old to count, whether it is still there or not"
    );
    assert!(is_replayed(post(&server, "new").await));

    server.terminate().await.unwrap();
    home.execute(a_day_later).await;
    server.restart().await.unwrap();
    eventually("the old answer is removed", DEADLINE, async || {
        home.rows("select 1 from retries").await.is_empty().then_some(())
    })
    .await;
}
