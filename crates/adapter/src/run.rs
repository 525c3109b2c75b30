//! A running adapter: one subscription a topic, each event answered by reading the resource, working, and reporting.
//! An event is acknowledged when its report was taken or when there is nothing left to report on; whatever fails on
//! the way gives it back to the broker. One resource is never worked on twice at the same time: the subscription
//! hands out no second event of it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyperfleet_client::{
    Client, Collection, Context, Error, GetQuery, ItemPath, Kind, Owner, Reported, Resource,
};
use hyperfleet_core::Timestamp;
use hyperfleet_events::{Broker, Delivery, Event, Subject, Subscription};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::simulation::{Past, Simulation};

/// Wait before the API is asked for its kinds again.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Resources that are remembered; beyond that all are forgotten and work is done again, which does no harm.
const REMEMBERED: usize = 200_000;

/// Owners above each other whose names are told apart.
const DEEPEST: usize = 16;
/// Calls that are on their way to the API at one time: most of the work is waiting, which needs no connection.
const CALLS: usize = 32;

/// What an adapter is made of.
#[derive(Debug)]
pub struct Parts {
    /// How it pretends.
    pub simulation: Simulation,
    /// Where it reads and reports.
    pub client: Client,
    /// Where it hears of work.
    pub broker: Broker,
    /// The kinds that it works on, by any of their names; nothing for every kind there is.
    pub kinds: Vec<String>,
    /// Topic of every event, if it does not depend on the kind.
    pub topic: Option<String>,
    /// Time for work under way at shutdown.
    pub grace: Duration,
}

/// A kind was asked for that the server does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server has no kind {name:?}; it has {there}")]
pub struct UnknownKind {
    name: String,
    there: String,
}

/// Runs until `stop`, and finishes what is under way. `ready` is called when everything published from then on comes.
///
/// # Errors
/// When a kind was asked for that there is not. What fails later is tried again for ever.
pub async fn run(parts: Parts, stop: CancellationToken, ready: impl FnOnce()) -> Result<(), UnknownKind> {
    let Some(there) = stop.run_until_cancelled(kinds(&parts.client)).await else { return Ok(()) };
    let kinds = chosen(&parts.kinds, there)?;
    let topic = |kind: &Kind| parts.topic.clone().unwrap_or_else(|| format!("hyperfleet-{}", kind.plural));
    let topics: BTreeSet<String> = kinds.iter().map(topic).collect();
    let worker = Arc::new(Worker {
        simulation: parts.simulation,
        client: parts.client,
        kinds,
        calls: Semaphore::new(CALLS),
        pasts: Mutex::default(),
        owners: Mutex::default(),
    });
    let mut listeners = JoinSet::new();
    let mut subscriptions = Vec::new();
    for topic in &topics {
        let name = subscription_name(&parts.broker, topic, &worker.simulation.name);
        let mut subscription = parts.broker.subscribe(topic, &name, parts.broker.options());
        if stop.run_until_cancelled(subscription.ready()).await.is_none() {
            return Ok(());
        }
        tracing::info!(adapter = worker.simulation.name, topic, subscription = name, "listens");
        subscriptions.push(subscription);
    }
    for subscription in subscriptions {
        listeners.spawn(listen(subscription, worker.clone(), stop.clone(), parts.grace));
    }
    ready();
    while listeners.join_next().await.is_some() {}
    Ok(())
}

/// One subscription an adapter. Pub/Sub knows subscriptions without their topics, so there the topic is in the name.
fn subscription_name(broker: &Broker, topic: &str, adapter: &str) -> String {
    if broker.kind() == "googlepubsub" { format!("{topic}-{adapter}") } else { adapter.to_owned() }
}

