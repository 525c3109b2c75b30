//! Whether the database is out of reach, as the pings find. A connection that was cut off reports nothing for a long time, so
//! what waits for the database fails once a ping has failed.
//!
//! Damaged pages of a SQLite file are an outage of writes that lasts: nothing is written any more, lest the damage spread.

use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

use crate::failure::{Failure, FailureKind};

/// Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outage {
    begun: Arc<watch::Sender<bool>>,
    damage: Arc<OnceLock<Failure>>,
}

impl Outage {
    /// Sets whether the database is out of reach.
    pub(crate) fn set(&self, begun: bool) {
        self.begun.send_if_modified(|known| std::mem::replace(known, begun) != begun);
    }

    /// Remembers a failure that shows damage.
    pub(crate) fn note_damage(&self, failure: &Failure) {
        if failure.kind == FailureKind::Damaged && self.damage.set(failure.clone()).is_ok() {
            tracing::error!(
                error = failure.chain(),
                "the database file is damaged: writes stop; run `hyperfleet verify`, and restore a backup"
            );
        }
    }

    /// Fails once there is damage.
    pub(crate) fn check_damage(&self) -> Result<(), Failure> {
        self.damage.get().map_or(Ok(()), |failure| Err(failure.clone()))
    }

    /// The result of `work`, or a failure as soon as the database is out of reach.
    pub(crate) async fn or_fail<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut begun = self.begun.subscribe();
        if !*begun.borrow_and_update() {
            tokio::select! {
                // What is done is done.
                biased;
                result = work => return result,
                _ = begun.wait_for(|begun| *begun) => {}
            }
        }
        Err(Failure::new(FailureKind::Unavailable, "the database did not answer a ping"))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn what_waits_for_the_database_fails_when_an_outage_begins_and_what_is_done_does_not() {
        let outage = Outage::default();
        assert_eq!(outage.or_fail(async { Ok(1) }).await.unwrap(), 1);
        let mut waiting = pin!(outage.or_fail(std::future::pending::<Result<(), Failure>>()));
        assert!(poll!(&mut waiting).is_pending());
        outage.set(true);
        assert_eq!(waiting.await.unwrap_err().kind, FailureKind::Unavailable);
        assert!(outage.or_fail(async { Ok(2) }).await.is_err(), "nothing begins during an outage");
        outage.set(false);
        assert_eq!(outage.or_fail(async { Ok(3) }).await.unwrap(), 3);
    }
}
