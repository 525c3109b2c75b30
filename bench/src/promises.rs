//! What the server promises, each promise with the figures of a run that tell whether it is kept. The names of figures
//! are those that [`crate::found::Found::measured`] gives.

use crate::spread::Measured;

/// On which side of a number a figure shall be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Is {
    AtLeast(f64),
    AtMost(f64),
}

impl Is {
    pub(crate) fn met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }
}

/// Which figures tell of a promise.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    /// The one with this name.
    One(&'static str),
    /// All whose names are such; the worst decides.
    Every(fn(&str) -> bool),
    /// Of those that are this and a number of clusters, the one with most; with fewer than so many it says nothing of
    /// whether the promise is kept.
    Largest(&'static str, u64),
}

/// One promise.
#[derive(Debug)]
pub(crate) struct Promise {
    pub(crate) what: &'static str,
    pub(crate) of: Of,
    pub(crate) is: Is,
    pub(crate) unit: &'static str,
    /// Arguments of `hyperfleet-bench` that measure it.
    pub(crate) command: &'static str,
}

impl Promise {
    /// The figures that tell of it.
    pub(crate) fn found<'a>(&self, figures: &'a [Measured]) -> Vec<&'a Measured> {
        match self.of {
            Of::One(name) => figures.iter().filter(|figure| figure.name == name).collect(),
            Of::Every(fits) => figures.iter().filter(|figure| fits(&figure.name)).collect(),
            Of::Largest(name, _) => {
                let sized = figures.iter().filter_map(|figure| Some((size(name, figure)?, figure)));
                sized.max_by_key(|(size, _)| *size).map(|(_, figure)| figure).into_iter().collect()
            }
        }
    }

    /// The median that decides.
    pub(crate) fn worst(&self, found: &[&Measured]) -> Option<f64> {
        let medians = found.iter().map(|figure| figure.spread().median);
        match self.is {
            Is::AtLeast(_) => medians.min_by(f64::total_cmp),
            Is::AtMost(_) => medians.max_by(f64::total_cmp),
        }
    }

    /// How large the fleet was, where that is part of the name of a figure, and whether that was enough.
    pub(crate) fn size(&self, found: &[&Measured]) -> Option<(u64, bool)> {
        let Of::Largest(name, least) = self.of else { return None };
        found.first().and_then(|figure| size(name, figure)).map(|size| (size, size >= least))
    }
}

fn size(name: &str, figure: &Measured) -> Option<u64> {
    figure.name.strip_prefix(name)?.trim().parse().ok()
}

const fn promise(what: &'static str, of: Of, is: Is, unit: &'static str, command: &'static str) -> Promise {
    Promise { what, of, is, unit, command }
}

