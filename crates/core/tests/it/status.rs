//! The tables of the contract for reports, conditions and deletion, row by row. Each row is a short story on the
//! strict store, told in seconds since the beginning, so that every time in an expectation can be read off it.

mod adapters;
mod clocks;
mod deletion;
mod field;
mod fixture;
mod freshness;
mod last_known;
mod legacy;
mod mapped;
mod outcomes;
mod recompute;
mod reconciled;
mod records;
mod removal;
mod test_report;

use fixture::at;
use serde_json::{Value, json};

/// A condition as the API shows it; `times` are those of creation, last update and last transition.
fn condition(kind: &str, status: &str, words: (&str, &str), generation: i64, times: [i64; 3]) -> Value {
    let [created, updated, transition] = times.map(at);
    json!({
        "type": kind, "status": status, "reason": words.0, "message": words.1,
        "observed_generation": generation, "created_time": created, "last_updated_time": updated,
        "last_transition_time": transition,
    })
}
