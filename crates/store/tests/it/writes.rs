//! Creates, patches and reports on PostgreSQL, many at once: each is decided on what the commands before it left, whichever
//! replica executed them.

use futures_util::future::join_all;
use hyperfleet_core::{ErrorKind, ResourceId};
use hyperfleet_testkit::{Postgres, eventually};
use serde_json::json;

use crate::replica::{ADAPTERS, DEADLINE, Replica, assert_gapless, end_when_awaited, sql};

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_patches_build_on_each_other() {
    let database = Postgres::shared().database().await;
    let (one, other) = (Replica::open(database.url()).await, Replica::open(database.url()).await);
    for replicas in [vec![&one], vec![&one, &other]] {
        for count in [1, 7, 150] {
            let ids = one.clusters(count).await;
            let rounds = 300_usize.div_ceil(count);
            let order = (0..rounds).flat_map(|round| ids.iter().map(move |id| (round, *id)));
            let patches = order.map(async |(round, id)| {
                let document = json!({"spec": {format!("round{round}"): round}});
                replicas[round % replicas.len()].patch(id, document).await.unwrap();
            });
            let reports = ids.iter().map(async |id| {
                one.report(*id, "dns", 2, "meanwhile").await.unwrap();
            });
            tokio::join!(join_all(patches), join_all(reports));
            for id in &ids {
                let resource = one.resource(*id).await;
                let spec: serde_json::Value = resource.spec.parse().unwrap();
                assert_eq!(resource.generation, 1 + rounds as i64);
                assert_eq!(spec.as_object().unwrap().len(), rounds);
            }
        }
    }
    assert_gapless(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creates_with_one_name_succeed_once() {
    let database = Postgres::shared().database().await;
    let (one, other) = (Replica::open(database.url()).await, Replica::open(database.url()).await);
    for (round, replicas) in [vec![&one], vec![&one, &other]].into_iter().enumerate() {
        one.clusters(1).await;
        let creates = (0..600).map(async |number| {
            let name = format!("round{round}-name{}", number % 60);
            let replica = replicas[number / 60 % replicas.len()];
            (name.clone(), replica.create(ResourceId::generate(), &name).await)
        });
        let mut given = Vec::new();
        for (name, created) in join_all(creates).await {
            match created {
                Ok(_) => given.push(name),
                Err(error) => assert_eq!(error.kind, ErrorKind::AlreadyExists, "{error:?}"),
            }
        }
        given.sort();
        given.dedup();
        assert_eq!(given.len(), 60, "each once");
    }
    assert_gapless(&database).await;
}

/// The other replica holds the feed lock, so that every patch waits for its commit.
#[tokio::test(flavor = "multi_thread")]
async fn patches_that_wait_for_the_feed_lock_see_what_its_holder_committed() {
    let database = Postgres::shared().database().await;
    let replica = Replica::open(database.url()).await;
    let ids = replica.clusters(300).await;
    let (mut other, connection) =
        tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    for round in 1..=3 {
        let transaction = other.transaction().await.unwrap();
        let theirs = format!(
            "select version from feed for update;
             update resources set generation = generation + 100, spec = '{{\"theirs\":{round}}}'"
        );
        transaction.batch_execute(&theirs).await.unwrap();
        let patches = ids.iter().map(|id| replica.patch(*id, json!({"spec": {"ours": round}})));
        let (patched, ()) = tokio::join!(join_all(patches), end_when_awaited(&database, transaction));
        assert!(patched.iter().all(Result::is_ok));
        for id in &ids {
            let resource = replica.resource(*id).await;
            assert_eq!(resource.generation, 1 + 101 * round);
            assert_eq!(
                resource.spec.parse::<serde_json::Value>().unwrap(),
                json!({"theirs": round, "ours": round})
            );
        }
    }
    drop(other);
    connection.await.unwrap().unwrap();
    assert_gapless(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creates_reports_and_patches_are_all_stored() {
    let database = Postgres::shared().database().await;
    let replica = Replica::open(database.url()).await;
    let ids = replica.clusters(1).await;
    let life = async |number: usize| {
        let id = ResourceId::generate();
        replica.create(id, &format!("name{number}")).await.unwrap();
        for adapter in ADAPTERS {
            replica.report(id, adapter, 1, "first").await.unwrap();
            replica.report(id, adapter, 2, "second").await.unwrap();
            replica.report(ids[0], adapter, 2 + number as i64, "all").await.unwrap();
        }
        replica.patch(id, json!({"spec": {"number": number}})).await.unwrap();
        id
    };
    let born = join_all((0..300).map(life)).await;
    for id in born {
        assert_eq!(replica.resource(id).await.generation, 2);
        for adapter in ADAPTERS {
            replica.assert_last(id, adapter, 2).await;
        }
    }
    assert_gapless(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_the_database_loses_no_acknowledged_patch_and_repeats_none() {
    let postgres = Postgres::durable().await.unwrap();
    let database = postgres.database().await;
    let replica = Replica::open(database.url()).await;
    let ids = replica.clusters(100).await;
    let load = ids.iter().map(async |id| {
        for number in 1.. {
            if let Err(error) = replica.patch(*id, json!({"spec": {"number": number}})).await {
                assert!(
                    matches!(error.kind, ErrorKind::DependencyUnavailable | ErrorKind::Timeout),
                    "{error:?}"
                );
                return number - 1;
            }
        }
        unreachable!()
    });
    let crash = async {
        eventually("patches are taken", DEADLINE, async || {
            (replica.resource(ids[0]).await.generation > 5).then_some(())
        })
        .await;
        postgres.stop_immediate().await.unwrap();
    };
    let (acknowledged, ()) = tokio::join!(join_all(load), crash);
    postgres.start().await.unwrap();
    eventually("the database is back", DEADLINE, async || {
        replica.report(ids[0], "dns", 2, "first").await.ok()
    })
    .await;
    for (id, number) in ids.iter().zip(acknowledged) {
        let resource = replica.resource(*id).await;
        let generation = 1 + number;
        assert!(
            [generation, generation + 1].contains(&resource.generation),
            "{number}: {}",
            resource.generation
        );
        replica.patch(*id, json!({"spec": {"number": "after"}})).await.unwrap();
    }
    assert_gapless(&database).await;
}

/// Connections that break between two batches.
#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_that_break_cost_no_patch() {
    let database = Postgres::shared().database().await;
    let replica = Replica::open(database.url()).await;
    let ids = replica.clusters(20).await;
    let patch_all = async |number: i64| {
        let patches = ids.iter().map(|id| replica.patch(*id, json!({"spec": {"number": number}})));
        join_all(patches).await.into_iter().all(|patched| patched.is_ok())
    };
    for number in 1..=5 {
        assert!(patch_all(number).await);
        let cut = "select pg_terminate_backend(pid, 5000) from pg_stat_activity
                   where datname = current_database() and pid <> pg_backend_pid() and state = 'idle'";
        sql(&database, cut).await;
    }
    assert!(patch_all(6).await);
    for id in &ids {
        assert_eq!(replica.resource(*id).await.generation, 7);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_name_is_refused_and_costs_no_other_command_of_the_batch() {
    let database = Postgres::shared().database().await;
    let replica = Replica::open(database.url()).await;
    let ids = replica.clusters(50).await;
    let taken = ids[0].to_string();
    for round in 2..=6 {
        let reports =
            ids.iter().map(async |id| drop(replica.report(*id, "dns", round, "first").await.unwrap()));
        let patches = ids
            .iter()
            .map(async |id| drop(replica.patch(*id, json!({"spec": {"round": round}})).await.unwrap()));
        let creates = (0..50).map(async |number| {
            drop(replica.create(ResourceId::generate(), &format!("round{round}-{number}")).await.unwrap());
        });
        let refused = (0..5).map(async |_| replica.create(ResourceId::generate(), &taken).await);
        let (.., refused) =
            tokio::join!(join_all(reports), join_all(patches), join_all(creates), join_all(refused));
        for refused in refused {
            let error = refused.unwrap_err();
            assert_eq!(error.kind, ErrorKind::AlreadyExists);
            assert!(error.detail.contains(&taken), "{error:?}");
        }
        let error = replica.try_to_create(&taken).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::AlreadyExists);
    }
    for id in &ids {
        assert_eq!(replica.resource(*id).await.generation, 6);
        replica.assert_last(*id, "dns", 6).await;
    }
    assert_eq!(sql(&database, "select count(*) from resources").await, Some(300));
    assert_gapless(&database).await;
}

/// The outcome of a commit whose connection broke is unknown, but it is never repeated.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_break_at_any_moment_lose_no_acknowledged_write_and_repeat_none() {
    let database = Postgres::shared().database().await;
    let replica = Replica::open(database.url()).await;
    let ids = replica.clusters(30).await;
    let creates = (0..20).map(async |caller| {
        let mut created = Vec::new();
        for number in 0..60 {
            let id = ResourceId::generate();
            match replica.create(id, &format!("caller{caller}-{number}")).await {
                Ok(_) => created.push(id),
                Err(error) => assert_eq!(error.kind, ErrorKind::DependencyUnavailable, "{error:?}"),
            }
        }
        created
    });
    let patches = ids.iter().map(async |id| {
        let (mut acknowledged, mut unknown) = (0, 0);
        for number in 0..60 {
            match replica.patch(*id, json!({"spec": {"number": number}})).await {
                Ok(_) => acknowledged += 1,
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::DependencyUnavailable, "{error:?}");
                    unknown += 1;
                }
            }
        }
        (*id, acknowledged, unknown)
    });
    let cut = async {
        for _ in 0..10 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                       where datname = current_database() and pid <> pg_backend_pid()";
            sql(&database, cut).await;
        }
    };
    let (created, patched, ()) = tokio::join!(join_all(creates), join_all(patches), cut);
    for id in created.into_iter().flatten() {
        assert_eq!(replica.resource(id).await.generation, 1);
    }
    for (id, acknowledged, unknown) in patched {
        let generation = replica.resource(id).await.generation - 1;
        assert!(
            (acknowledged..=acknowledged + unknown).contains(&generation),
            "{generation} of {acknowledged}"
        );
    }
    assert_gapless(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_not_before_the_newest_one_when_the_clock_of_the_database_was_set_back() {
    let database = Postgres::shared().database().await;
    let replica = Replica::open(database.url()).await;
    replica.clusters(3).await;
    sql(&database, "update feed set changed_time = clock_timestamp() + interval '1 hour'").await;
    let later = replica.clusters(3).await;
    replica.patch(later[0], json!({"labels": {"a": "b"}})).await.unwrap();
    let times = "select count(*) from (
                     select changed_time, max(changed_time) over (order by version) as newest from changes
                 ) c where changed_time < newest";
    assert_eq!(sql(&database, times).await, Some(0));
    let ahead =
        "select count(*) from resources where created_time > clock_timestamp() + interval '50 minutes'";
    assert_eq!(sql(&database, ahead).await, Some(3));
    // Reports are judged by the clock.
    let heard = "select count(*) from reports where last_report_time > clock_timestamp()";
    assert_eq!(sql(&database, heard).await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_many_megabytes_are_committed() {
    let database = Postgres::shared().database().await;
    let replica = Replica::open(database.url()).await;
    let ids = replica.clusters(8).await;
    for round in ["a", "b"] {
        let patch = json!({"spec": {"text": round.repeat(1_000_000)}});
        let patches = ids.iter().map(|id| replica.patch(*id, patch.clone()));
        for patched in join_all(patches).await {
            patched.unwrap();
        }
    }
    assert_gapless(&database).await;
}
