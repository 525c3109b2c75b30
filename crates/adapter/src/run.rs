//! A running adapter: one subscription for each topic. It handles an event by reading the resource, working, and reporting.
//! The event is acknowledged when the report was accepted or the resource is gone, and nacked after a failure. The
//! subscription delivers one event of a resource at a time.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyperfleet_client::{
    Client, Collection, Context, Error, GetQuery, ItemPath, Kind, Owner, Reported, Resource,
};
use hyperfleet_core::Timestamp;
use hyperfleet_events::{Broker, Delivery, Event, Subject};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::intake::{self, Gate, UnknownKind};
use crate::simulation::{LastRun, Simulation};

/// Entries of a cache; beyond that it is cleared, and work is repeated without harm.
const CACHE_CAPACITY: usize = 200_000;

/// Owners in the full name of a resource.
const MAX_DEPTH: usize = 16;
/// Concurrent requests to the API.
const MAX_CALLS: usize = 32;

/// The parts of an adapter.
#[derive(Debug)]
pub struct Parts {
    /// The simulation.
    pub simulation: Simulation,
    /// The client of the API.
    pub client: Client,
    /// The broker of its events.
    pub broker: Broker,
    /// The kinds that it works on, by any of their names; empty for every kind.
    pub kinds: Vec<String>,
    /// Topic of every event, if it does not depend on the kind.
    pub topic: Option<String>,
    /// Time for work under way at shutdown.
    pub grace: Duration,
}

/// Runs until `stop`, and finishes its work. `ready` is called when all subscriptions exist.
///
/// # Errors
/// When the server does not have a requested kind. Later failures are retried.
pub async fn run(parts: Parts, stop: CancellationToken, ready: impl FnOnce()) -> Result<(), UnknownKind> {
    let Some(offered) = stop.run_until_cancelled(intake::kinds(&parts.client)).await else { return Ok(()) };
    let kinds = intake::select(&parts.kinds, offered)?;
    let topic = |kind: &Kind| parts.topic.clone().unwrap_or_else(|| format!("hyperfleet-{}", kind.plural));
    let topics: BTreeSet<String> = kinds.iter().map(topic).collect();
    let worker = Arc::new(Worker {
        simulation: parts.simulation,
        client: parts.client,
        kinds,
        calls: Semaphore::new(MAX_CALLS),
        last_runs: Mutex::default(),
        owners: Mutex::default(),
    });
    let mut consumers = JoinSet::new();
    let mut subscriptions = Vec::new();
    for topic in &topics {
        let name = intake::subscription_name(&parts.broker, topic, &worker.simulation.name);
        let mut subscription = parts.broker.subscribe(topic, &name, parts.broker.options());
        if stop.run_until_cancelled(subscription.ready()).await.is_none() {
            return Ok(());
        }
        tracing::info!(adapter = worker.simulation.name, topic, subscription = name, "subscribed");
        subscriptions.push(subscription);
    }
    for subscription in subscriptions {
        let worker = worker.clone();
        let work = move |delivery, cancelled| worker.clone().handle(delivery, cancelled);
        consumers.spawn(intake::consume(subscription, work, Gate::default(), stop.clone(), parts.grace));
    }
    ready();
    while consumers.join_next().await.is_some() {}
    Ok(())
}

#[derive(Debug)]
struct Worker {
    simulation: Simulation,
    client: Client,
    kinds: Vec<Kind>,
    calls: Semaphore,
    last_runs: Mutex<HashMap<String, LastRun>>,
    /// Full names of owners by id.
    owners: Mutex<HashMap<String, String>>,
}

impl Worker {
    /// Works on an event and settles it.
    async fn handle(self: Arc<Self>, delivery: Delivery, cancelled: CancellationToken) {
        let settled = match cancelled.run_until_cancelled(self.work(&delivery.event)).await {
            Some(Ok(())) => delivery.acknowledge().await,
            Some(Err(why)) => delivery.nack(why).await,
            None => delivery.requeue().await,
        };
        if let Err(error) = settled {
            tracing::warn!(adapter = self.simulation.name, %error, "an event could not be settled and will be redelivered");
        }
    }

