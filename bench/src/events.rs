//! From a change to its event: how soon a subscriber hears of it, how many events go through the Sentinel in a second,
//! and what a Sentinel takes that has nothing to do. The API on PostgreSQL, the Sentinel and the broker are the real
//! ones, each in a process of its own; what differs from that is in the name of the broker.
//!
//! How long an event took is counted from the `updated_time` of the change, which the API takes before it commits, to
//! the moment at which the subscription hands it out.

mod carrier;
mod found;
mod sentinel;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use hdrhistogram::Histogram;
use hyperfleet_core::Timestamp;
use hyperfleet_events::{Options as Subscribing, Subscription};
use hyperfleet_testkit::{Client, Database, Launch, Postgres, Server, Store};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::fleet;
use crate::options::Options;
use crate::subject;
use crate::workload::CLUSTERS;
use carrier::{Carrier, Kind};
pub(crate) use found::Eventing;
use found::Rest;
use sentinel::Sentinel;

/// Changes a second while it is measured how soon events arrive.
const RATE: u32 = 100;
/// How long what is expected may take.
const PATIENCE: Duration = Duration::from_secs(120);
const PACE: Duration = Duration::from_millis(10);
/// How long a Sentinel is left alone before it counts as idle.
const SETTLE: Duration = Duration::from_secs(5);
/// Where the Sentinel publishes what is about clusters.
const TOPIC: &str = "hyperfleet-clusters";
const PUBLISHED: &str =
    r#"hyperfleet_sentinel_events_published_total{resource_type="clusters",reason="new_generation"}"#;

/// Whether this is wanted.
pub(crate) fn wanted(only: &str) -> bool {
    !Kind::wanted(only).is_empty()
}

/// How much of it: everything follows from the options that the other parts have too.
struct Plan {
    /// Reconciled clusters that a Sentinel looks after.
    fleet: usize,
    /// Clusters that are due at one time.
    burst: usize,
    window: Duration,
    rounds: u64,
    /// How long an idle Sentinel is watched: twice the time between two of its searches by default.
    rest: Duration,
}

impl Plan {
    fn of(options: &Options) -> Result<Self> {
        let clusters = usize::try_from(options.clusters)?;
        Ok(Self {
            fleet: 10 * clusters,
            burst: 2 * clusters,
            window: Duration::from_secs(options.seconds),
            rounds: options.rounds,
            rest: Duration::from_secs(20 * options.seconds),
        })
    }
}

/// A server with clusters in a database of its own.
struct Place {
    server: Server,
    ids: Vec<String>,
    _database: Database,
}

/// Measures all of it, if it is wanted.
pub(crate) async fn measure(options: &Options, launch: &Launch, postgres: &Postgres) -> Result<Eventing> {
    let mut found = Eventing::default();
    if !wanted(&options.only) {
        return Ok(found);
    }
    let plan = Plan::of(options)?;
    let binary = options.server()?;
    let mut carriers = Vec::new();
    for kind in Kind::wanted(&options.only) {
        carriers.push(Carrier::start(kind).await?);
    }
    // What a Sentinel takes does not depend on the broker while there is nothing to publish.
    let nats = carriers.iter().find(|carrier| carrier.kind == Kind::Nats);

    eprintln!("events: loading {} clusters with a report each", plan.fleet);
    let mut place = large(launch, postgres, plan.fleet).await?;
    let api = place.server.api();
    if let Some(nats) = nats {
        let sentinel = Sentinel::start(&binary, &api, nats).await?;
        eprintln!("events: watching an idle Sentinel for {:?}", plan.rest);
        found.rests.push(rest(&place.server, &sentinel, plan.rest, "idle", plan.fleet).await?);
        sentinel.stop().await?;
    }

    for carrier in &carriers {
        let mut ear = subscribe(carrier, "soon").await;
        let sentinel = Sentinel::start(&binary, &api, carrier).await?;
        tokio::time::sleep(SETTLE).await;
        for round in 1..=plan.rounds {
            eprintln!("events: round {round} of {} over {}", plan.rounds, carrier.name);
            let wanted = usize::try_from(u64::from(RATE) * plan.window.as_secs())?;
            ensure!(place.ids.len() >= wanted, "--clusters: too few for {wanted} changes");
            let ids: Vec<String> = place.ids.drain(..wanted).collect();
            let (told, errors) = soon(&api, &mut ear, &ids).await?;
            found.add_delay(carrier.name, f64::from(RATE), &told, errors);
        }
        sentinel.stop().await?;
        ear.drain().await;
    }

    if let Some(nats) = nats {
        let sentinel = Sentinel::start(&binary, &api, nats).await?;
        tokio::time::sleep(SETTLE).await;
        let due = plan.fleet / 100;
        eprintln!("events: {due} of {} clusters become due", plan.fleet);
        let ids: Vec<String> = place.ids.drain(..due).collect();
        change_at_once(&api, &ids).await?;
        found.rests.push(rest(&place.server, &sentinel, plan.rest, "1 % due", plan.fleet).await?);
        sentinel.stop().await?;
    }
    drop(place);

    eprintln!("events: loading {} clusters that are due", plan.burst);
    let place = due_at_once(launch, postgres, plan.burst).await?;
    for carrier in &carriers {
        for round in 1..=plan.rounds {
            eprintln!("events: burst {round} of {} over {}", plan.rounds, carrier.name);
            let (rate, missing) = burst(&binary, &place, carrier).await?;
            found.add_burst(carrier.name, plan.burst, rate, missing);
        }
    }
    Ok(found)
}

