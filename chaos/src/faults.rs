//! The faults: what there is, when each happens, and how it is made to happen.

mod inject;
mod schedule;

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;

pub(crate) use inject::Injector;
pub(crate) use schedule::{Planned, Schedule};

/// A kind of fault, by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Kind {
    /// A replica ends by kill -9 and is started again
    Kill,
    /// A replica is stopped for seconds (SIGSTOP) and goes on
    Freeze,
    /// Nothing passes between a replica and PostgreSQL for seconds
    PartitionDatabase,
    /// Nothing passes between a replica and its clients for seconds
    PartitionClients,
    /// The connections that listen for notifications are ended
    Listen,
    /// PostgreSQL is restarted in good order
    PostgresFast,
    /// PostgreSQL ends as by a crash and is started again
    PostgresImmediate,
    /// NATS ends by kill -9 and is started again
    Broker,
    /// A Sentinel ends by kill -9 and is started again
    Sentinel,
    /// An adapter ends by kill -9 and is started again
    Adapter,
    /// The clock of a replica is wrong for seconds, by minutes or by weeks
    Clock,
    /// The disk of PostgreSQL is full for seconds; needs root
    DiskFull,
    /// A backup replaces the database, and what was written after it is gone
    Restore,
}

impl Kind {
    /// How long writes may stand still, beside the time that PostgreSQL itself is away.
    pub(crate) fn limit(self) -> Option<Duration> {
        match self {
            Self::Kill | Self::Listen | Self::Broker => Some(Duration::from_millis(500)),
            Self::Freeze | Self::PartitionDatabase | Self::PartitionClients => Some(Duration::from_secs(2)),
            Self::PostgresFast | Self::PostgresImmediate => Some(Duration::from_secs(1)),
            Self::Sentinel | Self::Adapter | Self::Clock | Self::DiskFull | Self::Restore => None,
        }
    }

    /// The name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// One fault with everything that is drawn for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// Which replica, Sentinel or adapter, counted around.
    pub(crate) which: usize,
    /// How long it lasts.
    pub(crate) hold: Duration,
    /// For [`Kind::Clock`]: how many seconds ahead the clock is.
    pub(crate) offset: i64,
    /// For partitions: whether connections are gone afterwards.
    pub(crate) cuts: bool,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, which, hold) = (self.kind.name(), self.which, self.hold.as_secs_f64());
        match self.kind {
            Kind::Kill | Kind::Sentinel | Kind::Adapter => {
                write!(out, "{name} {which}, back after {hold:.1} s")
            }
            Kind::Freeze => write!(out, "{name} {which} for {hold:.1} s"),
            Kind::PartitionDatabase | Kind::PartitionClients => {
                let end = if self.cuts { ", connections lost" } else { "" };
                write!(out, "{name} {which} for {hold:.1} s{end}")
            }
            Kind::Clock => write!(out, "{name} {which} by {:+} s for {hold:.1} s", self.offset),
            Kind::DiskFull => write!(out, "{name} for {hold:.1} s"),
            Kind::Broker => write!(out, "{name}, back after {hold:.1} s"),
            Kind::Restore => write!(out, "{name} of a backup from {hold:.1} s before"),
            Kind::Listen | Kind::PostgresFast | Kind::PostgresImmediate => write!(out, "{name}"),
        }
    }
}
