//! What every handler shares.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyperfleet_core::rules::Rulebook;
use hyperfleet_core::{Catalog, Contract};
use hyperfleet_service::build_info::BuildInfo;
use hyperfleet_service::health::Health;
use hyperfleet_service::shutdown::Shutdown;
use hyperfleet_store::Store;
use tokio::runtime;

use crate::gate::Gate;
use crate::page_token::Seal;
use crate::pages::Pages;
use crate::resources::ListKey;
use crate::sharing::Sharing;
use crate::watch::{Channels, WatchMetrics};

/// The API's parts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

/// See [`App`].
pub(crate) struct Parts {
    /// The database.
    pub(crate) store: Store,
    /// The rules that the store decides by; handlers check bodies by the same.
    pub(crate) rulebook: Arc<Rulebook>,
    /// Who comes in.
    pub(crate) gate: Gate,
    /// Lists that are asked for by many at the same time, of one runtime: who waits for another is woken there.
    pub(crate) lists: Sharing<(runtime::Id, Arc<ListKey>), Bytes>,
    /// Those that were made lately.
    pub(crate) pages: Pages,
    /// What watchers share.
    pub(crate) channels: Channels,
    /// What is told about watches.
    pub(crate) watch_metrics: WatchMetrics,
    /// Whether this process is about to stop.
    pub(crate) shutdown: Shutdown,
    /// What page tokens are sealed with.
    pub(crate) seal: Seal,
    /// Whether this process can serve.
    pub(crate) health: Health,
    /// What runs here.
    pub(crate) build: BuildInfo,
    /// The largest body, in bytes.
    pub(crate) body_limit: usize,
    /// How long a resource may be unreconciled before it is called stuck.
    pub(crate) stuck_after: Duration,
    /// How long a body may take to arrive.
    pub(crate) read_timeout: Duration,
}

impl App {
    /// Puts the parts together.
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// Whose contract is kept.
    pub(crate) fn contract(&self) -> Contract {
        self.0.rulebook.contract
    }

    /// The configured kinds.
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.0.rulebook.catalog
    }
}

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
