//! What must be true of a restored database: it has everything that was acknowledged before the backup, and nothing that a
//! client kept from the lost history fits it.

use anyhow::{Context as _, Result, ensure};
use hyperfleet_testkit::Client;
use serde_json::{Value, json};

use crate::checks::{Check, Evidence, Findings};
use crate::feed::Change;
use crate::history::{History, Outcome};
use crate::load::BASE;

/// What is known of the history that a restore has ended.
#[derive(Debug)]
pub(crate) struct Lost {
    /// All of its changes.
    pub(crate) feed: Vec<Change>,
    /// The newest version that was acknowledged before the backup began.
    backed_up: u64,
    /// A place in its feed.
    position: String,
    /// A resource, and its tag.
    path: String,
    tag: String,
}

/// The newest version that is acknowledged.
pub(crate) fn acknowledged(history: &History) -> u64 {
    let versions = history.operations.iter().filter_map(|operation| match operation.outcome {
        Outcome::Acknowledged { version } => version,
        _ => None,
    });
    versions.max().unwrap_or_default()
}

impl Lost {
    /// Takes what a client would keep, before the restore.
    pub(crate) async fn keep(client: &Client, feed: Vec<Change>, backed_up: u64) -> Result<Self> {
        let path = format!("{BASE}/clusters?pageSize=1");
        let list: Value = serde_json::from_slice(&client.get(&path).send().await?.body)?;
        let path = list["items"][0]["href"].as_str().context("there is no cluster")?.to_owned();
        let answer = client.get(&path).send().await?;
        let tag = answer.header("etag").context("no ETag")?.to_owned();
        let watch = format!("{BASE}/resources?watch=true&since={}", list["version"]);
        let mut stream = client.get(&watch).header("accept", "application/x-ndjson").open().await?;
        ensure!(stream.status == 200, "GET {watch}: {}", stream.status);
        let line = stream.next().await?.context("no bookmark")?;
        let position = line.json["position"].as_str().context("no position")?.to_owned();
        Ok(Self { feed, backed_up, position, path, tag })
    }

    /// Compares with what is there after the restore and the load that followed.
    pub(crate) async fn check(
        &self,
        client: &Client,
        after: &Evidence,
        findings: &mut Findings,
    ) -> Result<()> {
        if after.base < self.backed_up {
            let (base, backed_up) = (after.base, self.backed_up);
            findings.add(Check::Writes, || {
                format!("the backup ends at version {base}, and {backed_up} was acknowledged before it began")
            });
        }
        let watch = format!("{BASE}/resources?watch=true&since={}", self.position);
        let status = client.get(&watch).open().await?.status;
        if status != 410 {
            findings.add(Check::Answers, || format!("GET {watch} of the lost history: {status}"));
        }
        let patch = client.patch(&format!("{}?dryRun=true", self.path)).header("if-match", &self.tag);
        let answer = patch.json(&json!({"labels": {"tone": "red"}})).send().await?;
        if !matches!(answer.status, 404 | 409) {
            findings.add(Check::Answers, || format!("PATCH of {} with a lost tag: {answer}", self.path));
        }
        Ok(())
    }
}
