//! Point reads from PostgreSQL, many in one query: requests for the same resource share one row. Tenants share no query:
//! each has its own, and all of them leave in one flight, over a connection that stays behind the wall.
//!
//! What is [known](Known) already is not read again: then the question is no more than where the feed stands. Tenants are
//! shown nothing that way, because what they read passes the wall.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::{join, try_join};
use hyperfleet_core::{Catalog, IdMap, Resource, Tenant, Version};
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::connect::Address;
use super::row;
use super::wall::{Wall, confined};
use crate::failure::{Failure, FailureKind};
use crate::known::Known;
use crate::lane::{Answers, Questions, Read};
use crate::memory::Mark;
use crate::{BEHIND_COLUMNS, COLUMNS};

/// What is asked for, or found, by whose eyes; `None` sees all.
type ByTenant<T> = BTreeMap<Option<Tenant>, T>;

/// What a query found, and where the feed stood.
struct Found {
    mark: Mark,
    resources: IdMap<Arc<Resource>>,
}

/// What a lane reads by.
pub(super) struct Source {
    address: Address,
    catalog: Arc<Catalog>,
    timeout: Duration,
    known: Arc<Known>,
    wall: Option<Arc<Wall>>,
}

impl Source {
    pub(super) fn new(
        address: &Address,
        catalog: &Arc<Catalog>,
        timeout: Duration,
        known: &Arc<Known>,
        wall: Option<Arc<Wall>>,
    ) -> Self {
        Self { address: address.clone(), catalog: catalog.clone(), timeout, known: known.clone(), wall }
    }

    /// The era in which whatever is read from now on is read.
    pub(super) fn era(&self) -> u64 {
        self.known.era()
    }

    /// Someone who answers by it.
    pub(super) fn open(&self) -> Lane {
        let connection = |wall| Connection {
            address: self.address.clone(),
            catalog: self.catalog.clone(),
            timeout: self.timeout,
            known: self.known.clone(),
            wall,
            session: None,
        };
        Lane { of_all: connection(None), of_tenants: connection(self.wall.clone()) }
    }
}

pub(super) struct Lane {
    /// For those who see all.
    of_all: Connection,
    /// For tenants, behind the wall.
    of_tenants: Connection,
}

/// A connection that is made when it is first needed, and again when it failed.
struct Connection {
    address: Address,
    catalog: Arc<Catalog>,
    timeout: Duration,
    known: Arc<Known>,
    wall: Option<Arc<Wall>>,
    session: Option<Session>,
}

/// A connection with its prepared statements.
struct Session {
    client: Client,
    read: Statement,
    /// Where the feed stands, for when there is nothing else to read: a join that finds nothing takes as long again.
    feed: Statement,
}

impl Answers for Lane {
    async fn answer(&mut self, mut questions: Questions) {
        let (of_all, of_tenants): (Vec<Read>, Vec<Read>) =
            std::mem::take(&mut questions.reads).into_iter().partition(|read| read.tenant.is_none());
        questions.reads = of_all;
        // What fails for some is no failure for the others.
        join!(answer_all(&mut self.of_all, questions), answer_tenants(&mut self.of_tenants, of_tenants));
    }

    fn reset(&mut self) {
        self.of_all.session = None;
        self.of_tenants.session = None;
    }
}

/// Answers those who see all, by what is known where that is so.
async fn answer_all(connection: &mut Connection, mut questions: Questions) {
    if questions.is_empty() {
        return;
    }
    let known = connection.known.clone();
    let reads = std::mem::take(&mut questions.reads);
    let (asked, is_kept) = known.ask(reads.iter().map(|read| read.id));
    let mut is_kept = is_kept.into_iter();
    let (kept, unknown): (Vec<Read>, Vec<Read>) =
        reads.into_iter().partition(|_| is_kept.next() == Some(true));
    let found = connection.load(&by_tenant(&unknown, Some(None))).await.map(|mut found| found.remove(&None));
    let missed = match &found {
        Ok(Some(found)) => {
            let shown = known.show(asked, found.mark, kept.iter().map(|read| read.id));
            known.keep(asked, found.mark, found.resources.values());
            if questions.want_the_moment() {
                // After that, by which a feed that was set back is noticed.
                questions.tell_the_moment(&Ok(known.moment(found.mark)));
            }
            answer_with(unknown, &Ok(&found.resources));
            let mut missed = Vec::new();
            for (read, shown) in kept.into_iter().zip(shown) {
                match shown {
                    Some(resource) => read.answer(Ok(Some(resource))),
                    None => missed.push(read),
                }
            }
            missed
        }
        Ok(None) => return,
        Err(failure) => {
            questions.tell_the_moment(&Err(failure.clone()));
            return answer_with(unknown.into_iter().chain(kept), &Err(failure));
        }
    };
    if missed.is_empty() {
        return;
    }
    // Somebody has written meanwhile.
    match connection.load(&by_tenant(&missed, None)).await {
        Ok(found) => {
            let Some(found) = found.get(&None) else { return };
            known.keep(asked, found.mark, found.resources.values());
            answer_with(missed, &Ok(&found.resources));
        }
        Err(failure) => answer_with(missed, &Err(&failure)),
    }
}

