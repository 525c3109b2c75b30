//! Watches: how long a change takes from its commit to its watchers, and the memory of idle watchers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use hdrhistogram::Histogram;
use hyperfleet_core::Timestamp;
use hyperfleet_testkit::{Launch, Postgres};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::fleet::{self, Fleet, Plan};
use crate::load::{Load, histogram, milliseconds};
use crate::options::Options;
use crate::results::Results;
use crate::workload::{CLUSTERS, Workload};

/// How many watch at a time.
const WATCHERS: [usize; 3] = [1, 100, 1_000];
/// How many watch while nothing changes.
const IDLE: usize = 10_000;
/// Changes a second.
const RATE: f64 = 1_000.0;
const WRITERS: usize = 32;
const FLEET: usize = 1_000;
/// The same for delivery after an hour, in which each cluster changes about a thousand times.
const HOURLY_RATE: f64 = 300.0;
const HOURLY_CHANGES: u64 = 3_600 * HOURLY_RATE as u64;
const HOURLY_WATCHERS: usize = 100;
/// How long the last events may take to arrive.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long memory is left to settle.
const SETTLE: Duration = Duration::from_secs(2);

/// Measures watches on the stores that are wanted.
pub(crate) async fn measure(
    options: &Options,
    launch: &Launch,
    postgres: &Postgres,
    results: &mut Results,
) -> Result<()> {
    let launch = launch.clone().env("HYPERFLEET_SERVER_LIMITS_CONNECTIONS", "15000");
    for (store, postgres) in fleet::stores(postgres) {
        if options.wants(&format!("{store} watch")) {
            let fleet = Fleet::start(&launch, &Plan::new(postgres, FLEET)).await?;
            for round in 1..=options.rounds {
                eprintln!("{store} watch: round {round} of {}", options.rounds);
                for watchers in WATCHERS {
                    changes(
                        options,
                        &format!("{store} watch by {watchers}"),
                        &fleet,
                        (watchers, RATE),
                        results,
                    )
                    .await?;
                }
            }
            results.add(&format!("{store} idle watcher"), "KiB", idle(&fleet).await? / 1024.0);
        }
    }
    if options.wants("postgresql watch after an hour") {
        after_an_hour(options, &launch, postgres, results).await?;
    }
    Ok(())
}

/// Delivery in a new fleet and, in turns, in one with the history of an hour. Its server has planned its statements
/// before, as it would have in the first minute.
async fn after_an_hour(
    options: &Options,
    launch: &Launch,
    postgres: &Postgres,
    results: &mut Results,
) -> Result<()> {
    let plan = Plan::new(Some(postgres), FLEET);
    let (young, old) = (Fleet::start(launch, &plan).await?, Fleet::start(launch, &plan).await?);
    let load = (HOURLY_WATCHERS, HOURLY_RATE);
    changes(options, "warm-up", &old, load, &mut Results::default()).await?;
    eprintln!("making the history of an hour");
    old.execute(&format!(
        "WITH numbered AS (
             SELECT row_number() OVER () - 1 AS number, count(*) OVER () AS count, newest.*
             FROM (SELECT DISTINCT ON (resource_id) * FROM changes ORDER BY resource_id, version DESC) newest
         )
         INSERT INTO changes (version, resource_id, kind, changed_time, actor, request_id, body, entry_count,
                              touched_parts)
         SELECT f.version + n, c.resource_id, c.kind, c.changed_time, c.actor, c.request_id, c.body, c.entry_count,
                c.touched_parts
         FROM feed f CROSS JOIN generate_series(1, {HOURLY_CHANGES}) n JOIN numbered c ON c.number = n % c.count;
         UPDATE feed SET version = version + {HOURLY_CHANGES};
         UPDATE resource_status s SET version = (SELECT max(version) FROM changes c WHERE c.resource_id = s.resource_id)"
    ))?;
    for round in 1..=options.rounds {
        eprintln!("watch after an hour: round {round} of {}", options.rounds);
        changes(options, "postgresql watch in the first minute", &young, load, results).await?;
        changes(options, "postgresql watch after an hour", &old, load, results).await?;
    }
    Ok(())
}

/// Patches clusters at a rate before some watchers.
async fn changes(
    options: &Options,
    row: &str,
    fleet: &Fleet<'_>,
    (count, rate): (usize, f64),
    results: &mut Results,
) -> Result<()> {
    let load = Load { rate: Some(rate), ..options.load(WRITERS) };
    let watchers = Watchers::open(fleet, count).await?;
    let mut outcome = load.run(&fleet.target(Workload::Patches(Arc::clone(&fleet.ids)))?)?;
    if let Err(fault) = watchers.wait(outcome.latency.len()).await {
        outcome.fail(format!("{fault:#}"));
    }
    let delays = watchers.close()?;
    if outcome.errors > 0 {
        results.fail(row, outcome.errors, outcome.first_error.as_deref().unwrap_or_default());
    }
    ensure!(!delays.is_empty(), "{row}: no event with a time");
    results.add(row, "p50 ms", milliseconds(&delays, 0.5));
    results.add(row, "p99 ms", milliseconds(&delays, 0.99));
    results.add(row, "changes/s", outcome.rate());
    Ok(())
}

