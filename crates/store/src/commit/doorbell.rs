//! How the committer waits for some jobs without being woken by each: it says how many would be worth its while, and
//! whoever brings the last of them rings.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// A bell between those who queue and the one whom they queue for.
#[derive(Debug)]
pub(super) struct Doorbell {
    enough: AtomicUsize,
    bell: Notify,
}

impl Default for Doorbell {
    fn default() -> Self {
        Self { enough: AtomicUsize::new(usize::MAX), bell: Notify::new() }
    }
}

impl Doorbell {
    /// From now on the bell rings when so many jobs wait; `usize::MAX` for never. Whoever asks must look at the queue
    /// afterwards: those who were there before do not ring.
    pub(super) fn ask_for(&self, enough: usize) {
        self.enough.store(enough, Ordering::SeqCst);
    }

    /// Rings if that many are enough.
    pub(super) fn tell(&self, waiting: usize) {
        if waiting >= self.enough.load(Ordering::SeqCst) {
            self.bell.notify_one();
        }
    }

    /// Waits for the bell. One that was heard too late may ring the next time, for nothing.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn the_bell_rings_when_enough_are_there_and_not_before() {
        let doorbell = Doorbell::default();
        doorbell.tell(1_000);
        assert!(doorbell.rung().now_or_never().is_none(), "nobody asked");
        doorbell.ask_for(3);
        doorbell.tell(2);
        assert!(doorbell.rung().now_or_never().is_none());
        doorbell.tell(3);
        assert!(doorbell.rung().now_or_never().is_some());
        assert!(doorbell.rung().now_or_never().is_none(), "once");
    }
}
