//! Proof that the reports of a load were stored. A sample of clusters is read before and after the load, and after one
//! more report each. They must be reconciled and show the very last report of each adapter, and their ETags must have
//! changed exactly where content changed.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::fleet::Fleet;
use crate::load::{Load, Outcome};
use crate::reports::{ADAPTERS, Change, Pair};
use crate::workload::{CLUSTERS, Workload};

/// How many clusters are read.
const SAMPLE: usize = 16;

/// One cluster of the sample.
#[derive(Debug)]
struct Seen {
    /// The cluster, with the adapter of the report that follows the load.
    pair: Pair,
    etag: String,
    /// The run of each adapter's last report.
    runs: Vec<u64>,
}

impl Fleet<'_> {
    /// Sends reports for one window and verifies them; what is wrong counts as an error of the window.
    pub(crate) async fn load_reports(&self, load: &Load, change: Change) -> Result<Outcome> {
        let before = self.sample().await;
        let mut outcome = load.run(&self.target(Workload::Reports(change, Arc::clone(&self.reports)))?)?;
        match before {
            Ok(before) => {
                for seen in before {
                    if let Err(fault) = self.verify(change, &seen).await {
                        outcome.fail(format!("cluster {}: {fault:#}", self.ids[seen.pair.cluster]));
                    }
                }
            }
            Err(fault) => outcome.fail(format!("before the load: {fault:#}")),
        }
        Ok(outcome)
    }

    async fn sample(&self) -> Result<Vec<Seen>> {
        let clusters = (0..self.ids.len()).step_by(self.ids.len().div_ceil(SAMPLE));
        let mut sample = Vec::new();
        for (cluster, adapter) in clusters.zip((0..self.reports.adapters()).cycle()) {
            sample.push(self.see(Pair { cluster, adapter }).await?);
        }
        Ok(sample)
    }

    async fn verify(&self, change: Change, before: &Seen) -> Result<()> {
        let after = self.see(before.pair).await?;
        before.ensure_etag_follows_content(&after)?;
        let mut connection = self.connect().await?;
        let mut reporter = self.reports.reporter(change, 0, 1);
        let status = connection.exchange(reporter.report(before.pair)).await?;
        ensure!(status == 201, "a report: {}", connection.text());
        after.ensure_etag_follows_content(&self.see(before.pair).await?)
    }

    /// Reads a cluster from one of the replicas, which must show the last report of each adapter.
    async fn see(&self, pair: Pair) -> Result<Seen> {
        let path = format!("{CLUSTERS}/{}", self.ids[pair.cluster]);
        let response = self.api(pair.cluster).get(&path).send().await?;
        ensure!(response.status == 200, "GET {path}: {response}");
        let etag = response.header("etag").context("no ETag")?.to_owned();
        let body = response.json();
        let (mut runs, mut oldest) = (Vec::new(), None);
        for (adapter, name) in ADAPTERS.into_iter().enumerate().take(self.reports.adapters()) {
            let (time, run) = self.reports.last(Pair { adapter, ..pair });
            let condition = condition(&body, &successful(name))?;
            let message = condition["message"].as_str().unwrap_or_default();
            ensure!(condition["last_updated_time"] == *time, "no report of {name} at {time}: {condition}");
            ensure!(message.contains(&run.to_string()), "no run {run} of {name}: {condition}");
            runs.push(run);
            oldest = Some(oldest.map_or(time.clone(), |oldest: String| oldest.min(time)));
        }
        let (oldest, reconciled) = (oldest.context("no adapters")?, condition(&body, "Reconciled")?);
        ensure!(reconciled["status"] == "True", "not reconciled: {reconciled}");
        ensure!(reconciled["last_updated_time"] == *oldest, "not reconciled since {oldest}: {reconciled}");
        Ok(Seen { pair, etag, runs })
    }
}

impl Seen {
    fn ensure_etag_follows_content(&self, later: &Self) -> Result<()> {
        match (self.etag != later.etag, self.runs != later.runs) {
            (true, false) => bail!("time alone changed the ETag from {} to {}", self.etag, later.etag),
            (false, true) => bail!("a change left the ETag at {}", later.etag),
            _ => Ok(()),
        }
    }
}

/// The condition that mirrors the reports of an adapter whose name is one word.
fn successful(adapter: &str) -> String {
    let (first, rest) = adapter.split_at(1);
    format!("{}{rest}Successful", first.to_uppercase())
}

fn condition<'a>(cluster: &'a Value, kind: &str) -> Result<&'a Value> {
    let conditions = cluster["status"]["conditions"].as_array();
    conditions
        .and_then(|all| all.iter().find(|condition| condition["type"] == kind))
        .with_context(|| format!("no condition {kind}: {}", cluster["status"]))
}
