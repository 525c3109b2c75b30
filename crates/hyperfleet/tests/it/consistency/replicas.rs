//! Many writers on a few trees through two servers on one database.

use std::sync::Arc;

use hyperfleet_testkit::model::Kinds;
use tokio::sync::watch;

use super::fleet::Fleet;
use super::writers::SharedState;
use super::{assert_none, config, workload};
use crate::support::{App, database, launch, run};

#[test]
fn writers_through_two_servers_keep_all_invariants() {
    run(async {
        let database = Arc::new(database().await);
        let launch = launch().config(config(&Kinds::three_levels()));
        let one = App::on_database(launch.clone(), Arc::clone(&database)).await;
        let other = App::on_database(launch, database).await;
        let (_one, first) = watch::channel(Some(one.api().authority().to_owned()));
        let (_other, second) = watch::channel(Some(other.api().authority().to_owned()));

        let shared = SharedState::new(Fleet::new(Kinds::three_levels()));
        let (told, observed) = workload::perform(Arc::clone(&shared), vec![first, second]).await;
        for app in [&one, &other] {
            let faults = workload::judge(app, &shared.fleet.kinds, told.clone(), observed.clone()).await;
            assert_none(&faults);
        }
    });
}