/// A fleet that is reconciled, every cluster of it.
async fn large(launch: &Launch, postgres: &Postgres, clusters: usize) -> Result<Place> {
    let database = postgres.database().await;
    let server = launch.clone().store(Store::Postgres(database.url())).start().await?;
    let ids = fleet::fill(&server, clusters).await?;
    let api = server.api();
    // The fleet of the lists leaves a few without a report.
    let query = format!("{CLUSTERS}?pageSize=100&search=status.conditions.Reconciled%3D'False'");
    let silent = api.get(&query).send().await?.expect_status(200).json();
    for one in silent["items"].as_array().context("a list without items")? {
        reconcile(&api, one["id"].as_str().context("a cluster without id")?, 1).await?;
    }
    Ok(Place { server, ids, _database: database })
}

/// A fleet of which nothing is reconciled.
async fn due_at_once(launch: &Launch, postgres: &Postgres, clusters: usize) -> Result<Place> {
    let database = postgres.database().await;
    let server = launch.clone().store(Store::Postgres(database.url())).start().await?;
    let ids = subject::load(&server.api(), clusters).await?;
    Ok(Place { server, ids, _database: database })
}

async fn subscribe(carrier: &Carrier, name: &str) -> Subscription {
    let many = Subscribing { parallelism: 256, ..carrier.broker.options() };
    let mut ear = carrier.broker.subscribe(TOPIC, name, many);
    ear.ready().await;
    ear
}

/// Reports that a cluster is as it should be.
async fn reconcile(api: &Client, id: &str, generation: u64) -> Result<()> {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "AsExpected"});
    let conditions = ["Available", "Applied", "Health"].map(condition);
    let report = json!({
        "adapter": "validator", "observed_generation": generation, "observed_time": Timestamp::now().to_string(),
        "conditions": conditions, "data": {},
    });
    let answer = api.put(&format!("{CLUSTERS}/{id}/statuses")).json(&report).send().await?;
    ensure!(answer.status == 201, "a report: {answer}");
    Ok(())
}

/// A change as the API told of it.
struct Change {
    id: String,
    generation: u64,
    at: Timestamp,
}

/// Gives a cluster another wish.
async fn change(api: &Client, id: &str) -> Result<Change> {
    let path = format!("{CLUSTERS}/{id}");
    let answer = api.patch(&path).json(&json!({"spec": {"nodes": 4}})).send().await?;
    if answer.status != 200 {
        bail!("PATCH {path}: {answer}");
    }
    let body = answer.json();
    let at = body["updated_time"].as_str().and_then(Timestamp::parse).context("a cluster without time")?;
    let generation = body["generation"].as_u64().context("a cluster without generation")?;
    Ok(Change { id: id.to_owned(), generation, at })
}

