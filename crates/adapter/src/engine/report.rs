//! Reports as pure functions: what the server takes, what the framework corrects in those of authors, and the report
//! that it makes where an author's cannot be had.

use std::collections::BTreeSet;

use hyperfleet_core::Timestamp;
use serde_json::{Map, Value, json};

use super::run::{Failure, FailureClass};

/// How long a failing adapter keeps saying what it last knew.
const KEPT_MICROS: i64 = 30 * 60 * 1_000_000;
/// Longest message of a condition, in characters.
const MAX_MESSAGE: usize = 1024;

/// Why the framework reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Situation {
    /// This is the outcome.
    Final,
    /// There will be another attempt.
    Retrying,
    /// That was the last attempt.
    GaveUp,
    /// A target is away.
    Outage,
}

/// What a report of the framework is made of.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) adapter: &'a str,
    pub(super) generation: i64,
    pub(super) deleting: bool,
    /// Whether every declared resource is there.
    pub(super) applied: bool,
    /// Declared resources that are there.
    pub(super) remaining: Vec<String>,
    pub(super) unmet: Option<&'a (String, String)>,
    pub(super) failure: Option<&'a Failure>,
    pub(super) attempt: u32,
    pub(super) attempts: u32,
    pub(super) situation: Situation,
}

/// The status of a condition.
pub(super) fn status_of<'r>(report: &'r Value, kind: &str) -> Option<&'r str> {
    condition(report, kind)?.get("status")?.as_str()
}

fn condition<'r>(report: &'r Value, kind: &str) -> Option<&'r Value> {
    report
        .get("conditions")?
        .as_array()?
        .iter()
        .find(|condition| condition.get("type").is_some_and(|it| it == kind))
}

fn condition_mut<'r>(report: &'r mut Value, kind: &str) -> Option<&'r mut Map<String, Value>> {
    let all = report.get_mut("conditions")?.as_array_mut()?;
    all.iter_mut().find(|condition| condition.get("type").is_some_and(|it| it == kind))?.as_object_mut()
}

/// What the server would refuse in a report.
pub(super) fn faults(report: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let Some(members) = report.as_object() else { return vec!["it is no JSON object".to_owned()] };
    match members.get("adapter").and_then(Value::as_str).map(|name| name.chars().count()) {
        Some(1..=253) => {}
        _ => faults.push("adapter must be 1 to 253 characters".to_owned()),
    }
    match members.get("observed_generation") {
        Some(Value::Number(number)) if number.as_i64().is_some_and(|generation| generation >= 1) => {}
        Some(Value::String(_)) => {
            faults.push(
                "observed_generation must be a whole number, and is text; use an expression".to_owned(),
            );
        }
        _ => faults.push("observed_generation must be a whole number from 1".to_owned()),
    }
    match members.get("observed_time") {
        None | Some(Value::Null) => {}
        Some(Value::String(time)) if Timestamp::parse(time).is_some() => {}
        Some(_) => faults.push("observed_time must be an RFC 3339 time".to_owned()),
    }
    for member in ["data", "metadata"] {
        if members.get(member).is_some_and(|value| !value.is_null() && !value.is_object()) {
            faults.push(format!("{member} must be an object"));
        }
    }
    let Some(conditions) = members.get("conditions").and_then(Value::as_array) else {
        faults.push("conditions must be a list".to_owned());
        return faults;
    };
    let mut types = BTreeSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let text = |member: &str| condition.get(member).and_then(Value::as_str);
        match text("type").filter(|kind| !kind.is_empty()) {
            None => faults.push(format!("conditions[{i}].type is missing")),
            Some(kind) if !types.insert(kind) => {
                faults.push(format!("conditions[{i}].type {kind} is there twice"));
            }
            Some(_) => {}
        }
        if !matches!(text("status"), Some("True" | "False" | "Unknown")) {
            faults.push(format!("conditions[{i}].status must be True, False or Unknown"));
        }
        for member in ["reason", "message"] {
            if condition.get(member).is_some_and(|value| !value.is_null() && !value.is_string()) {
                faults.push(format!("conditions[{i}].{member} must be text"));
            }
        }
    }
    for kind in ["Applied", "Available", "Health"] {
        if !types.contains(kind) {
            faults.push(format!("the condition {kind} is missing"));
        }
    }
    faults
}

