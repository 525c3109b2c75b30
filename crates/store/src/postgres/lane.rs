//! Point reads, many in one query. Like the committer, the lane takes whatever reads are waiting and
//! never waits for more, so a lone read pays no delay; under load one query answers many requests,
//! and requests for the same resource share one row. Tenants share no query: each has its own, and all of them leave in
//! one flight. They are asked on a connection that is behind the wall from its first moment to its last.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::try_join_all;
use hyperfleet_core::{Catalog, Resource, ResourceId, Tenant};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};
use uuid::Uuid;

use super::connect::Address;
use super::row;
use super::wall::{Wall, confined};
use crate::COLUMNS;
use crate::failure::{Failure, FailureKind};
use crate::migrations::OpenError;
use crate::thread::run_on_own_thread;

/// Reads that one query may carry.
const MAX_BATCH: usize = 128;

/// Reads that may wait; callers beyond wait for room, within their own deadline.
const QUEUE: usize = 4096;

type Answer = Result<Option<Resource>, Failure>;

/// What is asked for, or found, by whose eyes; `None` sees all.
type ByTenant<T> = BTreeMap<Option<Tenant>, T>;

type Found = ByTenant<HashMap<ResourceId, Resource>>;

/// The way in. The lane ends when it is dropped.
pub(super) struct Lane {
    queue: mpsc::Sender<Read>,
}

struct Read {
    /// Whom to keep behind the wall.
    tenant: Option<Tenant>,
    id: ResourceId,
    reply: oneshot::Sender<Answer>,
}

impl Lane {
    pub(super) fn start(
        address: Address,
        catalog: Arc<Catalog>,
        timeout: Duration,
        wall: Option<Arc<Wall>>,
    ) -> Result<Self, OpenError> {
        let (queue, reads) = mpsc::channel(QUEUE);
        let task = Task { address, catalog, timeout, wall, sessions: Sessions::default(), reads };
        run_on_own_thread("lane", supervise(task))?;
        Ok(Self { queue })
    }

    pub(super) async fn get(&self, tenant: Option<Tenant>, id: ResourceId) -> Answer {
        let (reply, answer) = oneshot::channel();
        let lost = |_| Failure::new(FailureKind::Defect, "a read was dropped without an answer");
        self.queue.send(Read { tenant, id, reply }).await.map_err(|_| lost(()))?;
        answer.await.map_err(|_| lost(()))?
    }
}

struct Task {
    address: Address,
    catalog: Arc<Catalog>,
    timeout: Duration,
    wall: Option<Arc<Wall>>,
    sessions: Sessions,
    reads: mpsc::Receiver<Read>,
}

/// Connections, each made when it is first needed.
#[derive(Default)]
struct Sessions {
    /// For those who see all.
    open: Option<Session>,
    /// For tenants.
    confined: Option<Session>,
}

/// A connection with its prepared statement.
struct Session {
    client: Client,
    read: Statement,
}

/// Runs the task for as long as anyone may ask, whatever happens inside.
async fn supervise(mut task: Task) {
    while AssertUnwindSafe(task.run()).catch_unwind().await.is_err() {
        tracing::error!("the read lane failed and is started again");
        task.sessions = Sessions::default();
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
        let mut asked: ByTenant<Vec<Uuid>> = BTreeMap::new();
        for read in &reads {
            asked.entry(read.tenant.clone()).or_default().push(read.id.uuid());
        }
        let result = tokio::time::timeout(self.timeout, self.load(&asked))
            .await
            .unwrap_or_else(|_| Err(Failure::new(FailureKind::Timeout, "the read took too long")));
        if result.is_err() {
            self.sessions = Sessions::default();
        }
        for read in reads {
            let answer = result
                .as_ref()
                .map_err(Clone::clone)
                .map(|found| found.get(&read.tenant).and_then(|found| found.get(&read.id)).cloned());
            let _ = read.reply.send(answer);
        }
    }

    /// Reads them all. The server may have been restarted since the last use: then once more on new connections.
    async fn load(&mut self, asked: &ByTenant<Vec<Uuid>>) -> Result<Found, Failure> {
        let is_new = self.sessions.open.is_none() && self.sessions.confined.is_none();
        match self.attempt(asked).await {
            Err(failure) if failure.kind == FailureKind::Unavailable && !is_new => {
                self.sessions = Sessions::default();
                self.attempt(asked).await
            }
            other => other,
        }
    }

    async fn attempt(&mut self, asked: &ByTenant<Vec<Uuid>>) -> Result<Found, Failure> {
        let Sessions { open, confined } = &mut self.sessions;
        if open.is_none() && asked.contains_key(&None) {
            *open = Some(Session::open(&self.address, None).await?);
        }
        if confined.is_none() && asked.keys().any(Option::is_some) {
            *confined = Some(Session::open(&self.address, self.wall.as_deref()).await?);
        }
        let (open, confined, catalog) = (open.as_ref(), confined.as_ref(), &*self.catalog);
        let answers = asked.iter().map(async |(tenant, ids)| {
            let rows = match tenant {
                Some(tenant) => there(confined)?.ask(&[&tenant.as_str(), ids]).await?,
                None => there(open)?.ask(&[ids]).await?,
            };
            let mut found = HashMap::with_capacity(ids.len());
            for row in &rows {
                if let Some(resource) = row::resource(catalog, row)? {
                    found.insert(resource.id, resource);
                }
            }
            Ok::<_, Failure>((tenant.clone(), found))
        });
        Ok(try_join_all(answers).await?.into_iter().collect())
    }
}

fn there(session: Option<&Session>) -> Result<&Session, Failure> {
    session.ok_or_else(|| Failure::new(FailureKind::Defect, "no session"))
}

impl Session {
    /// Connects, behind the wall if one is given.
    async fn open(address: &Address, wall: Option<&Wall>) -> Result<Self, Failure> {
        let client = address.connect_by_key().await?;
        let read = |ids: &str| {
            format!(
                "select {COLUMNS} from resources r join resource_status s on s.resource_id = r.id
                 where r.id = any({ids})"
            )
        };
        let read = match wall {
            None => read("$1"),
            Some(wall) => {
                wall.enter(&client).await?;
                confined(&read("$2"))
            }
        };
        let read = client.prepare(&read).await?;
        Ok(Self { client, read })
    }

    async fn ask(&self, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Failure> {
        Ok(self.client.query(&self.read, values).await?)
    }
}
