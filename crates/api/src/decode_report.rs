//! Decodes the body of a report. Unknown members are ignored, because adapters of every version report here; known
//! members are checked, and every fault is reported.

use std::collections::HashSet;

use hyperfleet_core::{
    Contract, Fault, FaultKind, Faults, Finding, RawJson, ReportedStatus, Submission, Timestamp, check_text,
    document_faults, echo,
};
use hyperfleet_service::http_error::HttpError;
use serde_json::{Map, Value};

use crate::body;
use crate::contract::HttpContract;

mod fast_path;

const MAX_ADAPTER: usize = 253;

/// Bounds the work of one report.
const MAX_CONDITIONS: usize = 1_000;

/// How far an adapter's clock may be ahead of the store's, in microseconds.
const MAX_AHEAD: i64 = 5 * 60 * 1_000_000;

/// Decodes a report that arrives at `now`, by the store's clock.
pub(crate) fn report(contract: Contract, now: Timestamp, bytes: &[u8]) -> Result<Submission, HttpError> {
    fast_path::report(contract, now, bytes).map_or_else(|| report_or_faults(contract, now, bytes), Ok)
}

/// Decodes a report, or reports every fault.
fn report_or_faults(contract: Contract, now: Timestamp, bytes: &[u8]) -> Result<Submission, HttpError> {
    let members = body::parse_object(bytes)?;
    let mut faults = Vec::new();
    let (mut adapter, mut generation, mut conditions) = (None, None, None);
    let mut observed_time = None;
    let (mut data, mut metadata) = (None, None);
    for (member, value) in members {
        match member.as_str() {
            _ if value.is_null() => {}
            "adapter" => adapter = Some(check_adapter(value, &mut faults)),
            "observed_generation" => generation = Some(check_generation(&value, &mut faults)),
            "observed_time" => observed_time = Some(check_time(contract, now, &value, &mut faults)),
            "conditions" => conditions = Some(check_conditions(value, &mut faults)),
            "data" => data = Some(check_object("data", &value, &mut faults)),
            "metadata" => metadata = Some(check_object("metadata", &value, &mut faults)),
            _ => {}
        }
    }
    for (member, there) in [
        ("adapter", adapter.is_some()),
        ("observed_generation", generation.is_some()),
        ("conditions", conditions.is_some()),
    ] {
        if !there {
            faults.push(Fault::missing(member));
        }
    }
    Faults::from(faults).or(())?;
    Ok(Submission {
        adapter: adapter.unwrap_or_default().into(),
        observed_generation: generation.unwrap_or_default(),
        observed_time,
        conditions: conditions.unwrap_or_default(),
        data: data.unwrap_or_else(|| RawJson::from_stored("{}")),
        metadata,
    })
}

fn check_adapter(value: Value, faults: &mut Vec<Fault>) -> String {
    check_text("adapter", &value, faults);
    let Value::String(adapter) = value else {
        faults.push(Fault::wrong_type("adapter", "a string", &value));
        return String::new();
    };
    let length = adapter.chars().count();
    if !(1..=MAX_ADAPTER).contains(&length) {
        let message = format!("adapter must have 1 to {MAX_ADAPTER} characters, not {length}");
        let rule = if length == 0 { "min_length" } else { "max_length" };
        let fault = Fault::value("adapter", message, &adapter.as_str().into()).rule(rule);
        faults.push(fault.bounds(1, MAX_ADAPTER as u64));
    }
    adapter
}

fn check_generation(value: &Value, faults: &mut Vec<Fault>) -> i64 {
    match value.as_i64() {
        Some(generation) if generation >= 1 => return generation,
        Some(generation) => {
            let message = format!("observed_generation must be at least 1, not {generation}");
            faults.push(Fault::value("observed_generation", message, value).rule("min").bounds(1, None));
        }
        // A whole number that is too large to hold is still a generation of the future.
        None if is_whole(value) => return i64::MAX,
        None if value.is_number() => {
            let given = echo(&value.to_string());
            let message = format!("observed_generation must be a whole number of at least 1, not {given}");
            faults.push(Fault::value("observed_generation", message, value).rule("type").bounds(1, None));
        }
        None => faults.push(Fault::wrong_type("observed_generation", "an integer", value)),
    }
    1
}

fn is_whole(value: &Value) -> bool {
    value.as_number().is_some_and(|number| number.to_string().bytes().all(|b| b.is_ascii_digit()))
}

