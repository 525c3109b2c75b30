//! How soon watchers are told. Clusters are patched at a fixed rate while one, a hundred or a thousand watch them all;
//! what counts is the time from a change, as its object says it, to the arrival of its event. And what it takes to
//! have ten thousand who are told nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use hdrhistogram::Histogram;
use hyperfleet_core::Timestamp;
use hyperfleet_testkit::{Client, Database, Launch, Postgres, Server, Store};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::load::Load;
use crate::memory;
use crate::streams::Streams;
use crate::subject::{self, process};
use crate::workload::{CLUSTERS, Target, Verb, Workload};

/// How many watch at a time.
const WATCHERS: [usize; 3] = [1, 100, 1_000];
/// How many watch and are told nothing.
const IDLE: usize = 10_000;
/// Changes a second.
const RATE: f64 = 1_000.0;
const WRITERS: usize = 32;
const FLEET: usize = 1_000;
/// How long the last events may take to arrive.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long memory is left to settle.
const SETTLE: Duration = Duration::from_secs(2);

/// Whether anything of this is wanted on a store.
pub(crate) fn wanted(only: &str, store: &str) -> bool {
    format!("{store} watch").contains(only)
}

/// A server with a fleet to watch.
struct Post {
    store: &'static str,
    server: Server,
    ids: Arc<[String]>,
}

/// All servers, and what they have shown so far.
pub(crate) struct Watching {
    posts: Vec<Post>,
    /// They go with this value.
    _databases: Vec<Database>,
    pub(crate) found: Streams,
}

impl Watching {
    /// Starts the servers and fills them.
    pub(crate) async fn start(stores: &[&'static str], launch: &Launch, postgres: &Postgres) -> Result<Self> {
        let launch = launch.clone().env("HYPERFLEET_SERVER_LIMITS_CONNECTIONS", "15000");
        let (mut posts, mut databases) = (Vec::new(), Vec::new());
        for &store in stores {
            eprintln!("{store}: loading {FLEET} clusters to watch");
            let at = match store {
                "sqlite" => Store::Sqlite,
                _ => {
                    databases.push(postgres.database().await);
                    Store::Postgres(databases.last().context("a database")?.url())
                }
            };
            let server = launch.clone().store(at).start().await?;
            let ids = subject::load(&server.api(), FLEET).await?.into();
            posts.push(Post { store, server, ids });
        }
        Ok(Self { posts, _databases: databases, found: Streams::default() })
    }

    /// One round: the same changes before few and many watchers.
    pub(crate) async fn round(&mut self, load: &Load) -> Result<()> {
        let load = Load { connections: WRITERS, rate: Some(RATE), ..*load };
        for post in &self.posts {
            let address: SocketAddr = post.server.api().authority().parse()?;
            for watchers in WATCHERS {
                let crowd = Crowd::gather(address, watchers, newest(&post.server.api()).await?).await?;
                let workload = Workload::Clusters { verb: Verb::Patch, ids: Arc::clone(&post.ids) };
                let mut outcome = load.run(&Target { address, process: None, workload })?;
                if let Err(fault) = crowd.wait(outcome.latency.len()).await {
                    outcome.fail(format!("{fault:#}"));
                }
                let told = crowd.dismiss()?;
                if let Some(error) = &outcome.first_error {
                    eprintln!("{} watch, first of {} errors: {error}", post.store, outcome.errors);
                }
                self.found.add(post.store, watchers, &told, outcome.rate(), outcome.errors);
            }
        }
        Ok(())
    }

    /// What a watcher takes that is told nothing.
    pub(crate) async fn idle(&mut self) -> Result<()> {
        for post in &self.posts {
            let address = post.server.api().authority().parse()?;
            let process = process(&post.server)?;
            let before = memory::resident(process)?;
            let crowd = Crowd::gather(address, IDLE, newest(&post.server.api()).await?).await?;
            tokio::time::sleep(SETTLE).await;
            let after = memory::resident(process)?;
            crowd.dismiss()?;
            self.found.add_idle(post.store, after.saturating_sub(before) as f64 / IDLE as f64);
        }
        Ok(())
    }
}

/// The newest version of all.
pub(crate) async fn newest(api: &Client) -> Result<i64> {
    let list = api.get(&format!("{CLUSTERS}?pageSize=1&fields=id&total=none")).send().await?;
    list.json()["version"].as_i64().context("a list without version")
}

/// Watchers, on a thread of their own.
pub(crate) struct Crowd {
    thread: thread::JoinHandle<Result<Histogram<u64>>>,
    over: watch::Sender<bool>,
    /// Events that the first of them was told.
    first: Arc<AtomicU64>,
}

impl Crowd {
    /// Opens the watches; all of them are there when this returns.
    pub(crate) async fn gather(address: SocketAddr, watchers: usize, since: i64) -> Result<Self> {
        let over = watch::Sender::new(false);
        let first = Arc::new(AtomicU64::new(0));
        let (here, mut all_here) = watch::channel(0_usize);
        let thread = thread::spawn({
            let (over, first) = (over.subscribe(), Arc::clone(&first));
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(attend(address, watchers, since, &here, &over, &first))
            }
        });
        let everyone = all_here.wait_for(|here| *here == watchers);
        tokio::time::timeout(PATIENCE, everyone).await.context("not all watches were opened")??;
        Ok(Self { thread, over, first })
    }

