//! Events: how long a change takes to a subscriber, how many events a second the Sentinel publishes, and what an idle
//! Sentinel costs. The API on PostgreSQL, the Sentinel and the broker run in processes of their own.
//!
//! The delay of an event is counted from the `updated_time` of the change, which the API takes before it commits, to
//! the moment at which the subscription delivers the event.

mod brokers;
mod sentinel;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use hyperfleet_core::Timestamp;
use hyperfleet_events::{Options as SubscriptionOptions, Subscription};
use hyperfleet_testkit::{Client, Launch, Postgres};
use serde_json::json;
use tokio::task::JoinSet;

use crate::fleet::{Fleet, Plan, Reported};
use crate::load::{histogram, milliseconds};
use crate::options::Options;
use crate::results::{Results, mebibytes};
use crate::workload::CLUSTERS;
use brokers::{Kind, RunningBroker};
use sentinel::Sentinel;

/// Changes a second while delays are measured.
const RATE: u32 = 100;
/// Concurrent changes where many clusters become due at once.
const WRITERS: usize = 32;
const TIMEOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(10);
/// How long a Sentinel is left alone before it counts as idle.
const SETTLE: Duration = Duration::from_secs(5);
/// Where the Sentinel publishes events about clusters.
const TOPIC: &str = "hyperfleet-clusters";
const PUBLISHED: &str =
    r#"hyperfleet_sentinel_events_published_total{resource_type="clusters",reason="new_generation"}"#;

/// Measures events over the brokers that are wanted.
pub(crate) async fn measure(
    options: &Options,
    launch: &Launch,
    postgres: &Postgres,
    results: &mut Results,
) -> Result<()> {
    let mut brokers = Vec::new();
    for kind in Kind::ALL.into_iter().filter(|kind| options.wants(&format!("events {}", kind.name()))) {
        brokers.push(RunningBroker::start(kind).await?);
    }
    if brokers.is_empty() {
        return Ok(());
    }
    let binary = options.server()?;
    let clusters = 10 * options.clusters;
    eprintln!("events: making {clusters} reconciled clusters");
    let plan = Plan { reported: Reported::All, ..Plan::new(Some(postgres), clusters) };
    let mut fleet = Fleet::start(launch, &plan).await?;
    let mut ids: Vec<String> = fleet.ids.to_vec();
    // Without events to publish the broker makes no difference.
    let nats = brokers.iter().find(|broker| broker.kind == Kind::Nats);
    if let Some(nats) = nats {
        let sentinel = Sentinel::start(&binary, &fleet.api(0), nats).await?;
        idle(options, &mut fleet, &sentinel, &format!("idle Sentinel of {clusters}"), results).await?;
        sentinel.stop().await?;
    }
    for broker in &brokers {
        delays(options, &binary, &fleet.api(0), broker, &mut ids, results).await?;
    }
    if let Some(nats) = nats {
        let sentinel = Sentinel::start(&binary, &fleet.api(0), nats).await?;
        tokio::time::sleep(SETTLE).await;
        let due: Vec<String> = ids.drain(..clusters / 100).collect();
        change_all(&fleet.api(0), &due).await?;
        idle(options, &mut fleet, &sentinel, &format!("Sentinel with 1 % due of {clusters}"), results)
            .await?;
        sentinel.stop().await?;
    }
    drop(fleet);

    let clusters = 2 * options.clusters;
    eprintln!("events: making {clusters} clusters that are due");
    let fleet = Fleet::start(launch, &Plan::new(Some(postgres), clusters)).await?;
    for broker in &brokers {
        for round in 1..=options.rounds {
            eprintln!("events: burst {round} of {} over {}", options.rounds, broker.kind.name());
            burst(&binary, &fleet, broker, results).await?;
        }
    }
    Ok(())
}

