//! The life of a fleet, request by request. Every half hour of simulated time each adapter reports on each cluster; now
//! and then a cluster is patched, fails for a while, or is deleted, cleaned up after, and followed by a new one.
//!
//! Clusters are dealt out to connections, and each connection goes round all of its own: a cluster that was just
//! reported on is the last to be reported on again, as in a real fleet, so that what the server remembers helps as
//! little as it does there. What a cluster is told next depends on the answers so far, so a life is led in order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyperfleet_core::Timestamp;

use crate::random::Random;
use crate::wording::{self, Report, Says};

/// Half an hour between two reports of an adapter, in microseconds and in seconds.
const ROUND: i64 = 1_800_000_000;
pub(crate) const ROUND_SECONDS: f64 = 1_800.0;
/// Reports begin that many rounds before now: three hundred days.
const ROUNDS_BACK: i64 = 300 * 48;

/// Rounds after which these happen to a cluster, on average: a patch a day, a failure in two days that lasts for two
/// hours, an end after a month.
const PATCHED: usize = 48;
const FAILS: usize = 96;
const MENDED: usize = 4;
const DELETED: usize = 1_440;

/// How a fleet is put together.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) clusters: usize,
    pub(crate) adapters: Vec<String>,
    /// Connections that it is dealt out to.
    pub(crate) connections: usize,
    /// Whether nothing ever happens to a cluster but reports.
    pub(crate) calm: bool,
}

/// A whole fleet with what it was told so far.
#[derive(Debug)]
pub(crate) struct Lives {
    shares: Vec<Mutex<Share>>,
    reports: AtomicU64,
}

impl Lives {
    /// A fleet of which nothing exists yet.
    pub(crate) fn new(plan: &Plan) -> Self {
        let now = Timestamp::now().micros();
        let adapters: Arc<[String]> = plan.adapters.iter().cloned().collect();
        let share = |number: usize| {
            let members = (number..plan.clusters).step_by(plan.connections).map(Member::new).collect();
            Mutex::new(Share {
                members,
                at: 0,
                steps: VecDeque::new(),
                doing: None,
                random: Random::seeded(number as u64 + 1),
                adapters: Arc::clone(&adapters),
                clusters: plan.clusters,
                calm: plan.calm,
                epoch: now - ROUNDS_BACK * ROUND,
                names: format!("f{now}-{number}"),
                named: 0,
            })
        };
        Self { shares: (0..plan.connections).map(share).collect(), reports: AtomicU64::new(0) }
    }

    /// How many connections it is dealt out to.
    pub(crate) fn connections(&self) -> usize {
        self.shares.len()
    }

    /// Reports that were taken so far.
    pub(crate) fn reports(&self) -> u64 {
        self.reports.load(Ordering::Relaxed)
    }

    /// The ids of all clusters that exist.
    pub(crate) fn ids(&self) -> Vec<String> {
        let mut ids = Vec::new();
        for share in &self.shares {
            let share = share.lock().unwrap_or_else(PoisonError::into_inner);
            ids.extend(share.members.iter().map(|member| member.id.clone()).filter(|id| !id.is_empty()));
        }
        ids
    }

    /// The requests of one of so many connections. Where there are fewer of them than shares, each goes from one of its
    /// shares to the next with every cluster.
    pub(crate) fn requests(self: &Arc<Self>, connection: usize, connections: usize) -> LifeRequests {
        LifeRequests {
            lives: Arc::clone(self),
            share: connection,
            stride: connections,
            bytes: Vec::with_capacity(2048),
        }
    }
}

/// The requests of one connection, which lead on from where the last ones of its shares ended.
#[derive(Debug)]
pub(crate) struct LifeRequests {
    lives: Arc<Lives>,
    share: usize,
    stride: usize,
    bytes: Vec<u8>,
}

impl LifeRequests {
    /// Nobody else has it while a load runs; a share whose holder panicked is as good as before.
    fn share(lives: &Lives, share: usize) -> MutexGuard<'_, Share> {
        lives.shares[share].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn next(&mut self) -> &[u8] {
        self.bytes.clear();
        let mut share = Self::share(&self.lives, self.share);
        if share.steps.is_empty() && self.stride < self.lives.connections() {
            drop(share);
            let next = self.share + self.stride;
            self.share = if next < self.lives.connections() { next } else { self.share % self.stride };
            share = Self::share(&self.lives, self.share);
        }
        share.next(&mut self.bytes);
        drop(share);
        &self.bytes
    }

    /// Takes the answer to the last request; whether it is right.
    pub(crate) fn take(&mut self, status: u16, body: &[u8]) -> bool {
        let mut share = Self::share(&self.lives, self.share);
        let is_report = matches!(share.doing, Some(Step::Report { .. }));
        let right = share.take(status, body);
        if right && is_report {
            self.lives.reports.fetch_add(1, Ordering::Relaxed);
        }
        right
    }

