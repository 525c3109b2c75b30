//! Many writers on a few trees while the server is killed under them, again and again: whatever was acknowledged holds,
//! and no invariant is ever seen broken.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyperfleet_testkit::model::Kinds;
use hyperfleet_testkit::{Postgres, eventually};
use proptest::prelude::*;
use tokio::sync::watch;

use super::fleet::Fleet;
use super::writers::Stage;
use super::{DEADLINE, assert_none, config, crowd, drawn, tables};
use crate::support::{App, launch, run};

/// The axe falls once in so many commands.
const PART: usize = 200;

mod whatever_was_acknowledged_survives_kill_9_under_many_writers {
    use super::*;

    #[test]
    fn sqlite() {
        run(async { killed(App::on_sqlite(&config(&Kinds::three_levels())).await).await });
    }

    #[test]
    fn postgres() {
        run(async {
            let postgres = Postgres::durable().await.unwrap();
            let database = Arc::new(postgres.database().await);
            let launch = launch().config(config(&Kinds::three_levels()));
            killed(App::on_database(launch, database).await).await;
        });
    }
}

async fn killed(mut app: App) {
    let stage = Stage::new(Fleet::new(Kinds::three_levels()));
    let (whereabouts, server) = watch::channel(Some(app.api().authority().to_owned()));
    let crowd = tokio::spawn(crowd::perform(Arc::clone(&stage), vec![server]));

    // Somewhere in each part of the run, save the last, which shows that the server still works.
    let kills = crowd::commands() / PART - 1;
    for (number, moment) in drawn(&prop::collection::vec(0..PART, kills)).into_iter().enumerate() {
        let moment = number * PART + moment;
        eventually("commands", DEADLINE, async || {
            // A crowd that failed has something to say below.
            (stage.ended.load(Ordering::SeqCst) >= moment || crowd.is_finished()).then_some(())
        })
        .await;
        whereabouts.send(None).unwrap();
        app.server.kill9();
        app.restart().await;
        assert_none(&tables::faults(&app).await);
        whereabouts.send(Some(app.api().authority().to_owned())).unwrap();
    }
    let (told, observed) = crowd.await.unwrap();
    assert!(told.iter().any(|told| told.reply.is_none()), "nobody was hit");
    assert_none(&crowd::judge(&app, &stage.fleet.kinds, told, observed).await);
}
