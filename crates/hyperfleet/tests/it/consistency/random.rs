//! Random histories, one step at a time, on every path of a resource.

use hyperfleet_testkit::model::{Kinds, Model, Operation, operations};
use proptest::prelude::*;

use super::model_run::{Manner, ModelRun, PathForm};
use super::{cases, config, for_all};
use crate::support::{App, both_stores};

/// The longest history for which reports keep within the time that the server allows them to be ahead.
pub(super) const LONGEST: usize = 100;

both_stores!(config = &config(&Kinds::three_levels()); every_step_of_a_random_history_matches_the_model);

both_stores!(config = &config_with_older_conditions(); legacy_conditions_match_the_model_at_every_step);

fn config_with_older_conditions() -> String {
    let mut config: serde_json::Value = serde_json::from_str(&config(&Kinds::three_levels())).unwrap();
    config["compatibility"]["legacy_conditions"] = true.into();
    config.to_string()
}

pub(super) fn manner() -> impl Strategy<Value = Manner> {
    let path_form = prop_oneof![Just(PathForm::Flat), Just(PathForm::Nested), Just(PathForm::AnyKind)];
    (path_form, any::<bool>()).prop_map(|(path_form, posts)| Manner { path_form, posts })
}

fn history() -> impl Strategy<Value = (Manner, Vec<Operation>)> {
    (manner(), operations(&Kinds::three_levels(), LONGEST))
}

async fn every_step_of_a_random_history_matches_the_model(app: &App) {
    for_all(cases(16), &history(), async |(manner, steps)| {
        let model = Model::new(Kinds::three_levels());
        run_steps(app, &mut ModelRun::begin(app, model, true, manner).await, &steps).await
    })
    .await;
}

async fn legacy_conditions_match_the_model_at_every_step(app: &App) {
    for_all(cases(8), &history(), async |(manner, steps)| {
        let model = Model::with_legacy_conditions(Kinds::three_levels());
        run_steps(app, &mut ModelRun::begin(app, model, false, manner).await, &steps).await
    })
    .await;
}

/// Takes the steps one after the other, up to the first fault.
pub(super) async fn run_steps(
    app: &App,
    model_run: &mut ModelRun,
    steps: &[Operation],
) -> Result<(), String> {
    for (number, step) in steps.iter().enumerate() {
        model_run.step(app, step).await.map_err(|fault| format!("step {number}: {fault}"))?;
    }
    let complaints = model_run.complaints(app);
    if complaints.is_empty() { Ok(()) } else { Err(format!("{complaints:#?}")) }
}