    /// Whether every cluster of this share has been made and reported on by all adapters: they take turns, so that is
    /// so when the last of them has.
    pub(crate) fn is_complete(&self) -> bool {
        let share = Self::share(&self.lives, self.share);
        share.steps.is_empty() && share.members.last().is_none_or(|last| last.rounds > 0)
    }
}

/// One cluster.
#[derive(Debug)]
struct Member {
    /// Its place in the fleet, which decides its labels.
    number: usize,
    /// Empty while it does not exist.
    id: String,
    generation: u64,
    /// Rounds of reports so far.
    rounds: i64,
    fails: bool,
}

impl Member {
    fn new(number: usize) -> Self {
        Self { number, id: String::new(), generation: 0, rounds: 0, fails: false }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    Create,
    Patch,
    Delete,
    Report { adapter: usize, says: Says, last: bool },
}

/// The clusters of one connection.
#[derive(Debug)]
struct Share {
    members: Vec<Member>,
    /// Whose turn it is.
    at: usize,
    /// What is left of its turn.
    steps: VecDeque<Step>,
    /// What was asked last.
    doing: Option<Step>,
    random: Random,
    adapters: Arc<[String]>,
    clusters: usize,
    calm: bool,
    epoch: i64,
    names: String,
    named: u64,
}

impl Share {
    /// Chooses what happens to the next cluster in its next half hour.
    fn plan(&mut self) {
        self.at = match self.members[self.at].rounds {
            // The very first turn is of the first cluster.
            0 if self.members[self.at].id.is_empty() => self.at,
            _ => (self.at + 1) % self.members.len(),
        };
        let member = &mut self.members[self.at];
        let random = &mut self.random;
        let mut happens = |after: usize| !self.calm && random.below(after) == 0;
        let says = |says| (0..self.adapters.len()).map(move |adapter| (adapter, says));
        let mut turn: Vec<Step> = Vec::new();
        let mut reports = Vec::new();
        if member.id.is_empty() {
            turn.push(Step::Create);
        } else if happens(DELETED) {
            turn.push(Step::Delete);
            let last = self.adapters.len() - 1;
            let ends = says(Says::CleanedUp);
            turn.extend(ends.map(|(adapter, says)| Step::Report { adapter, says, last: adapter == last }));
            turn.push(Step::Create);
        } else {
            member.fails = if member.fails { !happens(MENDED) } else { happens(FAILS) };
            if happens(PATCHED) {
                turn.push(Step::Patch);
            }
        }
        reports.extend(says(Says::Done));
        if member.fails {
            reports[0].1 = Says::Failed;
        }
        let last = self.adapters.len() - 1;
        let reports =
            reports.into_iter().map(|(adapter, says)| Step::Report { adapter, says, last: adapter == last });
        self.steps = turn.into_iter().chain(reports).collect();
    }

    fn next(&mut self, bytes: &mut Vec<u8>) {
        if self.steps.is_empty() {
            self.plan();
        }
        self.doing = self.steps.pop_front();
        let Member { id, generation, rounds, number, .. } = &self.members[self.at];
        let written = match self.doing {
            Some(Step::Create) => {
                self.named += 1;
                let name = format!("{}-{}", self.names, self.named);
                wording::create(bytes, &name, *number, self.clusters)
            }
            Some(Step::Patch) => wording::patch(bytes, id, generation + 3),
            Some(Step::Delete) => wording::delete(bytes, id),
            Some(Step::Report { adapter, says, .. }) => {
                let share = ROUND / self.adapters.len() as i64;
                let time = Timestamp::from_micros(self.epoch + rounds * ROUND + adapter as i64 * share);
                let report = Report {
                    adapter: &self.adapters[adapter],
                    says,
                    generation: *generation,
                    round: *rounds,
                    time,
                };
                wording::report(bytes, id, &report)
            }
            None => Ok(()),
        };
        written.expect("writing to memory cannot fail");
    }