async fn answer_tenants(connection: &mut Connection, reads: Vec<Read>) {
    let found = connection.load(&by_tenant(&reads, None)).await;
    for read in reads {
        match &found {
            Ok(found) => {
                let Some(found) = found.get(&read.tenant) else { continue };
                answer_with([read], &Ok(&found.resources));
            }
            Err(failure) => answer_with([read], &Err(failure)),
        }
    }
}

/// Who asks for what, and who asks in any case.
fn by_tenant(reads: &[Read], always: Option<Option<Tenant>>) -> ByTenant<Vec<Uuid>> {
    let mut asked: ByTenant<Vec<Uuid>> = always.into_iter().map(|tenant| (tenant, Vec::new())).collect();
    for read in reads {
        asked.entry(read.tenant.clone()).or_default().push(read.id.uuid());
    }
    asked
}

fn answer_with(reads: impl IntoIterator<Item = Read>, found: &Result<&IdMap<Arc<Resource>>, &Failure>) {
    for read in reads {
        let answer = match found {
            Ok(resources) => Ok(resources.get(&read.id).cloned()),
            Err(failure) => Err((*failure).clone()),
        };
        read.answer(answer);
    }
}

impl Connection {
    /// Reads them all, in time.
    async fn load(&mut self, asked: &ByTenant<Vec<Uuid>>) -> Result<ByTenant<Found>, Failure> {
        if asked.is_empty() {
            return Ok(ByTenant::new());
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
    async fn try_twice(&mut self, asked: &ByTenant<Vec<Uuid>>) -> Result<ByTenant<Found>, Failure> {
        match self.attempt(asked).await {
            Err(failure) if failure.kind == FailureKind::Unavailable && self.session.is_some() => {
                self.session = None;
                self.attempt(asked).await
            }
            other => other,
        }
    }

    async fn attempt(&mut self, asked: &ByTenant<Vec<Uuid>>) -> Result<ByTenant<Found>, Failure> {
        let wall = self.wall.as_deref();
        let session = match &mut self.session {
            Some(session) => session,
            slot => {
                let session = Session::open(&self.address, wall).await?;
                // Behind a new connection may be another server, that does not know all of what this one once did.
                self.known.forget();
                slot.insert(session)
            }
        };
        let (session, catalog) = (&*session, &*self.catalog);
        let answers = asked.iter().map(async |(tenant, ids)| {
            let read = &session.read;
            let rows = match (tenant, wall) {
                (Some(tenant), Some(_)) => session.client.query(read, &[&tenant.as_str(), ids]).await?,
                (None, None) if ids.is_empty() => {
                    let row = session.client.query_one(&session.feed, &[]).await?;
                    let mark = Mark { version: Version(row.try_get(0)?), commits: row.try_get(1)? };
                    return Ok((None, Found { mark, resources: IdMap::default() }));
                }
                (None, None) => session.client.query(read, &[ids]).await?,
                _ => return Err(Failure::new(FailureKind::Defect, "a read on the other side of the wall")),
            };
            let mark = Mark { version: Version(0), commits: 0 };
            let resources = IdMap::with_capacity_and_hasher(ids.len(), Default::default());
            let mut found = Found { mark, resources };
            for row in &rows {
                if tenant.is_none() {
                    let version = Version(row.try_get(BEHIND_COLUMNS)?);
                    found.mark = Mark { version, commits: row.try_get(BEHIND_COLUMNS + 1)? };
                }
                // The feed has a row, whatever else is found.
                if row.try_get::<_, Option<Uuid>>(0)?.is_some()
                    && let Some(resource) = row::resource(catalog, row)?
                {
                    found.resources.insert(resource.id, Arc::new(resource));
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
            None => {
                format!(
                    "select found.*, f.version, f.commits from feed f left join ({}) found on true",
                    read("$1")
                )
            }
            Some(wall) => {
                wall.enter(&client).await?;
                confined(&read("$2"))
            }
        };
        let (read, feed) = (client.prepare(&read), client.prepare("select version, commits from feed"));
        let (read, feed) = try_join!(read, feed)?;
        Ok(Self { client, read, feed })
    }
}
