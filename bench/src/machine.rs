//! What a run was made on: a figure without it means nothing to anybody else. Read from the kernel and from the
//! programs themselves; what cannot be found out is left out.

use std::fmt::{self, Display};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};

/// Names with values, in the order in which they are told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine(Map<String, Value>);

/// What may differ from run to run on the same machine.
const PASSING: [&str; 2] = ["time", "load_average"];

impl Machine {
    /// Looks at this machine, at the server's program and at PostgreSQL's.
    pub(crate) fn look(server: &Path, postgres: &Path) -> Self {
        let mut facts = Map::new();
        let mut keep = |name: &str, value: Option<Value>| {
            facts.extend(value.map(|value| (name.to_owned(), value)));
        };
        keep("time", Some(json!(hyperfleet_core::Timestamp::now().to_string())));
        keep("cpu", after("/proc/cpuinfo", "model name").map(Value::from));
        keep("cores", std::thread::available_parallelism().ok().map(|cores| json!(cores.get())));
        keep("memory_mib", after("/proc/meminfo", "MemTotal").and_then(|text| mebibytes(&text)));
        keep("kernel", file("/proc/sys/kernel/osrelease").map(Value::from));
        keep("load_average", file("/proc/loadavg").and_then(|text| first_number(&text)));
        keep("postgresql", told_by(postgres, "--version").map(Value::from));
        keep("server", build(server).map(Value::from));
        keep("profile", Some(json!(if cfg!(debug_assertions) { "debug" } else { "release" })));
        Self(facts)
    }

    /// What an earlier run told.
    #[cfg(test)]
    pub(crate) fn parse(json: &Value) -> Self {
        Self(json.as_object().cloned().unwrap_or_default())
    }

    pub(crate) fn json(&self) -> Value {
        Value::Object(self.0.clone())
    }

    /// What was otherwise when an earlier run told this.
    pub(crate) fn differences(&self, earlier: &Value) -> Vec<String> {
        let lasting = self.0.iter().filter(|(name, _)| !PASSING.contains(&name.as_str()));
        lasting
            .filter(|(name, now)| earlier[name.as_str()] != **now)
            .map(|(name, now)| format!("{name}: {} then, {} now", plain(&earlier[name.as_str()]), plain(now)))
            .collect()
    }
}

impl Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.0 {
            writeln!(out, "{:<13} {}", name.replace('_', " "), plain(value))?;
        }
        Ok(())
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn file(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The value of the first line `name : value`.
fn after(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines()
        .find_map(|line| Some(line.strip_prefix(name)?.trim_start().strip_prefix(':')?.trim().to_owned()))
}

fn mebibytes(text: &str) -> Option<Value> {
    Some(json!(text.strip_suffix(" kB")?.parse::<u64>().ok()? / 1024))
}

fn first_number(text: &str) -> Option<Value> {
    Some(json!(text.split(' ').next()?.parse::<f64>().ok()?))
}

/// What a program of the server was built from, and when.
pub(crate) fn build(server: &Path) -> Option<String> {
    told_by(server, "version")
}

fn told_by(program: &Path, question: &str) -> Option<String> {
    let output = Command::new(program).arg(question).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_tells_of_itself_and_does_not_differ_from_itself() {
        let nowhere = Path::new("/nowhere");
        let machine = Machine::look(nowhere, nowhere);
        let json = machine.json();
        assert!(json["cores"].as_u64() > Some(0) && json["memory_mib"].as_u64() > Some(0), "{json}");
        assert!(json.get("server").is_none(), "{json}");
        assert!(machine.differences(&json).is_empty());
        assert!(machine.to_string().contains("\ncores "), "{machine}");
    }
}