/// Changes clusters as fast as it goes.
async fn change_at_once(api: &Client, ids: &[String]) -> Result<()> {
    for some in ids.chunks(subject::LOADERS) {
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

/// When which generation of which cluster was first heard of.
type Heard = Arc<Mutex<HashMap<(String, u64), Timestamp>>>;

/// Changes these clusters one after the other, [`RATE`] a second, and listens. Gives how long each event took in
/// microseconds, and how many never came.
async fn soon(api: &Client, ear: &mut Subscription, ids: &[String]) -> Result<(Histogram<u64>, u64)> {
    let heard = Heard::default();
    let listening = listen(ear, &heard);
    let changing = async {
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / RATE);
        let mut changes = JoinSet::new();
        for id in ids {
            ticks.tick().await;
            let (api, id) = (api.clone(), id.clone());
            changes.spawn(async move { change(&api, &id).await });
        }
        let mut made = Vec::with_capacity(ids.len());
        while let Some(change) = changes.join_next().await {
            made.push(change??);
        }
        let end = Instant::now() + PATIENCE;
        while missing(&heard, &made) > 0 && Instant::now() < end {
            tokio::time::sleep(PACE).await;
        }
        anyhow::Ok(made)
    };
    let made = tokio::select! {
        made = changing => made?,
        ended = listening => bail!("the subscription ended: {ended:?}"),
    };
    let mut told = Histogram::new_with_bounds(1, 120_000_000, 3)?;
    let errors = missing(&heard, &made);
    {
        let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        for change in &made {
            if let Some(at) = heard.get(&(change.id.clone(), change.generation)) {
                told.saturating_record(u64::try_from(at.micros() - change.at.micros()).unwrap_or(0).max(1));
            }
        }
    }
    // Whoever goes on after this shall not meet what was left undone here.
    for change in &made {
        reconcile(api, &change.id, change.generation).await?;
    }
    Ok((told, errors))
}

fn missing(heard: &Heard, made: &[Change]) -> u64 {
    let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
    made.iter().filter(|change| !heard.contains_key(&(change.id.clone(), change.generation))).count() as u64
}

/// Takes what comes, for as long as it is asked to.
async fn listen(ear: &mut Subscription, heard: &Heard) -> Result<()> {
    while let Some(delivery) = ear.next().await {
        let at = Timestamp::now();
        if let Some((id, generation)) = about(&delivery.event.data) {
            heard.lock().unwrap_or_else(PoisonError::into_inner).entry((id, generation)).or_insert(at);
        }
        delivery.acknowledge().await?;
    }
    Ok(())
}

fn about(data: &Value) -> Option<(String, u64)> {
    Some((data["id"].as_str()?.to_owned(), data["generation"].as_u64()?))
}

/// What a Sentinel takes for some time.
async fn rest(
    server: &Server,
    sentinel: &Sentinel,
    time: Duration,
    what: &'static str,
    clusters: usize,
) -> Result<Rest> {
    tokio::time::sleep(SETTLE).await;
    let requests = async || sentinel::metric(&server.metrics(), "hyperfleet_api_requests_total").await;
    let ((cpu, _), asked, since) = (sentinel.takes()?, requests().await?, Instant::now());
    tokio::time::sleep(time).await;
    let seconds = since.elapsed().as_secs_f64();
    let (cpu_then, bytes) = sentinel.takes()?;
    Ok(Rest {
        what,
        clusters,
        cores: (cpu_then - cpu).as_secs_f64() / seconds,
        requests: (requests().await? - asked) / seconds,
        bytes,
    })
}

/// Starts a Sentinel on a fleet of which everything is due. Gives how many events a second the broker confirmed from
/// the first to the last, and how many of them no subscriber got.
async fn burst(binary: &std::path::Path, place: &Place, carrier: &Carrier) -> Result<(f64, u64)> {
    // The subscription is there while nobody works on it: what is measured is the way to the broker.
    subscribe(carrier, "burst").await.drain().await;
    let all = place.ids.len() as f64;
    let sentinel = Sentinel::begin(binary, &place.server.api(), carrier).await?;
    let end = Instant::now() + PATIENCE;
    let mut first = None;
    let rate = loop {
        let (published, now) = (sentinel.metric(PUBLISHED).await?, Instant::now());
        ensure!(now < end, "{published} of {all} events were published");
        if published >= all {
            let (count, since): (f64, Instant) = first.unwrap_or((0.0, now - PACE));
            break (all - count) / (now - since).as_secs_f64();
        }
        if published > 0.0 && first.is_none() {
            first = Some((published, now));
        }
        tokio::time::sleep(PACE).await;
    };
    sentinel.stop().await?;

    let mut ear = subscribe(carrier, "burst").await;
    let mut wanted: HashSet<&str> = place.ids.iter().map(String::as_str).collect();
    let end = Instant::now() + PATIENCE;
    while !wanted.is_empty() {
        let Ok(Some(delivery)) = tokio::time::timeout_at(end.into(), ear.next()).await else { break };
        wanted.remove(delivery.event.data["id"].as_str().unwrap_or_default());
        delivery.acknowledge().await?;
    }
    ear.drain().await;
    Ok((rate, wanted.len() as u64))
}
