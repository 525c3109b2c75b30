//! The reading side of a store. It does not check access scopes; [`crate::Store`] does before a caller sees a result.

use std::sync::Arc;

use hyperfleet_core::{Catalog, Epoch, Version};
use uuid::Uuid;

use crate::failure::Failure;
use crate::feed::{self, FeedBounds, FeedPage};
use crate::maintenance::migrations::OpenError;
use crate::{postgres, sqlite};

/// The reader of the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeedReader {
    /// The task that reads for all followers.
    Shared,
    /// A follower that fell behind.
    CatchUp,
}

/// The reading side of a store.
#[derive(Clone)]
pub(crate) enum Reader {
    Sqlite(Arc<sqlite::Sqlite>),
    Postgres(Arc<postgres::Postgres>),
}

/// Calls the same method of whichever store it is.
macro_rules! on_store {
    ($reader:expr, |$store:ident| $call:expr) => {
        match $reader {
            $crate::read::Reader::Sqlite($store) => $call.await,
            $crate::read::Reader::Postgres($store) => $call.await,
        }
    };
}
pub(crate) use on_store;

impl Reader {
    pub(crate) fn catalog(&self) -> &Catalog {
        match self {
            Self::Sqlite(sqlite) => sqlite.catalog(),
            Self::Postgres(postgres) => postgres.catalog(),
        }
    }

    pub(crate) async fn bounds(&self) -> Result<FeedBounds, Failure> {
        on_store!(self, |store| store.bounds())
    }

    /// Changes an epoch, unless another replica has changed it.
    pub(crate) async fn renew_epoch(&self, epoch: Epoch) -> Result<(), Failure> {
        on_store!(self, |store| store.renew_epoch(epoch))
    }

    /// The page of the feed after `position`, smaller if its changes are large; `None` if one change is too large.
    pub(crate) async fn feed_page(
        &self,
        by: FeedReader,
        position: Version,
    ) -> Result<Option<FeedPage>, Failure> {
        let mut limit = feed::PAGE_SIZE;
        loop {
            let page = on_store!(self, |store| store.feed_page(by, position, limit))?;
            if page.is_some() || limit == 1 {
                return Ok(page);
            }
            limit = (limit / 4).max(1);
        }
    }

    /// The secret with this name, created by the first call.
    pub(crate) async fn secret(&self, name: &str) -> Result<[u8; 64], OpenError> {
        let fresh: Vec<u8> = (0..4).flat_map(|_| *Uuid::new_v4().as_bytes()).collect();
        let kept = on_store!(self, |store| store.secret(name, &fresh));
        let kept =
            kept.map_err(|failure| OpenError::new(format!("no secret {name}: {}", failure.chain())))?;
        kept.try_into().map_err(|_| OpenError::new(format!("the secret {name} is not of 64 bytes")))
    }
}
