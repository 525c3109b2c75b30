//! The side of a store that reads, whichever it is, and what is asked of it without anybody's sight: the server's own
//! questions. Nothing of them reaches a caller before the store has confined it.

use std::sync::Arc;
use std::time::Duration;

use hyperfleet_core::{Catalog, Version};
use uuid::Uuid;

use crate::failure::Failure;
use crate::feed::{self, Trail};
use crate::migrations::OpenError;
use crate::{postgres, sqlite};

/// Who reads the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The one reader that all wait for.
    First,
    /// Someone who fell behind.
    Behind,
}

/// The side of a store that reads.
#[derive(Clone)]
pub(crate) enum Reader {
    Sqlite(Arc<sqlite::Sqlite>),
    Postgres(Arc<postgres::Postgres>),
}

impl Reader {
    pub(crate) fn catalog(&self) -> &Catalog {
        match self {
            Self::Sqlite(sqlite) => sqlite.catalog(),
            Self::Postgres(postgres) => postgres.catalog(),
        }
    }

    /// Up to where the past is forgotten, and the newest version.
    pub(crate) async fn bounds(&self) -> Result<(Version, Version), Failure> {
        match self {
            Self::Sqlite(sqlite) => sqlite.bounds().await,
            Self::Postgres(postgres) => postgres.bounds().await,
        }
    }

    /// What comes after `position` in the feed: as much of it as can be held, if anything can.
    pub(crate) async fn trail(
        &self,
        reading: Reading,
        position: Version,
        time: Duration,
    ) -> Result<Option<Trail>, Failure> {
        let mut limit = feed::PAGE_SIZE;
        loop {
            let trail = match self {
                Self::Sqlite(sqlite) => sqlite.trail(reading, position, limit, time).await?,
                Self::Postgres(postgres) => postgres.trail(reading, position, limit).await?,
            };
            if trail.is_some() || limit == 1 {
                return Ok(trail);
            }
            limit = (limit / 4).max(1);
        }
    }

    /// The secret with this name. Whoever asks first makes it.
    pub(crate) async fn secret(&self, name: &str) -> Result<[u8; 64], OpenError> {
        let fresh: Vec<u8> = (0..4).flat_map(|_| *Uuid::new_v4().as_bytes()).collect();
        let kept = match self {
            Self::Sqlite(sqlite) => sqlite.secret(name, fresh).await,
            Self::Postgres(postgres) => postgres.secret(name, &fresh).await,
        };
        let kept = kept.map_err(|failure| OpenError::new(format!("no secret {name}: {}", failure.cause)))?;
        kept.try_into().map_err(|_| OpenError::new(format!("the secret {name} is not of 64 bytes")))
    }
}
