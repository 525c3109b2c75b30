//! The retention of answers to requests with an idempotency key.

use hyperfleet_testkit::{Answer, Server, eventually};

use super::installation::Installation;
use super::{CLUSTERS, DEADLINE, cluster};
use crate::support::both_stores;

both_stores!(start = Installation::migrated; an_idempotency_key_expires_after_a_day);

async fn an_idempotency_key_expires_after_a_day(installation: &Installation) {
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
    let a_day_later = match installation {
        Installation::Sqlite(_) => "update idempotency_records set created_time = created_time - 86401000000",
        Installation::Postgres(_) => {
            "update idempotency_records set created_time = created_time - interval '24 hours 1 second'"
        }
    };
    let mut server = installation.serve().start().await.unwrap();
    post(&server, "old").await;
    assert!(is_replayed(post(&server, "old").await));

    installation.execute(a_day_later).await;
    assert!(
        !is_replayed(post(&server, "new").await),
        "it is too old to count, whether it is still there or not"
    );
    assert!(is_replayed(post(&server, "new").await));

    server.terminate().await.unwrap();
    installation.execute(a_day_later).await;
    server.restart().await.unwrap();
    eventually("the old answer is removed", DEADLINE, async || {
        installation.rows("select 1 from idempotency_records").await.is_empty().then_some(())
    })
    .await;
}
