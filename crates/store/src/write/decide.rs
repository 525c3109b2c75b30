//! Decides the commands of a batch one after the other, each on what the commands before it left.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hyperfleet_core::rules::{Outcome, Rulebook, WorkingSet, decide as apply_rule, replay};
use hyperfleet_core::{Action, Change, Command, Error, ResourceId, Timestamp};

use super::Decided;

/// `now` is the time of the database.
pub(super) fn decide(
    rulebook: &Rulebook,
    mut set: WorkingSet,
    commands: &[Command],
    now: Timestamp,
) -> Decided {
    let answers = commands.iter().map(|command| decide_one(rulebook, &mut set, command, now)).collect();
    log_force_deletes(set.changes());
    log_skipped_conditions(&set);
    Decided { set, answers }
}

fn decide_one(
    rulebook: &Rulebook,
    set: &mut WorkingSet,
    command: &Command,
    now: Timestamp,
) -> Result<Outcome, Error> {
    // A rule only reads the set, so a panic inside leaves nothing half done.
    let decided = catch_unwind(AssertUnwindSafe(|| match replay(rulebook, set, command, now) {
        Some(replayed) => replayed.map(Err),
        None => apply_rule(rulebook, set, command, now).map(Ok),
    }));
    let decision = match decided.unwrap_or_else(|_| Err(Error::internal("a rule panicked")))? {
        Ok(decision) => decision,
        Err(replayed) => return Ok(replayed),
    };
    if command.dry_run {
        return Ok(set.dry_run(decision));
    }
    let outcome = set.apply(decision, &command.caller, now);
    if let Some(idempotency) = &command.idempotency {
        set.record_idempotency(idempotency, &outcome, now);
    }
    Ok(outcome)
}

/// A rule that fails costs its condition, not the report. The failure is logged and counted.
fn log_skipped_conditions(set: &WorkingSet) {
    for skipped in set.skipped_conditions() {
        tracing::warn!(
            resource_type = &*skipped.subject.kind,
            resource_id = %skipped.subject.id,
            condition = skipped.failure.kind,
            error = skipped.failure.cause,
            "a mapped condition is left out"
        );
    }
}

/// Force-deletes are logged before they are committed, so that neither a crash nor a caller that hangs up can keep them
/// out of the log.
fn log_force_deletes(changes: &[Change]) {
    let list = |ids: &[ResourceId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    for change in changes {
        for entry in change.entries.iter().filter(|entry| entry.action == Action::ForceDeleted) {
            tracing::warn!(
                actor = change.actor,
                request_id = change.request_id,
                resource_type = &*change.kind,
                resource_id = %change.resource,
                reason = entry.reason,
                removed = list(&entry.removed),
                dropped_references_of = list(&entry.dropped_references_of),
                "force-delete"
            );
        }
    }
}
