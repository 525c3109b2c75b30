//! Compares what each watcher received with what its view makes of the feed: every change once, in order, over all of its
//! connections.

use std::collections::BTreeMap;

use super::{Check, Evidence, Findings};
use crate::feed::Change;
use crate::history::{Beginning, Event, EventKind, View, Watch};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    for view in [View::Everything, View::Active, View::Red, View::NodePools] {
        let mut watches: Vec<&Watch> =
            evidence.history.watches.iter().filter(|watch| watch.view == view).collect();
        watches.sort_by_key(|watch| watch.beginning.version());
        let mut watches = watches.into_iter().peekable();
        let mut account = Account::default();
        let mut begun = Vec::new();
        for change in &evidence.feed {
            while let Some(watch) = watches.next_if(|watch| watch.beginning.version() < change.version) {
                account.check_present(watch, findings);
                begun.push(watch);
            }
            account.add(view, change);
        }
        for watch in watches {
            account.check_present(watch, findings);
            begun.push(watch);
        }
        let end = evidence.feed.last().map_or(0, |change| change.version);
        begun.iter().for_each(|watch| account.check_changes(watch, end, findings));
    }
}

/// What a view shows, and every event that it has had.
#[derive(Default)]
struct Account {
    shown: BTreeMap<uuid::Uuid, u64>,
    events: Vec<Event>,
}

impl Account {
    fn add(&mut self, view: View, change: &Change) {
        let is_shown = change.is_shown(view);
        let was_shown = match is_shown {
            true => self.shown.insert(change.resource, change.digest),
            false => self.shown.remove(&change.resource),
        };
        let kind = match (was_shown.is_some(), is_shown) {
            (false, false) => return,
            (false, true) => EventKind::Added,
            (true, true) => EventKind::Modified,
            (true, false) => EventKind::Deleted,
        };
        self.events.push(Event { version: change.version, kind, digest: change.digest });
    }

    fn check_present(&self, watch: &Watch, findings: &mut Findings) {
        let Beginning::Present { objects, bookmark } = &watch.beginning else { return };
        let received: BTreeMap<_, _> = objects.iter().copied().collect();
        if received.len() != objects.len() || received != self.shown {
            let wrong = self.shown.iter().find(|(id, digest)| received.get(id) != Some(digest));
            let wrong = wrong.or_else(|| received.iter().find(|(id, _)| !self.shown.contains_key(id)));
            findings.add(Check::Watches, || {
                let (expected, received) = (self.shown.len(), objects.len());
                format!(
                    "{:?}: the present state at {bookmark} has {received} objects instead of {expected}, the first \
                     that is wrong: {wrong:?}",
                    watch.view
                )
            });
        }
    }

    /// Compares up to the end of the feed, which a watcher may have passed.
    fn check_changes(&self, watch: &Watch, end: u64, findings: &mut Findings) {
        let after = |version: u64| self.events.partition_point(|event| event.version <= version);
        let since = watch.beginning.version();
        let expected = &self.events[after(since)..after(watch.upto.max(since))];
        let received = watch.events.iter().position(|event| event.version > end);
        let received = &watch.events[..received.unwrap_or(watch.events.len())];
        let places = 0..expected.len().max(received.len());
        let Some(place) = places.into_iter().find(|place| expected.get(*place) != received.get(*place))
        else {
            return;
        };
        findings.add(Check::Watches, || {
            let last =
                place.checked_sub(1).and_then(|place| received.get(place)).map_or(since, |it| it.version);
            let what = match (expected.get(place), received.get(place)) {
                (_, Some(event)) if event.version <= last => format!("{event:?} came again after {last}"),
                (Some(event), Some(next)) if event.version < next.version => {
                    format!("{event:?} was skipped after {last}")
                }
                (Some(event), None) => format!("{event:?} was skipped after {last}"),
                (expected, event) => format!("{event:?} came instead of {expected:?}"),
            };
            format!("{:?} from {since} to {}: {what}", watch.view, watch.upto)
        });
    }
}
