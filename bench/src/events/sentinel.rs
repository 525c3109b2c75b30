//! The real Sentinel, and what it and the kernel tell of it. It has a process of its own, but for the broker whose events
//! stay within one process: then it is part of this one, as it is of `hyperfleet up`.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use hyperfleet_client::Settings;
use hyperfleet_sentinel::config::{Work, replica_name};
use hyperfleet_sentinel::{CHECKS, Metrics, Parts};
use hyperfleet_service::health::Health;
use hyperfleet_testkit::Client;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::carrier::Carrier;
use super::{PACE, PATIENCE};
use crate::{memory, processor};

/// A running Sentinel; it ends when this value is dropped.
pub(super) enum Sentinel {
    Apart {
        child: Child,
        process: u32,
        metrics: Client,
    },
    Here {
        task: JoinHandle<Result<(), hyperfleet_client::Error>>,
        stop: CancellationToken,
        registry: Registry,
    },
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        if let Self::Here { stop, .. } = self {
            stop.cancel();
        }
    }
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
        let api = format!("http://{}", api.authority());
        let Some(variables) = &carrier.variables else { return Ok(Self::here(api, carrier)) };
        let mut command = Command::new(binary);
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HYPERFLEET_"))
        {
            command.env_remove(name);
        }
        let mut child = command
            .args(["sentinel", "serve"])
            .env("HYPERFLEET_API_BASE_URL", api)
            .env("HYPERFLEET_HEALTH_PORT", "0")
            .env("HYPERFLEET_METRICS_PORT", "0")
            .envs(variables)
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
        Ok(Self::Apart { child, process, metrics: Client::new(&address) })
    }

    /// Starts one in this process.
    fn here(api: String, carrier: &Carrier) -> Self {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        let parts = Parts {
            name: "hyperfleet-sentinel".to_owned(),
            replica: replica_name(),
            api: Settings::of(api),
            work: Work::default(),
            broker: carrier.broker.clone(),
            metrics,
            health: Health::new(CHECKS),
            grace: PATIENCE,
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(hyperfleet_sentinel::run(parts, stop.clone()));
        Self::Here { task, stop, registry }
    }

    /// The sum of the series of a metric that begin like this; 0 before there is one.
    pub(super) async fn metric(&self, series: &str) -> Result<f64> {
        match self {
            Self::Apart { metrics, .. } => metric(metrics, series).await,
            Self::Here { registry, .. } => {
                let mut text = String::new();
                encode(&mut text, registry)?;
                Ok(sum(&text, series))
            }
        }
    }

    /// The CPU time that it has used so far, and the memory that it holds, in bytes.
    pub(super) fn takes(&self) -> Result<(Duration, u64)> {
        let Self::Apart { process, .. } = self else {
            bail!("a Sentinel in this process takes nothing alone")
        };
        Ok((processor::used(*process)?, memory::resident(*process)?))
    }

    /// Asks it to stop, and waits until it has given its leases back.
    pub(super) async fn stop(mut self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        match &mut self {
            Self::Apart { child, process, .. } => {
                let process = process.to_string();
                let asked =
                    Command::new("/bin/sh").args(["-c", "kill -TERM \"$1\"", "kill", &process]).status();
                ensure!(asked.await?.success(), "the Sentinel has ended");
                tokio::time::timeout_at(end.into(), child.wait())
                    .await
                    .context("the Sentinel does not end")??;
            }
            Self::Here { task, stop, .. } => {
                stop.cancel();
                tokio::time::timeout_at(end.into(), task).await.context("the Sentinel does not end")???;
            }
        }
        Ok(())
    }
}

/// The sum of the series of a metric that begin like this, as a listener tells them.
pub(super) async fn metric(listener: &Client, series: &str) -> Result<f64> {
    let answer = listener.get("/metrics").send().await?;
    ensure!(answer.status == 200, "metrics: {answer}");
    Ok(sum(&String::from_utf8_lossy(&answer.body), series))
}

fn sum(text: &str, series: &str) -> f64 {
    let values = text.lines().filter(|line| line.starts_with(series));
    values.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}
