//! What a command has a stake in, so that commands that have none in common can be on their way at the same time.

use std::sync::Arc;

use hyperfleet_core::rules::Needs;
use hyperfleet_core::{Command, Fingerprint, Intent, Place, ResourceId};

/// Something that a command reads or writes. Numbers that every command counts up are none: they are counted up where
/// they are stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Stake {
    Resource(ResourceId),
    Name(Arc<str>, Place, String),
    Retry(Fingerprint),
}

/// The stakes of a command. `None` where they are not known before it is decided: what goes may take others with it.
pub(super) fn of(command: &Command) -> Option<Vec<Stake>> {
    match &command.intent {
        Intent::Create(_) | Intent::Patch(_) => {}
        Intent::Report(submit) => {
            return ResourceId::parse(&submit.target.id).map(|id| vec![Stake::Resource(id)]);
        }
        Intent::Delete(_) | Intent::ForceDelete(_) | Intent::Recompute(_) => return None,
    }
    let Needs { ids, names, retries, .. } = Needs::of([command]);
    let resources = ids.into_iter().map(Stake::Resource);
    let names = names.into_iter().map(|(kind, place, name)| Stake::Name(kind, place, name));
    Some(resources.chain(names).chain(retries.into_iter().map(Stake::Retry)).collect())
}
