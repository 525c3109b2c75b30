//! The lane: one connection that all point reads share. Requests are pipelined on it, which is
//! worth more than many connections that each wait for their own answer.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwapOption;
use hyperfleet_core::ResourceId;
use tokio::sync::Mutex;
use tokio_postgres::{Client, Row, Statement};

use super::connect::Address;
use crate::COLUMNS;
use crate::failure::Failure;

pub(super) struct Lane {
    address: Address,
    current: ArcSwapOption<Session>,
    /// Held by the one that connects; remembers how the last attempt failed.
    connecting: Mutex<Option<(Instant, Failure)>>,
}

/// A connection with its prepared statement.
pub(super) struct Session {
    client: Client,
    get: Statement,
}

impl Lane {
    pub(super) fn new(address: Address) -> Self {
        Self { address, current: ArcSwapOption::empty(), connecting: Mutex::new(None) }
    }

    /// The live session, made if there is none.
    pub(super) async fn session(&self) -> Result<Arc<Session>, Failure> {
        if let Some(session) = self.live() {
            return Ok(session);
        }
        let arrived = Instant::now();
        let mut last_failure = self.connecting.lock().await;
        if let Some(session) = self.live() {
            return Ok(session);
        }
        // Whoever waited while an attempt failed shares its failure, rather than failing in turn.
        if let Some((_, failure)) = last_failure.as_ref().filter(|(at, _)| *at >= arrived) {
            return Err(failure.clone());
        }
        match self.connect().await {
            Ok(session) => {
                *last_failure = None;
                self.current.store(Some(session.clone()));
                Ok(session)
            }
            Err(failure) => {
                *last_failure = Some((Instant::now(), failure.clone()));
                Err(failure)
            }
        }
    }

    async fn connect(&self) -> Result<Arc<Session>, Failure> {
        let client = self.address.connect().await?;
        let get = client
            .prepare(&format!(
                "select {COLUMNS} from resources r join resource_status s on s.resource_id = r.id where r.id = $1"
            ))
            .await?;
        Ok(Arc::new(Session { client, get }))
    }

    /// A session other than `broken`.
    pub(super) async fn renew(&self, broken: &Arc<Session>) -> Result<Arc<Session>, Failure> {
        let current = self.current.load_full();
        if current.is_some_and(|current| Arc::ptr_eq(&current, broken)) {
            self.current.store(None);
        }
        self.session().await
    }

    fn live(&self) -> Option<Arc<Session>> {
        self.current.load_full().filter(|session| !session.client.is_closed())
    }
}

impl Session {
    pub(super) async fn get(&self, id: ResourceId) -> Result<Option<Row>, Failure> {
        Ok(self.client.query_opt(&self.get, &[&id.uuid()]).await?)
    }

    pub(super) async fn ping(&self) -> Result<(), Failure> {
        Ok(self.client.batch_execute("select 1").await?)
    }
}