/// All of them, in the order in which they are told.
pub(crate) const PROMISES: &[Promise] = &[
    promise(
        "report that only moves times, 256 connections, PostgreSQL, to pgbench at its best",
        Of::One("postgresql report time only @256 / pgbench update"),
        Is::AtLeast(1.5),
        "",
        "--only report",
    ),
    promise(
        "report that changes something, 256 connections, PostgreSQL, to pgbench at its best",
        Of::One("postgresql report changing @256 / pgbench update"),
        Is::AtLeast(0.9),
        "",
        "--only report",
    ),
    promise(
        "get by id, 32 connections, PostgreSQL, to the bare handler",
        Of::One("postgresql get @32 / bare get"),
        Is::AtLeast(0.6),
        "",
        "--only get",
    ),
    promise(
        "page of 20, 32 connections, PostgreSQL, to the bare handler with a body of that size",
        Of::One("postgresql page of 20 @32 / bare list"),
        Is::AtLeast(0.5),
        "",
        "--only \"page of 20\"",
    ),
    promise(
        "the same, each of 32 another page",
        Of::One("postgresql any page of 20 @32 / bare list"),
        Is::AtLeast(0.5),
        "",
        "--only \"page of 20\"",
    ),
    promise(
        "patch, 32 connections, PostgreSQL, to pgbench with as many",
        Of::One("postgresql patch @32 / pgbench update"),
        Is::AtLeast(0.6),
        "",
        "--only patch",
    ),
    promise(
        "create, 32 connections, PostgreSQL, to pgbench with as many",
        Of::One("postgresql create @32 / pgbench update"),
        Is::AtLeast(0.6),
        "",
        "--only create",
    ),
    promise(
        "get, 32 connections, SQLite to PostgreSQL",
        Of::One("sqlite / postgresql: get @32"),
        Is::AtLeast(1.0),
        "",
        "--only get",
    ),
    promise(
        "page of 20, 32 connections, SQLite to PostgreSQL",
        Of::One("sqlite / postgresql: page of 20 @32"),
        Is::AtLeast(1.0),
        "",
        "--only \"page of 20\"",
    ),
    promise(
        "any page of 20, 32 connections, SQLite to PostgreSQL",
        Of::One("sqlite / postgresql: any page of 20 @32"),
        Is::AtLeast(1.0),
        "",
        "--only \"page of 20\"",
    ),
    promise(
        "reports, 256 connections, SQLite to PostgreSQL",
        Of::Every(|name| name.starts_with("sqlite / postgresql: report") && name.ends_with("@256")),
        Is::AtLeast(0.5),
        "",
        "--only report",
    ),
    promise(
        "steady fleet, four adapters with a report each in 30 minutes, p99 ≤ 100 ms",
        Of::Largest("postgresql fleet: largest, played on ", 100_000),
        Is::AtLeast(5_000_000.0),
        "clusters",
        "fleet --clusters 100000",
    ),
    promise(
        "memory of the server, for up to 1,000,000 clusters",
        Of::Largest("postgresql memory with ", 1_000_000),
        Is::AtMost(150.0),
        "MiB",
        "growth --million",
    ),
    promise(
        "database for a cluster with four reports, after VACUUM",
        Of::Largest("postgresql stored per cluster of ", 100_000),
        Is::AtMost(4_096.0),
        "bytes",
        "growth --million",
    ),
    promise(
        "the same before VACUUM, as the reports left it",
        Of::Largest("postgresql stored before VACUUM per cluster of ", 100_000),
        Is::AtMost(4_096.0),
        "bytes",
        "growth --million",
    ),
    promise(
        "100,000 against 10,000 clusters, questions of every day, both stores",
        Of::Every(|name| name.ends_with(", 100000 / 10000 clusters")),
        Is::AtMost(2.0),
        "",
        "--only list",
    ),
    promise(
        "page 1,000 against page 1, both stores",
        Of::Every(|name| name.ends_with(": page 1000 / page 1")),
        Is::AtMost(1.2),
        "",
        "--only list",
    ),
    promise(
        "\"nothing due\" against a get, both stores",
        Of::Every(|name| name.ends_with(": list nothing due / get by id")),
        Is::AtMost(2.0),
        "",
        "--only list",
    ),
    promise(
        "scan of 100,000 clusters, SQLite",
        Of::One("sqlite scan of 100000"),
        Is::AtLeast(100_000.0),
        "a second",
        "--only list",
    ),
    promise(
        "scan of 100,000 clusters, PostgreSQL",
        Of::One("postgresql scan of 100000"),
        Is::AtLeast(50_000.0),
        "a second",
        "--only list",
    ),
    promise(
        "rate that tokens, tenants, roles and rate limits leave, get and report, both stores",
        Of::Every(|name| name.contains(" access to ") && name.ends_with("@32")),
        Is::AtLeast(0.85),
        "",
        "--only access",
    ),
    promise(
        "p99 of well-behaved callers beside a flood, to that without, both stores",
        Of::Every(|name| name.ends_with(" neighbours p99, beside / alone")),
        Is::AtMost(1.5),
        "",
        "--only access",
    ),
    promise(
        "p99 from a change to 1 and to 100 watchers, 1,000 changes a second, both stores",
        Of::Every(|name| name.ends_with(" watch by 1 p99") || name.ends_with(" watch by 100 p99")),
        Is::AtMost(50.0),
        "ms",
        "--only watch",
    ),
    promise(
        "the same to 1,000 watchers",
        Of::Every(|name| name.ends_with(" watch by 1000 p99")),
        Is::AtMost(50.0),
        "ms",
        "--only watch",
    ),
    promise(
        "memory for an idle watcher, both stores",
        Of::Every(|name| name.ends_with(" idle watcher")),
        Is::AtMost(32.0),
        "KiB",
        "--only watch",
    ),
    promise(
        "p99 from a change to its event over NATS, 100 changes a second",
        Of::One("event over nats p99"),
        Is::AtMost(100.0),
        "ms",
        "--only events",
    ),
    promise("events to NATS", Of::One("events over nats"), Is::AtLeast(5_000.0), "a second", "--only events"),
    promise(
        "an idle Sentinel with 100,000 reconciled clusters, CPU",
        Of::Largest("Sentinel idle CPU with ", 100_000),
        Is::AtMost(1.0),
        "% of a core",
        "--only events",
    ),
    promise(
        "the same, requests to the API",
        Of::Largest("Sentinel idle requests with ", 100_000),
        Is::AtMost(1.0),
        "a second",
        "--only events",
    ),
    promise(
        "memory of an idle server, both stores",
        Of::Every(|name| name.ends_with(": idle memory after start")),
        Is::AtMost(30.0),
        "MiB",
        "--only get",
    ),
    promise(
        "start to ready on an existing database, both stores",
        Of::Every(|name| name.ends_with(": start to ready, existing database")),
        Is::AtMost(300.0),
        "ms",
        "--only get",
    ),
    promise("size of the program", Of::One("server binary"), Is::AtMost(40.0), "MB", "--only get"),
];
