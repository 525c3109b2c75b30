//! The load generator. It shares the machine with the server, so it uses half as many threads as the machine has cores.
//!
//! Closed loop: a connection sends its next request when the response has arrived. Open loop: requests are due at a
//! fixed rate, and one that had to wait for its connection is measured from when it was due.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hdrhistogram::Histogram;

use crate::connection::Connection;
use crate::process;
use crate::workload::{Requests, Servers};

/// How far past the end of its window a worker may still wait for a response.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How to load a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
    /// Requests per second over all connections; closed loop without it.
    pub(crate) rate: Option<f64>,
}

/// What one window of load showed.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Latencies in microseconds, of right answers alone.
    pub(crate) latency: Histogram<u64>,
    window: Duration,
    pub(crate) errors: u64,
    /// The first wrong answer.
    pub(crate) first_error: Option<String>,
    /// The memory of all watched processes at the end of the window, in bytes.
    pub(crate) memory: Option<u64>,
    pub(crate) cores: Option<Cores>,
}

/// Processor time in a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cores {
    /// The share of its threads' time that the load generator used. Near 1 it is the load generator that is measured.
    pub(crate) generator: f64,
    /// Cores of the machine that were busy.
    pub(crate) busy: f64,
}

/// A histogram of microseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 120_000_000, 3).expect("the bounds are valid")
}

/// A quantile of such a histogram in milliseconds.
pub(crate) fn milliseconds(latency: &Histogram<u64>, quantile: f64) -> f64 {
    latency.value_at_quantile(quantile) as f64 / 1e3
}

impl Outcome {
    pub(crate) fn new(window: Duration) -> Self {
        Self { latency: histogram(), window, errors: 0, first_error: None, memory: None, cores: None }
    }

    /// Right answers per second.
    pub(crate) fn rate(&self) -> f64 {
        self.latency.len() as f64 / self.window.as_secs_f64()
    }

    /// A quantile of the latency in milliseconds.
    pub(crate) fn quantile(&self, quantile: f64) -> f64 {
        milliseconds(&self.latency, quantile)
    }

    /// Counts one wrong answer, or one fault found after the window.
    pub(crate) fn fail(&mut self, what: String) {
        self.errors += 1;
        self.first_error.get_or_insert(what);
    }

    fn add(&mut self, other: Self) {
        self.latency += &other.latency;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }
}

impl Load {
    /// Loads the target and blocks until the window is over.
    pub(crate) fn run(&self, target: &Servers) -> Result<Outcome> {
        let threads =
            thread::available_parallelism().map_or(1, |cores| cores.get() / 2).clamp(1, self.connections);
        let start = Instant::now() + Duration::from_millis(20);
        let mut total = Outcome::new(self.window);
        thread::scope(|scope| {
            let watcher = scope.spawn(move || self.watch(target, threads, start));
            let shares: Vec<_> = (0..threads)
                .map(|share| {
                    scope.spawn(move || self.share(target, start, (share..self.connections).step_by(threads)))
                })
                .collect();
            for share in shares {
                let Ok(outcomes) = share.join() else { bail!("a thread of the load generator panicked") };
                outcomes?.into_iter().for_each(|outcome| total.add(outcome));
            }
            let Ok(watched) = watcher.join() else { bail!("the thread that watches processes panicked") };
            let (memory, cores) = watched?;
            (total.memory, total.cores) = (memory, Some(cores));
            Ok(())
        })?;
        Ok(total)
    }

    /// Runs the workers of one thread.
    fn share(
        &self,
        target: &Servers,
        start: Instant,
        workers: impl Iterator<Item = usize>,
    ) -> Result<Vec<Outcome>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let load = *self;
            let workers: Vec<_> = workers
                .map(|worker| {
                    let address = target.addresses[worker % target.addresses.len()];
                    let requests = target.workload.requests(worker, load.connections);
                    tokio::spawn(async move { load.work(address, requests, start, worker).await })
                })
                .collect();
            let mut outcomes = Vec::new();
            for worker in workers {
                outcomes.push(worker.await??);
            }
            Ok(outcomes)
        })
    }

    async fn work(
        self,
        address: SocketAddr,
        mut requests: Requests,
        start: Instant,
        worker: usize,
    ) -> Result<Outcome> {
        let mut outcome = Outcome::new(self.window);
        let measured = start + self.warm_up;
        let end = measured + self.window;
        let mut schedule = self.rate.map(|rate| Schedule::new(rate, self.connections, worker, start));
        let mut connection = Connection::open(address).await?;
        let deadline = tokio::time::Instant::from_std(end + TIMEOUT);
        loop {
            let sent = match &mut schedule {
                Some(schedule) => schedule.wait().await,
                None => Instant::now(),
            };
            if sent >= end {
                return Ok(outcome);
            }
            let response = tokio::time::timeout_at(deadline, connection.exchange(requests.next())).await;
            let now = Instant::now();
            match response {
                Ok(Ok(status)) if requests.is_right_answer(status, connection.body()) => {
                    if now >= measured && now < end {
                        let micros = u64::try_from((now - sent).as_micros()).unwrap_or(u64::MAX);
                        outcome.latency.saturating_record(micros);
                    }
                }
                Ok(Ok(_)) => outcome.fail(connection.text()),
                Ok(Err(fault)) => {
                    outcome.fail(format!("{fault:#}"));
                    connection = Connection::open(address).await?;
                }
                Err(_) => {
                    outcome.fail("no response".to_owned());
                    return Ok(outcome);
                }
            }
        }
    }

    /// Measures memory and processor time from the end of the warm-up to the end of the window; blocks its thread.
    fn watch(&self, target: &Servers, threads: usize, start: Instant) -> Result<(Option<u64>, Cores)> {
        let (begin, end) = (start + self.warm_up, start + self.warm_up + self.window);
        let generator = || process::cpu_time(std::process::id());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        runtime.block_on(async {
            tokio::time::sleep_until(begin.into()).await;
            let (machine, begun, used) = (process::Machine::now()?, Instant::now(), generator()?);
            tokio::time::sleep_until(end.into()).await;
            let available = begun.elapsed().as_secs_f64() * threads as f64;
            let generator = (generator()? - used).as_secs_f64() / available;
            let cores = Cores { generator, busy: machine.busy_cores()? };
            let mut memory = None;
            for &pid in &target.processes {
                memory = Some(memory.unwrap_or(0) + process::resident(pid)?);
            }
            Ok((memory, cores))
        })
    }
}

/// When the requests of one worker are due in the open loop.
struct Schedule {
    next: Instant,
    interval: Duration,
}

impl Schedule {
    fn new(rate: f64, connections: usize, worker: usize, start: Instant) -> Self {
        let interval = Duration::from_secs_f64(connections as f64 / rate);
        let offset = interval.mul_f64(worker as f64 / connections as f64);
        Self { next: start + offset, interval }
    }

    /// Waits until the next request is due and returns the time to measure from: of a late request when it was due,
    /// else the present, because the timer's coarseness is not the server's.
    async fn wait(&mut self) -> Instant {
        let due = self.next;
        self.next += self.interval;
        if due <= Instant::now() {
            return due;
        }
        tokio::time::sleep_until(due.into()).await;
        Instant::now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_late_request_is_measured_from_when_it_was_due() {
        let start = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        let mut schedule = Schedule::new(4.0, 2, 1, start);
        assert_eq!(schedule.wait().await, start + Duration::from_millis(250));
        assert_eq!(schedule.wait().await, start + Duration::from_millis(750));
    }
}