/// The processor time, the requests and the memory of a Sentinel over twice the time between two of its polls, unless
/// `--seconds` says otherwise.
async fn idle(
    options: &Options,
    fleet: &mut Fleet<'_>,
    sentinel: &Sentinel,
    row: &str,
    results: &mut Results,
) -> Result<()> {
    let time = Duration::from_secs(20 * options.seconds);
    eprintln!("events: {row} for {time:?}");
    tokio::time::sleep(SETTLE).await;
    let listener = fleet.server().metrics();
    let requests = async || sentinel::metric(&listener, "hyperfleet_api_requests_total").await;
    let (cpu_before, requests_before, since) = (sentinel.cpu_time()?, requests().await?, Instant::now());
    tokio::time::sleep(time).await;
    let seconds = since.elapsed().as_secs_f64();
    let cpu = (sentinel.cpu_time()? - cpu_before).as_secs_f64();
    results.add(row, "% of a core", cpu / seconds * 100.0);
    results.add(row, "requests/s", (requests().await? - requests_before) / seconds);
    results.add(row, "MiB", mebibytes(sentinel.resident()?));
    Ok(())
}

/// A change as the API answered it.
struct Change {
    id: String,
    generation: u64,
    time: Timestamp,
}

async fn change(api: &Client, id: &str) -> Result<Change> {
    let path = format!("{CLUSTERS}/{id}");
    let response = api.patch(&path).json(&json!({"spec": {"nodes": 4}})).send().await?;
    ensure!(response.status == 200, "PATCH {path}: {response}");
    let body = response.json();
    let time = body["updated_time"].as_str().and_then(Timestamp::parse).context("no updated_time")?;
    let generation = body["generation"].as_u64().context("no generation")?;
    Ok(Change { id: id.to_owned(), generation, time })
}

/// Changes clusters as fast as possible.
async fn change_all(api: &Client, ids: &[String]) -> Result<()> {
    for some in ids.chunks(WRITERS) {
        let mut changes = JoinSet::new();
        for id in some {
            let (api, id) = (api.clone(), id.clone());
            changes.spawn(async move { change(&api, &id).await });
        }
        while let Some(changed) = changes.join_next().await {
            changed??;
        }
    }
    Ok(())
}

/// Reports that a change is reconciled.
async fn reconcile(api: &Client, change: &Change) -> Result<()> {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "AsExpected"});
    let conditions = ["Available", "Applied", "Health"].map(condition);
    let report = json!({
        "adapter": "validator", "observed_generation": change.generation,
        "observed_time": Timestamp::now().to_string(), "conditions": conditions, "data": {},
    });
    let path = format!("{CLUSTERS}/{}/statuses", change.id);
    let response = api.put(&path).json(&report).send().await?;
    ensure!(response.status == 201, "PUT {path}: {response}");
    Ok(())
}

async fn subscribe(broker: &RunningBroker, name: &str) -> Subscription {
    let options = SubscriptionOptions { parallelism: 256, ..broker.broker.options() };
    let mut subscription = broker.broker.subscribe(TOPIC, name, options);
    subscription.ready().await;
    subscription
}

/// When the first event of which generation of which cluster was delivered.
type Deliveries = Mutex<HashMap<(String, u64), Timestamp>>;

/// Measures delays over one broker. Every changed cluster is taken from `ids`.
async fn delays(
    options: &Options,
    binary: &Path,
    api: &Client,
    broker: &RunningBroker,
    ids: &mut Vec<String>,
    results: &mut Results,
) -> Result<()> {
    let row = format!("events {}", broker.kind.name());
    let mut subscription = subscribe(broker, "delays").await;
    let sentinel = Sentinel::start(binary, api, broker).await?;
    tokio::time::sleep(SETTLE).await;
    for round in 1..=options.rounds {
        eprintln!("{row}: round {round} of {}", options.rounds);
        let count = RATE as usize * usize::try_from(options.seconds)?;
        ensure!(ids.len() >= count, "--clusters: too few for {count} changes");
        let changed: Vec<String> = ids.drain(..count).collect();
        let deliveries = Deliveries::default();
        let changes = tokio::select! {
            changes = change_and_wait(api, &changed, &deliveries) => changes?,
            ended = receive(&mut subscription, &deliveries) => bail!("the subscription ended: {ended:?}"),
        };
        let missing = count_missing(&changes, &deliveries);
        if missing > 0 {
            results.fail(&row, missing as u64, "an event was not delivered");
        }
        let deliveries = deliveries.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut delays = histogram();
        for change in &changes {
            if let Some(at) = deliveries.get(&(change.id.clone(), change.generation)) {
                let delay = u64::try_from(at.micros() - change.time.micros()).unwrap_or(0);
                delays.saturating_record(delay.max(1));
            }
            // Nothing that is due is left to the measurements that follow.
            reconcile(api, change).await?;
        }
        results.add(&row, "p50 ms", milliseconds(&delays, 0.5));
        results.add(&row, "p99 ms", milliseconds(&delays, 0.99));
    }
    sentinel.stop().await?;
    subscription.drain().await;
    Ok(())
}

