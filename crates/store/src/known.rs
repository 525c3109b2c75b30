//! What readers of one resource may be shown without reading it again.
//!
//! A resource that was read or written here lately is kept as it was then. Whoever wants it still asks the database,
//! but for no more than where the feed stands, which one row tells for as many as ask at a time. While every commit up
//! to there was this process's own, and each has told what it changed, what is kept is what is there. Another replica's
//! commit costs a read, never an old answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyperfleet_core::{Resource, ResourceId};

use crate::memory::Mark;
use crate::moment::Moment;
use crate::shelf::Shelf;

/// The most that is kept, in bytes, as far as they can be counted: ten thousand resources.
const MAX_BYTES: usize = 16 << 20;

/// What is larger is not kept: it would push out hundreds of others.
const MAX_RESOURCE_BYTES: usize = 64 << 10;

/// For how long the feed may be ahead of what is known before that was somebody else. A commit of our own is seen by
/// others a moment before it is told here.
const PATIENCE: Duration = Duration::from_millis(50);

/// See above.
#[derive(Debug)]
pub(crate) struct Known(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The first commit of those that are known, and where the newest left the feed. None while nothing was heard of.
    commits: Option<(i64, Mark)>,
    /// Since when the feed is ahead of them.
    behind: Option<Instant>,
    resources: Shelf<Arc<Resource>>,
    /// How often all of it was forgotten.
    era: u64,
}

/// Where the newest known commit had left the feed when it was asked for. One that stands elsewhere with as many commits,
/// or has fewer, was set back, and what is known is of another past.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked(Option<Mark>);

impl Asked {
    fn is_of_another_past(self, found: Mark) -> bool {
        let Some(mark) = self.0 else { return false };
        found.commits < mark.commits || (found.commits == mark.commits && found.version != mark.version)
    }
}

impl Default for Known {
    fn default() -> Self {
        Self(Mutex::new(State { commits: None, behind: None, resources: Shelf::new(MAX_BYTES), era: 0 }))
    }
}

impl Known {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before the feed is asked for: which of these are worth a look at it.
    pub(crate) fn ask(&self, ids: impl Iterator<Item = ResourceId>) -> (Asked, Vec<bool>) {
        let state = self.state();
        let is_kept = |id| state.behind.is_none() && state.resources.get(id).is_some();
        (Asked(state.commits.map(|(_, newest)| newest)), ids.map(is_kept).collect())
    }

    /// What these are, as far as it is known, by a feed that was found there.
    pub(crate) fn show(
        &self,
        asked: Asked,
        found: Mark,
        ids: impl Iterator<Item = ResourceId>,
    ) -> Vec<Option<Arc<Resource>>> {
        let mut state = self.state();
        if asked.is_of_another_past(found) {
            state.begin(found);
        }
        let is_known =
            state.commits.is_some_and(|(first, newest)| (first..=newest.commits).contains(&found.commits));
        ids.map(|id| state.resources.get(id).filter(|_| is_known).cloned()).collect()
    }

