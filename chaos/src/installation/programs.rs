//! Sentinels, adapters and `hyperfleet verify` in processes of their own.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use hyperfleet_testkit::{Nats, Process, without_settings};
use serde_json::Value;

pub(super) fn sentinel(binary: &Path, api: &str, nats: &Nats) -> Result<Process> {
    program(binary, &["sentinel", "serve"], api, nats)
}

pub(super) fn adapter(binary: &Path, name: &str, api: &str, nats: &Nats) -> Result<Process> {
    program(binary, &["adapter", "simulate", "--name", name, "--delay", "300ms"], api, nats)
}

/// What `hyperfleet verify` finds in a database, as JSON, one finding a line.
pub(super) fn verify(binary: &Path, kinds: &str, database: &str) -> Result<Vec<String>> {
    let config = tempfile::NamedTempFile::new()?;
    std::fs::write(&config, kinds)?;
    let mut command = Command::new(binary);
    without_settings(&mut command);
    command.args(["verify", "-o", "json", "--config"]).arg(config.path());
    let output = command.env("HYPERFLEET_DATABASE_URL", database).output()?;
    if !matches!(output.status.code(), Some(0 | 9)) {
        bail!("hyperfleet verify: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let result: Value = serde_json::from_slice(&output.stdout)?;
    let findings = result["findings"].as_array().context("no findings")?;
    Ok(findings.iter().map(Value::to_string).collect())
}

fn program(binary: &Path, arguments: &[&str], api: &str, nats: &Nats) -> Result<Process> {
    let process = Process::prepare("hf-chaos-", "", |_| {
        let mut command = Command::new(binary);
        without_settings(&mut command);
        command
            .args(arguments)
            .env("HYPERFLEET_CLIENTS_HYPERFLEET_API_BASE_URL", api)
            .env("HYPERFLEET_BROKER_TYPE", "nats")
            .env("HYPERFLEET_BROKER_NATS_URL", nats.url())
            .env("HYPERFLEET_BROKER_NATS_ACK_WAIT", "5s")
            .env("HYPERFLEET_LOG_LEVEL", "error");
        if arguments[0] == "sentinel" {
            command.env("HYPERFLEET_HEALTH_PORT", "0").env("HYPERFLEET_METRICS_PORT", "0");
        }
        Ok(command)
    })?;
    process.start(|| true)?;
    Ok(process)
}
