//! The state that all handlers share.

use std::sync::Arc;
use std::time::Duration;

use hyperfleet_core::rules::Rulebook;
use hyperfleet_core::{Catalog, Contract, Reservation, ResponseBudget};
use hyperfleet_service::build_info::BuildInfo;
use hyperfleet_service::health::Health;
use hyperfleet_service::shutdown::Shutdown;
use hyperfleet_store::Store;
use tokio::runtime;
use tokio::sync::Semaphore;

use crate::coalesced_reads::CoalescedReads;
use crate::gate::{AdmittedCaller, Gate};
use crate::page_token::TokenSigner;
use crate::resources::{ListKey, RenderedPage};
use crate::watch::{Channels, WatchMetrics};

/// The API's parts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

/// See [`App`].
pub(crate) struct Parts {
    /// The database.
    pub(crate) store: Store,
    /// The rules of the store, by which handlers also check bodies.
    pub(crate) rulebook: Arc<Rulebook>,
    /// Decides which requests are admitted.
    pub(crate) gate: Gate,
    /// Concurrent equal reads of lists, per runtime, because a waiting request is woken on its own thread.
    pub(crate) lists: CoalescedReads<(runtime::Id, Arc<ListKey>), RenderedPage>,
    /// The channels of watches.
    pub(crate) channels: Channels,
    /// The metrics of watches.
    pub(crate) watch_metrics: WatchMetrics,
    /// Begins when this process stops.
    pub(crate) shutdown: Shutdown,
    /// Signs page tokens, of one epoch each: see [`App::token_signer`].
    pub(crate) token_signer: TokenSigner,
    /// Whether this process can serve.
    pub(crate) health: Health,
    /// Version and origin of this build.
    pub(crate) build: BuildInfo,
    /// The largest body, in bytes.
    pub(crate) body_limit: usize,
    /// The largest page of a list, in bytes.
    pub(crate) page_limit: usize,
    /// The memory of large responses.
    pub(crate) responses: ResponseBudget,
    /// How long a resource may be unreconciled before it counts as stuck.
    pub(crate) stuck_after: Duration,
    /// How long a body may take to arrive.
    pub(crate) read_timeout: Duration,
    /// Permits of specs that take long to check.
    pub(crate) long_checks: Arc<Semaphore>,
}

impl App {
    /// Puts the parts together.
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// Signs and verifies page tokens of the present epoch.
    pub(crate) fn token_signer(&self) -> TokenSigner {
        self.token_signer.of(self.store.epoch())
    }

    /// The API contract in force.
    pub(crate) fn contract(&self) -> Contract {
        self.0.rulebook.contract
    }

    /// A reservation for the response to this caller.
    pub(crate) fn reservation(&self, caller: &AdmittedCaller) -> Reservation {
        self.responses.reservation(caller.connection(), self.page_limit)
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
