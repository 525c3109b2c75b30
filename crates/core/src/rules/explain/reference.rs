//! Resources that refer to one that is being deleted. That is rare: a deletion is refused while others refer to its
//! target, and nothing can refer to what is finalizing. What remains are references of kinds that were taken out of the
//! configuration, and whatever a database should not hold; nothing but a person can end either.

use super::{Blocker, BlockerKind, Case, Found, NAMED, Severity, named};
use crate::Resource;

/// The referrers of a finalizing resource.
pub(super) fn blockers(case: &Case<'_>) -> Vec<Found> {
    let mut referrers: Vec<&Resource> = case.around.referrers.iter().collect();
    referrers.sort_by_key(|r| (&r.kind, &r.name, r.id));
    referrers.truncate(NAMED);
    let others = case.around.references.saturating_sub(referrers.len());
    let mut found: Vec<Found> = referrers
        .into_iter()
        .map(|referrer| {
            let href = case.view.href(referrer);
            let detail = format!("{} still refers to it, and what is referred to stays.", named(referrer));
            let action = format!("PATCH {href} without the reference, or DELETE {href}.");
            blocker(case, referrer.name.clone(), detail, action)
        })
        .collect();
    if others > 0 {
        let detail =
            format!("Others that still refer to it: {others}. What you may not read is never named.");
        let action =
            "Ask someone who may read them to take the references away; those of a kind that is not \
                      configured any more need their kind back."
                .to_owned();
        found.push(blocker(case, format!("others ({others})"), detail, action));
    }
    found
}

fn blocker(case: &Case<'_>, name: String, detail: String, action: String) -> Found {
    let blocker = Blocker { kind: BlockerKind::Reference, name, since: case.deleted(), detail, action };
    Found { severity: Severity::Lasting, blocker }
}
