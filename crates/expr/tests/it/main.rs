//! Expressions through their public interface.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what a test does not expect fails it")]

mod agreement;
mod compilation;
mod language;
mod limits;
mod scripts;
mod secrets;
mod tasks;
mod templates;

use hyperfleet_expr::{Expression, Outcome, Scope};
use proptest::test_runner::{Config, RngSeed};
use serde_json::Value;

/// An expression that knows only `x`.
fn compile(source: &str) -> Expression {
    Expression::compile(source, &["x"]).unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn evaluate(source: &str, x: &Value) -> Result<Outcome, String> {
    compile(source).evaluate(&Scope::new().with("x", x))
}

fn text(text: &str) -> Result<Outcome, String> {
    Ok(Outcome::Text(text.to_owned()))
}

fn failure(message: &str) -> Result<Outcome, String> {
    Err(message.to_owned())
}

/// `count` cases from a fixed seed, so that a run repeats. `PROPTEST_RNG_SEED` looks elsewhere,
/// and `PROPTEST_CASES` (256 is the measure) looks longer.
fn cases(count: u32) -> Config {
    let given = Config::default();
    Config {
        cases: (count * given.cases).div_ceil(256),
        failure_persistence: None,
        rng_seed: match given.rng_seed {
            RngSeed::Random => RngSeed::Fixed(20_261_101),
            chosen @ RngSeed::Fixed(_) => chosen,
        },
        ..given
    }
}
