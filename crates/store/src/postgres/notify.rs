//! When commits notify other replicas. A notification wakes a session of the database and a reader of the feed on each
//! replica, and readers pause between two reads anyway. So under load not every commit notifies: what it leaves pending
//! goes with a later commit, or by itself if none follows. It stays pending until it was sent, whatever fails before.

use std::time::Instant;

use crate::feed::BATCH_WINDOW;

#[derive(Debug)]
pub(super) struct NotifyPacer {
    is_pending: bool,
    not_before: Instant,
}

impl NotifyPacer {
    pub(super) fn new(now: Instant) -> Self {
        Self { is_pending: false, not_before: now }
    }

    /// Other replicas have to be notified of a commit, or of one that may fail.
    pub(super) fn add(&mut self) {
        self.is_pending = true;
    }

    /// Whether to notify now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due().is_some_and(|due| due <= now)
    }

    /// A notification was sent with what was committed by now.
    pub(super) fn sent(&mut self, now: Instant) {
        *self = Self { is_pending: false, not_before: now + BATCH_WINDOW };
    }

    /// When a pending notification may be sent.
    pub(super) fn due(&self) -> Option<Instant> {
        self.is_pending.then_some(self.not_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_commit_notifies_at_once_and_of_many_commits_one_at_a_time_does() {
        let start = Instant::now();
        let mut pacer = NotifyPacer::new(start);
        assert!(!pacer.is_due(start), "nothing is pending");
        pacer.add();
        assert!(pacer.is_due(start));
        pacer.sent(start);
        pacer.add();
        assert!(!pacer.is_due(start + BATCH_WINDOW / 2));
        assert_eq!(pacer.due(), Some(start + BATCH_WINDOW));
        assert!(pacer.is_due(start + BATCH_WINDOW));
        pacer.sent(start + BATCH_WINDOW);
        assert_eq!(pacer.due(), None);
        pacer.add();
        assert!(pacer.is_due(start + BATCH_WINDOW * 2));
    }

    #[test]
    fn a_notification_that_was_not_sent_stays_due() {
        let start = Instant::now();
        let mut pacer = NotifyPacer::new(start);
        pacer.add();
        assert!(pacer.is_due(start));
        assert!(pacer.is_due(start), "the commit failed");
        pacer.sent(start);
        assert!(!pacer.is_due(start + BATCH_WINDOW));
    }
}
