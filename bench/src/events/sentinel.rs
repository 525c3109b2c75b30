//! The Sentinel of the server's program, in a process of its own.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use hyperfleet_testkit::Client;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::brokers::RunningBroker;
use super::{POLL, TIMEOUT};
use crate::process;

/// A running Sentinel, which ends with this value.
pub(super) struct Sentinel {
    child: Child,
    pid: u32,
    metrics: Client,
}

impl Sentinel {
    /// Starts one for every kind of this API, and waits until it has polled all of them.
    pub(super) async fn start(binary: &Path, api: &Client, broker: &RunningBroker) -> Result<Self> {
        let sentinel = Self::spawn(binary, api, broker).await?;
        let end = Instant::now() + TIMEOUT;
        for name in ["ranges_owned", r#"last_successful_poll_timestamp_seconds{resource_type="clusters"}"#] {
            while sentinel.metric(&format!("hyperfleet_sentinel_{name}")).await? == 0.0 {
                ensure!(Instant::now() < end, "the Sentinel does not get to work: {name}");
                tokio::time::sleep(POLL).await;
            }
        }
        Ok(sentinel)
    }

    pub(super) async fn spawn(binary: &Path, api: &Client, broker: &RunningBroker) -> Result<Self> {
        let mut command = Command::new(binary);
        let settings = std::env::vars_os().map(|(name, _)| name);
        for name in settings.filter(|name| name.to_string_lossy().starts_with("HYPERFLEET_")) {
            command.env_remove(name);
        }
        let mut child = command
            .args(["sentinel", "serve"])
            .env("HYPERFLEET_API_BASE_URL", format!("http://{}", api.authority()))
            .env("HYPERFLEET_HEALTH_PORT", "0")
            .env("HYPERFLEET_METRICS_PORT", "0")
            .envs(&broker.variables)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().context("the Sentinel has ended")?;
        let mut lines = BufReader::new(child.stdout.take().context("no pipe")?).lines();
        let address = loop {
            let Some(line) = lines.next_line().await? else { bail!("the Sentinel gave up") };
            let line: Value = serde_json::from_str(&line).unwrap_or_default();
            if line["message"] == "listening" && line["listener"] == "metrics" {
                break line["address"].as_str().context("no address")?.to_owned();
            }
        };
        // The log is read to its end, so that the Sentinel never waits for room in the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { child, pid, metrics: Client::new(&address) })
    }

    /// The sum of all series of a metric that begin with `series`; 0 before there is one.
    pub(super) async fn metric(&self, series: &str) -> Result<f64> {
        metric(&self.metrics, series).await
    }

    pub(super) fn cpu_time(&self) -> Result<Duration> {
        process::cpu_time(self.pid)
    }

    pub(super) fn resident(&self) -> Result<u64> {
        process::resident(self.pid)
    }

    /// Stops it and waits until it has released its leases.
    pub(super) async fn stop(mut self) -> Result<()> {
        let pid = self.pid.to_string();
        let sent = Command::new("/bin/sh").args(["-c", "kill -TERM \"$1\"", "kill", &pid]).status();
        ensure!(sent.await?.success(), "the Sentinel has ended");
        tokio::time::timeout(TIMEOUT, self.child.wait()).await.context("the Sentinel does not end")??;
        Ok(())
    }
}

/// The sum of all series of a metric that begin with `series`, as a metrics listener shows them.
pub(super) async fn metric(listener: &Client, series: &str) -> Result<f64> {
    let response = listener.get("/metrics").send().await?;
    ensure!(response.status == 200, "metrics: {response}");
    let text = String::from_utf8_lossy(&response.body);
    let values = text.lines().filter(|line| line.starts_with(series));
    Ok(values.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum())
}