    /// Keeps what was read with the feed there.
    pub(crate) fn keep<'a>(
        &self,
        asked: Asked,
        found: Mark,
        resources: impl Iterator<Item = &'a Arc<Resource>>,
    ) {
        let mut state = self.state();
        match state.commits {
            None => state.begin(found),
            Some(_) if asked.is_of_another_past(found) => state.begin(found),
            Some((_, newest)) if found.commits > newest.commits => {
                let since = *state.behind.get_or_insert_with(Instant::now);
                if since.elapsed() < PATIENCE {
                    return;
                }
                state.begin(found);
            }
            // What was committed since may have changed them.
            Some((_, newest)) if found.commits < newest.commits => return,
            Some(_) => state.behind = None,
        }
        resources.for_each(|resource| state.put(resource));
    }

    /// After a commit of our own that found the feed at one place and left it at another: what it changed, each as it is
    /// now if that is known.
    pub(crate) fn commit<'a>(
        &self,
        (found, left): (Mark, Mark),
        changed: impl Iterator<Item = (ResourceId, Option<&'a Arc<Resource>>)>,
    ) {
        let mut state = self.state();
        match &mut state.commits {
            Some((_, newest)) if *newest == found => *newest = left,
            // Readers were faster, and have begun with what this has left.
            Some((_, newest)) if *newest == left => {}
            // They have begun behind it, where it may be that others have written since; or the feed was set back.
            Some((_, newest)) if newest.commits > left.commits => return state.forget(),
            _ => state.begin(left),
        }
        state.behind = None;
        for (id, now) in changed {
            state.resources.take(id);
            if let Some(resource) = now {
                state.put(resource);
            }
        }
    }

    /// The era in which whatever is read from now on is read.
    pub(crate) fn era(&self) -> u64 {
        self.state().era
    }

    /// The moment at which the feed was found there.
    pub(crate) fn moment(&self, found: Mark) -> Moment {
        Moment { era: self.era(), mark: found }
    }

    /// Forgets everything.
    pub(crate) fn forget(&self) {
        self.state().forget();
    }
}

impl State {
    fn forget(&mut self) {
        self.commits = None;
        self.behind = None;
        self.resources = Shelf::new(MAX_BYTES);
        self.era += 1;
    }

    /// Begins anew with what is there where the feed is.
    fn begin(&mut self, mark: Mark) {
        self.forget();
        self.commits = Some((mark.commits, mark));
    }

    fn put(&mut self, resource: &Arc<Resource>) {
        let texts = [&resource.spec, &resource.labels, &resource.references, &resource.conditions];
        let size = texts.iter().map(|text| text.as_str().len()).sum::<usize>() + size_of::<Resource>() + 256;
        if size <= MAX_RESOURCE_BYTES {
            self.resources.put(resource.id, resource.clone(), size);
        }
    }
}

#[cfg(test)]
mod tests {
    use hyperfleet_core::{Phase, RawJson, Stamp, Timestamp, Version};

    use super::*;

    fn resource(id: ResourceId, version: i64) -> Arc<Resource> {
        let stamp = Stamp { at: Timestamp::from_micros(0), by: "me".to_owned() };
        let empty = || RawJson::from_stored("{}");
        Arc::new(Resource {
            id,
            kind: "Cluster".into(),
            name: "c".to_owned(),
            tenancy: None,
            ancestors: Vec::new(),
            generation: 1,
            spec: empty(),
            labels: empty(),
            references: empty(),
            created: stamp.clone(),
            updated: stamp,
            phase: Phase::Active,
            conditions: RawJson::from_stored("[]"),
            version: Version(version),
            pending_since: None,
        })
    }

    fn mark(commits: i64) -> Mark {
        Mark { version: Version(10 * commits), commits }
    }

    /// The version that is shown when the feed is asked for now and stands at `commits`.
    fn shown(known: &Known, commits: i64, id: ResourceId) -> Option<i64> {
        let (asked, _) = known.ask([id].into_iter());
        let shown = known.show(asked, mark(commits), [id].into_iter());
        shown.into_iter().flatten().next().map(|resource| resource.version.0)
    }

    fn read(known: &Known, commits: i64, resource: &Arc<Resource>) {
        let (asked, _) = known.ask([resource.id].into_iter());
        known.keep(asked, mark(commits), [resource].into_iter());
    }

    #[test]
    fn what_was_read_is_shown_until_somebody_writes() {
        let (known, id) = (Known::default(), ResourceId::generate());
        read(&known, 7, &resource(id, 1));
        assert_eq!(known.ask([id].into_iter()).1, [true]);
        assert_eq!(shown(&known, 7, id), Some(1));
        assert_eq!(shown(&known, 8, id), None, "nobody told of that commit");
    }

