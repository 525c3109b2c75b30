//! Random histories, one step at a time, through every door that leads to a resource.

use hyperfleet_testkit::model::{Kinds, Model, Operation, operations};
use proptest::prelude::*;

use super::telling::{Door, Manner, Telling};
use super::{cases, config, for_all};
use crate::support::{App, both_stores};

/// The longest history for which reports keep within the time that the server allows them to be ahead.
pub(super) const LONGEST: usize = 100;

both_stores!(config = &config(&Kinds::three_levels()); every_step_of_a_history_does_what_the_rules_say);

both_stores!(config = &config_with_older_conditions(); the_older_conditions_follow_every_step_of_a_history);

fn config_with_older_conditions() -> String {
    let mut config: serde_json::Value = serde_json::from_str(&config(&Kinds::three_levels())).unwrap();
    config["compatibility"]["legacy_conditions"] = true.into();
    config.to_string()
}

pub(super) fn manner() -> impl Strategy<Value = Manner> {
    let door = prop_oneof![Just(Door::Flat), Just(Door::Nested), Just(Door::AnyKind)];
    (door, any::<bool>()).prop_map(|(door, posts)| Manner { door, posts })
}

fn history() -> impl Strategy<Value = (Manner, Vec<Operation>)> {
    (manner(), operations(&Kinds::three_levels(), LONGEST))
}

async fn every_step_of_a_history_does_what_the_rules_say(app: &App) {
    for_all(cases(16), &history(), async |(manner, steps)| {
        let model = Model::new(Kinds::three_levels());
        tell(app, &mut Telling::begin(app, model, true, manner).await, &steps).await
    })
    .await;
}

async fn the_older_conditions_follow_every_step_of_a_history(app: &App) {
    for_all(cases(8), &history(), async |(manner, steps)| {
        let model = Model::with_legacy_conditions(Kinds::three_levels());
        tell(app, &mut Telling::begin(app, model, false, manner).await, &steps).await
    })
    .await;
}

/// Takes the steps one after the other, up to the first fault.
pub(super) async fn tell(app: &App, telling: &mut Telling, steps: &[Operation]) -> Result<(), String> {
    for (number, step) in steps.iter().enumerate() {
        telling.step(app, step).await.map_err(|fault| format!("step {number}: {fault}"))?;
    }
    let complaints = telling.complaints(app);
    if complaints.is_empty() { Ok(()) } else { Err(format!("{complaints:#?}")) }
}