/// Changes clusters at [`RATE`] and waits until all events are delivered or [`TIMEOUT`] is over.
async fn change_and_wait(api: &Client, ids: &[String], deliveries: &Deliveries) -> Result<Vec<Change>> {
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / RATE);
    let mut running = JoinSet::new();
    for id in ids {
        ticks.tick().await;
        let (api, id) = (api.clone(), id.clone());
        running.spawn(async move { change(&api, &id).await });
    }
    let mut changes = Vec::with_capacity(ids.len());
    while let Some(change) = running.join_next().await {
        changes.push(change??);
    }
    let end = Instant::now() + TIMEOUT;
    while count_missing(&changes, deliveries) > 0 && Instant::now() < end {
        tokio::time::sleep(POLL).await;
    }
    Ok(changes)
}

fn count_missing(changes: &[Change], deliveries: &Deliveries) -> usize {
    let deliveries = deliveries.lock().unwrap_or_else(PoisonError::into_inner);
    let is_missing = |change: &&Change| !deliveries.contains_key(&(change.id.clone(), change.generation));
    changes.iter().filter(is_missing).count()
}

/// Receives events until the subscription ends.
async fn receive(subscription: &mut Subscription, deliveries: &Deliveries) -> Result<()> {
    while let Some(delivery) = subscription.next().await {
        let (now, data) = (Timestamp::now(), &delivery.event.data);
        if let (Some(id), Some(generation)) = (data["id"].as_str(), data["generation"].as_u64()) {
            let mut deliveries = deliveries.lock().unwrap_or_else(PoisonError::into_inner);
            deliveries.entry((id.to_owned(), generation)).or_insert(now);
        }
        delivery.acknowledge().await?;
    }
    Ok(())
}

/// Starts a Sentinel on a fleet of which every cluster is due, and counts the events that the broker confirmed from the
/// first to the last. Afterwards a subscription must deliver all of them.
async fn burst(
    binary: &Path,
    fleet: &Fleet<'_>,
    broker: &RunningBroker,
    results: &mut Results,
) -> Result<()> {
    let row = format!("events {} burst", broker.kind.name());
    // The subscription exists while nothing receives from it: the way to the broker is measured.
    subscribe(broker, "burst").await.drain().await;
    let all = fleet.ids.len() as f64;
    let sentinel = Sentinel::spawn(binary, &fleet.api(0), broker).await?;
    let end = Instant::now() + TIMEOUT;
    let mut first = None;
    let rate = loop {
        let (published, now) = (sentinel.metric(PUBLISHED).await?, Instant::now());
        ensure!(now < end, "{published} of {all} events were published");
        if published >= all {
            let (count, since): (f64, Instant) = first.unwrap_or((0.0, now - POLL));
            break (all - count) / (now - since).as_secs_f64();
        }
        if published > 0.0 && first.is_none() {
            first = Some((published, now));
        }
        tokio::time::sleep(POLL).await;
    };
    sentinel.stop().await?;

    let mut subscription = subscribe(broker, "burst").await;
    let mut missing: HashSet<&str> = fleet.ids.iter().map(String::as_str).collect();
    let end = Instant::now() + TIMEOUT;
    while !missing.is_empty() {
        let Ok(Some(delivery)) = tokio::time::timeout_at(end.into(), subscription.next()).await else {
            break;
        };
        missing.remove(delivery.event.data["id"].as_str().unwrap_or_default());
        delivery.acknowledge().await?;
    }
    subscription.drain().await;
    if !missing.is_empty() {
        results.fail(&row, missing.len() as u64, "an event was not delivered");
    }
    results.add(&row, "events/s", rate);
    Ok(())
}