/// Corrects `Health` in an author's report: to leave objects alone, or to be refused by a target, is not to be unwell.
pub(super) fn correct_health(report: &mut Value, facts: &Facts<'_>) -> bool {
    if status_of(report, "Health") != Some("False") || facts.failure.is_some_and(Failure::is_of_adapter) {
        return false;
    }
    let (reason, message) = match facts.unmet {
        Some((name, why)) => ("PreconditionNotMet", format!("{name}: {why}")),
        None => ("Healthy", String::new()),
    };
    if let Some(health) = condition_mut(report, "Health") {
        health.insert("status".to_owned(), "True".into());
        health.insert("reason".to_owned(), reason.into());
        health.insert("message".to_owned(), short(&message).into());
    }
    true
}

/// Says that the end of the cleanup is not confirmed.
pub(super) fn withhold_finalized(report: &mut Value, message: &str) {
    if let Some(finalized) = condition_mut(report, "Finalized") {
        finalized.insert("status".to_owned(), "False".into());
        finalized.insert("reason".to_owned(), "CleanupNotConfirmed".into());
        finalized.insert("message".to_owned(), short(message).into());
    }
}

/// Names what was corrected, and the error, where an author's report says neither.
pub(super) fn annotate(report: &mut Value, corrected: &[&str], facts: &Facts<'_>, now: Timestamp) {
    let Some(members) = report.as_object_mut() else { return };
    if !corrected.is_empty() {
        let metadata = members.entry("metadata").or_insert_with(|| json!({}));
        if metadata.is_null() {
            *metadata = json!({});
        }
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("corrected".to_owned(), json!(corrected));
        }
    }
    if let Some(failure) = facts.failure {
        let data = members.entry("data").or_insert_with(|| json!({}));
        if data.is_null() {
            *data = json!({});
        }
        if let Some(data) = data.as_object_mut() {
            data.entry("error").or_insert_with(|| error(failure, facts, None, now));
        }
    }
}

fn error(failure: &Failure, facts: &Facts<'_>, previous: Option<&Value>, now: Timestamp) -> Value {
    let before = previous.and_then(|previous| previous.pointer("/data/error"));
    let same = before.filter(|before| {
        ["code", "phase", "step"]
            .iter()
            .zip([failure.code(), failure.phase, &failure.step])
            .all(|(key, own)| before.get(key).and_then(Value::as_str) == Some(own))
    });
    let first = same.and_then(|before| before.get("first_time")).cloned();
    json!({
        "code": failure.code(),
        "phase": failure.phase,
        "step": failure.step,
        "target": failure.target,
        "message": short(&failure.message),
        "first_time": first.unwrap_or_else(|| now.to_string().into()),
        "attempt": facts.attempt,
        "of": facts.attempts,
    })
}

