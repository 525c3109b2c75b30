//! Reports as adapters send them.

use serde_json::{Value, json};

/// A time long past, as the API prints it. Reports may be as old as they like.
pub(crate) fn at(second: u32) -> String {
    format!("2026-01-01T10:{:02}:{:02}.000000Z", second / 60, second % 60)
}

/// A report with nothing but what must be there; `available` is the status of `Available`.
pub(crate) fn report(adapter: &str, generation: u64, available: &str, observed_time: &str) -> Value {
    json!({
        "adapter": adapter,
        "observed_generation": generation,
        "observed_time": observed_time,
        "conditions": [
            {"type": "Available", "status": available},
            {"type": "Applied", "status": "True"},
            {"type": "Health", "status": "True"},
        ],
    })
}

/// The same without a time: observed when it arrives.
pub(crate) fn report_now(adapter: &str, generation: u64, available: &str) -> Value {
    let mut report = report(adapter, generation, available, "");
    report.as_object_mut().unwrap().shift_remove("observed_time");
    report
}

/// The same with a reason and a message beside `Available`.
pub(crate) fn with_reason(mut report: Value, reason: &str, message: &str) -> Value {
    report["conditions"][0]["reason"] = reason.into();
    report["conditions"][0]["message"] = message.into();
    report
}

/// The same with one condition more.
pub(crate) fn with_condition(mut report: Value, kind: &str, status: &str) -> Value {
    report["conditions"].as_array_mut().unwrap().push(json!({"type": kind, "status": status}));
    report
}

/// The report of an adapter that has finished with a finalizing resource.
pub(crate) fn finalized(adapter: &str, generation: u64, observed_time: &str) -> Value {
    with_condition(report(adapter, generation, "False", observed_time), "Finalized", "True")
}

/// The report of an adapter `validator` that is content with the first generation.
pub(crate) fn validated() -> Value {
    report("validator", 1, "True", &at(0))
}