    async fn work(&self, event: &Event) -> Result<(), String> {
        let subject = event.resource().ok_or("the event names no resource")?;
        let Some(item) = self.path_of(event, &subject) else { return Ok(()) };
        let last = self.last_runs().get(&subject.id).copied();
        if let (Some(generation), Some(last)) = (subject.generation, last)
            && self.simulation.is_fresh(generation, last, Timestamp::now())
        {
            return Ok(());
        }
        let context = Context { traceparent: event.traceparent.clone(), request_id: None };
        // An invalid trace is dropped.
        let client = self.client.in_context(&context).unwrap_or_else(|_| self.client.clone());
        let resource = match self.with_permit(client.get(&item, &GetQuery::default())).await {
            Ok(resource) => resource,
            Err(error) => return self.gone_or_failed(&subject, &error),
        };
        let name = self.full_name(&client, &resource).await;
        tokio::time::sleep(self.simulation.working_time(&resource, &name, last)).await;
        let found = self.simulation.outcome(&resource, &name, last, Timestamp::now());
        let reported = match self.with_permit(client.report(&item, &found.report)).await {
            Ok(reported) => reported,
            Err(error) => return self.gone_or_failed(&subject, &error),
        };
        cache(&mut self.last_runs(), subject.id, found.last);
        let outcome = match reported {
            Reported::Stored(_) => found.failure.unwrap_or("done"),
            Reported::Discarded => "discarded",
        };
        tracing::info!(
            adapter = self.simulation.name,
            kind = resource.kind(),
            name = name,
            id = resource.id(),
            generation = resource.generation(),
            finalizing = resource.is_finalizing(),
            outcome,
            "reported"
        );
        Ok(())
    }

    /// Makes a call within the limit.
    async fn with_permit<T>(&self, call: impl Future<Output = T>) -> T {
        // The semaphore is never closed.
        let _permit = self.calls.acquire().await;
        call.await
    }

    /// The path of the resource, if this adapter works on its kind.
    fn path_of(&self, event: &Event, subject: &Subject) -> Option<ItemPath> {
        let named = subject.kind.as_deref().or_else(|| event.kind_of_type())?;
        let kind = self.kinds.iter().find(|kind| kind.kind.eq_ignore_ascii_case(named))?;
        // An older server has some resources below their owners only. The href must end with the id of the event.
        let href =
            subject.href.as_deref().filter(|href| href.rsplit('/').next() == Some(subject.id.as_str()));
        let nested = href.and_then(ItemPath::of_href);
        Some(nested.unwrap_or_else(|| Collection::of(&kind.plural).item(&subject.id)))
    }

    fn gone_or_failed(&self, subject: &Subject, error: &Error) -> Result<(), String> {
        if !error.is_not_found() {
            return Err(error.to_string());
        }
        self.last_runs().remove(&subject.id);
        tracing::debug!(adapter = self.simulation.name, id = subject.id, "the resource is gone");
        Ok(())
    }

    /// The name of a resource after those of its owners. An unreadable owner is named by its id.
    async fn full_name(&self, client: &Client, resource: &Resource) -> String {
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
                Some(path) => self.with_permit(client.get(path, &query)).await.ok(),
                None => None,
            };
            whole &= above.is_some();
            names.push(above.as_ref().map_or(id.clone(), |above| above.name().to_owned()));
            owner = above.and_then(|above| above.owner()).filter(|_| names.len() < MAX_DEPTH);
            below.get_or_insert(id);
        }
        names.reverse();
        if let Some(id) = below.filter(|_| whole) {
            cache(&mut lock(&self.owners), id, names[..names.len() - 1].join("/"));
        }
        names.join("/")
    }

    fn last_runs(&self) -> MutexGuard<'_, HashMap<String, LastRun>> {
        lock(&self.last_runs)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cache<T>(all: &mut HashMap<String, T>, id: String, one: T) {
    if all.len() >= CACHE_CAPACITY && !all.contains_key(&id) {
        all.clear();
    }
    all.insert(id, one);
}