/// The framework's report.
pub(super) fn fallback(facts: &Facts<'_>, previous: Option<&Value>, now: Timestamp) -> Value {
    let unwell = facts.failure.filter(|failure| failure.is_of_adapter());
    let mut report = json!({
        "adapter": facts.adapter,
        "observed_generation": facts.generation.max(1),
        "observed_time": now.to_string(),
        "conditions": [],
        "data": {},
    });
    if let Some(failure) = facts.failure {
        report["data"]["error"] = error(failure, facts, previous, now);
    }
    let kept = previous.filter(|previous| {
        previous.get("observed_generation").and_then(Value::as_i64) == Some(facts.generation)
            && unwell.is_some()
            && is_recent(&report, now)
    });
    let mut conditions = Vec::new();
    let (reason, message) = why(facts);
    for kind in ["Applied", "Available"] {
        let before = kept.and_then(|previous| condition(previous, kind)).filter(|condition| {
            condition.get("status").and_then(Value::as_str).is_some_and(|status| status != "Unknown")
        });
        conditions.push(match before {
            Some(before) => json!({"type": kind, "status": before["status"], "reason": before.get("reason").cloned().unwrap_or_default(), "message": before.get("message").cloned().unwrap_or_default()}),
            None if kind == "Applied" => {
                let applied = facts.applied && !facts.deleting;
                let reason = if applied { "Applied" } else { reason };
                entry(kind, applied, reason, if applied { "" } else { &message })
            }
            None if unwell.is_some() => entry(kind, false, "NotVerified", &message),
            None => entry(kind, false, reason, &message),
        });
    }
    conditions.push(match (unwell, facts.situation) {
        (None, _) => entry("Health", true, "Healthy", ""),
        (Some(_), Situation::Retrying) => entry("Health", false, "Retrying", &message),
        (Some(_), Situation::GaveUp) => entry("Health", false, "GaveUp", &message),
        (Some(_), Situation::Outage) => entry("Health", false, "TargetUnavailable", &message),
        (Some(failure), Situation::Final) => {
            entry("Health", false, &format!("ExecutionFailed:{}", failure.phase), &message)
        }
    });
    if facts.deleting {
        let (reason, message) = match (facts.failure, facts.unmet) {
            (None, None) if !facts.remaining.is_empty() => {
                report["data"]["remaining"] = json!(facts.remaining);
                ("CleanupInProgress", format!("still there: {}", facts.remaining.join(", ")))
            }
            (None, Some(_)) => (reason, message),
            _ => ("CleanupNotConfirmed", message),
        };
        conditions.push(entry("Finalized", false, reason, &message));
    }
    report["conditions"] = conditions.into();
    report
}

/// Reason and message for what is not as it should be.
fn why<'a>(facts: &Facts<'a>) -> (&'a str, String) {
    match (facts.failure, facts.unmet) {
        (Some(failure), _) if failure.class == FailureClass::Business => {
            (&failure.reason, failure.message.clone())
        }
        (Some(failure), _) => {
            ("ExecutionFailed", format!("{} failed at {}: {}", failure.phase, failure.step, failure.message))
        }
        (None, Some((name, why))) => ("PreconditionNotMet", format!("{name}: {why}")),
        (None, None) => ("InProgress", String::new()),
    }
}

fn is_recent(report: &Value, now: Timestamp) -> bool {
    let first = report.pointer("/data/error/first_time").and_then(Value::as_str).and_then(Timestamp::parse);
    first.is_none_or(|first| now.micros().saturating_sub(first.micros()) <= KEPT_MICROS)
}

pub(super) fn entry(kind: &str, holds: bool, reason: &str, message: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    json!({"type": kind, "status": status, "reason": reason, "message": short(message)})
}

