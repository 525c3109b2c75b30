//! The health of the database: whether it is out of reach, as the pings find, and whether its pages are damaged.
//!
//! A connection that was cut off reports nothing for a long time, so what waits for the database fails once a ping has
//! failed. Once pages of a SQLite file are damaged, nothing is written any more, so that the damage cannot spread.

use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

use crate::failure::{Failure, FailureKind};

/// Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct DatabaseHealth {
    unreachable: Arc<watch::Sender<bool>>,
    damage: Arc<OnceLock<Failure>>,
}

impl DatabaseHealth {
    /// Sets whether the database is out of reach.
    pub(crate) fn set_unreachable(&self, unreachable: bool) {
        self.unreachable.send_if_modified(|known| std::mem::replace(known, unreachable) != unreachable);
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
        let mut unreachable = self.unreachable.subscribe();
        if !*unreachable.borrow_and_update() {
            tokio::select! {
                // A result that is ready is returned.
                biased;
                result = work => return result,
                _ = unreachable.wait_for(|unreachable| *unreachable) => {}
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
        let health = DatabaseHealth::default();
        assert_eq!(health.or_fail(async { Ok(1) }).await.unwrap(), 1);
        let mut waiting = pin!(health.or_fail(std::future::pending::<Result<(), Failure>>()));
        assert!(poll!(&mut waiting).is_pending());
        health.set_unreachable(true);
        assert_eq!(waiting.await.unwrap_err().kind, FailureKind::Unavailable);
        assert!(health.or_fail(async { Ok(2) }).await.is_err(), "nothing begins during an outage");
        health.set_unreachable(false);
        assert_eq!(health.or_fail(async { Ok(3) }).await.unwrap(), 3);
    }
}
