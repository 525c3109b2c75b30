//! What must hold at any time, whatever was asked in which order: checked on the model itself and on JSON read from
//! a server, so that it also judges histories with concurrency or crashes, which no model can predict step by step.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::conditions::{Facts, Snapshot, reconciled, successful};
use super::kinds::{Kind, Kinds};
use super::state::Model;
use super::view::time_text;

impl Model {
    /// Violations of the invariants in the model's own state; always empty, or the model is wrong.
    pub fn invariants(&self) -> Vec<String> {
        let views = self.resources();
        let documents: Vec<Value> = views.iter().map(|view| view.document.clone()).collect();
        let statuses = views.into_iter().map(|view| (view.id, view.statuses)).collect();
        let mut found = check_invariants(&self.kinds, &documents, &statuses);
        found.extend(check_conditions(&self.kinds, &documents, &statuses));
        found
    }
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

fn time(value: &Value, member: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(value[member].as_str()?).ok().map(|time| time.to_utc())
}

fn label(resource: &Value) -> String {
    format!("{} {}", text(resource, "kind"), text(resource, "id"))
}

fn by_id(resources: &[Value]) -> BTreeMap<&str, &Value> {
    resources.iter().map(|resource| (text(resource, "id"), resource)).collect()
}

fn is_finalizing(resource: &Value) -> bool {
    resource.get("deleted_time").is_some()
}

/// Checks a whole fleet, read in one snapshot with finalizing resources included, and the `statuses` items of each
/// resource by its id. Gives one sentence for each violation: a child without its parent, an active child below a
/// finalizing parent, a report without its resource or for a generation that was never reached, a reference that
/// should not be, a deletion that is complete and yet not done.
pub fn check_invariants(
    kinds: &Kinds,
    resources: &[Value],
    statuses: &BTreeMap<String, Vec<Value>>,
) -> Vec<String> {
    let known = by_id(resources);
    let mut found = Vec::new();
    if known.len() != resources.len() {
        found.push("an id occurs twice".into());
    }
    for id in statuses.keys().filter(|id| !known.contains_key(id.as_str())) {
        found.push(format!("there are reports for {id}, which does not exist"));
    }
    for resource in resources {
        let Some(kind) = kinds.get(text(resource, "kind")) else {
            found.push(format!("{} is of an unknown kind", label(resource)));
            continue;
        };
        let reports = statuses.get(text(resource, "id")).map_or(&[][..], Vec::as_slice);
        let mut say = |fault: &str| found.push(format!("{} {fault}", label(resource)));
        check_owner(kind, resource, &known, &mut say);
        check_references(resource, &known, &mut say);
        check_reports(resource, reports, &mut say);
        match facts(kind, resource, resources, reports) {
            Some(facts) if facts.deletion_is_complete() => {
                say("is finalizing although its adapters have finalized and no child is left");
            }
            Some(_) => {}
            None => say("has no generation or no updated_time"),
        }
    }
    found
}

fn check_owner(kind: &Kind, resource: &Value, known: &BTreeMap<&str, &Value>, say: &mut impl FnMut(&str)) {
    let owner = resource.get("owner_references");
    match (&kind.parent, owner) {
        (None, None) => {}
        (None, Some(_)) => say("has an owner although its kind has no parent"),
        (Some(_), None) => say("has no owner"),
        (Some((parent_kind, _)), Some(owner)) => match known.get(text(owner, "id")) {
            None => say("outlived its owner"),
            Some(parent) if text(parent, "kind") != parent_kind => say("has an owner of another kind"),
            Some(parent) if is_finalizing(parent) && !is_finalizing(resource) => {
                say("is active below a finalizing owner");
            }
            Some(_) => {}
        },
    }
}

fn check_references(resource: &Value, known: &BTreeMap<&str, &Value>, say: &mut impl FnMut(&str)) {
    let Some(references) = resource.get("references").and_then(Value::as_object) else { return };
    if is_finalizing(resource) {
        say("is finalizing and still has references");
    }
    for target in references.values().filter_map(Value::as_array).flatten() {
        match known.get(text(target, "id")) {
            None => say("refers to a resource that does not exist"),
            Some(target) if is_finalizing(target) => say("refers to a finalizing resource"),
            Some(_) => {}
        }
    }
}

fn check_reports(resource: &Value, reports: &[Value], say: &mut impl FnMut(&str)) {
    let generation = resource["generation"].as_u64().unwrap_or(0);
    if generation < 1 {
        say("has a generation below 1");
    }
    if is_finalizing(resource) && generation < 2 {
        say("is finalizing at its first generation");
    }
    for report in reports {
        let observed = report["observed_generation"].as_u64().unwrap_or(0);
        if observed < 1 || observed > generation {
            say("has a report for a generation that it never had");
        }
    }
    if !reports.is_sorted_by(|one, next| text(one, "adapter") < text(next, "adapter")) {
        say("has reports out of order or two of one adapter");
    }
}

/// Checks those parts of the conditions that follow from the present state alone, without the past: all that
/// `Reconciled` and the conditions per adapter say, save when they were made and when they flipped. Conditions that the
/// model does not know (mapped ones) are passed over.
pub fn check_conditions(
    kinds: &Kinds,
    resources: &[Value],
    statuses: &BTreeMap<String, Vec<Value>>,
) -> Vec<String> {
    let mut found = Vec::new();
    for resource in resources {
        let reports = statuses.get(text(resource, "id")).map_or(&[][..], Vec::as_slice);
        let facts =
            kinds.get(text(resource, "kind")).and_then(|kind| facts(kind, resource, resources, reports));
        let Some(facts) = facts else { continue };
        let conditions = resource["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        let mut say = |fault: String| found.push(format!("{}: {fault}", label(resource)));

        for (index, type_) in ["Reconciled", "LastKnownReconciled"].into_iter().enumerate() {
            if conditions.get(index).is_none_or(|condition| text(condition, "type") != type_) {
                say(format!("condition {index} is not {type_}"));
            }
        }
        let (content, updated) = reconciled(&facts);
        let mut expected = vec![("Reconciled".to_owned(), content, facts.generation, updated)];
        for (adapter, snapshot) in facts.reported() {
            let condition = successful(adapter, snapshot, facts.reference_time);
            expected.push((condition.type_, condition.content, snapshot.generation, snapshot.time));
        }
        for (type_, content, generation, updated) in &expected {
            let Some(condition) = conditions.iter().find(|condition| text(condition, "type") == type_) else {
                say(format!("{type_} is missing"));
                continue;
            };
            let status = if content.status { "True" } else { "False" };
            let agrees = text(condition, "status") == status
                && text(condition, "reason") == content.reason
                && text(condition, "message") == content.message
                && condition["observed_generation"].as_u64() == Some(*generation)
                && time(condition, "last_updated_time") == Some(*updated);
            if !agrees {
                say(format!(
                    "expected {type_} {status} {content:?} at {generation}, updated {}; found {condition}",
                    time_text(*updated)
                ));
            }
        }
        let successes =
            conditions.iter().map(|it| text(it, "type")).filter(|type_| type_.ends_with("Successful"));
        if !successes.eq(expected.iter().skip(1).map(|(type_, ..)| type_.as_str())) {
            say("conditions per adapter are not those of the reporting adapters in configured order".into());
        }
    }
    found
}

/// Checks that nothing went back between two readings of one fleet: generations do not fall, a deletion is neither
/// taken back nor dated anew, a creation keeps its date.
pub fn check_progress(before: &[Value], after: &[Value]) -> Vec<String> {
    let now = by_id(after);
    let mut found = Vec::new();
    for old in before {
        let Some(new) = now.get(text(old, "id")) else { continue };
        let mut say = |fault: &str| found.push(format!("{} {fault}", label(old)));
        if new["generation"].as_u64() < old["generation"].as_u64() {
            say("went back to an older generation");
        }
        if is_finalizing(old) && time(old, "deleted_time") != time(new, "deleted_time") {
            say("lost or moved its deleted_time");
        }
        if time(old, "created_time") != time(new, "created_time") {
            say("moved its created_time");
        }
    }
    found
}

/// The facts about a resource, from the JSON of the fleet.
fn facts(kind: &Kind, resource: &Value, resources: &[Value], reports: &[Value]) -> Option<Facts> {
    let generation = resource["generation"].as_u64()?;
    let finalizing = is_finalizing(resource);
    let mut children = BTreeMap::new();
    for child in resources {
        if child.get("owner_references").is_some_and(|owner| owner["id"] == resource["id"]) {
            *children.entry(text(child, "kind").to_owned()).or_insert(0) += 1;
        }
    }
    let required = kind
        .required_adapters
        .iter()
        .map(|adapter| {
            let report = reports.iter().find(|report| text(report, "adapter") == adapter);
            (adapter.clone(), report.and_then(|report| snapshot(report, generation, finalizing)))
        })
        .collect();
    Some(Facts {
        generation,
        reference_time: time(resource, "updated_time")?,
        finalizing,
        required,
        children,
    })
}

fn snapshot(report: &Value, generation: u64, finalizing: bool) -> Option<Snapshot> {
    let conditions = report["conditions"].as_array()?;
    let condition = |type_: &str| conditions.iter().find(|condition| text(condition, "type") == type_);
    let available = condition("Available")?;
    let finalized = condition("Finalized").is_some_and(|condition| text(condition, "status") == "True");
    let observed = report["observed_generation"].as_u64()?;
    let decided = text(available, "status") != "Unknown" || (finalizing && finalized);
    if observed > generation || !decided {
        return None;
    }
    Some(Snapshot {
        generation: observed,
        available: text(available, "status") == "True",
        finalized,
        time: time(report, "last_report_time")?,
        reason: text(available, "reason").into(),
        message: text(available, "message").into(),
    })
}