    /// Leads the life on by an answer. After a wrong one the cluster is given up, and another takes its place.
    fn take(&mut self, status: u16, body: &[u8]) -> bool {
        let member = &mut self.members[self.at];
        let right = match self.doing.take() {
            Some(Step::Create) => {
                member.generation = 1;
                member.id = text(body, b"\"id\":\"").unwrap_or_default().to_owned();
                status == 201 && !member.id.is_empty()
            }
            Some(Step::Patch) => {
                member.generation += 1;
                status == 200
            }
            Some(Step::Delete) => {
                member.generation += 1;
                status == 202
            }
            Some(Step::Report { says, last, .. }) => {
                match (last, says) {
                    (true, Says::CleanedUp) => member.id.clear(),
                    (true, _) => member.rounds += 1,
                    (false, _) => {}
                }
                status == 201
            }
            None => false,
        };
        if !right {
            self.steps.clear();
            member.id.clear();
        }
        right
    }
}

/// The first text behind `name`.
fn text<'a>(body: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let start = body.windows(name.len()).position(|window| window == name)? + name.len();
    str::from_utf8(body[start..].split(|byte| *byte == b'"').next()?).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn lives(clusters: usize, connections: usize) -> Arc<Lives> {
        let adapters = ["validator", "dns"].map(str::to_owned).to_vec();
        Arc::new(Lives::new(&Plan { clusters, adapters, connections, calm: false }))
    }

    /// Answers as the server would; gives the first line of the request, and its body.
    fn exchange(requests: &mut LifeRequests, made: &mut u64) -> (String, serde_json::Value) {
        let request = String::from_utf8(requests.next().to_vec()).unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let line = head.lines().next().unwrap().to_owned();
        let (status, answer) = match line.split(' ').next().unwrap() {
            "POST" => {
                *made += 1;
                (201, format!(r#"{{"kind":"Cluster","id":"id-{made}"}}"#))
            }
            "PATCH" => (200, String::new()),
            "DELETE" => (202, String::new()),
            _ => (201, String::new()),
        };
        assert!(requests.take(status, answer.as_bytes()));
        (line, serde_json::from_str(body).unwrap_or_default())
    }

    #[test]
    fn every_cluster_is_made_and_reported_on_by_all_before_any_is_again() {
        let lives = lives(10, 2);
        let mut requests = lives.requests(1, 2);
        let (mut made, mut lines) = (0, Vec::new());
        while !requests.is_complete() {
            lines.push(exchange(&mut requests, &mut made).0);
        }
        assert_eq!((made, lines.len()), (5, 15));
        assert!(lines.chunks(3).all(|life| life[0].starts_with("POST") && life[2].contains("/statuses ")));
        assert_eq!((lives.ids().len(), lives.reports()), (5, 10));
    }

    #[test]
    fn reports_follow_each_other_by_half_an_hour_and_know_the_generation() {
        let lives = lives(3, 1);
        let mut requests = lives.requests(0, 1);
        let (mut made, mut times, mut generations) = (0, HashMap::new(), HashMap::new());
        let (mut patched, mut ended, mut failed) = (0, 0, 0);
        for _ in 0..40_000 {
            let (line, body) = exchange(&mut requests, &mut made);
            let id = line.split('/').nth(5).and_then(|rest| rest.split(' ').next()).unwrap_or("").to_owned();
            if line.starts_with("PATCH") || line.starts_with("DELETE") {
                *generations.entry(id.clone()).or_insert(1) += 1;
                patched += u32::from(line.starts_with("PATCH"));
            }
            if line.starts_with("PUT") {
                assert_eq!(body["observed_generation"], *generations.entry(id.clone()).or_insert(1));
                let time = Timestamp::parse(body["observed_time"].as_str().unwrap()).unwrap();
                let before = times.insert((id, body["adapter"].to_string()), time);
                assert!(
                    before.is_none_or(|before| time.micros() - before.micros() <= ROUND && time > before)
                );
                assert!(time < Timestamp::now());
                ended += u32::from(body["conditions"][3]["type"] == "Finalized");
                failed += u32::from(body["conditions"][0]["reason"] == "QuotaExceeded");
            }
        }
        assert!(patched > 100 && ended >= 4 && failed > 100, "{patched} {ended} {failed}");
    }

    #[test]
    fn a_lone_connection_goes_round_the_whole_fleet() {
        let lives = lives(12, 4);
        let mut made = 0;
        for share in 0..4 {
            let mut requests = lives.requests(share, 4);
            while !requests.is_complete() {
                exchange(&mut requests, &mut made);
            }
        }
        let mut requests = lives.requests(0, 1);
        let lines: Vec<String> = (0..60).map(|_| exchange(&mut requests, &mut made).0).collect();
        let reported: std::collections::HashSet<_> =
            lines.iter().filter(|line| line.starts_with("PUT")).collect();
        assert!(reported.len() >= 12, "{reported:?}");
    }

    #[test]
    fn after_a_wrong_answer_another_cluster_takes_the_place() {
        let lives = lives(1, 1);
        let mut requests = lives.requests(0, 1);
        let mut made = 0;
        exchange(&mut requests, &mut made);
        assert!(requests.next().starts_with(b"PUT") && !requests.take(500, b""));
        assert!(exchange(&mut requests, &mut made).0.starts_with("POST"));
    }
}
