//! The machine and the programs of a run, read from the kernel and from the programs. What cannot be read is left out.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};

/// Describes this machine, the server's program and PostgreSQL's.
pub(crate) fn describe(server: &Path, postgres: &Path) -> Map<String, Value> {
    let facts = [
        ("time", Some(json!(hyperfleet_core::Timestamp::now().to_string()))),
        ("cpu", line("/proc/cpuinfo", "model name").map(Value::from)),
        ("cores", std::thread::available_parallelism().ok().map(|cores| json!(cores.get()))),
        ("memory", line("/proc/meminfo", "MemTotal").map(Value::from)),
        ("kernel", fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| json!(text.trim()))),
        ("load_average", fs::read_to_string("/proc/loadavg").ok().map(|text| json!(text.trim()))),
        ("postgresql", output(postgres, "--version").map(Value::from)),
        ("server", version(server).map(Value::from)),
        ("profile", Some(json!(if cfg!(debug_assertions) { "debug" } else { "release" }))),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The version and the commit of a server's program.
pub(crate) fn version(server: &Path) -> Option<String> {
    output(server, "version")
}

/// The value of the first line `name : value`.
fn line(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines()
        .find_map(|line| Some(line.strip_prefix(name)?.trim_start().strip_prefix(':')?.trim().to_owned()))
}

/// The first line that a program prints.
fn output(program: &Path, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}
