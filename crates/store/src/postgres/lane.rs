//! Point reads, many in one query. Like the committer, the lane takes whatever reads are waiting and
//! never waits for more, so a lone read pays no delay; under load one query answers many requests,
//! and requests for the same resource share one row.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use hyperfleet_core::{Catalog, Resource, ResourceId};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::connect::Address;
use super::row;
use crate::COLUMNS;
use crate::failure::{Failure, FailureKind};
use crate::migrations::OpenError;
use crate::thread::run_on_own_thread;

/// Reads that one query may carry.
const MAX_BATCH: usize = 128;

/// Reads that may wait; callers beyond wait for room, within their own deadline.
const QUEUE: usize = 4096;

type Answer = Result<Option<Resource>, Failure>;

/// The way in. The lane ends when it is dropped.
pub(super) struct Lane {
    queue: mpsc::Sender<Read>,
}

struct Read {
    id: ResourceId,
    reply: oneshot::Sender<Answer>,
}

impl Lane {
    pub(super) fn start(
        address: Address,
        catalog: Arc<Catalog>,
        timeout: Duration,
    ) -> Result<Self, OpenError> {
        let (queue, reads) = mpsc::channel(QUEUE);
        let task = Task { address, catalog, timeout, session: None, reads };
        run_on_own_thread("lane", supervise(task))?;
        Ok(Self { queue })
    }

    pub(super) async fn get(&self, id: ResourceId) -> Answer {
        let (reply, answer) = oneshot::channel();
        let lost = |_| Failure::new(FailureKind::Defect, "a read was dropped without an answer");
        self.queue.send(Read { id, reply }).await.map_err(|_| lost(()))?;
        answer.await.map_err(|_| lost(()))?
    }
}

struct Task {
    address: Address,
    catalog: Arc<Catalog>,
    timeout: Duration,
    session: Option<(Client, Statement)>,
    reads: mpsc::Receiver<Read>,
}

/// Runs the task for as long as anyone may ask, whatever happens inside.
async fn supervise(mut task: Task) {
    while AssertUnwindSafe(task.run()).catch_unwind().await.is_err() {
        tracing::error!("the read lane failed and is started again");
        task.session = None;
    }
}

impl Task {
    async fn run(&mut self) {
        let mut reads = Vec::with_capacity(MAX_BATCH);
        while self.reads.recv_many(&mut reads, MAX_BATCH).await > 0 {
            // Nobody waits for these any more.
            reads.retain(|read| !read.reply.is_closed());
            if !reads.is_empty() {
                self.answer(std::mem::take(&mut reads)).await;
            }
        }
    }

    async fn answer(&mut self, reads: Vec<Read>) {
        let ids: Vec<Uuid> = reads.iter().map(|read| read.id.uuid()).collect();
        let result = tokio::time::timeout(self.timeout, self.load(&ids))
            .await
            .unwrap_or_else(|_| Err(Failure::new(FailureKind::Timeout, "the read took too long")));
        if result.is_err() {
            self.session = None;
        }
        match result {
            Err(failure) => {
                for read in reads {
                    let _ = read.reply.send(Err(failure.clone()));
                }
            }
            Ok(found) => {
                for read in reads {
                    let _ = read.reply.send(Ok(found.get(&read.id).cloned()));
                }
            }
        }
    }

    /// Reads them all. The server may have been restarted since the last use: then once more on a
    /// new connection.
    async fn load(&mut self, ids: &[Uuid]) -> Result<HashMap<ResourceId, Resource>, Failure> {
        match self.attempt(ids).await {
            Err(failure) if failure.kind == FailureKind::Unavailable && self.session.is_some() => {
                self.session = None;
                self.attempt(ids).await
            }
            other => other,
        }
    }

    async fn attempt(&mut self, ids: &[Uuid]) -> Result<HashMap<ResourceId, Resource>, Failure> {
        let (client, statement) = match &mut self.session {
            Some(session) => session,
            slot => slot.insert(open(&self.address).await?),
        };
        let rows = client.query(&*statement, &[&ids]).await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            if let Some(resource) = row::resource(&self.catalog, row)? {
                found.insert(resource.id, resource);
            }
        }
        Ok(found)
    }
}

async fn open(address: &Address) -> Result<(Client, Statement), Failure> {
    let client = address.connect_by_key().await?;
    let statement = client
        .prepare(&format!(
            "select {COLUMNS} from resources r join resource_status s on s.resource_id = r.id
             where r.id = any($1)"
        ))
        .await?;
    Ok((client, statement))
}
