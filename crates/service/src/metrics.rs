//! The metrics endpoint: a registry as OpenMetrics text, with the operating system's figures for this process. The
//! registry belongs to the caller; there is no global one.

use std::fmt;
use std::fs;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyperfleet_core::Error;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::fallbacks;
use crate::http_error::HttpError;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The unit of time in `/proc`, part of Linux's stable interface whatever the kernel's own tick is.
const TICKS_PER_SECOND: f64 = 100.0;

/// `GET /metrics`.
pub fn router(registry: Arc<Registry>) -> Router {
    fallbacks::add_to(
        Router::new().route("/metrics", get(metrics)).route("/metrics/", get(metrics)).with_state(registry),
    )
}

async fn metrics(State(registry): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => ([(CONTENT_TYPE, OPENMETRICS), (CACHE_CONTROL, "no-store")], text).into_response(),
        Err(error) => HttpError::from(Error::internal(error)).into_response(),
    }
}

/// Adds memory, file descriptors, processor time and start time of this process under Prometheus' usual
/// names.
pub fn register_process(registry: &mut Registry) {
    registry.register_collector(Box::new(Process));
}

/// Reads `/proc` at every scrape. What a system does not offer is left out rather than reported as zero.
#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (bytes, seconds) = (Some(&Unit::Bytes), Some(&Unit::Seconds));
        if let Some(resident) = resident_bytes() {
            let metric = ConstGauge::new(resident);
            encode(&mut encoder, "process_resident_memory", "Memory held in RAM.", bytes, &metric)?;
        }
        if let Some(open) = open_fds() {
            let metric = ConstGauge::new(open);
            encode(&mut encoder, "process_open_fds", "Open file descriptors.", None, &metric)?;
        }
        if let Some(times) = Times::read() {
            let metric = ConstCounter::new(times.processor);
            encode(&mut encoder, "process_cpu", "User and system processor time.", seconds, &metric)?;
            let metric = ConstGauge::new(times.started);
            encode(&mut encoder, "process_start_time", "Start time since the Unix epoch.", seconds, &metric)?;
        }
        Ok(())
    }
}

fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, unit, metric.metric_type())?)
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = kilobytes.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

fn open_fds() -> Option<u64> {
    // One of them is the directory being read.
    let open = fs::read_dir("/proc/self/fd").ok()?.count();
    Some(open.saturating_sub(1) as u64)
}

struct Times {
    processor: f64,
    started: f64,
}

impl Times {
    fn read() -> Option<Self> {
        let system = fs::read_to_string("/proc/stat").ok()?;
        let booted: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.parse().ok()?;
        let process = fs::read_to_string("/proc/self/stat").ok()?;
        // The second field is the command in parentheses, which may itself hold spaces and parentheses.
        // The third field (the state) comes first here.
        let (_, fields) = process.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let seconds = |field: usize| Some(fields.get(field - 3)?.parse::<f64>().ok()? / TICKS_PER_SECOND);
        Some(Self { processor: seconds(14)? + seconds(15)?, started: booted + seconds(22)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_reports_itself_under_the_usual_names() {
        let mut registry = Registry::default();
        register_process(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();

        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name} is missing in:\n{text}")).parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1_000_000.0);
        assert!(value("process_open_fds") >= 3.0);
        assert!(value("process_cpu_seconds_total") >= 0.0);
        let now = hyperfleet_core::Timestamp::now().micros() as f64 / 1e6;
        let started = value("process_start_time_seconds");
        assert!(started > 1.6e9 && started < now + 60.0, "{started} is no start time before {now}");
        assert!(text.ends_with("# EOF\n"));
    }
}
