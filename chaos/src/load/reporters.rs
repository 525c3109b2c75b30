//! Reporters are adapters that no kind requires. Each sends numbered reports, one after the other: on a counter, whose
//! generation moves, and on a quiet cluster with `observed_time` and without.

use std::time::Duration;

use hyperfleet_core::Timestamp;
use serde_json::{Value, json};

use super::{Caller, REPORTS, Target};
use crate::history::{Outcome, Report, Reported, Stream};

/// Between two attempts to read a resource.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn run(mut caller: Caller, quiet: Target) {
    let replicas = caller.shared.replicas.len();
    let mut pace = caller.pace(replicas, REPORTS);
    let counter = caller.shared.targets()[usize::from(caller.client) % super::COUNTERS];
    let streams = [(counter, "counter", true), (quiet, "timed", true), (quiet, "untimed", false)];
    let streams = streams.map(|(target, name, is_timed)| open(&caller, target, name, is_timed));
    let mut last = Timestamp::from_micros(0);
    for turn in 0_usize.. {
        if caller.shared.is_stopping() {
            break;
        }
        pace.tick().await;
        let stream = &streams[turn % streams.len()];
        let number = u64::try_from(turn / streams.len() + 1).unwrap_or_default();
        last = Timestamp::now().max(Timestamp::from_micros(last.micros() + 1));
        report(&mut caller, stream, number, last).await;
    }
}

/// A stream that is reported on, and its place in the history.
struct Open {
    place: usize,
    target: Target,
    adapter: String,
    is_timed: bool,
}

fn open(caller: &Caller, target: Target, name: &str, is_timed: bool) -> Open {
    let adapter = format!("chaos-{}-{name}", caller.client);
    let mut history = caller.shared.history();
    history.streams.push(Stream { adapter: adapter.clone(), resource: target.id, is_timed });
    Open { place: history.streams.len() - 1, target, adapter, is_timed }
}

async fn report(caller: &mut Caller, stream: &Open, number: u64, time: Timestamp) {
    let Some(generation) = generation(caller, stream.target).await else { return };
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    let mut body = json!({
        "adapter": stream.adapter,
        "observed_generation": generation,
        "conditions": [condition("Available"), condition("Applied"), condition("Health")],
        "data": {"number": number},
    });
    if stream.is_timed {
        body["observed_time"] = time.to_string().into();
    }
    let call = caller.replica().put(&format!("{}/statuses", stream.target.path())).json(&body);
    let answer = caller.shared.send(call).await;
    let outcome = match caller.shared.outcome(&format!("report {number}"), answer.as_ref(), &[]) {
        Outcome::Acknowledged { .. } if answer.is_some_and(|answer| answer.status == 204) => {
            Reported::Discarded
        }
        Outcome::Acknowledged { .. } => Reported::Stored,
        Outcome::Refused => Reported::Refused,
        Outcome::Unknown => Reported::Unknown,
    };
    caller.was_lost = outcome == Reported::Unknown;
    let ended = caller.shared.now();
    let mut history = caller.shared.history();
    if outcome == Reported::Stored {
        history.acknowledged.push(ended);
    }
    history.reports.push(Report { stream: stream.place, number, outcome });
}

/// The generation to report on, read from any replica.
async fn generation(caller: &mut Caller, target: Target) -> Option<u64> {
    while !caller.shared.is_stopping() {
        let path = format!("{}?fields=generation", target.path());
        let client = caller.replica();
        let answer = caller.shared.send(client.get(&path)).await;
        let body: Value =
            answer.and_then(|answer| serde_json::from_slice(&answer.body).ok()).unwrap_or_default();
        let generation = body["generation"].as_u64();
        caller.was_lost = generation.is_none();
        if generation.is_some() {
            return generation;
        }
        tokio::time::sleep(PAUSE).await;
    }
    None
}