fn short(message: &str) -> String {
    message.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(class: FailureClass) -> Failure {
        Failure {
            class,
            phase: "resources",
            step: "job".to_owned(),
            target: "kubernetes",
            reason: "FieldConflict".to_owned(),
            message: "it is so".to_owned(),
        }
    }

    fn facts(failure: Option<&Failure>) -> Facts<'_> {
        Facts {
            adapter: "dns",
            generation: 2,
            deleting: false,
            applied: true,
            remaining: Vec::new(),
            unmet: None,
            failure,
            attempt: 1,
            attempts: 5,
            situation: Situation::Final,
        }
    }

    fn line(report: &Value) -> String {
        let conditions = report["conditions"].as_array().unwrap().iter();
        let one = |c: &Value| {
            format!(
                "{}={} {}",
                c["type"].as_str().unwrap(),
                c["status"].as_str().unwrap(),
                c["reason"].as_str().unwrap()
            )
        };
        conditions.map(one).collect::<Vec<_>>().join(", ")
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_micros(minute * 60_000_000)
    }

    #[test]
    fn a_business_failure_is_healthy_and_an_adapter_error_is_not() {
        let business = failure(FailureClass::Business);
        let report = fallback(&facts(Some(&business)), None, at(0));
        assert_eq!(line(&report), "Applied=True Applied, Available=False FieldConflict, Health=True Healthy");
        assert_eq!(faults(&report), Vec::<String>::new());
        let terminal = failure(FailureClass::Terminal);
        let report = fallback(&facts(Some(&terminal)), None, at(0));
        assert_eq!(
            line(&report),
            "Applied=True Applied, Available=False NotVerified, Health=False ExecutionFailed:resources"
        );
        assert_eq!(report["data"]["error"]["code"], "HYPERFLEET-SVC-004");
    }

    #[test]
    fn an_adapter_error_keeps_what_was_known_for_half_an_hour_at_the_same_generation() {
        let terminal = failure(FailureClass::Terminal);
        let good = json!({"adapter": "dns", "observed_generation": 2, "conditions": [
            entry("Applied", true, "A", ""), entry("Available", true, "Ready", "well"), entry("Health", true, "H", "")]});
        let first = fallback(&facts(Some(&terminal)), Some(&good), at(0));
        assert_eq!(
            line(&first),
            "Applied=True A, Available=True Ready, Health=False ExecutionFailed:resources"
        );
        let later = fallback(&facts(Some(&terminal)), Some(&first), at(30));
        assert_eq!(status_of(&later, "Available"), Some("True"));
        assert_eq!(later["data"]["error"]["first_time"], first["data"]["error"]["first_time"]);
        let too_late = fallback(&facts(Some(&terminal)), Some(&later), at(31));
        assert_eq!(status_of(&too_late, "Available"), Some("False"));
        let next = Facts { generation: 3, ..facts(Some(&terminal)) };
        assert_eq!(status_of(&fallback(&next, Some(&good), at(0)), "Available"), Some("False"));
    }

    #[test]
    fn health_of_a_skip_is_corrected_and_of_an_error_is_not() {
        let unmet = ("p".to_owned(), "x is false".to_owned());
        let mut report = json!({"conditions": [entry("Health", false, "ResourcesSkipped", "")]});
        let skipped = Facts { unmet: Some(&unmet), ..facts(None) };
        assert!(correct_health(&mut report, &skipped));
        assert_eq!(line(&report), "Health=True PreconditionNotMet");
        let terminal = failure(FailureClass::Terminal);
        let mut report = json!({"conditions": [entry("Health", false, "ExecutionFailed", "")]});
        assert!(!correct_health(&mut report, &facts(Some(&terminal))));
    }

    #[test]
    fn reports_that_the_server_refuses_are_told_apart() {
        let report = json!({"adapter": "", "observed_generation": "2", "observed_time": "now", "data": [], "conditions": [
            {"type": "Health", "status": "Yes"}, {"type": "Health", "status": "True", "reason": 1}]});
        let found = faults(&report).join("; ");
        for part in [
            "adapter must",
            "is text",
            "observed_time",
            "data must",
            "status must",
            "there twice",
            "reason must",
            "Applied is missing",
            "Available is missing",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
    }

    #[test]
    fn a_resource_that_is_being_deleted_is_never_reported_finalized_by_the_framework() {
        let remaining = Facts { deleting: true, remaining: vec!["job".into()], ..facts(None) };
        let report = fallback(&remaining, None, at(0));
        assert!(line(&report).ends_with("Finalized=False CleanupInProgress"), "{report}");
        assert_eq!(report["data"]["remaining"], json!(["job"]));
        let terminal = failure(FailureClass::Terminal);
        let failed = Facts { deleting: true, ..facts(Some(&terminal)) };
        assert!(line(&fallback(&failed, None, at(0))).ends_with("Finalized=False CleanupNotConfirmed"));
    }
}
