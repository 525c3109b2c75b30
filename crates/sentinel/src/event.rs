//! The event for a resource, as the configuration wants it: the same whether the Sentinel decided that it is due or a
//! person asked for it.

use hyperfleet_events::Event;
use serde_json::Value;

use crate::config::Work;
use crate::decide::Reason;
use crate::seen::Seen;

/// An event, and what `message_data` failed with, if it did: the event is worth more than what it says besides the
/// resource.
#[derive(Debug)]
pub struct Made {
    /// The event.
    pub event: Event,
    /// Why it lacks what `message_data` would have added.
    pub fault: Option<String>,
}

/// Makes the event that `source` publishes for what was seen of a resource.
pub fn make(source: &str, work: &Work, plural: &str, seen: &Seen, reason: Reason) -> Made {
    let mut data = seen.data();
    let fault = work.data.as_ref().and_then(|own| own.merge(&mut data, &seen.resource, reason).err());
    let kind = data.get("kind").and_then(Value::as_str).unwrap_or(plural).to_owned();
    Made { event: Event::reconcile(source, &kind, data, work.tracing.then(new_trace)), fault }
}

/// The id of the trace that an event begins.
pub(crate) fn trace_of(event: &Event) -> Option<&str> {
    event.traceparent.as_deref()?.split('-').nth(1)
}

/// The beginning of a trace.
fn new_trace() -> String {
    let random = || uuid::Uuid::new_v4().simple().to_string();
    format!("00-{}-{}-01", random(), &random()[16..])
}