/// The memory of an idle watcher, in bytes.
async fn idle(fleet: &Fleet<'_>) -> Result<f64> {
    let before = fleet.resident()?;
    let watchers = Watchers::open(fleet, IDLE).await?;
    tokio::time::sleep(SETTLE).await;
    let after = fleet.resident()?;
    watchers.close()?;
    Ok(after.saturating_sub(before) as f64 / IDLE as f64)
}

/// Open watches, on a thread of their own.
struct Watchers {
    thread: thread::JoinHandle<Result<Histogram<u64>>>,
    stop: watch::Sender<bool>,
    /// Events that the first watcher received.
    received: Arc<AtomicU64>,
}

impl Watchers {
    /// Opens the watches from the present version on; all are open when this returns.
    async fn open(fleet: &Fleet<'_>, count: usize) -> Result<Self> {
        let path = format!("{CLUSTERS}?pageSize=1&fields=id&total=none");
        let list = fleet.api(0).get(&path).send().await?.json();
        let since = list["version"].as_i64().context("a list without version")?;
        let address = fleet.addresses()?[0];
        let stop = watch::Sender::new(false);
        let received = Arc::new(AtomicU64::new(0));
        let (opened, mut all_opened) = watch::channel(0_usize);
        let thread = thread::spawn({
            let (stop, received) = (stop.subscribe(), Arc::clone(&received));
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(run(address, count, since, &opened, &stop, &received))
            }
        });
        let all = all_opened.wait_for(|opened| *opened == count);
        tokio::time::timeout(TIMEOUT, all).await.context("not all watches were opened")??;
        Ok(Self { thread, stop, received })
    }

    /// Waits until the first watcher has received as many events.
    async fn wait(&self, events: u64) -> Result<()> {
        let end = Instant::now() + TIMEOUT;
        while self.received.load(Ordering::Relaxed) < events {
            ensure!(Instant::now() < end, "{:?} of {events} events arrived", self.received);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Ends the watches and returns how long changes took to arrive, in microseconds.
    fn close(self) -> Result<Histogram<u64>> {
        self.stop.send_replace(true);
        self.thread.join().map_err(|_| anyhow::anyhow!("the thread of the watchers panicked"))?
    }
}

async fn run(
    address: SocketAddr,
    count: usize,
    since: i64,
    opened: &watch::Sender<usize>,
    stop: &watch::Receiver<bool>,
    received: &Arc<AtomicU64>,
) -> Result<Histogram<u64>> {
    let request = format!(
        "GET {CLUSTERS}?watch=true&since={since}&fields=updated_time HTTP/1.1\r\nHost: {address}\r\n\
         Accept: application/x-ndjson\r\n\r\n"
    );
    let mut watchers = JoinSet::new();
    for number in 0..count {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut head = vec![0; 4096];
        let read = stream.read(&mut head).await?;
        let head = String::from_utf8_lossy(&head[..read]);
        ensure!(head.starts_with("HTTP/1.1 200"), "no watch: {head}");
        opened.send_modify(|opened| *opened += 1);
        watchers.spawn(receive(stream, stop.clone(), (number == 0).then(|| Arc::clone(received))));
    }
    let mut all = histogram();
    while let Some(delays) = watchers.join_next().await {
        all += &delays??;
    }
    Ok(all)
}

/// Reads one watch to its end and returns the delays of its events. Of events that arrive together the oldest counts,
/// because it waited longest.
async fn receive(
    mut stream: TcpStream,
    mut stop: watch::Receiver<bool>,
    received: Option<Arc<AtomicU64>>,
) -> Result<Histogram<u64>> {
    let mut delays = histogram();
    let mut buffer = if received.is_some() { vec![0; 1 << 20] } else { vec![0; 64 << 10] };
    loop {
        let read = tokio::select! {
            read = stream.read(&mut buffer) => read?,
            _ = stop.wait_for(|stop| *stop) => return Ok(delays),
        };
        ensure!(read > 0, "the server ended a watch");
        if let Some(delay) = delay_of_first(&buffer[..read]) {
            delays.saturating_record(delay);
        }
        if let Some(received) = &received {
            received.fetch_add(count_events(&buffer[..read]), Ordering::Relaxed);
        }
    }
}

/// The time since the change of the first event, in microseconds.
fn delay_of_first(bytes: &[u8]) -> Option<u64> {
    const TIME: &[u8] = br#""updated_time":""#;
    let at = bytes.windows(TIME.len()).position(|window| window == TIME)? + TIME.len();
    let text = bytes.get(at..)?.split(|byte| *byte == b'"').next()?;
    let changed = Timestamp::parse(std::str::from_utf8(text).ok()?)?;
    u64::try_from(Timestamp::now().micros() - changed.micros()).ok()
}

/// The number of events. One that is cut in two counts with its first half.
fn count_events(bytes: &[u8]) -> u64 {
    const TYPE: &[u8] = br#"{"type":"M"#;
    bytes.windows(TYPE.len()).filter(|window| *window == TYPE).count() as u64
}