/// The kinds of the server, asked for until it answers.
async fn kinds(client: &Client) -> Vec<Kind> {
    loop {
        match client.kinds().await {
            Ok(kinds) => return kinds,
            Err(error) => tracing::warn!(%error, again_in = ?ASK_AGAIN, "the API does not tell its kinds"),
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

fn chosen(names: &[String], there: Vec<Kind>) -> Result<Vec<Kind>, UnknownKind> {
    if names.is_empty() {
        return Ok(there);
    }
    let find = |name: &String| {
        let fits = |kind: &&Kind| [&kind.kind, &kind.plural].iter().any(|one| one.eq_ignore_ascii_case(name));
        there.iter().find(fits).cloned().ok_or_else(|| UnknownKind {
            name: name.clone(),
            there: there.iter().map(|kind| kind.plural.as_str()).collect::<Vec<_>>().join(", "),
        })
    };
    names.iter().map(find).collect()
}

/// Takes events until `stop`, then waits for the work under way. What does not end in time is given back.
async fn listen(
    mut subscription: Subscription,
    worker: Arc<Worker>,
    stop: CancellationToken,
    grace: Duration,
) {
    let (mut work, over) = (JoinSet::new(), CancellationToken::new());
    while let Some(Some(delivery)) = stop.run_until_cancelled(subscription.next()).await {
        while work.try_join_next().is_some() {}
        work.spawn(worker.clone().answer(delivery, over.clone()));
    }
    // What was taken ahead goes back at once, so that another process can have it.
    tokio::join!(subscription.drain(), async {
        if tokio::time::timeout(grace, finished(&mut work)).await.is_err() {
            tracing::info!("work was still under way; its events are given back");
            over.cancel();
            finished(&mut work).await;
        }
    });
}

async fn finished(work: &mut JoinSet<()>) {
    while work.join_next().await.is_some() {}
}

#[derive(Debug)]
struct Worker {
    simulation: Simulation,
    client: Client,
    kinds: Vec<Kind>,
    calls: Semaphore,
    pasts: Mutex<HashMap<String, Past>>,
    /// What owners are called, by their ids.
    owners: Mutex<HashMap<String, String>>,
}

impl Worker {
    /// Works on an event, unless its time is over.
    async fn answer(self: Arc<Self>, delivery: Delivery, over: CancellationToken) {
        let settled = match over.run_until_cancelled(self.work(&delivery.event)).await {
            Some(Ok(())) => delivery.acknowledge().await,
            Some(Err(why)) => delivery.reject(why).await,
            None => delivery.give_back().await,
        };
        if let Err(error) = settled {
            tracing::warn!(adapter = self.simulation.name, %error, "an event could not be settled; it comes again");
        }
    }

    async fn work(&self, event: &Event) -> Result<(), String> {
        let subject = event.resource().ok_or("the event names no resource")?;
        let Some(item) = self.place(event, &subject) else { return Ok(()) };
        let past = self.pasts().get(&subject.id).copied();
        if let (Some(generation), Some(past)) = (subject.generation, past)
            && self.simulation.has_just_done(generation, past, Timestamp::now())
        {
            return Ok(());
        }
        let context = Context { traceparent: event.traceparent.clone(), request_id: None };
        // Whoever sent a trace that cannot be a header still gets the work done.
        let client = self.client.in_context(&context).unwrap_or_else(|_| self.client.clone());
        let resource = match self.turn(client.get(&item, &GetQuery::default())).await {
            Ok(resource) => resource,
            Err(error) => return self.gone_or_failed(&subject, &error),
        };
        let called = self.called(&client, &resource).await;
        tokio::time::sleep(self.simulation.working_time(&resource, &called, past)).await;
        let finding = self.simulation.finding(&resource, &called, past, Timestamp::now());
        let reported = match self.turn(client.report(&item, &finding.report)).await {
            Ok(reported) => reported,
            Err(error) => return self.gone_or_failed(&subject, &error),
        };
        remember(&mut self.pasts(), subject.id, finding.past);
        let outcome = match reported {
            Reported::Stored(_) => finding.failure.unwrap_or("done"),
            Reported::Discarded => "discarded",
        };
        tracing::info!(
            adapter = self.simulation.name,
            kind = resource.kind(),
            name = called,
            id = resource.id(),
            generation = resource.generation(),
            finalizing = resource.is_finalizing(),
            outcome,
            "reported"
        );
        Ok(())
    }

    /// A call, when it is its turn.
    async fn turn<T>(&self, call: impl Future<Output = T>) -> T {
        // Nobody closes the semaphore.
        let _turn = self.calls.acquire().await;
        call.await
    }

    /// Where the resource is, if it is of a kind that this adapter works on.
    fn place(&self, event: &Event, subject: &Subject) -> Option<ItemPath> {
        let named = subject.kind.as_deref().or_else(|| event.kind_of_type())?;
        let kind = self.kinds.iter().find(|kind| kind.kind.eq_ignore_ascii_case(named))?;
        // An older server knows some resources below their owners only; but a path may come from anybody.
        let href =
            subject.href.as_deref().filter(|href| href.rsplit('/').next() == Some(subject.id.as_str()));
        let nested = href.and_then(ItemPath::of_href);
        Some(nested.unwrap_or_else(|| Collection::of(&kind.plural).item(&subject.id)))
    }

    fn gone_or_failed(&self, subject: &Subject, error: &Error) -> Result<(), String> {
        if !error.is_not_found() {
            return Err(error.to_string());
        }
        self.pasts().remove(&subject.id);
        tracing::debug!(adapter = self.simulation.name, id = subject.id, "nothing to do: it is gone");
        Ok(())
    }

    /// The name of a resource behind those of its owners, as people write it. An owner that nobody can read is called
    /// by its id.
    async fn called(&self, client: &Client, resource: &Resource) -> String {
        let (mut names, mut owner) = (vec![resource.name().to_owned()], resource.owner());
        let (mut below, mut whole) = (None, true);
        while let Some(Owner { id, href, .. }) = owner {
            if let Some(known) = lock(&self.owners).get(&id).cloned() {
                names.push(known);
                break;
            }
            let path = ItemPath::of_href(&href);
            let query = GetQuery { fields: Some("name,owner_references".to_owned()), ..GetQuery::default() };
            let above = match &path {
                Some(path) => self.turn(client.get(path, &query)).await.ok(),
                None => None,
            };
            whole &= above.is_some();
            names.push(above.as_ref().map_or(id.clone(), |above| above.name().to_owned()));
            owner = above.and_then(|above| above.owner()).filter(|_| names.len() < DEEPEST);
            below.get_or_insert(id);
        }
        names.reverse();
        if let Some(id) = below.filter(|_| whole) {
            remember(&mut lock(&self.owners), id, names[..names.len() - 1].join("/"));
        }
        names.join("/")
    }

    fn pasts(&self) -> MutexGuard<'_, HashMap<String, Past>> {
        lock(&self.pasts)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remember<T>(all: &mut HashMap<String, T>, id: String, one: T) {
    if all.len() >= REMEMBERED && !all.contains_key(&id) {
        all.clear();
    }
    all.insert(id, one);
}
