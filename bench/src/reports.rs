//! The reports that are measured: four adapters on many clusters, as bytes ready to send.
//!
//! A report must always be newer than the one before it of the same adapter on the same cluster, or the server
//! rightly drops it. So each of these pairs belongs to one worker while a load runs, and all times come from one
//! clock. What was sent last is kept, to repeat it and to check afterwards that it is there. Nothing is rendered
//! while measuring: the texts that change have a fixed width and are written over the last ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};

use crate::random::Random;
use crate::workload::CLUSTERS;

/// The adapters that every cluster needs.
pub(crate) const ADAPTERS: [&str; 4] = ["validator", "dns", "network", "provisioner"];

/// What a report moves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Moves {
    /// A message and a value in `data`, and the time.
    Content,
    /// Nothing but the time.
    Time,
}

impl Moves {
    pub(crate) const ALL: [Self; 2] = [Self::Content, Self::Time];
}

/// One adapter on one cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) cluster: usize,
    pub(crate) adapter: usize,
}

/// All pairs with what was last sent for each.
#[derive(Debug)]
pub(crate) struct Reports {
    ids: Vec<String>,
    sent: Vec<Sent>,
    /// The pairs in the order in which they are dealt out to workers.
    dealt: Vec<Pair>,
    clock: Clock,
    runs: AtomicU64,
}

/// The last report of a pair; 0 before there was one.
#[derive(Debug, Default)]
struct Sent {
    micros: AtomicU64,
    run: AtomicU64,
}

/// Runs are counted from here, so that all have ten digits.
const FIRST_RUN: u64 = 1_000_000_000;

impl Reports {
    /// Reports on clusters with these ids, observed from `start` on, a time as the server prints it.
    pub(crate) fn new(ids: Vec<String>, start: &str) -> Result<Self> {
        ensure!(ids.iter().all(|id| id.len() == ID.len()), "an id of another form than {ID}");
        let adapters = 0..ADAPTERS.len();
        let mut dealt: Vec<Pair> = (0..ids.len())
            .flat_map(|cluster| adapters.clone().map(move |adapter| Pair { cluster, adapter }))
            .collect();
        Random::seeded(0).shuffle(&mut dealt);
        let sent = dealt.iter().map(|_| Sent::default()).collect();
        Ok(Self { ids, sent, dealt, clock: Clock::starting(start)?, runs: AtomicU64::new(FIRST_RUN) })
    }

    pub(crate) fn ids(&self) -> &[String] {
        &self.ids
    }

    /// How many workers can have a pair of their own.
    pub(crate) fn pairs(&self) -> usize {
        self.dealt.len()
    }

    /// One of `workers` that share the pairs.
    pub(crate) fn reporter(self: &Arc<Self>, moves: Moves, worker: usize, workers: usize) -> Reporter {
        Reporter {
            reports: Arc::clone(self),
            moves,
            worker,
            workers,
            random: Random::seeded(worker as u64 + 1),
            texts: ADAPTERS.map(Text::new),
        }
    }

    /// The time of the last report of a pair, and the number of the run that it told of.
    pub(crate) fn last(&self, pair: Pair) -> (String, u64) {
        let Sent { micros, run } = &self.sent[pair.index()];
        let time = self.clock.print(micros.load(Ordering::Relaxed));
        (String::from_utf8_lossy(&time).into_owned(), run.load(Ordering::Relaxed))
    }
}

impl Pair {
    fn index(self) -> usize {
        self.cluster * ADAPTERS.len() + self.adapter
    }
}

/// An endless row of reports.
#[derive(Debug)]
pub(crate) struct Reporter {
    reports: Arc<Reports>,
    moves: Moves,
    worker: usize,
    workers: usize,
    random: Random,
    texts: [Text; ADAPTERS.len()],
}

impl Reporter {
    /// All pairs of this worker.
    pub(crate) fn own(&self) -> impl Iterator<Item = Pair> + use<> {
        let (reports, workers) = (Arc::clone(&self.reports), self.workers);
        (self.worker..reports.pairs()).step_by(workers).map(move |place| reports.dealt[place])
    }

