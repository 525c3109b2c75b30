//! Histories with a restart in the middle: what was told before is all there afterwards and goes on by the same rules,
//! or by those of another configuration.

use hyperfleet_testkit::eventually;
use hyperfleet_testkit::model::{Kinds, Model, Operation, ResourceView, Slot, operations};
use proptest::prelude::*;
use serde_json::Value;

use super::random::{LONGEST, manner, tell};
use super::telling::{Manner, Telling};
use super::{DEADLINE, cases, config, for_all};
use crate::support::{App, both_stores, run};

both_stores!(owned, config = &config(&Kinds::three_levels()); a_restart_changes_nothing_and_history_goes_on);

mod other_adapters_at_a_restart_change_conditions_and_history_goes_on {
    use super::*;

    #[test]
    fn sqlite() {
        run(told_with_other_adapters(async |config| App::on_sqlite(&config).await));
    }

    #[test]
    fn postgres() {
        run(told_with_other_adapters(async |config| App::on_postgres(&config).await));
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

/// The kinds with other required adapters: none, fewer, more, in another order, or some that reported before anybody
/// asked for it.
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

async fn a_restart_changes_nothing_and_history_goes_on(mut app: App) {
    for_all(cases(5), &interrupted(), async |history| {
        let model = Model::new(Kinds::three_levels());
        let mut telling = Telling::begin(&app, model, true, history.manner).await;
        tell(&app, &mut telling, &history.before).await?;
        if history.killed {
            app.server.kill9();
        }
        app.restart().await;
        let gone = gone(&telling.model);
        none(&telling.compare(&app, &[], &gone).await).map_err(|faults| format!("restarted: {faults}"))?;
        tell(&app, &mut telling, &history.after).await
    })
    .await;
}

/// Each history has a server of its own: a change of the configuration reaches whatever there is.
async fn told_with_other_adapters(start: impl AsyncFn(String) -> App) {
    for_all(cases(5), &(interrupted(), other_kinds()), async |(history, kinds)| {
        let mut app = start(config(&Kinds::three_levels())).await;
        let model = Model::new(Kinds::three_levels());
        let mut telling = Telling::begin(&app, model, true, history.manner).await;
        tell(&app, &mut telling, &history.before).await?;
        if history.killed {
            app.server.kill9();
        }
        app.restart_with(&config(&kinds)).await;
        reconfigured(&app, &mut telling, kinds).await.map_err(|faults| format!("restarted: {faults}"))?;
        tell(&app, &mut telling, &history.after).await
    })
    .await;
}

/// The server computes conditions anew beside its other work, so what the model says at once comes after a while.
async fn reconfigured(app: &App, telling: &mut Telling, kinds: Kinds) -> Result<(), String> {
    let before = telling.model.resources();
    telling.model.reconfigure(kinds);
    let mut faults = Vec::new();
    let settled = eventually("the conditions of other adapters", DEADLINE * 2, async || {
        faults = telling.compare_contents(app).await;
        faults.is_empty().then_some(())
    });
    if tokio::time::timeout(DEADLINE, settled).await.is_err() {
        return none(&faults);
    }
    let after = telling.model.resources();
    let says = |views: &[ResourceView], slot: Slot| {
        views.iter().find(|view| view.slot == slot).map(|view| without_times(view.conditions.clone()))
    };
    let slots = after.iter().map(|view| view.slot);
    let changed: Vec<Slot> = slots.filter(|slot| says(&before, *slot) != says(&after, *slot)).collect();
    let gone = gone(&telling.model);
    none(&telling.compare(app, &changed, &gone).await)
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
