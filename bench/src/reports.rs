//! Reports as bytes ready to send.
//!
//! A report must be newer than the one before it of the same adapter on the same cluster, or the server rightly drops
//! it. So each pair of cluster and adapter belongs to one worker while a load runs, and all times come from one clock.
//! The last report of each pair is kept, to be repeated and to be looked for afterwards. Nothing is rendered while
//! measuring: the parts that change have a fixed width and are written over the last ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;

use crate::workload::CLUSTERS;

/// The adapters that a cluster needs; a fleet may need the first of them alone.
pub(crate) const ADAPTERS: [&str; 4] = ["validator", "dns", "network", "provisioner"];

/// Of a hundred reports of [`Change::Mixed`], those that change content.
const CHANGING_PERCENT: usize = 3;

/// What a report changes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    /// A message, a value in `data`, and the time.
    Content,
    /// The time alone.
    Time,
    /// As in a steady fleet: every pair in turn, nearly always the time alone.
    Mixed,
}

/// One adapter on one cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) cluster: usize,
    pub(crate) adapter: usize,
}

/// All pairs with the last report of each.
#[derive(Debug)]
pub(crate) struct Reports {
    ids: Arc<[String]>,
    adapters: usize,
    last: Vec<Last>,
    /// The pairs in the order in which they are dealt out to workers.
    dealt: Vec<Pair>,
    clock: Clock,
    runs: AtomicU64,
}

/// The last report of a pair; 0 before the first.
#[derive(Debug, Default)]
struct Last {
    micros: AtomicU64,
    run: AtomicU64,
}

/// Runs are counted from here, so that all have ten digits.
const FIRST_RUN: u64 = 1_000_000_000;

impl Reports {
    /// Reports of the first `adapters` on the clusters with these ids that `is_reported` chooses by their number. They
    /// are observed from `start` on, a time as the server prints it.
    pub(crate) fn new(
        ids: Arc<[String]>,
        adapters: usize,
        start: &str,
        is_reported: impl Fn(usize) -> bool,
    ) -> Result<Self> {
        ensure!(ids.iter().all(|id| id.len() == ID.len()), "an id of another form than {ID}");
        let clusters = (0..ids.len()).filter(|cluster| is_reported(*cluster));
        let mut dealt: Vec<Pair> = clusters
            .flat_map(|cluster| (0..adapters).map(move |adapter| Pair { cluster, adapter }))
            .collect();
        Rng::with_seed(0).shuffle(&mut dealt);
        let last = (0..ids.len() * adapters).map(|_| Last::default()).collect();
        let clock = Clock::starting(start)?;
        Ok(Self { ids, adapters, last, dealt, clock, runs: AtomicU64::new(FIRST_RUN) })
    }

    pub(crate) fn adapters(&self) -> usize {
        self.adapters
    }

    /// One of `workers` that share the pairs; there must be at least as many pairs.
    pub(crate) fn reporter(self: &Arc<Self>, change: Change, worker: usize, workers: usize) -> Reporter {
        Reporter {
            reports: Arc::clone(self),
            change,
            worker,
            workers,
            turn: 0,
            random: Rng::with_seed(worker as u64 + 1),
            texts: ADAPTERS.map(Text::new),
        }
    }

    /// The time of the last report of a pair and the number of its run.
    pub(crate) fn last(&self, pair: Pair) -> (String, u64) {
        let Last { micros, run } = self.at(pair);
        let time = self.clock.print(micros.load(Ordering::Relaxed));
        (String::from_utf8_lossy(&time).into_owned(), run.load(Ordering::Relaxed))
    }

    fn at(&self, pair: Pair) -> &Last {
        &self.last[pair.cluster * self.adapters + pair.adapter]
    }
}

/// An endless series of reports.
#[derive(Debug)]
pub(crate) struct Reporter {
    reports: Arc<Reports>,
    change: Change,
    worker: usize,
    workers: usize,
    turn: usize,
    random: Rng,
    texts: [Text; ADAPTERS.len()],
}