    /// A report for one of its pairs. There must be as many pairs as workers.
    pub(crate) fn next(&mut self) -> &[u8] {
        let own = (self.reports.pairs() - self.worker).div_ceil(self.workers);
        let place = self.worker + self.workers * self.random.below(own);
        self.report(self.reports.dealt[place])
    }

    /// The next report for this pair.
    pub(crate) fn report(&mut self, pair: Pair) -> &[u8] {
        let Self { reports, moves, texts, .. } = self;
        let sent = &reports.sent[pair.index()];
        // A pair is in one hand at a time, and hands change between loads: no ordering to ask for.
        let run = match moves {
            Moves::Content => reports.runs.fetch_add(1, Ordering::Relaxed),
            Moves::Time => sent.run.load(Ordering::Relaxed),
        };
        let micros = reports.clock.tick();
        sent.run.store(run, Ordering::Relaxed);
        sent.micros.store(micros, Ordering::Relaxed);
        let text = &mut texts[pair.adapter];
        text.fill(&reports.ids[pair.cluster], &reports.clock.print(micros), run);
        &text.bytes
    }
}

/// A clock that moves by a microsecond for each report and so is never ahead of the real one. It stays within the
/// day that it started on.
#[derive(Debug)]
struct Clock {
    start: [u8; TIME.len()],
    micros: AtomicU64,
}

const MICROS_PER_HOUR: u64 = 3_600_000_000;

impl Clock {
    /// Starts at a printed time, in the last hour of a day at its first minute: that leaves room for 3.6 billion
    /// reports.
    fn starting(start: &str) -> Result<Self> {
        let malformed = || format!("a time of another form than {TIME}: {start}");
        let number = |from: usize, to: usize| start.get(from..to)?.parse::<u64>().ok();
        let micros = || {
            let seconds = (number(11, 13)? * 60 + number(14, 16)?) * 60 + number(17, 19)?;
            Some(seconds * 1_000_000 + number(20, 26)?)
        };
        let micros = micros().with_context(malformed)?.min(23 * MICROS_PER_HOUR);
        Ok(Self { start: start.as_bytes().try_into().with_context(malformed)?, micros: micros.into() })
    }

    /// A time after all that it gave before, in microseconds of its day.
    fn tick(&self) -> u64 {
        self.micros.fetch_add(1, Ordering::Relaxed)
    }

    fn print(&self, micros: u64) -> [u8; TIME.len()] {
        let mut text = self.start;
        let seconds = micros / 1_000_000;
        put(&mut text[20..26], micros % 1_000_000);
        put(&mut text[17..19], seconds % 60);
        put(&mut text[14..16], seconds / 60 % 60);
        put(&mut text[11..13], seconds / 3600);
        text
    }
}

