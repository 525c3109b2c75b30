//! Conditions computed from what is known about a resource: `Reconciled` says whether the world
//! matches the present wish, `LastKnownReconciled` whether it matched one that is known to be good.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Action, Condition, Entity, Entry, Error, FieldChange, RawJson, Resource, Status, Timestamp};

/// What a condition says, apart from its times.
struct Verdict {
    status: Status,
    reason: &'static str,
    message: String,
}

impl Verdict {
    fn new(status: Status, reason: &'static str, message: impl Into<String>) -> Self {
        Self { status, reason, message: message.into() }
    }
}

/// Recomputes the conditions of `resource` in place, and returns an entry per flipped condition.
/// `children` counts what is left below it, by kind.
pub(super) fn refresh(
    entity: &Entity,
    resource: &mut Resource,
    children: &BTreeMap<Arc<str>, usize>,
) -> Result<Vec<Entry>, Error> {
    let previous: Vec<Condition> = resource.conditions.parse()?;
    let previous = |kind: &str| previous.iter().find(|c| c.kind == kind);
    let generation = resource.generation;
    let changed = resource.updated.at;

    let known = previous("LastKnownReconciled");
    let last_known_generation = if entity.required_adapters.is_empty() {
        generation
    } else {
        known.map_or(1, |p| p.observed_generation)
    };
    let last_known_updated = if entity.required_adapters.is_empty() {
        changed
    } else {
        known.map_or(changed, |p| p.last_updated_time)
    };

    let conditions = [
        condition(
            "Reconciled",
            previous("Reconciled"),
            reconciled(entity, resource, children),
            generation,
            changed,
            changed,
        ),
        condition(
            "LastKnownReconciled",
            known,
            last_known(entity),
            last_known_generation,
            last_known_updated,
            changed,
        ),
    ];
    let flips = conditions.iter().filter_map(|now| flip(previous(&now.kind)?, now)).collect();
    resource.conditions = RawJson::from_value(&conditions);
    Ok(flips)
}

fn reconciled(entity: &Entity, resource: &Resource, children: &BTreeMap<Arc<str>, usize>) -> Verdict {
    let adapters = entity.required_adapters.join(", ");
    match (resource.is_active(), entity.required_adapters.is_empty()) {
        (true, true) => no_adapters(),
        (true, false) => Verdict::new(
            Status::False,
            "ReconciledMissingAdapters",
            format!(
                "Required adapters have not yet reported status at generation {}: {adapters}",
                resource.generation
            ),
        ),
        (false, true) => {
            let left: Vec<_> = children
                .iter()
                .filter(|(_, count)| **count > 0)
                .map(|(kind, count)| format!("{kind} ({count})"))
                .collect();
            if left.is_empty() {
                return Verdict::new(
                    Status::True,
                    "ReconciledAll",
                    "All required adapters reported Available=True or Finalized=True at the current generation",
                );
            }
            Verdict::new(
                Status::False,
                "ReconciledWaitingForChildren",
                format!("Deletion in progress: waiting for child resources: {}", left.join(", ")),
            )
        }
        (false, false) => Verdict::new(
            Status::False,
            "ReconciledMissingAdapters",
            format!(
                "Required adapters not reporting Finalized=True at generation {}: {adapters}",
                resource.generation
            ),
        ),
    }
}

fn last_known(entity: &Entity) -> Verdict {
    if entity.required_adapters.is_empty() {
        no_adapters()
    } else {
        Verdict::new(
            Status::False,
            "AdaptersMissingReports",
            "Required adapters have not yet reported status",
        )
    }
}

fn no_adapters() -> Verdict {
    Verdict::new(Status::True, "NoRequiredAdapters", "No adapters are required for this kind")
}

/// `changed` is the resource's `updated_time`: the moment of anything that no report caused.
fn condition(
    kind: &str,
    previous: Option<&Condition>,
    verdict: Verdict,
    observed_generation: i64,
    last_updated_time: Timestamp,
    changed: Timestamp,
) -> Condition {
    Condition {
        kind: kind.to_owned(),
        last_transition_time: previous
            .filter(|p| p.status == verdict.status)
            .map_or(changed, |p| p.last_transition_time),
        status: verdict.status,
        reason: verdict.reason.to_owned(),
        message: verdict.message,
        observed_generation,
        created_time: previous.map_or(changed, |p| p.created_time),
        last_updated_time,
    }
}

fn flip(before: &Condition, now: &Condition) -> Option<Entry> {
    (before.status != now.status).then(|| {
        let change = FieldChange {
            path: format!("status.conditions.{}", now.kind),
            from: Some(status_text(before.status).into()),
            to: Some(status_text(now.status).into()),
        };
        Entry { condition: Some(now.kind.clone()), ..Entry::new(Action::ConditionChanged, vec![change]) }
    })
}

fn status_text(status: Status) -> &'static str {
    match status {
        Status::True => "True",
        Status::False => "False",
    }
}
