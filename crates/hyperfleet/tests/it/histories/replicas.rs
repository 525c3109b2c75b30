//! Many writers on a few trees through two servers on one database: which of them takes a write makes no difference.

use std::sync::Arc;

use hyperfleet_testkit::Postgres;
use hyperfleet_testkit::model::Kinds;
use tokio::sync::watch;

use super::fleet::Fleet;
use super::writers::Stage;
use super::{assert_none, config, crowd};
use crate::support::{App, launch, run};

#[test]
fn writers_through_two_servers_break_nothing() {
    run(async {
        let database = Arc::new(Postgres::shared().database().await);
        let launch = launch().config(config(&Kinds::three_levels()));
        let one = App::on_database(launch.clone(), Arc::clone(&database)).await;
        let other = App::on_database(launch, database).await;
        let (_one, first) = watch::channel(Some(one.api().authority().to_owned()));
        let (_other, second) = watch::channel(Some(other.api().authority().to_owned()));

        let stage = Stage::new(Fleet::new(Kinds::three_levels()));
        let (told, observed) = crowd::perform(Arc::clone(&stage), vec![first, second]).await;
        for app in [&one, &other] {
            let faults = crowd::judge(app, &stage.fleet.kinds, told.clone(), observed.clone()).await;
            assert_none(&faults);
        }
    });
}
