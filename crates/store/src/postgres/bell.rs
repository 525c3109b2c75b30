//! When commits ring for those who listen on other replicas. Whoever hears the bell reads the feed, at a pace; so under
//! load not every commit rings. Each ring wakes a session of the database and a thread of each replica, and these take
//! the place of somebody who works.
//!
//! What was not rung for is owed, and the next commit pays for it, or, if none comes, a ring by itself.

use std::time::Instant;

use crate::feed::PACE;

/// Rings no more often than readers under load look. What is not rung for by its own commit is heard of with the next one,
/// or after that time if there is none.
#[derive(Debug)]
pub(super) struct Bell {
    is_owed: bool,
    not_before: Instant,
}

impl Bell {
    /// One that may be rung at any time from now on.
    pub(super) fn new(now: Instant) -> Self {
        Self { is_owed: false, not_before: now }
    }

    /// Whether a commit at this moment rings, that may have something to tell of itself.
    pub(super) fn rings(&mut self, now: Instant, has_something: bool) -> bool {
        self.is_owed |= has_something;
        let rings = self.due().is_some_and(|due| due <= now);
        if rings {
            *self = Self { is_owed: false, not_before: now + PACE };
        }
        rings
    }

    /// When a ring that is owed may be paid.
    pub(super) fn due(&self) -> Option<Instant> {
        self.is_owed.then_some(self.not_before)
    }

    /// A commit that was to ring may have failed. Who hears a ring too many finds nothing new.
    pub(super) fn may_have_failed(&mut self) {
        self.is_owed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_by_itself_rings_and_of_many_one_at_a_time_does() {
        let start = Instant::now();
        let mut bell = Bell::new(start);
        assert!(!bell.rings(start, false), "nothing to tell");
        assert!(bell.rings(start, true));
        assert!(!bell.rings(start + PACE / 2, true));
        assert_eq!(bell.due(), Some(start + PACE));
        assert!(bell.rings(start + PACE, false), "for the one before");
        assert_eq!(bell.due(), None);
        assert!(bell.rings(start + PACE * 2, true));
    }

    #[test]
    fn what_may_not_have_been_heard_is_owed() {
        let start = Instant::now();
        let mut bell = Bell::new(start);
        assert!(bell.rings(start, true));
        bell.may_have_failed();
        assert!(!bell.rings(start, false));
        assert!(bell.rings(start + PACE, false));
    }
}
