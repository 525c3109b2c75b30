//! Many writers on a few trees while servers are killed repeatedly, on PostgreSQL one of three after the other: every
//! acknowledged write holds, and no invariant is ever broken.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyperfleet_testkit::model::Kinds;
use hyperfleet_testkit::{Postgres, eventually};
use proptest::prelude::*;
use tokio::sync::watch;

use super::fleet::Fleet;
use super::writers::SharedState;
use super::{DEADLINE, assert_none, config, drawn, tables, workload};
use crate::support::{App, launch, run};

/// The axe falls once in so many commands.
const PART: usize = 200;

mod acknowledged_writes_survive_kill_9_under_many_writers {
    use super::*;

    #[test]
    fn sqlite() {
        run(async { killed(vec![App::sqlite(&config(&Kinds::three_levels())).await]).await });
    }

    #[test]
    fn postgres() {
        run(async {
            let postgres = Postgres::durable().await.unwrap();
            let database = Arc::new(postgres.database().await);
            let launch = launch().config(config(&Kinds::three_levels()));
            let mut replicas = Vec::new();
            for _ in 0..3 {
                replicas.push(App::on_database(launch.clone(), Arc::clone(&database)).await);
            }
            killed(replicas).await;
        });
    }
}

async fn killed(mut replicas: Vec<App>) {
    let shared = SharedState::new(Fleet::new(Kinds::three_levels()));
    let address = |app: &App| Some(app.api().authority().to_owned());
    let (addresses, servers): (Vec<_>, Vec<_>) =
        replicas.iter().map(|app| watch::channel(address(app))).unzip();
    let writers = tokio::spawn(workload::perform(Arc::clone(&shared), servers));

    // Somewhere in each part of the run, save the last, which shows that the servers still work.
    let kills = workload::commands() / PART - 1;
    for (number, moment) in drawn(&prop::collection::vec(0..PART, kills)).into_iter().enumerate() {
        let moment = number * PART + moment;
        eventually("commands", DEADLINE, async || {
            // A failure of the writers is reported below.
            (shared.ended.load(Ordering::SeqCst) >= moment || writers.is_finished()).then_some(())
        })
        .await;
        let killed = number % replicas.len();
        let app = &mut replicas[killed];
        addresses[killed].send(None).unwrap();
        app.server.kill9();
        app.restart().await;
        assert_none(&tables::faults(app).await);
        addresses[killed].send(address(app)).unwrap();
    }
    let (told, observed) = writers.await.unwrap();
    assert!(told.iter().any(|told| told.reply.is_none()), "no request was interrupted");
    for app in &replicas {
        let faults = workload::judge(app, &shared.fleet.kinds, told.clone(), observed.clone()).await;
        assert_none(&faults);
    }
}
