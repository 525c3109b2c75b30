//! Everything outside of the replicas: clock, chance, API, broker, adapters, users and faults.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use hyperfleet_core::Timestamp;
use hyperfleet_sentinel::backoff::later;
use hyperfleet_sentinel::membership::{Ownership, TTL};
use hyperfleet_sentinel::ranges::Ranges;
use hyperfleet_sentinel::schedule::Publication;

use super::replica::{Input, Replica};
use crate::fixtures::{Cluster, at};

/// A resource at the API.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    pub(super) cluster: Cluster,
    pub(super) deleted: bool,
    /// Its adapters never succeed.
    stuck: bool,
    /// When anything that decisions look at last changed.
    pub(super) changed: Timestamp,
    /// When anything was last reported.
    pub(super) heard: Timestamp,
}

/// An event that the broker took.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) at: Timestamp,
    pub(super) by: usize,
    pub(super) id: String,
    pub(super) generation: u64,
    /// Whether the replica knows.
    pub(super) confirmed: bool,
}

/// Something that goes wrong.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    Crash(usize),
    ApiDown(Duration),
    BrokerDown(Duration),
    CutOff(usize, Duration),
    WatchLost(usize),
    HistoryLost(usize),
}

/// What happens at a moment.
#[derive(Debug, Clone)]
enum Happening {
    /// To the replica of this incarnation.
    Reach(usize, u64, Input),
    /// At the API, asked by that replica.
    Resync(usize, u64),
    Lease(usize, u64, Timestamp),
    List(usize, u64, Timestamp),
    Watch(usize, u64, Option<u64>),
    Publish(usize, u64, Publication),
    Adapter {
        id: String,
        adapter: usize,
    },
    User,
    Trouble,
    Restart(usize),
}

/// What the API tells of a change: the resource as it was after it, or its end.
pub(super) type Change = (u64, String, Option<Cluster>);

pub(super) struct World {
    now: Timestamp,
    random: fastrand::Rng,
    agenda: BinaryHeap<Reverse<(Timestamp, u64)>>,
    happenings: BTreeMap<u64, Happening>,
    counter: u64,
    calm_from: Timestamp,
    resources: BTreeMap<String, Resource>,
    history: Vec<Change>,
    /// Until when who has one.
    leases: BTreeMap<String, Timestamp>,
    /// How often the API was asked for anything, where a resync is two searches.
    requests: u64,
    /// Whether answers get lost.
    lossy: bool,
    api_back: Timestamp,
    broker_back: Timestamp,
    events: Vec<Event>,
    replicas: Vec<Slot>,
}

/// Where a replica runs, or would.
struct Slot {
    replica: Option<Replica>,
    incarnation: u64,
    reachable_from: Timestamp,
    /// The version from which a change reaches it next, while it watches.
    watch: Option<u64>,
    /// Changes keep their order on the way.
    last_delivery: Timestamp,
}

impl World {
    pub(super) fn new(seed: u64, replicas: u64) -> Self {
        let now = at(0.0);
        let mut world = Self {
            now,
            random: fastrand::Rng::with_seed(seed),
            agenda: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            counter: 0,
            calm_from: now,
            resources: BTreeMap::new(),
            history: Vec::new(),
            leases: BTreeMap::new(),
            requests: 0,
            lossy: true,
            api_back: now,
            broker_back: now,
            events: Vec::new(),
            replicas: Vec::new(),
        };
        for slot in 0..replicas as usize {
            world.replicas.push(Slot {
                replica: None,
                incarnation: 0,
                reachable_from: now,
                watch: None,
                last_delivery: now,
            });
            let start = world.chance(1_500);
            world.after(Duration::from_millis(start), Happening::Restart(slot));
        }
        world
    }

