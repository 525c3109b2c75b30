//! A server with a fleet of one size, for lists. Almost all of it is reconciled by the reports of one adapter. It is
//! made through the API, like any other: many clients at a time share commits, so that a hundred thousand clusters
//! with a report each take seconds.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use hyperfleet_testkit::{Launch, Server, Store};

use crate::load::Connection;
use crate::questions::{Asked, DEEP, Members, PAGE, Question, check, cluster, is_silent};
use crate::workload::{CLUSTERS, Target, Workload};

const LOADERS: usize = 64;
/// How many there are to a page of a scan: the most that the API gives.
const SCANNED: usize = 500;

/// One store with a fleet.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) store: &'static str,
    server: Server,
    /// Each question with its requests, where the fleet is large enough for it.
    questions: Vec<(Question, Arc<[Asked]>)>,
    clusters: usize,
}

impl Fleet {
    /// Starts a server, fills it, and makes sure that every question gets the right answer.
    pub(crate) async fn start(
        store: &'static str,
        launch: &Launch,
        at: Store,
        clusters: usize,
    ) -> Result<Self> {
        let server = launch.clone().store(at).start().await?;
        let started = Instant::now();
        let ids = fill(&server, clusters).await?;
        eprintln!("{store}: {clusters} clusters with a report each in {:.0?}", started.elapsed());
        let mut fleet = Self { store, server, questions: Vec::new(), clusters };
        ensure!(fleet.ids().await? == ids.iter().cloned().collect(), "the list misses clusters");
        let members = Members { deep: fleet.deep().await?, ids };
        for question in Question::ALL {
            let asked = question.asked(&members);
            if !asked.is_empty() {
                fleet.questions.push((question, asked.into()));
            }
        }
        Ok(fleet)
    }

    pub(crate) fn size(&self) -> usize {
        self.clusters
    }

    /// Where a question is measured, if the fleet is large enough for it.
    pub(crate) fn target(&self, question: Question) -> Result<Option<Target>> {
        let address = self.server.api().authority().parse()?;
        let asked = self.questions.iter().find(|(known, _)| *known == question);
        Ok(asked.map(|(_, asked)| Target {
            address,
            process: None,
            workload: Workload::Asked(Arc::clone(asked)),
        }))
    }

    /// Asks every question once and reads the whole answer.
    pub(crate) async fn check(&self) -> Result<()> {
        let mut connection = self.connect().await?;
        for (question, asked) in &self.questions {
            let asked = asked.first().context("a question without requests")?;
            let name = question.name();
            let status = connection.exchange(&asked.request).await?;
            ensure!(
                status == 200 && asked.is_answered_by(connection.body()),
                "{name}: {}",
                connection.text()
            );
            check(*question, connection.body()).with_context(|| name)?;
        }
        Ok(())
    }

    /// Reads all clusters page by page; gives how many a second.
    pub(crate) async fn scan(&self) -> Result<f64> {
        let mut connection = self.connect().await?;
        let started = Instant::now();
        let (mut found, mut token) = (0, None);
        loop {
            token = page(&mut connection, SCANNED, token.as_deref()).await?;
            let size = number(connection.body(), b"\"size\":").context("a page without size")?;
            found += size;
            if token.is_none() {
                break;
            }
        }
        let took = started.elapsed();
        ensure!(found == self.clusters, "a scan found {found} of {}", self.clusters);
        Ok(found as f64 / took.as_secs_f64())
    }

    /// The ids of all clusters, by a scan.
    async fn ids(&self) -> Result<HashSet<String>> {
        let mut connection = self.connect().await?;
        let (mut ids, mut token) = (HashSet::new(), None);
        loop {
            token = page(&mut connection, SCANNED, token.as_deref()).await?;
            let body: serde_json::Value = serde_json::from_slice(connection.body())?;
            for item in body["items"].as_array().context("a page without items")? {
                let id = item["id"].as_str().context("a cluster without id")?;
                ensure!(ids.insert(id.to_owned()), "a scan shows {id} twice");
            }
            if token.is_none() {
                return Ok(ids);
            }
        }
    }

