//! Histories with a restart in the middle, with the same or with another configuration.

use hyperfleet_testkit::eventually;
use hyperfleet_testkit::model::{Kinds, Model, Operation, ResourceView, Slot, operations};
use proptest::prelude::*;
use serde_json::Value;

use super::model_run::{Manner, ModelRun};
use super::random::{LONGEST, manner, run_steps};
use super::{DEADLINE, cases, config, for_all};
use crate::support::{App, both_stores, run};

both_stores!(config = &config(&Kinds::three_levels()); a_restart_keeps_the_state_of_a_random_history);

mod changed_adapters_at_a_restart_recompute_conditions {
    use super::*;

    #[test]
    fn sqlite() {
        run(told_with_other_adapters(async |config| App::sqlite(&config).await));
    }

    #[test]
    fn postgres() {
        run(told_with_other_adapters(async |config| App::postgres(&config).await));
    }
}

/// A history in two parts.
#[derive(Clone, Debug)]
struct Interrupted {
    manner: Manner,
    before: Vec<Operation>,
    /// The process is killed rather than asked to stop.
    killed: bool,
    after: Vec<Operation>,
}

fn interrupted() -> impl Strategy<Value = Interrupted> {
    let part = || operations(&Kinds::three_levels(), LONGEST / 2);
    (manner(), part(), any::<bool>(), part()).prop_map(|(manner, before, killed, after)| Interrupted {
        manner,
        before,
        killed,
        after,
    })
}

/// The kinds with other required adapters: none, fewer, more, in another order, or some that reported before they
/// were required.
fn other_kinds() -> impl Strategy<Value = Kinds> {
    let changes: Vec<(&str, &[&str])> = vec![
        ("Region", &["a"]),
        ("Site", &[]),
        ("Fleet", &[]),
        ("Fleet", &["dns", "validator"]),
        ("Fleet", &["observer"]),
        ("Fence", &["a"]),
        ("Zone", &["a"]),
        ("Zone", &["provisioner", "a", "observer"]),
        ("Rack", &["observer"]),
        ("Lock", &["b"]),
        ("Host", &["a", "b"]),
        ("Host", &["a"]),
    ];
    prop::sample::subsequence(changes, 1..=8).prop_map(|changes| {
        changes.into_iter().fold(Kinds::three_levels(), |kinds, (kind, adapters)| {
            kinds.with_required_adapters(kind, adapters)
        })
    })
}

async fn a_restart_keeps_the_state_of_a_random_history(app: &mut App) {
    for_all(cases(5), &interrupted(), async |history| {
        let model = Model::new(Kinds::three_levels());
        let mut model_run = ModelRun::begin(app, model, true, history.manner).await;
        run_steps(app, &mut model_run, &history.before).await?;
        if history.killed {
            app.server.kill9();
        }
        app.restart().await;
        let gone = gone(&model_run.model);
        none(&model_run.compare(app, &[], &gone).await).map_err(|faults| format!("restarted: {faults}"))?;
        run_steps(app, &mut model_run, &history.after).await
    })
    .await;
}

/// Each history has a server of its own: a change of the configuration reaches whatever there is.
async fn told_with_other_adapters(start: impl AsyncFn(String) -> App) {
    for_all(cases(5), &(interrupted(), other_kinds()), async |(history, kinds)| {
        let mut app = start(config(&Kinds::three_levels())).await;
        let model = Model::new(Kinds::three_levels());
        let mut model_run = ModelRun::begin(&app, model, true, history.manner).await;
        run_steps(&app, &mut model_run, &history.before).await?;
        if history.killed {
            app.server.kill9();
        }
        app.restart_with(&config(&kinds)).await;
        reconfigured(&app, &mut model_run, kinds).await.map_err(|faults| format!("restarted: {faults}"))?;
        run_steps(&app, &mut model_run, &history.after).await
    })
    .await;
}

/// The server computes conditions anew beside its other work, so what the model says at once comes after a while.
async fn reconfigured(app: &App, model_run: &mut ModelRun, kinds: Kinds) -> Result<(), String> {
    let before = model_run.model.resources();
    model_run.model.reconfigure(kinds);
    let mut faults = Vec::new();
    let settled = eventually("the conditions of other adapters", DEADLINE * 2, async || {
        faults = model_run.compare_contents(app).await;
        faults.is_empty().then_some(())
    });
    if tokio::time::timeout(DEADLINE, settled).await.is_err() {
        return none(&faults);
    }
    let after = model_run.model.resources();
    let says = |views: &[ResourceView], slot: Slot| {
        views.iter().find(|view| view.slot == slot).map(|view| without_times(view.conditions.clone()))
    };
    let slots = after.iter().map(|view| view.slot);
    let changed: Vec<Slot> = slots.filter(|slot| says(&before, *slot) != says(&after, *slot)).collect();
    let gone = gone(&model_run.model);
    none(&model_run.compare(app, &changed, &gone).await)
}

fn gone(model: &Model) -> Vec<Slot> {
    (0..model.made()).map(Slot).filter(|slot| !model.is_living(*slot)).collect()
}

fn without_times(mut conditions: Value) -> Value {
    for condition in conditions.as_array_mut().into_iter().flatten() {
        condition.as_object_mut().unwrap().retain(|member, _| !member.ends_with("_time"));
    }
    conditions
}

fn none(faults: &[String]) -> Result<(), String> {
    if faults.is_empty() { Ok(()) } else { Err(format!("{faults:#?}")) }
}
