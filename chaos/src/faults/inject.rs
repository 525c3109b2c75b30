//! Makes a fault happen, and ends it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::time::sleep;

use super::{Fault, Kind};
use crate::installation::replica::Replica;
use crate::installation::{Installation, faketime};

/// A replica that is not ready after this time does not come back.
const RECOVERY: Duration = Duration::from_secs(60);
const PACE: Duration = Duration::from_millis(20);

/// Faults of one installation.
#[derive(Debug)]
pub(crate) struct Injector {
    faketime: Option<PathBuf>,
}

/// What a fault took by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timing {
    /// How long PostgreSQL was away.
    pub(crate) restart: Option<Duration>,
    /// When a replica without its database said that it is not ready, at the latest at the end of the fault.
    pub(crate) unready: Option<Duration>,
}

impl Injector {
    /// Looks for what the kinds need on this machine.
    pub(crate) fn new(kinds: &[Kind]) -> Result<Self> {
        let faketime = kinds.contains(&Kind::Clock).then(faketime).transpose()?;
        Ok(Self { faketime })
    }

    /// Carries out one fault from its beginning to its end, and waits until every replica is ready again.
    pub(crate) async fn inject(&self, parts: &mut Installation, fault: &Fault) -> Result<Timing> {
        let timing = self.carry_out(parts, fault).await.with_context(|| fault.to_string())?;
        let begun = Instant::now();
        for (number, replica) in parts.replicas.iter().enumerate() {
            while !replica.is_ready().await {
                if begun.elapsed() > RECOVERY {
                    bail!("after {fault}: replica {number} is not ready within {RECOVERY:?}");
                }
                sleep(PACE).await;
            }
        }
        Ok(timing)
    }

    async fn carry_out(&self, parts: &mut Installation, fault: &Fault) -> Result<Timing> {
        let hold = sleep(fault.hold);
        let count = parts.replicas.len();
        let replica = &mut parts.replicas[fault.which % count];
        let mut timing = Timing::default();
        match fault.kind {
            Kind::Kill => {
                replica.kill();
                hold.await;
                replica.start_again().await?;
            }
            Kind::Freeze => {
                replica.freeze(true)?;
                hold.await;
                replica.freeze(false)?;
            }
            Kind::PartitionDatabase => {
                replica.database.forward(false);
                let begun = Instant::now();
                let unready = async {
                    while replica.is_ready().await {
                        sleep(PACE).await;
                    }
                };
                // The rest of the hold is waited for in any case.
                let _ = tokio::time::timeout(fault.hold, unready).await;
                timing.unready = Some(begun.elapsed());
                hold.await;
                if fault.cuts {
                    replica.database.cut();
                }
                replica.database.forward(true);
            }
            Kind::PartitionClients => {
                replica.api.forward(false);
                hold.await;
                if fault.cuts {
                    replica.api.cut();
                }
                replica.api.forward(true);
            }
            Kind::Listen => parts.cut_listeners().await?,
            Kind::PostgresFast | Kind::PostgresImmediate => {
                let begun = Instant::now();
                match fault.kind {
                    Kind::PostgresFast => parts.postgres.stop_fast().await?,
                    _ => parts.postgres.stop_immediate().await?,
                }
                parts.postgres.start().await?;
                timing.restart = Some(begun.elapsed());
            }
            Kind::Broker => {
                parts.nats.kill();
                hold.await;
                parts.nats.start_again().await?;
            }
            Kind::Sentinel | Kind::Adapter => {
                let programs = if fault.kind == Kind::Sentinel { &parts.sentinels } else { &parts.adapters };
                let program = &programs[fault.which % programs.len()];
                program.kill();
                hold.await;
                program.start(|| true)?;
            }
            Kind::Clock => self.shift_clock(replica, fault).await?,
            Kind::Restore => parts.restore().await?,
            Kind::DiskFull => {
                let disk = parts.disk.as_ref().context("there is no small disk")?;
                disk.fill()?;
                hold.await;
                disk.free()?;
            }
        }
        Ok(timing)
    }

    /// A replica comes back with a wrong clock, and later with the right one.
    async fn shift_clock(&self, replica: &mut Replica, fault: &Fault) -> Result<()> {
        let library = self.faketime.as_deref().context("libfaketime was not looked for")?;
        for clock in [Some((fault.offset, library)), None] {
            replica.kill();
            replica.set_clock(clock);
            replica.start_again().await?;
            if clock.is_some() {
                sleep(fault.hold).await;
            }
        }
        Ok(())
    }
}