    #[test]
    fn what_was_committed_here_is_shown_as_it_is_and_the_rest_as_it_was() {
        let (known, [a, b, c]) = (Known::default(), [(); 3].map(|()| ResourceId::generate()));
        [a, b, c].iter().for_each(|id| read(&known, 7, &resource(*id, 1)));
        let (asked, _) = known.ask([a].into_iter());
        let newer = resource(a, 2);
        known.commit((mark(7), mark(8)), [(a, Some(&newer)), (b, None)].into_iter());
        assert_eq!([a, b, c].map(|id| shown(&known, 8, id)), [Some(2), None, Some(1)]);
        assert!(known.show(asked, mark(7), [c].into_iter())[0].is_some(), "asked before, and still so");
        read(&known, 7, &resource(b, 1));
        assert_eq!(shown(&known, 8, b), None, "what was read before the commit may be old");
    }

    #[test]
    fn a_commit_behind_one_that_nobody_told_of_begins_anew() {
        let (known, [a, b]) = (Known::default(), [(); 2].map(|()| ResourceId::generate()));
        read(&known, 7, &resource(a, 1));
        known.commit((mark(8), mark(9)), [(b, Some(&resource(b, 5)))].into_iter());
        assert_eq!([a, b].map(|id| shown(&known, 9, id)), [None, Some(5)]);
    }

    #[test]
    fn a_feed_that_is_ahead_is_waited_for_and_then_followed() {
        let (known, id) = (Known::default(), ResourceId::generate());
        read(&known, 7, &resource(id, 1));
        read(&known, 8, &resource(id, 2));
        assert_eq!(known.ask([id].into_iter()).1, [false], "not worth a look while it is ahead");
        known.commit((mark(7), mark(8)), [(id, None)].into_iter());
        read(&known, 8, &resource(id, 2));
        assert_eq!(shown(&known, 8, id), Some(2), "it was our own");

        read(&known, 9, &resource(id, 3));
        known.state().behind = Instant::now().checked_sub(PATIENCE);
        read(&known, 10, &resource(id, 4));
        assert_eq!(shown(&known, 10, id), Some(4), "it was somebody else");
    }

    #[test]
    fn a_commit_that_is_told_late_does_not_bring_back_what_was_before_others_wrote() {
        let (known, id) = (Known::default(), ResourceId::generate());
        read(&known, 10, &resource(id, 1));
        known.commit((mark(9), mark(10)), [(id, Some(&resource(id, 1)))].into_iter());
        assert_eq!(shown(&known, 10, id), Some(1), "readers began with what it has left");

        known.forget();
        read(&known, 11, &resource(id, 2));
        known.commit((mark(9), mark(10)), [(id, Some(&resource(id, 1)))].into_iter());
        assert_eq!(shown(&known, 11, id), None);
    }

    #[test]
    fn a_feed_that_was_set_back_is_another() {
        let (known, id) = (Known::default(), ResourceId::generate());
        read(&known, 7, &resource(id, 1));
        known.commit((mark(7), mark(8)), [(id, Some(&resource(id, 2)))].into_iter());
        assert_eq!(shown(&known, 6, id), None);
        assert_eq!(shown(&known, 8, id), None, "this is not the eighth commit that we knew");
        read(&known, 6, &resource(id, 1));
        assert_eq!(shown(&known, 6, id), Some(1));
        let (asked, _) = known.ask([id].into_iter());
        let other = Mark { version: Version(61), commits: 6 };
        assert_eq!(known.show(asked, other, [id].into_iter()), [None], "as many commits, but others");
    }

    #[test]
    fn what_is_forgotten_is_not_shown_and_what_is_large_not_kept() {
        let (known, id) = (Known::default(), ResourceId::generate());
        read(&known, 7, &resource(id, 1));
        known.forget();
        assert_eq!(shown(&known, 7, id), None);
        let mut large = Arc::unwrap_or_clone(resource(id, 1));
        large.spec = RawJson::from_stored(format!("\"{}\"", "x".repeat(MAX_RESOURCE_BYTES)));
        read(&known, 7, &Arc::new(large));
        assert_eq!(shown(&known, 7, id), None);
    }
}
