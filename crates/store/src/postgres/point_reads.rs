//! Batched point reads: a reader takes the reads that wait and answers them with one query. It never waits for more, so a
//! lone read pays no delay. Each [runtime](PerRuntime) has a reader of its own.
//!
//! Reads of tenants share no query: each tenant has its own, over a connection that is confined to tenants.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::{FutureExt, join};
use hyperfleet_core::{Catalog, IdMap, Resource, ResourceId, Tenant};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::connect::Address;
use super::row;
use super::row_security::{RowSecurity, confined};
use crate::codec::columns::READ_RESOURCE;
use crate::database_health::DatabaseHealth;
use crate::failure::{Failure, FailureKind};
use crate::per_runtime::PerRuntime;

/// Reads that one query answers.
const MAX_BATCH: usize = 128;

/// Reads that may wait in a queue. Further callers wait for room, within their own deadline.
const QUEUE: usize = 4096;

type PointReadResult = Result<Option<Arc<Resource>>, Failure>;

/// Values by tenant; `None` sees every resource.
type ByTenant<T> = BTreeMap<Option<Tenant>, T>;

/// A read that waits.
struct Read {
    tenant: Option<Tenant>,
    id: ResourceId,
    reply: oneshot::Sender<PointReadResult>,
}

/// The queues of the readers.
pub(super) struct PointReads {
    source: Source,
    queues: PerRuntime<mpsc::Sender<Read>>,
}

/// What a reader needs.
#[derive(Clone)]
struct Source {
    address: Address,
    catalog: Arc<Catalog>,
    timeout: Duration,
    health: DatabaseHealth,
    row_security: Option<Arc<RowSecurity>>,
}

impl PointReads {
    pub(super) fn new(
        address: Address,
        catalog: Arc<Catalog>,
        timeout: Duration,
        health: DatabaseHealth,
        row_security: Option<Arc<RowSecurity>>,
    ) -> Self {
        Self {
            source: Source { address, catalog, timeout, health, row_security },
            queues: PerRuntime::default(),
        }
    }

    /// The resource with this id, if the tenant sees it.
    pub(super) async fn get(&self, tenant: Option<Tenant>, id: ResourceId) -> PointReadResult {
        let queue = self.queues.here(|runtime| {
            let (queue, reads) = mpsc::channel(QUEUE);
            runtime.spawn(supervise(Reader::new(&self.source), reads));
            queue
        });
        let (reply, answer) = oneshot::channel();
        let lost = || Failure::new(FailureKind::Defect, "a point read was dropped without an answer");
        queue.send(Read { tenant, id, reply }).await.map_err(|_| lost())?;
        answer.await.map_err(|_| lost())?
    }

    /// The number of connections that the readers keep.
    pub(super) fn connections(&self) -> usize {
        self.queues.count() * (1 + usize::from(self.source.row_security.is_some()))
    }
}

/// Answers for as long as anyone may ask. A panic costs one batch.
async fn supervise(mut reader: Reader, mut queue: mpsc::Receiver<Read>) {
    while AssertUnwindSafe(reader.run(&mut queue)).catch_unwind().await.is_err() {
        tracing::error!("a reader of resources failed and is started again");
    }
}

struct Reader {
    unconfined: Connection,
    of_tenants: Connection,
}

impl Reader {
    fn new(source: &Source) -> Self {
        let unconfined = Source { row_security: None, ..source.clone() };
        Self {
            unconfined: Connection { source: unconfined, session: None },
            of_tenants: Connection { source: source.clone(), session: None },
        }
    }

    async fn run(&mut self, queue: &mut mpsc::Receiver<Read>) {
        while let Some(first) = queue.recv().await {
            // Requests that this runtime has received by now join the batch: small batches keep later batches small,
            // because their callers return together.
            tokio::task::yield_now().await;
            let mut reads = vec![first];
            while reads.len() < MAX_BATCH
                && let Ok(next) = queue.try_recv()
            {
                reads.push(next);
            }
            reads.retain(|read| !read.reply.is_closed());
            let (of_tenants, unconfined) = reads.into_iter().partition(|read| read.tenant.is_some());
            // Each connection fails for its own reads only.
            join!(self.unconfined.answer(unconfined), self.of_tenants.answer(of_tenants));
        }
    }
}

/// A connection that is made when it is first needed, and again after a failure.
struct Connection {
    source: Source,
    session: Option<Session>,
}

impl Connection {
    async fn answer(&mut self, reads: Vec<Read>) {
        if reads.is_empty() {
            return;
        }
        let mut asked: ByTenant<Vec<Uuid>> = ByTenant::new();
        for read in &reads {
            asked.entry(read.tenant.clone()).or_default().push(read.id.uuid());
        }
        let (timeout, health) = (self.source.timeout, self.source.health.clone());
        let found = tokio::time::timeout(timeout, health.or_fail(self.load(&asked))).await;
        let found =
            found.unwrap_or_else(|_| Err(Failure::new(FailureKind::Timeout, "the read took too long")));
        for Read { tenant, id, reply } in reads {
            let answer = match &found {
                Ok(found) => Ok(found.get(&tenant).and_then(|resources| resources.get(&id)).cloned()),
                Err(failure) => Err(failure.clone()),
            };
            // A caller that went away needs no answer.
            let _ = reply.send(answer);
        }
    }

    /// The server may have been restarted since the last read, so a broken session is replaced once.
    async fn load(&mut self, asked: &ByTenant<Vec<Uuid>>) -> Result<ByTenant<IdMap<Arc<Resource>>>, Failure> {
        let is_new = self.session.is_none();
        match self.attempt(asked).await {
            Err(failure) if failure.kind == FailureKind::Unavailable && !is_new => self.attempt(asked).await,
            result => result,
        }
    }

    async fn attempt(
        &mut self,
        asked: &ByTenant<Vec<Uuid>>,
    ) -> Result<ByTenant<IdMap<Arc<Resource>>>, Failure> {
        // The session is taken out, so that it is dropped on any failure.
        let session = match self.session.take() {
            Some(session) => session,
            None => Session::open(&self.source).await?,
        };
        let answers = asked.iter().map(async |(tenant, ids)| {
            let rows = match tenant {
                Some(tenant) => session.client.query(&session.read, &[&tenant.as_str(), ids]).await?,
                None => session.client.query(&session.read, &[ids]).await?,
            };
            let mut resources = IdMap::with_capacity_and_hasher(rows.len(), Default::default());
            for found in &rows {
                let resource = row::resource(&self.source.catalog, found)?;
                resources.extend(resource.map(|resource| (resource.id, Arc::new(resource))));
            }
            Ok::<_, Failure>((tenant.clone(), resources))
        });
        let found = try_join_all(answers).await?.into_iter().collect();
        self.session = Some(session);
        Ok(found)
    }
}

/// A connection with its prepared statement.
struct Session {
    client: Client,
    read: Statement,
}

impl Session {
    async fn open(source: &Source) -> Result<Self, Failure> {
        let client = source.address.connect_by_key().await?;
        let read = |ids: &str| {
            format!(
                "select {READ_RESOURCE} from resources r join resource_status s on s.resource_id = r.id
                 where r.id = any({ids})"
            )
        };
        let read = match &source.row_security {
            None => read("$1"),
            Some(row_security) => {
                row_security.enter(&client).await?;
                confined(&read("$2"))
            }
        };
        let read = client.prepare(&read).await?;
        Ok(Self { client, read })
    }
}
