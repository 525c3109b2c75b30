//! The short way for reports that are as they should be: read straight into their members, without a tree of
//! values in between. It knows no faults; whatever it does not take is left to the long way.

use std::borrow::Cow;
use std::collections::HashSet;

use hyperfleet_core::{Contract, Finding, MAX_DEPTH, RawJson, ReportedStatus, Submission, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{MAX_ADAPTER, check_time};

#[derive(Deserialize)]
struct Report<'a> {
    #[serde(borrow)]
    adapter: Cow<'a, str>,
    observed_generation: i64,
    #[serde(borrow)]
    observed_time: Option<Cow<'a, str>>,
    #[serde(borrow)]
    conditions: Vec<Condition<'a>>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    status: ReportedStatus,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
}

pub(super) fn report(contract: Contract, now: Timestamp, bytes: &[u8]) -> Option<Submission> {
    // A character that is written as a number may be one that is not allowed, or part of a name that the
    // parser gives a meaning of its own.
    if contains(bytes, b"\\u") || contains(bytes, b"$serde_json") {
        return None;
    }
    let report: Report<'_> = serde_json::from_slice(bytes).ok()?;
    let observed_time = match report.observed_time {
        None => now,
        Some(text) => {
            let mut faults = Vec::new();
            let time = check_time(contract, now, &text.into(), &mut faults);
            faults.is_empty().then_some(time)?
        }
    };
    let adapter_fits = (1..=MAX_ADAPTER).contains(&report.adapter.chars().count());
    if !adapter_fits || report.observed_generation < 1 || !are_distinct(&report.conditions) {
        return None;
    }
    Some(Submission {
        adapter: report.adapter.into_owned(),
        observed_generation: report.observed_generation,
        observed_time,
        conditions: report.conditions.into_iter().map(finding).collect(),
        data: match report.data {
            None => RawJson::from_stored("{}"),
            Some(data) => object(data)?,
        },
        metadata: match report.metadata {
            None => None,
            Some(metadata) => Some(object(metadata)?),
        },
    })
}

fn contains(bytes: &[u8], pattern: &[u8]) -> bool {
    bytes.windows(pattern.len()).any(|window| window == pattern)
}

fn are_distinct(conditions: &[Condition<'_>]) -> bool {
    let mut kinds = HashSet::with_capacity(conditions.len());
    conditions.iter().all(|condition| !condition.kind.is_empty() && kinds.insert(&*condition.kind))
}

fn finding(condition: Condition<'_>) -> Finding {
    Finding {
        kind: condition.kind.into_owned(),
        status: condition.status,
        reason: condition.reason.map(Cow::into_owned),
        message: condition.message.map(Cow::into_owned),
    }
}

/// The text of an object that is not nested too deeply.
fn object(raw: &RawValue) -> Option<RawJson> {
    let text = raw.get();
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth -= 1,
            _ => {}
        }
        if depth > MAX_DEPTH {
            return None;
        }
    }
    text.starts_with('{').then(|| RawJson::from_stored(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn now() -> Timestamp {
        Timestamp::parse("2026-01-31T10:00:00Z").unwrap()
    }

    fn both(body: &str) -> (Option<Submission>, Option<Submission>) {
        let contract = Contract::DOCUMENTED;
        (
            report(contract, now(), body.as_bytes()),
            super::super::checked(contract, now(), body.as_bytes()).ok(),
        )
    }

    #[test]
    fn what_the_short_way_takes_is_what_the_long_way_makes_of_it() {
        let condition = json!({"type": "Available", "status": "True", "reason": "R", "extra": [1]});
        let good = json!({"adapter": "a", "observed_generation": 1, "conditions": [condition]});
        for (member, value) in [
            ("adapter", json!("ü".repeat(253))),
            ("observed_time", json!("2026-01-31T09:59:59.1234567+00:00")),
            ("observed_time", Value::Null),
            ("observed_generation", json!(i64::MAX)),
            ("conditions", json!([])),
            ("conditions", json!([{"type": "x", "status": "Unknown", "message": null}])),
            ("data", json!({"a": {"b": [1, 1.5, "x"]}, "c": null})),
            ("metadata", json!({"quote": "a \"{[ b"})),
            ("unknown", json!({"x": 1})),
        ] {
            let mut body = good.clone();
            body[member] = value;
            let (short, long) = both(&body.to_string());
            assert!(short.is_some(), "{body}");
            assert_eq!(short, long, "{body}");
        }
    }

    #[test]
    fn what_is_wrong_or_unusual_is_left_to_the_long_way() {
        for body in [
            r#"{"observed_generation":1,"conditions":[]}"#,
            r#"{"adapter":"","observed_generation":1,"conditions":[]}"#,
            r#"{"adapter":"a","observed_generation":0,"conditions":[]}"#,
            r#"{"adapter":"a","observed_generation":1.0,"conditions":[]}"#,
            r#"{"adapter":"a","observed_generation":1,"conditions":[{"type":"","status":"True"}]}"#,
            r#"{"adapter":"a","observed_generation":1,"conditions":[{"type":"x","status":"true"}]}"#,
            r#"{"adapter":"a","observed_generation":1,"conditions":[{"type":"x","status":"True"},{"type":"x","status":"True"}]}"#,
            r#"{"adapter":"a","observed_generation":1,"conditions":[],"data":[]}"#,
            r#"{"adapter":"a","observed_generation":1,"conditions":[],"data":{"\u0000":1}}"#,
            r#"{"adapter":"a","observed_generation":1,"conditions":[],"data":{"$serde_json::private::Number":"1"}}"#,
            r#"{"adapter":"a","observed_generation":1,"observed_time":"2026-01-31T10:06:00Z","conditions":[]}"#,
            r#"{"adapter":"a","observed_generation":1,"conditions":[],"conditions":[]}"#,
        ] {
            assert_eq!(both(body).0, None, "{body}");
        }
        let deep = |levels: usize| {
            let data = format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
            format!(r#"{{"adapter":"a","observed_generation":1,"conditions":[],"data":{data}}}"#)
        };
        assert!(both(&deep(64)).0.is_some());
        assert!(both(&deep(65)).0.is_none());
    }
}
