//! Many writers and a reader on one fleet, through servers that are killed and restarted. Writers record their answers;
//! the reader checks that versions never go back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hyperfleet_testkit::Client;
use hyperfleet_testkit::model::{check_invariants, check_progress};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::DEADLINE;
use super::fleet::{Act, Command, Fleet, PlannedCommand};
use crate::support::{BASE, id, text};

/// The fleets of these tests fit into one page.
pub(super) const EVERYTHING: &str = "/resources?showDeleted=true&pageSize=500";

/// Where a server can be found at the moment. Its address may be another one after a restart.
pub(super) type ServerAddress = watch::Receiver<Option<String>>;

/// What all share.
pub(super) struct SharedState {
    pub(super) fleet: Fleet,
    /// Orders what writers and readers did by its beginning and its end.
    clock: AtomicU64,
    /// The highest version in any response.
    version: AtomicU64,
    /// Commands that came to an end, one way or the other.
    pub(super) ended: AtomicUsize,
}

/// A command, and what its writer was told.
#[derive(Clone, Debug)]
pub(super) struct CompletedCommand {
    pub(super) writer: usize,
    pub(super) mark: usize,
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) command: Command,
    /// Nothing when the server went away first: then it may have happened or not.
    pub(super) reply: Option<Reply>,
}

#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) version: Option<u64>,
    pub(super) body: Value,
}

/// What a reader saw.
#[derive(Clone, Default)]
pub(super) struct Observed {
    /// The kind and the owner of each resource ever seen.
    pub(super) owners: BTreeMap<String, (String, Option<String>)>,
    /// The fleet at the end.
    pub(super) last: Vec<Value>,
    pub(super) faults: Vec<String>,
}

impl SharedState {
    pub(super) fn new(fleet: Fleet) -> Arc<Self> {
        let (clock, version, ended) = Default::default();
        Arc::new(Self { fleet, clock, version, ended })
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }
}

/// Lets each writer, known by its number, send its commands through its own connections, spread over the servers, while
/// a reader watches through all of them in turn. Gives every record, in no order.
pub(super) async fn act(
    shared: &Arc<SharedState>,
    servers: &[ServerAddress],
    plans: impl IntoIterator<Item = (usize, Vec<PlannedCommand>)>,
) -> (Vec<CompletedCommand>, Observed) {
    let (done, until) = watch::channel(false);
    let reader = tokio::spawn(watch_the_fleet(Arc::clone(shared), servers.to_vec(), until));
    let mut writers = JoinSet::new();
    for (writer, planned) in plans {
        let server = Connection::to(&servers[writer % servers.len()]);
        writers.spawn(write(Arc::clone(shared), server, writer, planned));
    }
    let told = writers.join_all().await.concat();
    done.send(true).unwrap();
    (told, reader.await.unwrap())
}

/// A server by its address.
pub(super) struct Connection {
    address: ServerAddress,
    client: Option<Client>,
}

impl Connection {
    pub(super) fn to(address: &ServerAddress) -> Self {
        Self { address: address.clone(), client: None }
    }

    /// A client of the present process, once there is one.
    pub(super) async fn client(&mut self) -> Client {
        while self.client.is_none() || self.address.has_changed().unwrap() {
            let arrival = self.address.wait_for(Option::is_some);
            let arrival = tokio::time::timeout(DEADLINE, arrival).await.expect("the server must come back");
            self.client = arrival.unwrap().as_deref().map(Client::new);
        }
        self.client.clone().unwrap()
    }

    /// The server did not answer, which it may do only when it was taken away.
    pub(super) async fn lost(&mut self, fault: &impl Display) {
        let news = tokio::time::timeout(DEADLINE, self.address.changed()).await;
        assert!(news.is_ok(), "no answer, although the server was not stopped: {fault:#}");
        self.client = None;
    }
}

async fn write(
    shared: Arc<SharedState>,
    mut server: Connection,
    writer: usize,
    planned: Vec<PlannedCommand>,
) -> Vec<CompletedCommand> {
    let mut told = Vec::with_capacity(planned.len());
    for (mark, planned) in planned.into_iter().enumerate() {
        let client = server.client().await;
        let command = shared.fleet.command(&planned, writer, mark);
        let begun = shared.tick();
        let mut call = client.call(command.method().parse().unwrap(), &command.path);
        if !command.body.is_null() {
            call = call.json(&command.body);
        }
        let answer = call.send().await;
        let ended = shared.tick();
        let reply = match answer {
            Err(fault) => {
                server.lost(&fault).await;
                None
            }
            Ok(answer) => {
                let version = answer.version();
                let body = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
                Some(Reply { status: answer.status, version, body })
            }
        };
        if let Some(reply) = &reply {
            shared.version.fetch_max(reply.version.unwrap_or(0), Ordering::SeqCst);
            if !matches!(command.act, Act::Report { .. } | Act::ForceDelete) && reply.status < 300 {
                shared.fleet.saw(&reply.body);
            }
        }
        shared.ended.fetch_add(1, Ordering::SeqCst);
        told.push(CompletedCommand { writer, mark, begun, ended, command, reply });
    }
    told
}

/// Reads the whole fleet over and over.
async fn watch_the_fleet(
    shared: Arc<SharedState>,
    servers: Vec<ServerAddress>,
    until: watch::Receiver<bool>,
) -> Observed {
    let mut servers: Vec<_> = servers.iter().map(Connection::to).collect();
    let mut observed = Observed::default();
    let mut version = 0;
    let mut gone = BTreeSet::new();
    while !*until.borrow() {
        servers.rotate_left(1);
        let client = servers[0].client().await;
        let told = shared.version.load(Ordering::SeqCst);
        let answer = match client.get(&format!("{BASE}{EVERYTHING}")).send().await {
            Ok(answer) => answer.expect_status(200),
            Err(fault) => {
                servers[0].lost(&fault).await;
                continue;
            }
        };
        let list = answer.json();
        let now = list["items"].as_array().unwrap().clone();
        assert_eq!(list["total"], now.len(), "the fleet has outgrown the page");
        let at = list["version"].as_u64().unwrap();
        if at < told.max(version) {
            let fault = format!("a list at version {at} after {told} was told and {version} was read");
            observed.faults.push(fault);
        }
        version = at;
        observed.faults.extend(check_invariants(&shared.fleet.kinds, &now, &BTreeMap::new()));
        let ids: BTreeSet<String> = now.iter().map(|document| id(document).to_owned()).collect();
        gone.extend(observed.last.iter().map(|it| id(it).to_owned()).filter(|it| !ids.contains(it)));
        observed.faults.extend(ids.intersection(&gone).map(|id| format!("{id} was gone and came back")));
        shared.fleet.saw_all(&now);
        observed.saw_all(now);
    }
    observed
}

impl Observed {
    /// The whole fleet was read again.
    pub(super) fn saw_all(&mut self, documents: Vec<Value>) {
        self.faults.extend(check_progress(&self.last, &documents));
        self.note(&documents);
        self.last = documents;
    }

    /// Adds what was seen later.
    pub(super) fn extend(&mut self, later: Self) {
        self.saw_all(later.last);
        self.owners.extend(later.owners);
        self.faults.extend(later.faults);
    }

    /// Remembers kind and owner of each resource.
    pub(super) fn note(&mut self, documents: &[Value]) {
        self.owners.extend(documents.iter().map(|document| {
            let owner = document["owner_references"]["id"].as_str().map(ToOwned::to_owned);
            (id(document).to_owned(), (text(&document["kind"]).to_owned(), owner))
        }));
    }
}
