//! The real Sentinel in a process of its own, and what it and the kernel tell of it.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use hyperfleet_testkit::Client;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::carrier::Carrier;
use super::{PACE, PATIENCE};
use crate::{memory, processor};

/// A running Sentinel; it is killed when this value is dropped.
pub(super) struct Sentinel {
    child: Child,
    process: u32,
    metrics: Client,
}

impl Sentinel {
    /// Starts one for every kind of this API, and waits until it has looked at everything.
    pub(super) async fn start(binary: &Path, api: &Client, carrier: &Carrier) -> Result<Self> {
        let sentinel = Self::begin(binary, api, carrier).await?;
        let end = Instant::now() + PATIENCE;
        for name in ["leases_held", r#"last_successful_poll_timestamp_seconds{resource_type="clusters"}"#] {
            while sentinel.metric(&format!("hyperfleet_sentinel_{name}")).await? == 0.0 {
                ensure!(Instant::now() < end, "the Sentinel does not get to work: {name}");
                tokio::time::sleep(PACE).await;
            }
        }
        Ok(sentinel)
    }

    /// Starts one.
    pub(super) async fn begin(binary: &Path, api: &Client, carrier: &Carrier) -> Result<Self> {
        let mut command = Command::new(binary);
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HYPERFLEET_"))
        {
            command.env_remove(name);
        }
        let mut child = command
            .args(["sentinel", "serve"])
            .env("HYPERFLEET_API_BASE_URL", format!("http://{}", api.authority()))
            .env("HYPERFLEET_HEALTH_PORT", "0")
            .env("HYPERFLEET_METRICS_PORT", "0")
            .envs(&carrier.variables)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let process = child.id().context("the Sentinel has ended")?;
        let mut lines = BufReader::new(child.stdout.take().context("a pipe")?).lines();
        let address = loop {
            let Some(line) = lines.next_line().await? else { bail!("the Sentinel gave up") };
            let line: Value = serde_json::from_str(&line).unwrap_or_default();
            if line["message"] == "listening" && line["listener"] == "metrics" {
                break line["address"].as_str().context("an address")?.to_owned();
            }
        };
        // Read to its end, so that it never waits for room in the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { child, process, metrics: Client::new(&address) })
    }

    /// The sum of the series of a metric that begin like this; 0 before there is one.
    pub(super) async fn metric(&self, series: &str) -> Result<f64> {
        metric(&self.metrics, series).await
    }

    /// The CPU time that it has used so far.
    pub(super) fn cpu(&self) -> Result<Duration> {
        processor::used(self.process)
    }

    /// The memory that it holds, in bytes.
    pub(super) fn resident(&self) -> Result<u64> {
        memory::resident(self.process)
    }

    /// Asks it to stop, and waits until it has given its leases back.
    pub(super) async fn stop(mut self) -> Result<()> {
        let process = self.process.to_string();
        let asked = Command::new("/bin/sh").args(["-c", "kill -TERM \"$1\"", "kill", &process]).status();
        ensure!(asked.await?.success(), "the Sentinel has ended");
        tokio::time::timeout(PATIENCE, self.child.wait()).await.context("the Sentinel does not end")??;
        Ok(())
    }
}

/// The sum of the series of a metric that begin like this, as a listener tells them.
pub(super) async fn metric(listener: &Client, series: &str) -> Result<f64> {
    let answer = listener.get("/metrics").send().await?;
    ensure!(answer.status == 200, "metrics: {answer}");
    let text = String::from_utf8_lossy(&answer.body);
    let values = text.lines().filter(|line| line.starts_with(series));
    Ok(values.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum())
}