/// Writes a number with leading zeros.
fn put(text: &mut [u8], mut number: u64) {
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// What stands in a new text for what is filled in.
const ID: &str = "00000000-0000-0000-0000-000000000000";
const TIME: &str = "0000-00-00T00:00:00.000000Z";
const RUN: &str = "1000000000";

/// The whole request of one adapter, and where in it the parts are that change.
#[derive(Debug)]
struct Text {
    bytes: Vec<u8>,
    id: usize,
    time: usize,
    runs: [usize; 2],
}

impl Text {
    fn new(adapter: &str) -> Self {
        let body = format!(
            r#"{{"adapter":"{adapter}","observed_generation":1,"observed_time":"{TIME}","conditions":[{{"type":"Available","status":"True","reason":"JobSucceeded","message":"Run {RUN} of the job ended with success"}},{{"type":"Applied","status":"True","reason":"ManifestsApplied","message":"All manifests were applied to the management cluster"}},{{"type":"Health","status":"True","reason":"Healthy","message":"The adapter works without errors"}}],"data":{{"run":{RUN},"job":"{adapter}-job","region":"eu-west-1","checks":{{"quota":"passed","permissions":"passed","network":"passed"}},"duration_seconds":42}}}}"#
        );
        let text = format!(
            "PUT {CLUSTERS}/{ID}/statuses HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let place = |part: &str| text.find(part).expect("the text was made with it");
        let (id, time, run) = (place(ID), place(TIME), place(RUN));
        let again = text.rfind(RUN).expect("the text was made with it");
        Self { id, time, runs: [run, again], bytes: text.into_bytes() }
    }

    fn fill(&mut self, id: &str, time: &[u8; TIME.len()], run: u64) {
        self.bytes[self.id..][..ID.len()].copy_from_slice(id.as_bytes());
        self.bytes[self.time..][..TIME.len()].copy_from_slice(time);
        for place in self.runs {
            put(&mut self.bytes[place..][..RUN.len()], run);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::Value;

    use super::*;

    const START: &str = "2026-01-31T22:59:59.999998Z";

    fn reports(clusters: usize) -> Arc<Reports> {
        let ids = (0..clusters).map(|number| format!("{number:036}")).collect();
        Arc::new(Reports::new(ids, START).unwrap())
    }

    fn body(request: &[u8]) -> Value {
        let request = std::str::from_utf8(request).unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())));
        serde_json::from_str(body).unwrap()
    }

    #[test]
    fn a_report_of_new_content_differs_from_the_last_one_and_a_report_of_time_alone_repeats_it() {
        let reports = reports(3);
        let pair = Pair { cluster: 2, adapter: 1 };
        let first = body(reports.reporter(Moves::Content, 0, 1).report(pair));
        let changed = body(reports.reporter(Moves::Content, 0, 1).report(pair));
        let mut repeated = body(reports.reporter(Moves::Time, 0, 1).report(pair));
        assert_eq!(first["adapter"], "dns");
        assert_ne!(first["data"], changed["data"]);
        assert_ne!(first["conditions"][0]["message"], changed["conditions"][0]["message"]);
        assert_eq!(changed["observed_time"], "2026-01-31T22:59:59.999999Z");
        assert_eq!(repeated["observed_time"], "2026-01-31T23:00:00.000000Z");
        assert_eq!(reports.last(pair), ("2026-01-31T23:00:00.000000Z".to_owned(), FIRST_RUN + 1));
        repeated["observed_time"] = changed["observed_time"].clone();
        assert_eq!(repeated, changed);
    }

    #[test]
    fn a_request_goes_to_the_statuses_of_its_cluster() {
        let reports = reports(3);
        let mut reporter = reports.reporter(Moves::Content, 0, 1);
        let request = reporter.report(Pair { cluster: 2, adapter: 0 }).to_vec();
        let line = format!("PUT {CLUSTERS}/{:036}/statuses HTTP/1.1\r\n", 2);
        assert!(request.starts_with(line.as_bytes()));
    }

    #[test]
    fn every_pair_belongs_to_exactly_one_worker() {
        let reports = reports(5);
        let mut seen = HashSet::new();
        for worker in 0..7 {
            let own: Vec<usize> = reports.reporter(Moves::Time, worker, 7).own().map(Pair::index).collect();
            assert!(own.iter().all(|pair| seen.insert(*pair)));
            let mut reporter = reports.reporter(Moves::Content, worker, 7);
            for _ in 0..50 {
                reporter.next();
            }
        }
        assert_eq!(seen.len(), 20);
        let untouched = reports.sent.iter().filter(|sent| sent.run.load(Ordering::Relaxed) == 0);
        assert_eq!(untouched.count(), 0);
    }

    #[test]
    fn the_clock_leaves_room_before_the_day_ends() {
        let clock = Clock::starting("2026-01-31T23:59:59.999999Z").unwrap();
        assert_eq!(&clock.print(clock.tick()), b"2026-01-31T23:00:00.000000Z");
        assert!(Clock::starting("2026-01-31T23:59:59Z").is_err());
    }
}
