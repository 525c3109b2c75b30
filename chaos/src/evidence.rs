//! Collects the evidence when the load has ended: waits until nothing changes any more, and reads what the server tells.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use hyperfleet_testkit::Client;
use serde_json::Value;
use uuid::Uuid;

use crate::checks::{Check, Evidence, Findings, StoredReports, common};
use crate::digest::digest;
use crate::feed::{Change, Collector, id};
use crate::history::Stream;
use crate::load::{BASE, Load, pages};

/// For deletions and reconciliations to end after the load. It passes only when something is broken.
const SETTLE: Duration = Duration::from_secs(300);
/// For watchers to get to the end of the feed.
const CATCH_UP: Duration = Duration::from_secs(120);
const PACE: Duration = Duration::from_millis(200);
const EVERYTHING: &str = "/resources?showDeleted=true";

/// Stops the load, waits until everything has come to rest, and reads what is there. After a restore, what the feed has
/// in common with the one before it came with the backup.
pub(crate) async fn collect(mut load: Load, before: &[Change], findings: &mut Findings) -> Result<Evidence> {
    load.stop().await?;
    let replicas = load.shared.replicas.clone();
    let first = &replicas[0];
    let version = settle(first).await?;
    let (history, late) = load.finish(version, CATCH_UP).await?;
    for _ in 0..late {
        findings.add(Check::Watches, || format!("a watcher did not get to {version} within {CATCH_UP:?}"));
    }
    let feed = feed(first, version).await?;
    let mut states = Vec::new();
    for replica in &replicas {
        states.push(state(replica).await?);
    }
    let mut stored = Vec::new();
    for stream in &history.streams {
        stored.push(reports(first, stream).await?);
    }
    Ok(Evidence { base: common(before, &feed), feed, history, states, stored })
}

/// Waits until nothing is finalizing or unreconciled and nothing changes any more; the version then. When the deadline
/// passes, the checks tell what is left.
async fn settle(client: &Client) -> Result<u64> {
    let begun = Instant::now();
    let mut before = None;
    loop {
        let (items, version) = pages(client, &format!("{BASE}{EVERYTHING}")).await?;
        let is_done = items.iter().all(|item| {
            let mut conditions = item["status"]["conditions"].as_array().into_iter().flatten();
            item.get("deleted_time").is_none()
                && conditions.any(|one| one["type"] == "Reconciled" && one["status"] == "True")
        });
        if before == Some(version) && (is_done || begun.elapsed() > SETTLE) {
            return Ok(version);
        }
        before = Some(version);
        tokio::time::sleep(PACE).await;
    }
}

/// All changes up to a version.
async fn feed(client: &Client, version: u64) -> Result<Vec<Change>> {
    let path = format!("{BASE}{EVERYTHING}&watch=true&since=0");
    let mut stream = client.get(&path).header("accept", "application/x-ndjson").open().await?;
    ensure!(stream.status == 200, "GET {path}: {}", stream.status);
    let mut collector = Collector::default();
    loop {
        let line = stream.next().await?.context("the feed ended early")?;
        if line.version() <= version && line.kind() != "BOOKMARK" {
            collector.add(Change::of(&line.json).with_context(|| line.text.clone())?);
        }
        if line.version() >= version {
            return Ok(collector.changes);
        }
    }
}

/// What one replica lists.
async fn state(client: &Client) -> Result<BTreeMap<Uuid, u64>> {
    let (items, _) = pages(client, &format!("{BASE}{EVERYTHING}")).await?;
    items.iter().map(|item| Ok((id(&item["id"])?, digest(item)))).collect()
}

/// The reports of a stream, by their numbers.
async fn reports(client: &Client, stream: &Stream) -> Result<StoredReports> {
    let path = format!("{BASE}/clusters/{}", stream.resource);
    let of_stream = |item: &&Value| item["adapter"] == *stream.adapter;
    let (statuses, _) = pages(client, &format!("{path}/statuses")).await?;
    let last = statuses.iter().find(of_stream).and_then(|report| report["data"]["number"].as_u64());
    let (entries, _) = pages(client, &format!("{path}/timeline?total=none")).await?;
    let number = |entry: &Value| {
        let mut changes = entry["changes"].as_array()?.iter();
        changes.find_map(|change| match change["path"].as_str()? {
            "data" => change["to"]["number"].as_u64(),
            "data.number" => change["to"].as_u64(),
            _ => None,
        })
    };
    let mut timeline: Vec<u64> = entries.iter().filter(of_stream).filter_map(number).collect();
    timeline.reverse();
    Ok(StoredReports { last, timeline })
}
