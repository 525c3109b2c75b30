//! Whole histories over HTTP, compared with the testkit's independent model of the rules for reports, conditions and
//! deletion. One step at a time, every answer and every later read must match the model. With concurrent writers and a
//! server that is killed the order is unknown, so the tests check what must hold in any order.
//!
//! A run repeats, and CI runs few cases: `PROPTEST_CASES=25600` runs a hundred times as many, `PROPTEST_RNG_SEED=7`
//! runs others.

mod audit;
mod crashes;
mod fleet;
mod model_run;
mod random;
mod replicas;
mod restarts;
mod tables;
mod watchers;
mod watches;
mod workload;
mod writers;

use std::any::Any;
use std::fmt::Debug;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use hyperfleet_testkit::model::Kinds;
use proptest::strategy::{Strategy, ValueTree as _};
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::{Value, json};

use crate::support::{App, DEADLINE};

/// A failing history is told again this often at most, to find a shorter one.
const SHRINKS: usize = 200;

/// `count` cases from a fixed seed, where the environment does not ask for more or for others (256 is the measure).
fn cases(count: u32) -> Config {
    let given = Config::default();
    let cases = u64::from(count) * u64::from(given.cases);
    Config {
        cases: u32::try_from(cases.div_ceil(256)).unwrap(),
        failure_persistence: None,
        rng_seed: match given.rng_seed {
            RngSeed::Random => RngSeed::Fixed(20_261_115),
            chosen @ RngSeed::Fixed(_) => chosen,
        },
        ..given
    }
}

/// One value by the same seed.
fn drawn<S: Strategy>(strategy: &S) -> S::Value {
    strategy.new_tree(&mut TestRunner::new(cases(1))).unwrap().current()
}

/// A configuration with these kinds.
fn config(kinds: &Kinds) -> String {
    json!({"entities": kinds.entities_json()}).to_string()
}

/// What the server itself found wrong, beside the force-deletes that it must log and what it says while it starts.
/// Something may have failed inside and gone well at the second try.
fn complaints(app: &App) -> Vec<String> {
    let is_complaint = |line: &Value| {
        (line["level"] == "warn" || line["level"] == "error")
            && line["message"] != "force-delete"
            && line["request_context"]["path"] != "/readyz"
    };
    let lines = app.server.logs().into_iter().filter(is_complaint);
    lines.map(|line| format!("logged: {line}")).collect()
}

/// Runs the test on so many values. A fault, or a panic on the way to one, fails it with the smallest value found
/// that still has a fault.
#[allow(clippy::panic, reason = "a fault fails the test")]
async fn for_all<S: Strategy<Value: Clone>>(
    cases: Config,
    strategy: &S,
    mut test: impl AsyncFnMut(S::Value) -> Result<(), String>,
) {
    let count = cases.cases;
    let mut runner = TestRunner::new(cases);
    for case in 0..count {
        let mut tree = strategy.new_tree(&mut runner).unwrap();
        let mut smallest = tree.current();
        let Err(mut fault) = caught(test(smallest.clone())).await else { continue };
        let mut smaller = tree.simplify();
        for _ in 0..SHRINKS {
            if !smaller {
                break;
            }
            smaller = match caught(test(tree.current())).await {
                Err(still) => {
                    (fault, smallest) = (still, tree.current());
                    tree.simplify()
                }
                Ok(()) => tree.complicate(),
            };
        }
        panic!("case {case} of {count}: {fault}\n\nwhile running {smallest:#?}");
    }
}

/// The same future with a panic as its fault.
async fn caught(test: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let mut test = pin!(test);
    poll_fn(|context| {
        catch_unwind(AssertUnwindSafe(|| test.as_mut().poll(context)))
            .unwrap_or_else(|panic| Poll::Ready(Err(message(&*panic))))
    })
    .await
}

fn message(panic: &(dyn Any + Send)) -> String {
    let literal = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    literal.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

/// Fails the test when there are faults, with all of them.
#[track_caller]
fn assert_none(faults: &[impl Debug]) {
    assert!(faults.is_empty(), "{faults:#?}");
}