    /// A number below `below`.
    pub(super) fn chance(&mut self, below: u64) -> u64 {
        self.random.u64(..below.max(1))
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    pub(super) fn resources(&self) -> &BTreeMap<String, Resource> {
        &self.resources
    }

    pub(super) fn events(&self) -> &[Event] {
        &self.events
    }

    pub(super) fn standings(&self) -> Vec<Option<Ownership>> {
        self.replicas.iter().map(|slot| Some(slot.replica.as_ref()?.ownership(self.now))).collect()
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    /// How many ranges are held, by whomever.
    pub(super) fn held(&self) -> usize {
        self.standings().into_iter().flatten().map(super::held).sum()
    }

    pub(super) fn disturb_for(&mut self, time: Duration) {
        self.calm_from = later(self.now, time);
        self.after(Duration::from_millis(500), Happening::User);
        self.after(Duration::from_millis(500), Happening::Trouble);
    }

    /// Ends all faults.
    pub(super) fn heal(&mut self) {
        self.lossy = false;
        self.api_back = self.now;
        self.broker_back = self.now;
        for slot in 0..self.replicas.len() {
            self.replicas[slot].reachable_from = self.now;
            if self.replicas[slot].replica.is_none() {
                self.after(Duration::ZERO, Happening::Restart(slot));
            }
        }
    }

    pub(super) fn create_stuck(&mut self, count: usize) {
        for _ in 0..count {
            self.create(true);
        }
    }

    /// Makes a resource that needs no adapter, or changes one: nothing but the change itself says so.
    pub(super) fn change_unattended(&mut self) {
        let (now, count) = (self.now, self.resources.len() as u64);
        let which = self.chance(2 * count) as usize;
        let cluster = match self.resources.values().nth(which) {
            Some(resource) => resource.cluster.clone().patched(now),
            None => Cluster::without_adapters(&format!("unattended-{count}"), now),
        };
        let id = cluster.id.clone();
        let resource = Resource { cluster, deleted: false, stuck: false, changed: now, heard: now };
        self.resources.insert(id.clone(), resource);
        self.changed(&id);
    }

    /// Lets a replica end as it should.
    pub(super) fn stop(&mut self, slot: usize) {
        while self.replicas[slot].replica.as_ref().unwrap().is_renewing() {
            self.run_for(Duration::from_millis(1));
        }
        let replica = self.replicas[slot].replica.take().unwrap();
        self.leases.remove(replica.name());
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let end = later(self.now, time);
        while let Some(Reverse((moment, _))) = self.agenda.peek()
            && *moment <= end
        {
            let Some(Reverse((moment, number))) = self.agenda.pop() else { break };
            let Some(happening) = self.happenings.remove(&number) else { continue };
            self.now = moment;
            self.happen(happening);
            self.check_that_no_range_has_two_owners();
        }
        self.now = end;
    }

    pub(super) fn inflict(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(slot) => {
                self.replicas[slot].replica = None;
                self.replicas[slot].watch = None;
                self.replicas[slot].incarnation += 1;
            }
            Fault::ApiDown(time) => {
                self.api_back = later(self.now, time);
                (0..self.replicas.len()).for_each(|slot| self.end_watch(slot));
            }
            Fault::BrokerDown(time) => self.broker_back = later(self.now, time),
            Fault::CutOff(slot, time) => {
                self.replicas[slot].reachable_from = later(self.now, time);
                self.end_watch(slot);
            }
            Fault::WatchLost(slot) => self.end_watch(slot),
            Fault::HistoryLost(slot) => {
                self.replicas[slot].watch = None;
                self.reach(slot, self.replicas[slot].incarnation, 0, Input::WatchTooOld);
            }
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Reach(slot, incarnation, input) => self.hand_over(slot, incarnation, input),
            Happening::Resync(slot, incarnation) => self.resync(slot, incarnation),
            Happening::Lease(slot, incarnation, asked) => {
                self.requests += 1;
                let granted = self.reaches_api(slot).then(|| self.lease(slot, incarnation));
                // The answer may get lost although the API did what was asked.
                let lost = self.chance(40) == 0 && self.lossy;
                let granted = granted.filter(|()| !lost);
                self.reach_after_a_while(slot, incarnation, Input::Leased(granted, asked));
            }
            Happening::List(slot, incarnation, asked) => {
                self.requests += 1;
                let listed = self.reaches_api(slot).then(|| self.present());
                self.reach_after_a_while(slot, incarnation, Input::Listed(listed, asked));
            }
            Happening::Watch(slot, incarnation, since) => self.watch(slot, incarnation, since),
            Happening::Publish(slot, incarnation, publication) => {
                self.publish(slot, incarnation, publication);
            }
            Happening::Adapter { id, adapter } => self.adapt(&id, adapter),
            Happening::User => self.use_the_fleet(),
            Happening::Trouble => self.trouble(),
            Happening::Restart(slot) => self.restart(slot),
        }
    }

    fn restart(&mut self, slot: usize) {
        if self.replicas[slot].replica.is_some() {
            return;
        }
        let at = &mut self.replicas[slot];
        at.incarnation += 1;
        at.replica = Some(Replica::new(name(slot, at.incarnation), self.now));
        let incarnation = at.incarnation;
        self.hand_over(slot, incarnation, Input::Wake);
    }

    /// Gives a replica something, and does what it wants.
    fn hand_over(&mut self, slot: usize, incarnation: u64, input: Input) {
        if self.replicas[slot].incarnation != incarnation {
            return;
        }
        let now = self.now;
        let chance = self.chance(1_000) as f64 / 1_000.0;
        let Some(replica) = &mut self.replicas[slot].replica else { return };
        let effects = replica.take(input, now, chance);
        let wake = replica.wake_at(now);
        for effect in effects {
            use super::replica::Effect;
            let happening = match effect {
                Effect::Resync => Happening::Resync(slot, incarnation),
                Effect::Lease => Happening::Lease(slot, incarnation, now),
                Effect::List => Happening::List(slot, incarnation, now),
                Effect::Watch(since) => Happening::Watch(slot, incarnation, since),
                Effect::Publish(publication) => Happening::Publish(slot, incarnation, publication),
            };
            let delay = self.delay();
            self.after(delay, happening);
        }
        if let Some(wake) = wake {
            let wait = Duration::from_micros((wake.micros() - now.micros()).max(0) as u64);
            self.after(wait, Happening::Reach(slot, incarnation, Input::Wake));
        }
    }

    fn resync(&mut self, slot: usize, incarnation: u64) {
        self.requests += 2;
        let input = if self.reaches_api(slot) {
            let due = self.resources.values().filter(|it| it.deleted || !it.cluster.is_reconciled());
            Input::Resynced(Some((self.version(), due.map(|it| it.cluster.clone()).collect())))
        } else {
            Input::Resynced(None)
        };
        let slow = self.chance(10) == 0;
        let delay = if slow { self.chance(3_000) } else { self.chance(60) };
        self.reach(slot, incarnation, delay, input);
    }

    fn watch(&mut self, slot: usize, incarnation: u64, since: Option<u64>) {
        if self.replicas[slot].incarnation != incarnation {
            return;
        }
        if !self.reaches_api(slot) {
            return self.reach_after_a_while(slot, incarnation, Input::WatchEnded);
        }
        let since = since.unwrap_or(self.version());
        self.replicas[slot].watch = Some(since);
        self.reach(slot, incarnation, 0, Input::Watching);
        let missed = self.history[since as usize..].to_vec();
        for change in missed {
            self.tell(slot, change);
        }
    }

    fn end_watch(&mut self, slot: usize) {
        if self.replicas[slot].watch.take().is_some() {
            let incarnation = self.replicas[slot].incarnation;
            self.reach(slot, incarnation, 0, Input::WatchEnded);
        }
    }

    fn publish(&mut self, slot: usize, incarnation: u64, publication: Publication) {
        let works = self.broker_back <= self.now && self.replicas[slot].reachable_from <= self.now;
        // A confirmation may get lost.
        let confirmed = works && self.chance(50) != 0;
        if works {
            let id = publication.observed.id.to_string();
            self.events.push(Event {
                at: self.now,
                by: slot,
                id: id.clone(),
                generation: publication.observed.generation,
                confirmed,
            });
            for adapter in 0..2 {
                let delay = 50 + self.chance(2_000);
                self.after(Duration::from_millis(delay), Happening::Adapter { id: id.clone(), adapter });
            }
        }
        self.reach_after_a_while(slot, incarnation, Input::Published(publication, confirmed));
    }

    /// An adapter looks at the resource and reports: the second needs what the first found.
    fn adapt(&mut self, id: &str, adapter: usize) {
        if self.api_back > self.now {
            return;
        }
        let now = self.now;
        let Some(resource) = self.resources.get_mut(id) else { return };
        if resource.cluster.reports.is_empty() {
            return;
        }
        let first_is_done = resource.cluster.reports[0]
            .as_ref()
            .is_some_and(|report| report.available && report.generation == resource.cluster.generation);
        let available = !resource.stuck && (adapter == 0 || first_is_done);
        let before = resource.cluster.reports[adapter].clone();
        resource.cluster.report(adapter, available, now);
        resource.heard = now;
        let news =
            before.is_none_or(|it| (it.generation, it.available) != (resource.cluster.generation, available));
        if !news {
            return;
        }
        resource.changed = now;
        if resource.deleted && resource.cluster.is_reconciled() {
            self.resources.remove(id);
        }
        self.changed(id);
    }

    fn create(&mut self, stuck: bool) {
        let id = format!("cluster-{}", self.history.len());
        let cluster = Cluster::new(id.clone(), self.now);
        let resource = Resource { cluster, deleted: false, stuck, changed: self.now, heard: self.now };
        self.resources.insert(id.clone(), resource);
        self.changed(&id);
    }

    fn use_the_fleet(&mut self) {
        if self.now >= self.calm_from {
            return;
        }
        let next = 1 + self.chance(2_500);
        self.after(Duration::from_millis(next), Happening::User);
        if self.api_back > self.now {
            return;
        }
        let which = self.chance(self.resources.len() as u64) as usize;
        let id = self.resources.keys().nth(which).cloned();
        let (what, stuck) = (self.chance(6), self.chance(3) == 0);
        let now = self.now;
        match id.and_then(|id| self.resources.get_mut(&id)).filter(|it| !it.deleted && what > 2) {
            Some(resource) => {
                resource.cluster = resource.cluster.clone().patched(now);
                resource.deleted = what == 5;
                resource.changed = now;
                let id = resource.cluster.id.clone();
                self.changed(&id);
            }
            None => self.create(stuck),
        }
    }

    fn trouble(&mut self) {
        if self.now >= self.calm_from {
            return;
        }
        let next = 500 + self.chance(6_000);
        self.after(Duration::from_millis(next), Happening::Trouble);
        let slot = self.chance(self.replicas.len() as u64) as usize;
        let long = Duration::from_millis(200 + self.chance(15_000));
        match self.chance(7) {
            0 => {
                self.inflict(Fault::Crash(slot));
                self.after(long, Happening::Restart(slot));
            }
            1 => self.inflict(Fault::ApiDown(long)),
            2 => self.inflict(Fault::BrokerDown(long)),
            3 => self.inflict(Fault::CutOff(slot, long)),
            4 => self.inflict(Fault::HistoryLost(slot)),
            _ => self.inflict(Fault::WatchLost(slot)),
        }
    }

    fn changed(&mut self, id: &str) {
        let change = (self.version() + 1, id.to_owned(), self.resources.get(id).map(|it| it.cluster.clone()));
        self.history.push(change.clone());
        for slot in 0..self.replicas.len() {
            self.tell(slot, change.clone());
        }
    }

    fn tell(&mut self, slot: usize, change: Change) {
        let Some(known) = self.replicas[slot].watch.filter(|known| *known < change.0) else { return };
        debug_assert_eq!(known + 1, change.0);
        let soonest = later(self.now, Duration::from_millis(self.chance(200)));
        let at = &mut self.replicas[slot];
        at.watch = Some(change.0);
        at.last_delivery = at.last_delivery.max(soonest);
        let (when, incarnation) = (at.last_delivery, at.incarnation);
        let wait = Duration::from_micros((when.micros() - self.now.micros()) as u64);
        self.after(wait, Happening::Reach(slot, incarnation, Input::Changed(change)));
    }

    fn present(&self) -> Vec<String> {
        let live = self.leases.iter().filter(|(_, expires)| **expires > self.now);
        live.map(|(name, _)| name.clone()).collect()
    }

    /// A request of a replica that has died on the way counts as well.
    fn lease(&mut self, slot: usize, incarnation: u64) {
        self.leases.insert(name(slot, incarnation), later(self.now, TTL));
    }

    fn check_that_no_range_has_two_owners(&self) {
        let mut taken = Ranges::NONE;
        for ownership in self.standings().into_iter().flatten() {
            let Ownership::Owns(ranges) = ownership else { continue };
            let shared: Vec<_> = ranges.iter().filter(|range| taken.contains(*range)).collect();
            assert!(shared.is_empty(), "{shared:?} are held by two: {:?}", self.standings());
            taken = taken.and(ranges);
        }
    }

    fn version(&self) -> u64 {
        self.history.len() as u64
    }

    fn reaches_api(&self, slot: usize) -> bool {
        self.api_back <= self.now && self.replicas[slot].reachable_from <= self.now
    }

    fn delay(&mut self) -> Duration {
        Duration::from_millis(1 + self.chance(60))
    }

    fn reach_after_a_while(&mut self, slot: usize, incarnation: u64, input: Input) {
        let delay = self.chance(60);
        self.reach(slot, incarnation, delay, input);
    }

    fn reach(&mut self, slot: usize, incarnation: u64, millis: u64, input: Input) {
        self.after(Duration::from_millis(millis), Happening::Reach(slot, incarnation, input));
    }

    fn after(&mut self, wait: Duration, happening: Happening) {
        self.counter += 1;
        self.agenda.push(Reverse((later(self.now, wait), self.counter)));
        self.happenings.insert(self.counter, happening);
    }
}

fn name(slot: usize, incarnation: u64) -> String {
    format!("replica-{slot}-{incarnation}")
}
