//! Writers increment counters with `If-Match`, mark specs without, and change labels.

use serde_json::{Value, json};

use super::{CREATIONS, Caller, REPORTS, Target, WRITERS, WRITES};
use crate::history::{Action, OperationId, Tone};

const _: () = assert!(WRITES + CREATIONS + REPORTS == 100, "the shares make up the load");

/// A newer version, a deletion under way, and a resource that is gone.
const REFUSALS: [&str; 4] =
    ["HYPERFLEET-CNF-002", "HYPERFLEET-CNF-003", "HYPERFLEET-NTF-002", "HYPERFLEET-NTF-003"];

pub(super) async fn run(mut caller: Caller) {
    let mut pace = caller.pace(WRITERS, WRITES);
    while !caller.shared.is_stopping() {
        pace.tick().await;
        let target = choose(&mut caller);
        match caller.random.u8(..100) {
            ..50 => increment(&mut caller, target).await,
            50..80 => {
                let id = caller.next_id();
                let spec = json!({"by": id.to_string(), format!("w{}", id.client): id.number});
                patch(&mut caller, id, Action::Mark, target, None, json!({"spec": spec})).await;
            }
            80.. => {
                let id = caller.next_id();
                let (tone, name) =
                    if caller.random.bool() { (Tone::Red, "red") } else { (Tone::Blue, "blue") };
                let labels = json!({"by": id.to_string(), "tone": name});
                patch(&mut caller, id, Action::Label(tone), target, None, json!({"labels": labels})).await;
            }
        }
    }
}

/// Mostly one of the counters, which come first; else one that may be deleted meanwhile.
fn choose(caller: &mut Caller) -> Target {
    let targets = caller.shared.targets();
    let among = if caller.random.u8(..10) < 7 { super::COUNTERS } else { targets.len() };
    targets[caller.random.usize(..among)]
}

/// Reads the counter and writes one more, if nobody has written in between.
async fn increment(caller: &mut Caller, target: Target) {
    let client = caller.replica();
    let Some(answer) = caller.shared.send(client.get(&target.path())).await else {
        caller.was_lost = true;
        return;
    };
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let (Some(tag), Some(count)) = (answer.header("etag"), body["spec"]["count"].as_u64()) else {
        caller.was_lost = answer.status >= 500;
        return;
    };
    let id = caller.next_id();
    let spec = json!({"by": id.to_string(), "count": count + 1});
    let action = Action::Increment { to: count + 1 };
    patch(caller, id, action, target, Some(tag), json!({"spec": spec})).await;
}

async fn patch(
    caller: &mut Caller,
    id: OperationId,
    action: Action,
    target: Target,
    tag: Option<&str>,
    body: Value,
) {
    let call = |client: hyperfleet_testkit::Client| {
        let call = client.patch(&target.path()).json(&body);
        match tag {
            Some(tag) => call.header("if-match", tag),
            None => call,
        }
    };
    caller.write(id, action, target, &REFUSALS, call).await;
}