fn check_time(contract: Contract, now: Timestamp, value: &Value, faults: &mut Vec<Fault>) -> Timestamp {
    let Value::String(text) = value else {
        faults.push(Fault::wrong_type("observed_time", "a string", value));
        return now;
    };
    let Some(time) = Timestamp::parse(text) else {
        let message = format!("observed_time must be an RFC 3339 time such as {now}, not '{}'", echo(text));
        faults.push(Fault::value("observed_time", message, value).format("date-time"));
        return now;
    };
    if time.micros() - now.micros() > MAX_AHEAD {
        let message = format!("observed_time {time} is more than 5 minutes ahead of the server's time {now}");
        faults.push(Fault::value("observed_time", message, value).rule("max"));
    }
    if let Some(oldest) = HttpContract::of(contract).oldest_report
        && u128::try_from(now.micros() - time.micros()).is_ok_and(|age| age > oldest.as_micros())
    {
        let minutes = oldest.as_secs() / 60;
        let message =
            format!("observed_time {time} is more than {minutes} minutes before the server's time {now}");
        faults.push(Fault::value("observed_time", message, value).rule("min"));
    }
    time
}

fn check_object(member: &str, value: &Value, faults: &mut Vec<Fault>) -> RawJson {
    if value.is_object() {
        faults.extend(document_faults(member, value));
    } else {
        faults.push(Fault::wrong_type(member, "an object", value));
    }
    RawJson::from_value(value)
}

fn check_conditions(value: Value, faults: &mut Vec<Fault>) -> Vec<Finding> {
    let Value::Array(items) = value else {
        faults.push(Fault::wrong_type("conditions", "an array", &value));
        return Vec::new();
    };
    if items.len() > MAX_CONDITIONS {
        let message = format!("conditions may have at most {MAX_CONDITIONS} items, not {}", items.len());
        let fault = Fault::new(FaultKind::Value, "conditions", message).rule("max_items");
        faults.push(fault.bounds(None, MAX_CONDITIONS as u64));
        return Vec::new();
    }
    let mut kinds = HashSet::new();
    let mut findings = Vec::with_capacity(items.len());
    for (i, item) in items.into_iter().enumerate() {
        let at = format!("conditions[{i}]");
        match item {
            Value::Object(members) => findings.extend(check_condition(&at, members, &mut kinds, faults)),
            other => faults.push(Fault::wrong_type(at, "an object", &other)),
        }
    }
    findings
}

/// One condition, its faults in the order of its members; `None` when it lacks something.
fn check_condition(
    at: &str,
    members: Map<String, Value>,
    kinds: &mut HashSet<String>,
    faults: &mut Vec<Fault>,
) -> Option<Finding> {
    let (mut kind, mut status, mut reason, mut message) = (None, None, None, None);
    let (mut has_type, mut has_status) = (false, false);
    for (member, value) in members {
        if value.is_null() {
            continue;
        }
        let field = format!("{at}.{member}");
        match member.as_str() {
            "type" => {
                has_type = true;
                kind = check_type(&field, value, kinds, faults);
            }
            "status" => {
                has_status = true;
                status = text(&field, value, faults).and_then(|text| check_status(&field, &text, faults));
            }
            "reason" => reason = text(&field, value, faults),
            "message" => message = text(&field, value, faults),
            _ => {}
        }
    }
    for (member, there) in [("type", has_type), ("status", has_status)] {
        if !there {
            faults.push(Fault::missing(format!("{at}.{member}")));
        }
    }
    let (reason, message) = (reason.map(Into::into), message.map(Into::into));
    Some(Finding { kind: kind?.into(), status: status?, reason, message })
}

fn text(field: &str, value: Value, faults: &mut Vec<Fault>) -> Option<String> {
    check_text(field, &value, faults);
    match value {
        Value::String(text) => Some(text),
        other => {
            faults.push(Fault::wrong_type(field, "a string", &other));
            None
        }
    }
}

fn check_type(
    field: &str,
    value: Value,
    kinds: &mut HashSet<String>,
    faults: &mut Vec<Fault>,
) -> Option<String> {
    let kind = text(field, value, faults)?;
    let given = Value::from(kind.as_str());
    if kind.is_empty() {
        let message = format!("{field} must not be empty");
        faults.push(Fault::value(field, message, &given).rule("min_length").bounds(1, None));
    } else if !kinds.insert(kind.clone()) {
        let message = format!("{field} '{}' is there more than once", echo(&kind));
        faults.push(Fault::value(field, message, &given).rule("unique"));
    }
    Some(kind)
}

fn check_status(field: &str, text: &str, faults: &mut Vec<Fault>) -> Option<ReportedStatus> {
    let status = ReportedStatus::parse(text);
    if status.is_none() {
        let names = ReportedStatus::ALL.map(|(name, _)| name);
        let message = format!("{field} must be {}, not '{}'", names.join(" or "), echo(text));
        faults.push(Fault::value(field, message, &text.into()).rule("enum").allowed(names));
    }
    status
}
