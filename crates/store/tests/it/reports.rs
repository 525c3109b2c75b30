//! Reports on PostgreSQL, many at once, by one replica and by several: no acknowledged report is lost, each is decided on
//! committed state, and every caller is answered.

use futures_util::future::join_all;
use hyperfleet_core::rules::Reported;
use hyperfleet_core::{Delete, ErrorKind, Intent, ResourceId};
use hyperfleet_testkit::{Postgres, eventually};

use crate::replica::{ADAPTERS, DEADLINE, Replica, assert_gapless, at, end_when_awaited, sql, target};

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_reports_are_stored_in_the_order_of_their_submission() {
    let database = Postgres::shared().database().await;
    let replica = Replica::open(database.url()).await;
    for count in [1, 10, 300] {
        let ids = replica.clusters(count).await;
        let last = 1 + 900 / count as i64;
        let order: Vec<_> = (2..=last).flat_map(|second| ids.iter().map(move |id| (*id, second))).collect();
        // A report out of this order would be discarded as stale.
        let reports = order.iter().map(|(id, second)| replica.report(*id, "dns", *second, "first"));
        for reported in join_all(reports).await {
            assert!(matches!(reported.unwrap(), Reported::Unchanged(_)));
        }
        for id in &ids {
            replica.assert_last(*id, "dns", last).await;
        }
    }
    assert_gapless(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn patches_and_deletions_between_reports_see_the_reports_before_and_are_seen_by_those_after() {
    let database = Postgres::shared().database().await;
    let replica = Replica::open(database.url()).await;
    let ids = replica.clusters(60).await;
    let life = async |number: usize, id: ResourceId| {
        for second in 2..=30 {
            let message = if second % 3 == 0 { format!("at {second}") } else { "first".to_owned() };
            replica.report(id, ADAPTERS[number % 2], second, &message).await.unwrap();
            if second == 15 && number.is_multiple_of(6) {
                replica.patch(id, serde_json::json!({"labels": {"patched": "yes"}})).await.unwrap();
            }
        }
        if number.is_multiple_of(5) {
            let delete = Delete { target: target(id), expected: None };
            replica.submit(Intent::Delete(delete)).await.unwrap();
            replica.report(id, "dns", 31, "first").await.unwrap();
        }
    };
    join_all(ids.iter().enumerate().map(|(number, id)| life(number, *id))).await;
    for (number, id) in ids.iter().enumerate() {
        let resource = replica.resource(*id).await;
        assert_eq!(resource.labels.as_str() != "{}", number.is_multiple_of(6));
        assert_eq!(resource.is_active(), !number.is_multiple_of(5));
        assert!(resource.generation == 1 || number.is_multiple_of(5) || number.is_multiple_of(6));
        let adapter = ADAPTERS[number % 2];
        if !number.is_multiple_of(5) {
            assert_eq!(replica.stored(*id, adapter).await.last_report_time, at(30));
        }
    }
    assert_gapless(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_that_store_reports_on_the_same_resources_lose_none() {
    let database = Postgres::shared().database().await;
    let (busy, other) = (Replica::open(database.url()).await, Replica::open(database.url()).await);
    let ids = busy.clusters(200).await;
    // Each adapter reports to another replica, and both reports change the conditions of the same resource.
    let last = 60;
    let hammer = ids.iter().map(async |id| {
        for second in 2..=last {
            busy.report(*id, "dns", second, "first").await.unwrap();
        }
    });
    let disturb = async {
        for second in 2..=last {
            for some in ids.chunks(20) {
                let reports = some.iter().map(|id| other.report(*id, "validator", second, "first"));
                assert!(join_all(reports).await.iter().all(Result::is_ok));
            }
        }
    };
    tokio::join!(join_all(hammer), disturb);
    for id in &ids {
        for adapter in ADAPTERS {
            busy.assert_last(*id, adapter, last).await;
        }
    }
    assert_gapless(&database).await;
}

/// The other replica holds the feed lock, so that the first batch waits for its commit.
#[tokio::test(flavor = "multi_thread")]
async fn reports_that_wait_for_the_feed_lock_see_what_its_holder_committed() {
    let database = Postgres::shared().database().await;
    let replica = Replica::open(database.url()).await;
    let ids = replica.clusters(500).await;
    let report_all =
        async |second| join_all(ids.iter().map(|id| replica.report(*id, "dns", second, "first"))).await;
    let (mut other, connection) =
        tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    for second in [10, 20, 30] {
        for warm in [second, second + 1] {
            assert!(report_all(warm).await.iter().all(Result::is_ok));
        }
        let newer = format!(
            "select version from feed for update;
             update reports set last_report_time = to_timestamp({}) where adapter = 'dns'",
            second + 5
        );
        let transaction = other.transaction().await.unwrap();
        transaction.batch_execute(&newer).await.unwrap();
        let end = end_when_awaited(&database, transaction);
        let (reported, ()) = tokio::join!(report_all(second + 3), end);
        assert!(reported.into_iter().all(|reported| matches!(reported.unwrap(), Reported::Stale)));
    }
    drop(other);
    connection.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_the_database_refuses_costs_no_other_report() {
    let database = Postgres::shared().database().await;
    let replica = Replica::open(database.url()).await;
    let ids = replica.clusters(300).await;
    let poison = "create function poison() returns trigger language plpgsql as
         $$ begin if new.message = 'poison' then raise exception 'poisoned'; end if; return new; end $$;
         create trigger poison before update on reports for each row execute function poison()";
    sql(&database, poison).await;
    for (second, poisoned) in [(2, 0), (3, 150), (4, 299)] {
        let message =
            |number: usize| if number == poisoned { "poison".to_owned() } else { format!("at {second}") };
        let messages: Vec<String> = (0..ids.len()).map(message).collect();
        let reports =
            ids.iter().zip(&messages).map(|(id, message)| replica.report(*id, "dns", second, message));
        for (number, reported) in join_all(reports).await.into_iter().enumerate() {
            match reported {
                Ok(reported) => assert!(number != poisoned && matches!(reported, Reported::Stored(_))),
                Err(error) => assert_eq!((number, error.kind), (poisoned, ErrorKind::Database)),
            }
        }
    }
    assert_gapless(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_the_database_loses_no_acknowledged_report() {
    let postgres = Postgres::durable().await.unwrap();
    let database = postgres.database().await;
    let replica = Replica::open(database.url()).await;
    let ids = replica.clusters(200).await;
    let mut begin = 2;
    for outage in ["first", "second"] {
        // Reports until the first refusal; the last that was acknowledged must be there, and no later than one more.
        let load = ids.iter().map(async |id| {
            for second in begin.. {
                match replica.report(*id, "dns", second, outage).await {
                    Ok(_) => {}
                    Err(error) => {
                        assert!(matches!(error.kind, ErrorKind::DependencyUnavailable | ErrorKind::Timeout));
                        return second - 1;
                    }
                }
            }
            unreachable!()
        });
        let crash = async {
            eventually("reports are taken", DEADLINE, async || {
                (replica.stored(ids[0], "dns").await.last_report_time > at(begin + 5)).then_some(())
            })
            .await;
            postgres.stop_immediate().await.unwrap();
        };
        let (acknowledged, ()) = tokio::join!(join_all(load), crash);
        postgres.start().await.unwrap();
        eventually("the database is back", DEADLINE, async || {
            replica.report(ids[0], "validator", begin, "first").await.ok()
        })
        .await;
        for (id, second) in ids.iter().zip(&acknowledged) {
            let found = replica.stored(*id, "dns").await.last_report_time;
            assert!(
                found == at(*second) || found == at(*second + 1),
                "{second} was acknowledged, {found} found"
            );
        }
        begin = acknowledged.into_iter().max().unwrap() + 2;
    }
    for id in &ids {
        replica.report(*id, "dns", begin, "after").await.unwrap();
        replica.assert_last(*id, "dns", begin).await;
    }
    assert_gapless(&database).await;
}
