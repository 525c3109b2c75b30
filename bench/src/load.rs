//! The load generator: each connection is one worker that sends prepared bytes and reads just enough of the answer
//! to know its status and its end. It shares the machine with what it measures, so it must cost as little as it can:
//! no HTTP library, one growing buffer per connection, as many threads as half the cores.
//!
//! Closed loop: the next request leaves when the answer is there. Open loop: requests leave at a fixed rate, and one
//! that had to wait for its turn is measured from the moment it should have left.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::memory::{self, Held};
use crate::processor::{self, Cores, Mark};
use crate::workload::{Requests, Target};

/// How far past the end of its window a worker may still wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

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
    pub(crate) window: Duration,
    pub(crate) errors: u64,
    /// What the first wrong answer said.
    pub(crate) first_error: Option<String>,
    /// Memory of the target from the end of the warm-up to the end of the window, where it is watched.
    pub(crate) held: Option<Held>,
    /// What the window cost, once it is over.
    pub(crate) cores: Option<Cores>,
}

impl Outcome {
    fn new(window: Duration) -> Self {
        let latency = Histogram::new_with_bounds(1, 120_000_000, 3).expect("the bounds are valid");
        Self { latency, window, errors: 0, first_error: None, held: None, cores: None }
    }

    /// Right answers per second.
    pub(crate) fn rate(&self) -> f64 {
        self.latency.len() as f64 / self.window.as_secs_f64()
    }

    /// The p99 in milliseconds.
    pub(crate) fn tail(&self) -> f64 {
        self.latency.value_at_quantile(0.99) as f64 / 1e3
    }

    /// Counts one wrong answer, or one wrong thing found afterwards.
    pub(crate) fn fail(&mut self, what: String) {
        self.errors += 1;
        self.first_error.get_or_insert(what);
    }

    fn add(&mut self, other: Self) {
        self.latency.add(&other.latency).expect("all histograms have the same bounds");
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }
}

impl Load {
    /// Loads the target and blocks until the window is over.
    pub(crate) fn run(&self, target: &Target) -> Result<Outcome> {
        let threads =
            thread::available_parallelism().map_or(1, |cores| cores.get() / 2).clamp(1, self.connections);
        let start = Instant::now() + Duration::from_millis(20);
        let measured = start + self.warm_up;
        let mut total = Outcome::new(self.window);
        thread::scope(|scope| {
            let watch = scope.spawn(move || watch(target.process, threads, measured, measured + self.window));
            let shares: Vec<_> = (0..threads)
                .map(|share| {
                    scope.spawn(move || self.share(target, start, (share..self.connections).step_by(threads)))
                })
                .collect();
            for share in shares {
                let Ok(outcomes) = share.join() else { bail!("a thread of the load generator panicked") };
                outcomes?.into_iter().for_each(|outcome| total.add(outcome));
            }
            let Ok(watched) = watch.join() else { bail!("the thread that watches the processes panicked") };
            let (held, cores) = watched?;
            (total.held, total.cores) = (held, Some(cores));
            Ok(())
        })?;
        Ok(total)
    }

    /// Runs the workers of one thread.
    fn share(
        &self,
        target: &Target,
        start: Instant,
        workers: impl Iterator<Item = usize>,
    ) -> Result<Vec<Outcome>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let (load, address) = (*self, target.address);
            let workers: Vec<_> = workers
                .map(|worker| {
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
        let mut pace = self.rate.map(|rate| Pace::new(rate, self.connections, worker, start));
        let mut connection = Connection::open(address).await?;
        let deadline = tokio::time::Instant::from_std(end + PATIENCE);
        loop {
            let sent = match &mut pace {
                Some(pace) => pace.turn().await,
                None => Instant::now(),
            };
            if sent >= end {
                return Ok(outcome);
            }
            let answer = tokio::time::timeout_at(deadline, connection.exchange(requests.next())).await;
            let now = Instant::now();
            let counts = now >= measured && now < end;
            match answer {
                Ok(Ok(status)) if requests.is_answered_by(status, connection.body()) => {
                    if counts {
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
                    outcome.fail("no answer".to_owned());
                    return Ok(outcome);
                }
            }
        }
    }
}

/// Looks at this process, and at the one that is loaded, at both ends of the window; blocks its thread.
fn watch(
    process: Option<u32>,
    threads: usize,
    start: Instant,
    end: Instant,
) -> Result<(Option<Held>, Cores)> {
    let look = || {
        let target = process
            .map(|process| Ok::<_, anyhow::Error>((memory::resident(process)?, processor::used(process)?)));
        Ok::<_, anyhow::Error>((Instant::now(), processor::used_here()?, target.transpose()?))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        tokio::time::sleep_until(start.into()).await;
        let mark = Mark::now()?;
        let (begun, generator, target) = look()?;
        tokio::time::sleep_until(end.into()).await;
        let busy = mark.busy()?;
        let (ended, generator_then, target_then) = look()?;
        let cores = |used: Duration| used.as_secs_f64() / (ended - begun).as_secs_f64();
        let both = target.zip(target_then);
        let held = both.map(|((start, _), (end, _))| Held { start, end });
        let target = both.map(|((_, before), (_, after))| cores(after.saturating_sub(before)));
        let generator = cores(generator_then.saturating_sub(generator));
        Ok((held, Cores { generator, threads, target, busy }))
    })
}

/// The timetable of one worker in the open loop.
struct Pace {
    next: Instant,
    interval: Duration,
}

impl Pace {
    fn new(rate: f64, connections: usize, worker: usize, start: Instant) -> Self {
        let interval = Duration::from_secs_f64(connections as f64 / rate);
        let offset = interval.mul_f64(worker as f64 / connections as f64);
        Self { next: start + offset, interval }
    }

