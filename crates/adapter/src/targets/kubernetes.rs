//! Objects of a Kubernetes API server.
//!
//! Reads are quorum reads and never answers from a cache, because an object may be reported as gone only when the server
//! itself says so. Writes are server-side applies, sent only when something differs: an apply that changes nothing
//! costs the server as much as one that does.

mod access;
mod apply;
mod blocked;
mod delete;
mod failure;
mod kinds;
mod managed_fields;
mod memory;
mod observe;
mod ownership;
mod rate;
mod settings;
mod transport;
mod watch;

use std::sync::Arc;

pub use access::ResourceName;
pub use apply::{Contested, Current};
pub use blocked::Blocked;
pub use settings::Settings;
pub use watch::{Change, Health, Owner, Sync, Watches, What};

use self::kinds::{Kinds, Place};
use self::memory::Memory;
use self::rate::Bucket;
use self::transport::Transport;
use super::TargetError;

/// One cluster.
#[derive(Clone)]
pub struct Kubernetes(Arc<Cluster>);

struct Cluster {
    transport: Transport,
    kinds: Kinds,
    memory: Memory,
    field_manager: String,
    adopt_managers: Vec<String>,
}

/// A kind of objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kind {
    /// Such as `batch/v1`.
    pub api_version: String,
    /// Such as `Job`.
    pub kind: String,
}

impl Kubernetes {
    /// Reads the settings. The cluster itself may be away: that is seen by [`Self::probe`] and by every call.
    pub async fn connect(settings: &Settings) -> Result<Self, TargetError> {
        let bucket = Bucket::new(settings.qps, settings.burst);
        Ok(Self(Arc::new(Cluster {
            transport: Transport::new(settings.client().await?, bucket, settings.timeout),
            kinds: Kinds::default(),
            memory: Memory::default(),
            field_manager: settings.field_manager.clone(),
            adopt_managers: settings.adopt_managers.clone(),
        })))
    }

    /// Whether the API server is there and ready.
    pub async fn probe(&self) -> Result<(), TargetError> {
        self.0.transport.probe().await
    }

    /// Whether the adapter has seen this state of an object already, because it wrote or read it. A change that tells
    /// no more needs no execution.
    pub fn has_seen(&self, change: &Change) -> bool {
        change.what != What::Gone && self.0.memory.has_seen(&change.uid, &change.version)
    }

    async fn place(&self, api_version: &str, kind: &str) -> Result<Arc<Place>, TargetError> {
        self.0.kinds.place(&self.0.transport, api_version, kind).await
    }
}

impl std::fmt::Debug for Kubernetes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubernetes").field("field_manager", &self.0.field_manager).finish_non_exhaustive()
    }
}
