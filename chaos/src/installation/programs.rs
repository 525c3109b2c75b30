//! Sentinels and adapters in processes of their own.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use hyperfleet_testkit::{Nats, Process, without_settings};

pub(super) fn sentinel(binary: &Path, api: &str, nats: &Nats) -> Result<Process> {
    program(binary, &["sentinel", "serve"], api, nats)
}

pub(super) fn adapter(binary: &Path, name: &str, api: &str, nats: &Nats) -> Result<Process> {
    program(binary, &["adapter", "simulate", "--name", name, "--delay", "300ms"], api, nats)
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
