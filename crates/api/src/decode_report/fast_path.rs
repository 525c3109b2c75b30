//! Decodes a valid report straight into its members, without a tree of values. It reports no faults: for anything
//! unusual it returns `None`, and the caller decodes the body again with full checks.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::LazyLock;

use hyperfleet_core::{Contract, Finding, MAX_DEPTH, RawJson, ReportedStatus, Submission, Timestamp};
use memchr::memmem::Finder;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{MAX_ADAPTER, MAX_CONDITIONS, check_time};
use crate::body::nests_deeper;

// Built once, because building one takes longer than searching a report.
static FIND_ESCAPED: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("\\u"));
static FIND_PRIVATE: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("$serde_json"));

#[derive(serde::Deserialize)]
struct Report<'a> {
    #[serde(borrow)]
    adapter: Cow<'a, str>,
    observed_generation: i64,
    #[serde(borrow)]
    observed_time: Option<Cow<'a, str>>,
    #[serde(borrow)]
    conditions: Vec<Object<Condition<'a>>>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
}

/// A value that only deserializes from an object. Derived implementations accept an array of the members' values too.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members)).map(Object)
            }
        }
        deserializer.deserialize_map(Members(PhantomData))
    }
}

pub(super) fn report(contract: Contract, now: Timestamp, bytes: &[u8]) -> Option<Submission> {
    // An escaped character may be one that is not allowed, or part of a member name that is reserved by the parser.
    if FIND_ESCAPED.find(bytes).is_some() || FIND_PRIVATE.find(bytes).is_some() {
        return None;
    }
    let text = str::from_utf8(bytes).ok()?;
    // The full checks decide about deeper documents.
    if nests_deeper(bytes, MAX_DEPTH + 1) {
        return None;
    }
    let Object(report) = serde_json::from_str::<Object<Report<'_>>>(text).ok()?;
    let observed_time = match report.observed_time {
        None => None,
        Some(text) => {
            let mut faults = Vec::new();
            let time = check_time(contract, now, &text.into(), &mut faults);
            Some(faults.is_empty().then_some(time)?)
        }
    };
    let adapter_fits = (1..=MAX_ADAPTER).contains(&report.adapter.chars().count());
    if !adapter_fits || report.observed_generation < 1 {
        return None;
    }
    Some(Submission {
        adapter: report.adapter.into(),
        observed_generation: report.observed_generation,
        observed_time,
        conditions: findings(report.conditions)?,
        data: match report.data {
            None => RawJson::from_stored("{}"),
            Some(data) => document(data)?,
        },
        metadata: match report.metadata {
            None => None,
            Some(metadata) => Some(document(metadata)?),
        },
    })
}

fn findings(conditions: Vec<Object<Condition<'_>>>) -> Option<Vec<Finding>> {
    if conditions.len() > MAX_CONDITIONS {
        return None;
    }
    let mut findings = Vec::with_capacity(conditions.len());
    for Object(condition) in conditions {
        findings.push(Finding {
            kind: condition.kind.into(),
            status: ReportedStatus::parse(&condition.status)?,
            reason: condition.reason.map(Into::into),
            message: condition.message.map(Into::into),
        });
    }
    let mut kinds: Vec<&str> = findings.iter().map(|finding| &*finding.kind).collect();
    kinds.sort_unstable();
    let each_once = kinds.windows(2).all(|pair| pair[0] != pair[1]);
    (each_once && kinds.first() != Some(&"")).then_some(findings)
}

/// The text of an object.
fn document(raw: &RawValue) -> Option<RawJson> {
    raw.get().starts_with('{').then(|| RawJson::from_stored(raw.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn now() -> Timestamp {
        Timestamp::parse("2026-01-31T10:00:00Z").unwrap()
    }

    fn both(body: &str) -> (Option<Submission>, Option<Submission>) {
        let contract = Contract::Documented;
        (
            report(contract, now(), body.as_bytes()),
            super::super::report_or_faults(contract, now(), body.as_bytes()).ok(),
        )
    }

    #[test]
    fn the_fast_path_decodes_valid_reports_as_the_full_checks_do() {
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
    fn the_fast_path_leaves_faulty_and_unusual_reports_to_the_full_checks() {
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
            r#"["a",1,null,[],{},null]"#,
            r#"{"adapter":"a","observed_generation":1,"conditions":[["Available","True",null,null]]}"#,
            r#"{"adapter":"a","observed_generation":1,"conditions":[{"type":"x","status":{"True":null}}]}"#,
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
