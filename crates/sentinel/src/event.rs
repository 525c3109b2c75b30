//! The event for a resource, for the Sentinel and for `hyperfleet events publish`.

use hyperfleet_events::Event;
use serde_json::Value;

use crate::config::Work;
use crate::decide::Reason;
use crate::observed::Observed;

/// An event. It is published even if `message_data` failed.
#[derive(Debug)]
pub struct Made {
    /// The event.
    pub event: Event,
    /// The failure of `message_data`.
    pub fault: Option<String>,
}

/// Makes the event for an observed resource.
pub fn make(source: &str, work: &Work, plural: &str, observed: &Observed, reason: Reason) -> Made {
    let mut data = observed.data();
    let fault = work.data.as_ref().and_then(|own| own.merge(&mut data, &observed.resource, reason).err());
    let kind = data.get("kind").and_then(Value::as_str).unwrap_or(plural).to_owned();
    Made { event: Event::reconcile(source, &kind, data, work.tracing.then(new_trace)), fault }
}

pub(crate) fn trace_of(event: &Event) -> Option<&str> {
    event.traceparent.as_deref()?.split('-').nth(1)
}

fn new_trace() -> String {
    let random = || uuid::Uuid::new_v4().simple().to_string();
    format!("00-{}-{}-01", random(), &random()[16..])
}
