//! The server under test on one store: the release binary with its ordinary settings. Creates go to a second server
//! with a database of its own, so that what they leave behind does not make the lists of later rounds longer.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hyperfleet_testkit::{Client, Launch, Server, Store};

use crate::memory;
use crate::workload::{CLUSTERS, Target, Verb, Workload, cluster};

/// Enough at a time to fill batches while loading.
pub(crate) const LOADERS: usize = 32;
/// How long a server is left alone before its memory counts as idle.
const SETTLE: Duration = Duration::from_secs(1);
const STARTS: usize = 5;
/// How many pages there must be for any of them to be asked for.
const PAGES: usize = 200;

/// One store with its servers.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) store: &'static str,
    loaded: Server,
    empty: Server,
    ids: Arc<[String]>,
    /// The tokens of all pages but the first.
    pages: Arc<[String]>,
    /// Size of the body of one cluster.
    pub(crate) one: usize,
    /// Size of the body of a page of twenty.
    pub(crate) list: usize,
}

/// What a server needs when nothing is asked of it.
#[derive(Debug)]
pub(crate) struct Idle {
    pub(crate) resident: u64,
    pub(crate) starts: Vec<Duration>,
}

impl Subject {
    /// Starts both servers and fills one with `clusters`.
    pub(crate) async fn start(
        store: &'static str,
        launch: &Launch,
        stores: [Store; 2],
        clusters: usize,
    ) -> Result<Self> {
        let [loaded, empty] = stores.map(|store| launch.clone().store(store));
        let (loaded, empty) = (loaded.start().await?, empty.start().await?);
        let api = loaded.api();
        let ids = load(&api, clusters).await?;
        let one = get(&api, &format!("{CLUSTERS}/{}", ids[0])).await?;
        let list = get(&api, &format!("{CLUSTERS}?pageSize=20")).await?;
        let pages = pages(&api).await?.into();
        Ok(Self { store, loaded, empty, ids: ids.into(), pages, one, list })
    }

    /// Where a verb is measured, and with what.
    pub(crate) fn target(&self, verb: Verb) -> Result<Target> {
        let server = if verb == Verb::Create { &self.empty } else { &self.loaded };
        let ids = if verb == Verb::AnyPage { &self.pages } else { &self.ids };
        let workload = Workload::Clusters { verb, ids: Arc::clone(ids) };
        let process = Some(process(server)?);
        Ok(Target { address: server.api().authority().parse()?, process, workload })
    }

    /// Whether there are so many pages that two connections seldom ask for the same.
    pub(crate) fn is_enough_for(&self, verb: Verb) -> bool {
        verb != Verb::AnyPage || self.pages.len() >= PAGES
    }

    /// The most memory that one of the servers has held so far, in bytes.
    pub(crate) fn peak_memory(&self) -> Result<u64> {
        Ok(memory::peak(process(&self.loaded)?)?.max(memory::peak(process(&self.empty)?)?))
    }

    /// Starts the server again on its database, a few times, and looks at its memory.
    pub(crate) async fn idle(&mut self) -> Result<Idle> {
        let mut starts = Vec::new();
        for _ in 0..STARTS {
            self.loaded.restart().await?;
            starts.push(self.loaded.started_in());
        }
        tokio::time::sleep(SETTLE).await;
        Ok(Idle { resident: memory::resident(process(&self.loaded)?)?, starts })
    }
}

/// The process of a server.
pub(crate) fn process(server: &Server) -> Result<u32> {
    server.pid().context("the server has ended")
}

/// Makes clusters, many at a time, and gives their ids.
pub(crate) async fn load(api: &Client, clusters: usize) -> Result<Vec<String>> {
    let loaders: Vec<_> = (0..LOADERS)
        .map(|loader| {
            let api = api.clone();
            tokio::spawn(async move {
                let mut ids = Vec::new();
                for number in (loader..clusters).step_by(LOADERS) {
                    let body = cluster(&format!("preloaded-{number}"));
                    let call = api.post(CLUSTERS).header("content-type", "application/json").body(body);
                    let answer = call.send().await?;
                    if answer.status != 201 {
                        bail!("loading a cluster: {answer}");
                    }
                    ids.push(answer.json()["id"].as_str().context("a cluster without id")?.to_owned());
                }
                Ok(ids)
            })
        })
        .collect();
    let mut ids = Vec::with_capacity(clusters);
    for loader in loaders {
        ids.extend(loader.await??);
    }
    Ok(ids)
}

/// The tokens of all full pages of twenty but the first.
async fn pages(api: &Client) -> Result<Vec<String>> {
    let mut tokens: Vec<String> = Vec::new();
    loop {
        let token = tokens.last().map_or_else(String::new, |token| format!("&pageToken={token}"));
        let path = format!("{CLUSTERS}?pageSize=20&total=none{token}");
        let answer = api.get(&path).send().await?;
        if answer.status != 200 {
            bail!("GET {path}: {answer}");
        }
        let page = answer.json();
        match page["next_page_token"].as_str() {
            Some(next) => tokens.push(next.to_owned()),
            None => {
                if page["size"] != 20 {
                    tokens.pop();
                }
                return Ok(tokens);
            }
        }
    }
}

async fn get(api: &Client, path: &str) -> Result<usize> {
    let answer = api.get(path).send().await?;
    if answer.status != 200 {
        bail!("GET {path}: {answer}");
    }
    Ok(answer.body.len())
}