    /// Waits until the first of them was told of as many changes.
    pub(crate) async fn wait(&self, changes: u64) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while self.first.load(Ordering::Relaxed) < changes {
            ensure!(Instant::now() < end, "{:?} of {changes} changes were told", self.first);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Ends the watches. Returns how long changes took to arrive, in microseconds.
    pub(crate) fn dismiss(self) -> Result<Histogram<u64>> {
        self.over.send_replace(true);
        self.thread.join().map_err(|_| anyhow::anyhow!("the thread of the watchers panicked"))?
    }
}

async fn attend(
    address: SocketAddr,
    watchers: usize,
    since: i64,
    here: &watch::Sender<usize>,
    over: &watch::Receiver<bool>,
    first: &Arc<AtomicU64>,
) -> Result<Histogram<u64>> {
    let request = format!(
        "GET {CLUSTERS}?watch=true&since={since}&fields=updated_time HTTP/1.1\r\nHost: {address}\r\n\
         Accept: application/x-ndjson\r\n\r\n"
    );
    let mut tasks = JoinSet::new();
    for number in 0..watchers {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut head = vec![0; 4096];
        let read = stream.read(&mut head).await?;
        ensure!(
            head[..read].starts_with(b"HTTP/1.1 200"),
            "no watch: {}",
            String::from_utf8_lossy(&head[..read])
        );
        here.send_modify(|here| *here += 1);
        let (mut over, first) = (over.clone(), (number == 0).then(|| Arc::clone(first)));
        tasks.spawn(async move {
            let mut told = Histogram::new_with_bounds(1, 120_000_000, 3)?;
            let mut buffer = if first.is_some() { vec![0; 1 << 20] } else { vec![0; 64 << 10] };
            loop {
                let read = tokio::select! {
                    read = stream.read(&mut buffer) => read?,
                    _ = over.wait_for(|over| *over) => return anyhow::Ok(told),
                };
                ensure!(read > 0, "a watch ended");
                // The oldest event of what arrives together: it waited longest.
                if let Some(age) = age_of_first(&buffer[..read]) {
                    told.saturating_record(age);
                }
                if let Some(first) = &first {
                    first.fetch_add(count(&buffer[..read]), Ordering::Relaxed);
                }
            }
        });
    }
    let mut all = Histogram::new_with_bounds(1, 120_000_000, 3)?;
    while let Some(told) = tasks.join_next().await {
        all.add(&told??)?;
    }
    Ok(all)
}

const TIME: &[u8] = br#""updated_time":""#;

/// How old the first event is, in microseconds.
fn age_of_first(bytes: &[u8]) -> Option<u64> {
    let at = bytes.windows(TIME.len()).position(|window| window == TIME)? + TIME.len();
    let text = bytes.get(at..)?.split(|byte| *byte == b'"').next()?;
    let changed = Timestamp::parse(std::str::from_utf8(text).ok()?)?;
    u64::try_from(Timestamp::now().micros() - changed.micros()).ok()
}

/// How many events there are. One that is cut in two counts with its first half.
fn count(bytes: &[u8]) -> u64 {
    const TYPE: &[u8] = br#"{"type":"M"#;
    bytes.windows(TYPE.len()).filter(|window| *window == TYPE).count() as u64
}
