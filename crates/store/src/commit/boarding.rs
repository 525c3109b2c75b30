//! Who may board a flight: a command for which everything is remembered, or that the database itself would refuse if
//! something is otherwise than it was thought to be.

use std::sync::Arc;

use hyperfleet_core::rules::Dossier;
use hyperfleet_core::{Catalog, Command, Intent, ResourceId};

use crate::memory::Memory;

/// The resource that a command makes, changes or reports on.
pub(super) fn subject(command: &Command) -> Option<ResourceId> {
    match &command.intent {
        Intent::Create(create) => Some(create.id),
        Intent::Patch(patch) => ResourceId::parse(&patch.target.id),
        Intent::Report(submit) => ResourceId::parse(&submit.target.id),
        Intent::Delete(_) | Intent::ForceDelete(_) | Intent::Recompute(_) => None,
    }
}

/// The owners that a rule looks at for a command: a report is found by its own ancestry.
pub(super) fn owners(command: &Command) -> impl Iterator<Item = Option<ResourceId>> {
    let ancestors: &[(Arc<str>, String)] = match &command.intent {
        Intent::Create(create) => &create.ancestors,
        Intent::Patch(patch) => &patch.target.ancestors,
        _ => &[],
    };
    ancestors.iter().map(|(_, id)| ResourceId::parse(id))
}

/// Whether a command about `subject` can be decided before anything is read. Names are trusted to be free: that is the
/// last that is asked of a create, and an index holds them. Whoever only tries out writes nothing, so nothing would hold
/// them.
pub(super) fn may_board(
    memory: &Memory,
    catalog: &Catalog,
    command: &Command,
    subject: ResourceId,
    trusts_names: bool,
) -> bool {
    let knows_owners = || owners(command).all(|owner| owner.is_some_and(|id| memory.get(id).is_some()));
    match &command.intent {
        Intent::Report(submit) => {
            memory.get(subject).is_some_and(|dossier| dossier.knows_report(&submit.submission.adapter))
        }
        Intent::Create(create) => {
            // The rules of mapped conditions look at more than is remembered.
            let is_plain = catalog.get(&create.kind).is_some_and(|entity| entity.mappings.is_empty());
            let reads_nothing = command.retry.is_none() && create.references.is_empty();
            trusts_names && is_plain && reads_nothing && !command.dry_run && knows_owners()
        }
        Intent::Patch(patch) => {
            let reads_nothing = command.retry.is_none() && !patch.body.touches_references();
            reads_nothing && memory.get(subject).is_some_and(Dossier::is_whole) && knows_owners()
        }
        Intent::Delete(_) | Intent::ForceDelete(_) | Intent::Recompute(_) => false,
    }
}