    /// Waits for the next turn and returns the time to measure from. A turn that was missed counts from when it was
    /// due; after a wait the present counts, since the timer's coarseness is not the server's.
    async fn turn(&mut self) -> Instant {
        let due = self.next;
        self.next += self.interval;
        if due <= Instant::now() {
            return due;
        }
        tokio::time::sleep_until(due.into()).await;
        Instant::now()
    }
}

/// One kept-alive connection with the answer it is reading.
pub(crate) struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
    /// Where in it the body begins.
    body: usize,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, answer: Vec::with_capacity(1 << 15), body: 0 })
    }

    /// Sends one request and reads its whole answer; gives the status.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<u16> {
        self.stream.write_all(request).await?;
        self.answer.clear();
        let mut head = None;
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                bail!("the server closed the connection");
            }
            if head.is_none() {
                head = Head::parse(&self.answer)?;
            }
            if let Some(head) = &head {
                let missing = (head.length + head.body).saturating_sub(self.answer.len());
                if missing == 0 {
                    self.body = head.length;
                    return Ok(head.status);
                }
                self.answer.reserve(missing);
            }
        }
    }

    /// The body of the last answer.
    pub(crate) fn body(&self) -> &[u8] {
        &self.answer[self.body..]
    }

    /// The last answer, for an error message.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.answer).into_owned()
    }
}

/// What the generator needs to know of an answer's head.
#[derive(Debug, PartialEq)]
struct Head {
    status: u16,
    length: usize,
    body: usize,
}

impl Head {
    /// Reads it once it is complete.
    fn parse(answer: &[u8]) -> Result<Option<Self>> {
        let Some(length) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(None);
        };
        let mut lines = answer[..length].split(|&byte| byte == b'\n');
        let first = lines.next().and_then(|line| std::str::from_utf8(line).ok());
        let status =
            first.and_then(|line| line.split(' ').nth(1)?.trim().parse().ok()).context("no status line")?;
        let body = match status {
            // It has no body and says nothing of its length.
            204 => 0,
            _ => lines.find_map(content_length).context("an answer without Content-Length")?,
        };
        Ok(Some(Self { status, length: length + 4, body }))
    }
}

fn content_length(line: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    let (name, value) = line.split_at_checked(NAME.len())?;
    name.eq_ignore_ascii_case(NAME).then(|| std::str::from_utf8(value).ok()?.trim().parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        let answer = b"HTTP/1.1 201 Created\r\nContent-Type: x\r\nContent-Length: 12\r\n\r\n{";
        assert_eq!(Head::parse(&answer[..30]).unwrap(), None);
        let head = Head::parse(answer).unwrap().unwrap();
        assert_eq!(head, Head { status: 201, length: answer.len() - 1, body: 12 });
    }

    #[test]
    fn an_answer_of_unknown_length_is_refused() {
        assert!(Head::parse(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }

    #[test]
    fn an_answer_without_content_ends_with_its_head() {
        let answer = b"HTTP/1.1 204 No Content\r\ndate: x\r\n\r\n";
        let head = Head::parse(answer).unwrap().unwrap();
        assert_eq!(head, Head { status: 204, length: answer.len(), body: 0 });
    }

    #[tokio::test]
    async fn a_missed_turn_counts_from_when_it_was_due() {
        let start = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        let mut pace = Pace::new(4.0, 2, 1, start);
        assert_eq!(pace.turn().await, start + Duration::from_millis(250));
        assert_eq!(pace.turn().await, start + Duration::from_millis(750));
    }
}
