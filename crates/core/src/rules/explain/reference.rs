//! Resources that refer to one that is being deleted. These are rare, because a deletion is refused while others refer
//! to its target, and nothing can refer to a finalizing resource. What remains are references of kinds that were
//! removed from the configuration; only a person can remove them.

use super::{Blocker, BlockerKind, ExplainContext, NAMED, RankedBlocker, Remedy, Severity, named};
use crate::Resource;

/// The referrers of a finalizing resource.
pub(super) fn blockers(context: &ExplainContext<'_>) -> Vec<RankedBlocker> {
    let mut referrers: Vec<&Resource> = context.related.referrers.iter().collect();
    referrers.sort_by_key(|r| (&r.kind, &r.name, r.id));
    referrers.truncate(NAMED);
    let others = context.related.references.saturating_sub(referrers.len());
    let mut found: Vec<RankedBlocker> = referrers
        .into_iter()
        .map(|referrer| {
            let href = context.view.href(referrer);
            let detail = format!("{} still refers to it, and what is referred to stays.", named(referrer));
            let [patch, delete] =
                [Remedy::Patch, Remedy::Delete].map(|remedy| (context.requests)(remedy, &href));
            let action = format!("{patch} without the reference, or {delete}.");
            blocker(context, referrer.name.clone(), detail, action)
        })
        .collect();
    if others > 0 {
        let detail =
            format!("Others that still refer to it: {others}. What you may not read is never named.");
        let action =
            "Ask someone who may read them to take the references away; those of a kind that is not \
                      configured any more need their kind back."
                .to_owned();
        found.push(blocker(context, format!("others ({others})"), detail, action));
    }
    found
}

fn blocker(context: &ExplainContext<'_>, name: String, detail: String, action: String) -> RankedBlocker {
    let blocker = Blocker { kind: BlockerKind::Reference, name, since: context.deleted(), detail, action };
    RankedBlocker { severity: Severity::Lasting, blocker }
}