impl Reporter {
    /// All pairs of this worker.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = Pair> + use<> {
        let (reports, workers) = (Arc::clone(&self.reports), self.workers);
        (self.worker..reports.dealt.len()).step_by(workers).map(move |place| reports.dealt[place])
    }

    /// A report for one of its pairs.
    pub(crate) fn next(&mut self) -> &[u8] {
        let own = (self.reports.dealt.len() - self.worker).div_ceil(self.workers);
        let choice = match self.change {
            Change::Mixed => self.turn % own,
            Change::Content | Change::Time => self.random.usize(..own),
        };
        self.turn += 1;
        self.report(self.reports.dealt[self.worker + self.workers * choice])
    }

    /// The next report for this pair.
    pub(crate) fn report(&mut self, pair: Pair) -> &[u8] {
        let Self { reports, change, random, texts, .. } = self;
        let is_changing = match change {
            Change::Content => true,
            Change::Time => false,
            Change::Mixed => random.usize(..100) < CHANGING_PERCENT,
        };
        let last = reports.at(pair);
        // Only one worker has the pair, and pairs change hands between loads, so no ordering is needed.
        let run = match is_changing {
            true => reports.runs.fetch_add(1, Ordering::Relaxed),
            false => last.run.load(Ordering::Relaxed),
        };
        let micros = reports.clock.tick();
        last.run.store(run, Ordering::Relaxed);
        last.micros.store(micros, Ordering::Relaxed);
        let text = &mut texts[pair.adapter];
        text.fill(&reports.ids[pair.cluster], &reports.clock.print(micros), run);
        &text.bytes
    }
}

/// A clock that moves by a microsecond for each report, so that it is never ahead of the real one. It stays within the
/// day on which it started.
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

    /// A time later than all before it, in microseconds of the day.
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

/// Placeholders in a new text.
const ID: &str = "00000000-0000-0000-0000-000000000000";
const TIME: &str = "0000-00-00T00:00:00.000000Z";
const RUN: &str = "1000000000";

/// The whole request of one adapter, with the places of the parts that change.
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
            "PUT {CLUSTERS}/{ID}/statuses HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
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
        Arc::new(Reports::new(ids, ADAPTERS.len(), START, |_| true).unwrap())
    }

    fn body(request: &[u8]) -> Value {
        let request = std::str::from_utf8(request).unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())));
        serde_json::from_str(body).unwrap()
    }

    #[test]
    fn a_changing_report_differs_from_the_last_one_and_a_report_of_time_alone_repeats_it() {
        let reports = reports(3);
        let pair = Pair { cluster: 2, adapter: 1 };
        let first = body(reports.reporter(Change::Content, 0, 1).report(pair));
        let changed = body(reports.reporter(Change::Content, 0, 1).report(pair));
        let mut repeated = body(reports.reporter(Change::Time, 0, 1).report(pair));
        assert_ne!(first["data"], changed["data"]);
        assert_ne!(first["conditions"][0]["message"], changed["conditions"][0]["message"]);
        assert_eq!(changed["observed_time"], "2026-01-31T22:59:59.999999Z");
        assert_eq!(repeated["observed_time"], "2026-01-31T23:00:00.000000Z");
        assert_eq!(reports.last(pair), ("2026-01-31T23:00:00.000000Z".to_owned(), FIRST_RUN + 1));
        repeated["observed_time"] = changed["observed_time"].clone();
        assert_eq!(repeated, changed);
    }

    #[test]
    fn every_pair_belongs_to_exactly_one_worker() {
        let reports = reports(5);
        let mut seen = HashSet::new();
        for worker in 0..7 {
            let pairs = reports.reporter(Change::Time, worker, 7).pairs();
            assert!(pairs.map(|pair| (pair.cluster, pair.adapter)).all(|pair| seen.insert(pair)));
        }
        assert_eq!(seen.len(), 20);
    }

    #[test]
    fn the_clock_leaves_room_before_the_day_ends() {
        let clock = Clock::starting("2026-01-31T23:59:59.999999Z").unwrap();
        assert_eq!(&clock.print(clock.tick()), b"2026-01-31T23:00:00.000000Z");
    }
}
