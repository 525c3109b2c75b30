//! Log lines of every HyperFleet process: JSON for machines or text for people, with the same
//! field names everywhere and secrets masked before a byte leaves the process. The formatting is
//! our own, so that the names are exactly those of the contract and a key never occurs twice.
//!
//! A field named `json.<name>` holds JSON text and is printed as nested JSON under `<name>`:
//! `info!(json.request_context = %context, "refused")`. Text that is no JSON stays a string.

mod background_writer;
mod layer;
mod line;
mod masking;

use std::io::{IsTerminal, Write};
use std::str::FromStr;
use std::sync::OnceLock;

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::SetGlobalDefaultError;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;

use background_writer::BackgroundWriter;
use layer::Lines;
pub(crate) use masking::MASK;
pub(crate) use masking::url_secrets;
pub use masking::{Masking, Secrets, without_url_secrets};

use crate::settings::Settings;

static WRITER: OnceLock<BackgroundWriter> = OnceLock::new();

/// Why logging cannot start.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// Logging was started before.
    #[error("logging was started before")]
    Twice(#[from] SetGlobalDefaultError),
    /// There is no thread for it.
    #[error("cannot start the thread that writes the log: {0}")]
    Thread(std::io::Error),
}

/// Prefix of the name of each HyperFleet crate.
const OURS: &str = "hyperfleet";

/// How a process logs.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// Level of HyperFleet's crates.
    pub level: Level,
    /// How a line looks.
    pub format: Format,
    /// Where lines go.
    pub output: Output,
    /// Which names are masked.
    pub masking: Masking,
    /// Name of the role that logs, such as `api`.
    pub component: String,
    /// Version of the binary.
    pub version: String,
    /// Name of the machine.
    pub hostname: String,
}

impl LogConfig {
    /// By the keys below `log` of a role's table, which must allow only words that parse.
    pub fn below_log(settings: &Settings, component: &str, version: &str) -> Self {
        const REASON: &str = "the table allows only words that parse";
        Self {
            level: settings.text("log.level").parse().expect(REASON),
            format: settings.text("log.format").parse().expect(REASON),
            output: settings.text("log.output").parse().expect(REASON),
            masking: Masking::usual(settings.secrets()),
            component: component.to_owned(),
            version: version.to_owned(),
            hostname: machine_name(),
        }
    }
}

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// Short lines for people, with colours in a terminal.
    Text,
}

impl FromStr for Format {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        match word {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            _ => Err(UnknownWord),
        }
    }
}

/// Where lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl FromStr for Output {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        match word {
            "stdout" => Ok(Self::Stdout),
            "stderr" => Ok(Self::Stderr),
            _ => Err(UnknownWord),
        }
    }
}

/// A word that names no format or output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown word")]
pub struct UnknownWord;

/// Starts logging for the whole process. Fails when it was started before.
pub fn init(config: LogConfig) -> Result<(), InitError> {
    let (output, terminal): (Box<dyn Write + Send>, bool) = match config.output {
        Output::Stdout => (Box::new(std::io::stdout()), std::io::stdout().is_terminal()),
        Output::Stderr => (Box::new(std::io::stderr()), std::io::stderr().is_terminal()),
    };
    let notice = dropped_notice(config.format);
    let writer = BackgroundWriter::start(output, notice).map_err(InitError::Thread)?;
    let _ = WRITER.set(writer.clone());
    let write: layer::Sink = Box::new(move |line| writer.push(line));
    let plain = crate::settings::environment().get("NO_COLOR").is_some_and(|v| !v.is_empty());
    let levels = levels(config.level);
    let lines = Lines::new(config, terminal && !plain, write);
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines).with(levels))?;
    Ok(())
}

/// Writes out what has gathered. To be called before the process ends.
pub fn flush() {
    if let Some(writer) = WRITER.get() {
        writer.flush();
    }
}

/// Says that lines were dropped, as a line of the log.
fn dropped_notice(format: Format) -> impl Fn(u64) -> String + Send + 'static {
    move |dropped| match format {
        Format::Json => format!(
            "{{\"timestamp\":\"{}\",\"level\":\"warn\",\"message\":\"log lines dropped: the reader is too slow\",\"dropped\":{dropped}}}\n",
            hyperfleet_core::Timestamp::now()
        ),
        Format::Text => format!("WARN  {dropped} log lines dropped: the reader is too slow\n"),
    }
}

/// Libraries log one level less than HyperFleet's crates, except for debugging.
fn levels(level: Level) -> Targets {
    let others = if level > Level::INFO { level } else { level.min(Level::WARN) };
    Targets::new()
        .with_default(LevelFilter::from_level(others))
        .with_target(OURS, LevelFilter::from_level(level))
        // It logs every request that fails as an error, and who sent it decides what that means.
        .with_target(
            "kube_client",
            if level > Level::INFO { LevelFilter::from_level(level) } else { LevelFilter::OFF },
        )
}

/// The name of this machine, the default of the configured host name.
pub fn machine_name() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    kernel
        .or_else(|| crate::settings::environment().remove("HOSTNAME"))
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}

#[cfg(test)]
mod tests;