    /// What continues the list at page [`DEEP`], where it has one.
    async fn deep(&self) -> Result<Option<String>> {
        if self.clusters < DEEP * PAGE {
            return Ok(None);
        }
        let mut connection = self.connect().await?;
        let mut token = None;
        for _ in 1..DEEP {
            token = page(&mut connection, PAGE, token.as_deref()).await?;
            ensure!(token.is_some(), "the list ends too early");
        }
        Ok(token)
    }

    async fn connect(&self) -> Result<Connection> {
        Connection::open(self.server.api().authority().parse()?).await
    }
}

/// Fetches a page; gives the token of the next one.
async fn page(connection: &mut Connection, size: usize, token: Option<&str>) -> Result<Option<String>> {
    let more = token.map(|token| format!("&pageToken={token}")).unwrap_or_default();
    let request = format!("GET {CLUSTERS}?pageSize={size}&total=none{more} HTTP/1.1\r\nhost: bench\r\n\r\n");
    if connection.exchange(request.as_bytes()).await? != 200 {
        bail!("a page: {}", connection.text());
    }
    Ok(next_token(connection.body()))
}

/// The token stands behind the items, near the end of the page.
fn next_token(body: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"\"next_page_token\":\"";
    let tail = &body[body.len().saturating_sub(4096)..];
    let start = tail.windows(NAME.len()).rposition(|window| window == NAME)? + NAME.len();
    let token = tail[start..].split(|byte| *byte == b'"').next()?;
    String::from_utf8(token.to_vec()).ok()
}

/// The first number behind `name`.
fn number(body: &[u8], name: &[u8]) -> Option<usize> {
    let start = body.windows(name.len()).position(|window| window == name)? + name.len();
    let digits = body[start..].split(|byte| !byte.is_ascii_digit()).next()?;
    str::from_utf8(digits).ok()?.parse().ok()
}

/// The first text behind `name`.
fn text<'a>(body: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let start = body.windows(name.len()).position(|window| window == name)? + name.len();
    str::from_utf8(body[start..].split(|byte| *byte == b'"').next()?).ok()
}

/// Makes the clusters and reports on them; gives their ids.
pub(crate) async fn fill(server: &Server, clusters: usize) -> Result<Vec<String>> {
    let address = server.api().authority().parse()?;
    let loaders: Vec<_> = (0..LOADERS)
        .map(|loader| {
            tokio::spawn(async move {
                let mut connection = Connection::open(address).await?;
                let mut ids = Vec::new();
                for number in (loader..clusters).step_by(LOADERS) {
                    let body = cluster(number, clusters);
                    send(&mut connection, &format!("POST {CLUSTERS}"), &body).await?;
                    let id = text(connection.body(), b"\"id\":\"").context("no id")?.to_owned();
                    let time = text(connection.body(), b"\"created_time\":\"").context("no time")?.to_owned();
                    if !is_silent(number, clusters) {
                        let target = format!("PUT {CLUSTERS}/{id}/statuses");
                        send(&mut connection, &target, &report(&time)).await?;
                    }
                    ids.push(id);
                    if number % 50_000 == 0 && number > 0 {
                        eprintln!("  {number} of {clusters}");
                    }
                }
                anyhow::Ok(ids)
            })
        })
        .collect();
    let mut ids = Vec::with_capacity(clusters);
    for loader in loaders {
        ids.extend(loader.await??);
    }
    Ok(ids)
}

async fn send(connection: &mut Connection, target: &str, body: &str) -> Result<()> {
    let request = format!(
        "{target} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    if connection.exchange(request.as_bytes()).await? != 201 {
        bail!("{target}: {}", connection.text());
    }
    Ok(())
}

/// The report of the one adapter that a cluster needs by default.
fn report(time: &str) -> String {
    let condition = |kind: &str| format!(r#"{{"type":"{kind}","status":"True","reason":"AsExpected"}}"#);
    let conditions = ["Available", "Applied", "Health"].map(condition).join(",");
    format!(
        r#"{{"adapter":"validator","observed_generation":1,"observed_time":"{time}","conditions":[{conditions}],"data":{{}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_by_its_ends() {
        let body = br#"{"kind":"ClusterList","page":3,"size":500,"items":[{"size":7}],"next_page_token":"a-b_c","version":9}"#;
        assert_eq!(next_token(body).as_deref(), Some("a-b_c"));
        assert_eq!(number(body, b"\"size\":"), Some(500));
        assert_eq!(next_token(br#"{"size":1,"items":[],"version":9}"#), None);
    }
}
