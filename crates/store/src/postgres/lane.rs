//! Point reads, many in one query. Like the committer, the lane takes whatever reads are waiting and
//! never waits for more, so a lone read pays no delay; under load one query answers many requests,
//! and requests for the same resource share one row. Tenants share no query: each has its own, and all of them leave in
//! one flight, over a connection that stays behind the wall.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::{FutureExt, join};
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
        address: &Address,
        catalog: &Arc<Catalog>,
        timeout: Duration,
        wall: Option<Arc<Wall>>,
    ) -> Result<Self, OpenError> {
        let (queue, reads) = mpsc::channel(QUEUE);
        let connection = |wall| Connection {
            address: address.clone(),
            catalog: catalog.clone(),
            timeout,
            wall,
            session: None,
        };
        let task = Task { of_all: connection(None), of_tenants: connection(wall), reads };
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
    /// For those who see all.
    of_all: Connection,
    /// For tenants, behind the wall.
    of_tenants: Connection,
    reads: mpsc::Receiver<Read>,
}

/// A connection that is made when it is first needed, and again when it failed.
struct Connection {
    address: Address,
    catalog: Arc<Catalog>,
    timeout: Duration,
    wall: Option<Arc<Wall>>,
    session: Option<Session>,
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
        task.of_all.session = None;
        task.of_tenants.session = None;
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
        let mut of_tenants: ByTenant<Vec<Uuid>> = BTreeMap::new();
        for read in &reads {
            of_tenants.entry(read.tenant.clone()).or_default().push(read.id.uuid());
        }
        let of_all = of_tenants.remove_entry(&None).into_iter().collect();
        // What fails for some is no failure for the others.
        let (of_all, of_tenants) = join!(self.of_all.load(&of_all), self.of_tenants.load(&of_tenants));
        for read in reads {
            let result = if read.tenant.is_some() { &of_tenants } else { &of_all };
            let answer = result
                .as_ref()
                .map_err(Clone::clone)
                .map(|found| found.get(&read.tenant).and_then(|found| found.get(&read.id)).cloned());
            let _ = read.reply.send(answer);
        }
    }
}

impl Connection {
    /// Reads them all, in time.
    async fn load(&mut self, asked: &ByTenant<Vec<Uuid>>) -> Result<Found, Failure> {
        if asked.is_empty() {
            return Ok(Found::default());
        }
        let result = tokio::time::timeout(self.timeout, self.try_twice(asked))
            .await
            .unwrap_or_else(|_| Err(Failure::new(FailureKind::Timeout, "the read took too long")));
        if result.is_err() {
            self.session = None;
        }
        result
    }

    /// The server may have been restarted since the last use: then once more on a new connection.
    async fn try_twice(&mut self, asked: &ByTenant<Vec<Uuid>>) -> Result<Found, Failure> {
        match self.attempt(asked).await {
            Err(failure) if failure.kind == FailureKind::Unavailable && self.session.is_some() => {
                self.session = None;
                self.attempt(asked).await
            }
            other => other,
        }
    }

    async fn attempt(&mut self, asked: &ByTenant<Vec<Uuid>>) -> Result<Found, Failure> {
        let wall = self.wall.as_deref();
        let session = match &mut self.session {
            Some(session) => session,
            slot => slot.insert(Session::open(&self.address, wall).await?),
        };
        let (session, catalog) = (&*session, &*self.catalog);
        let answers = asked.iter().map(async |(tenant, ids)| {
            let rows = match (tenant, wall) {
                (Some(tenant), Some(_)) => session.ask(&[&tenant.as_str(), ids]).await?,
                (None, None) => session.ask(&[ids]).await?,
                _ => return Err(Failure::new(FailureKind::Defect, "a read on the other side of the wall")),
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
