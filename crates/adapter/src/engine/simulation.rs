//! The engine against a model of the world: users, Sentinel, broker, Kubernetes and other people, who all act in between
//! two steps of an execution. Effects fail before or after they took place, processes end, dependencies go away, events
//! come twice and late. However they interleave, no deletion is reported that did not happen, and once the world is
//! quiet everything becomes what it should be.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use hyperfleet_core::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::targets::{ErrorClass, Matcher, Observation, Operation, TargetError};
use crate::task::Options;

/// Runs in the gate, each with this many actions: together more than 10⁵ steps.
const RUNS: u64 = 600;
const ACTIONS: usize = 420;
const MAX_DELIVERIES: u32 = 5;

/// Two resources, one inside the other, deleted in order. `FINALIZED` is what the author claims.
const TASK: &str = r#"
params:
  - {name: id, source: event.id, required: true}
  - name: cluster
    required: true
    source: {api_call: {url: "/clusters/{{ .id }}"}}
  - {name: generation, source: cluster.generation, type: int}
  - {name: deleting, source: {expression: "has(cluster.deleted_time)"}}
preconditions:
  - {name: allowed, expression: "deleting || cluster.spec.allowed"}
resources:
  - name: namespace
    manifest: {apiVersion: v1, kind: Namespace, metadata: {name: "ns-{{ .id }}"}}
    discovery: {by_name: "ns-{{ .id }}"}
    lifecycle: {delete: {when: {expression: "deleting && !has(resources.job)"}}}
  - name: job
    manifest: {apiVersion: batch/v1, kind: Job, metadata: {name: "job-{{ .id }}-{{ .generation }}", labels: {of: "{{ .id }}"}}}
    discovery: {by_selectors: {label_selector: {of: "{{ .id }}"}}}
    lifecycle: {delete: {when: {expression: deleting}}}
    prune: true
post:
  payloads:
    - name: payload
      build:
        adapter: "{{ .adapter.name }}"
        observed_generation: {expression: generation}
        conditions:
          - {type: Applied, status: {expression: "has(resources.job) ? 'True' : 'False'"}}
          - {type: Available, status: {expression: "resources.?job.?status.?done.orValue(false) ? 'True' : 'False'"}}
          - {type: Health, status: {expression: "adapter.executionStatus == 'success' && !adapter.resourcesSkipped ? 'True' : 'False'"}}
          - {type: Finalized, status: {expression: "FINALIZED"}}
  post_actions:
    - name: report
      api_call: {method: PUT, url: "/clusters/{{ .id }}/statuses", body: "{{ .payload }}"}
"#;

const CAREFUL: &str = "deleting && !has(resources.job) && !has(resources.namespace) ? 'True' : 'False'";
const CARELESS: &str = "deleting ? 'True' : 'False'";

fn program(finalized: &str) -> Arc<Program> {
    let text = TASK.replace("FINALIZED", finalized);
    let loaded = Task::parse(&text, "task.yaml", Path::new("."), &Options::default());
    assert!(loaded.findings.is_empty(), "{:?}", loaded.findings);
    Arc::new(Program {
        task: loaded.task.unwrap(),
        adapter: "dns".to_owned(),
        version: String::new(),
        config: json!({}),
        environment: serde_json::Map::new(),
        base_url: "http://localhost:8000".to_owned(),
        api_version: "v1".to_owned(),
        guards_finalized: true,
    })
}

#[derive(Debug, Clone)]
struct Object {
    value: Value,
    of: String,
    /// Somebody else's finalizer keeps it for a while.
    held: bool,
}

/// An event on its way, with the number of its next delivery.
#[derive(Debug, Clone)]
struct Message {
    id: String,
    generation: i64,
    attempt: u32,
}

struct Running {
    execution: Execution,
    message: Message,
    pending: Option<Effect>,
    /// Whether anything failed that was not the author's.
    disturbed: bool,
}

struct World {
    rng: fastrand::Rng,
    seed: u64,
    program: Arc<Program>,
    clock: i64,
    resources: BTreeMap<String, Value>,
    reports: HashMap<String, Value>,
    objects: BTreeMap<(String, String), Object>,
    queue: VecDeque<Message>,
    running: HashMap<String, Running>,
    reported: HashMap<String, i64>,
    uids: u64,
    api_away: bool,
    kubernetes_away: bool,
    disturbs: bool,
    steps: usize,
    finalized: usize,
    withheld: usize,
}

impl World {
    fn new(seed: u64, program: Arc<Program>) -> Self {
        let resources = ["a", "b", "c"].map(|id| (id.to_owned(), resource(id)));
        Self {
            rng: fastrand::Rng::with_seed(seed),
            seed,
            program,
            clock: 0,
            resources: resources.into(),
            reports: HashMap::new(),
            objects: BTreeMap::new(),
            queue: VecDeque::new(),
            running: HashMap::new(),
            reported: HashMap::new(),
            uids: 0,
            api_away: false,
            kubernetes_away: false,
            disturbs: true,
            steps: 0,
            finalized: 0,
            withheld: 0,
        }
    }

    fn one_of(&mut self, n: usize) -> bool {
        self.rng.usize(..n) == 0
    }

    fn any_id(&mut self) -> String {
        ["a", "b", "c"][self.rng.usize(..3)].to_owned()
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock * 1_000_000)
    }

    fn act(&mut self) {
        self.clock += self.rng.i64(0..20);
        let id = self.any_id();
        match self.rng.usize(..100) {
            0..3 => self.patch(&id),
            3..5 => self.delete(&id),
            5..8 => self.disturb_objects(),
            8..20 => self.controllers(),
            20..36 => self.publish(&id),
            36..38 => self.restart(),
            38..40 => self.api_away = !self.api_away && self.one_of(2),
            40..42 => self.kubernetes_away = !self.kubernetes_away && self.one_of(2),
            42..52 => self.deliver(),
            _ => self.advance(&id),
        }
    }

    fn patch(&mut self, id: &str) {
        let allowed = self.rng.u8(..4) > 0;
        if let Some(resource) = self.resources.get_mut(id).filter(|one| one.get("deleted_time").is_none()) {
            resource["generation"] = (resource["generation"].as_i64().unwrap() + 1).into();
            resource["spec"]["allowed"] = allowed.into();
        }
    }

    fn delete(&mut self, id: &str) {
        let now = self.now().to_string();
        if let Some(resource) = self.resources.get_mut(id).filter(|one| one.get("deleted_time").is_none()) {
            resource["generation"] = (resource["generation"].as_i64().unwrap() + 1).into();
            resource["deleted_time"] = now.into();
        }
    }

    /// Other people: an object disappears, gets a finalizer, or one without our labels comes.
    fn disturb_objects(&mut self) {
        let keys: Vec<_> = self.objects.keys().cloned().collect();
        if keys.is_empty() {
            return;
        }
        let key = keys[self.rng.usize(..keys.len())].clone();
        match self.rng.usize(..3) {
            0 => drop(self.objects.remove(&key)),
            1 => self.objects.get_mut(&key).unwrap().held = true,
            _ => {
                let mut other = self.objects[&key].value.clone();
                other["metadata"]["name"] = "foreign".into();
                other["metadata"]["labels"] = json!({});
                let name = ("foreign".to_owned(), self.rng.u8(..4).to_string());
                self.objects.insert(name, Object { value: other, of: String::new(), held: false });
            }
        }
    }

    /// Jobs complete, finalizers are removed, deleted objects go.
    fn controllers(&mut self) {
        for object in self.objects.values_mut() {
            match self.rng.usize(..3) {
                0 => object.held = false,
                1 if object.value["kind"] == "Job" => object.value["status"] = json!({"done": true}),
                _ => {}
            }
        }
        self.objects
            .retain(|_, object| object.held || object.value["metadata"].get("deletionTimestamp").is_none());
    }

    fn publish(&mut self, id: &str) {
        let Some(resource) = self.resources.get(id) else { return };
        let message =
            Message { id: id.to_owned(), generation: resource["generation"].as_i64().unwrap(), attempt: 1 };
        // Late, early, and twice.
        let at = self.rng.usize(..=self.queue.len());
        self.queue.insert(at, message.clone());
        if self.one_of(4) {
            self.queue.push_back(message);
        }
    }

    /// The process ends and another begins: what was in flight comes again, memory is gone.
    fn restart(&mut self) {
        for (_, running) in self.running.drain() {
            let attempt = running.message.attempt + 1;
            if attempt <= MAX_DELIVERIES {
                self.queue.push_front(Message { attempt, ..running.message });
            }
        }
        self.reported.clear();
    }

    /// One execution a resource.
    fn deliver(&mut self) {
        let at = self.queue.iter().position(|message| !self.running.contains_key(&message.id));
        let Some(message) = at.and_then(|at| self.queue.remove(at)) else { return };
        let event = json!({"id": message.id, "kind": "Cluster", "generation": message.generation});
        let input = Input {
            event: event.as_object().unwrap().clone(),
            id: message.id.clone(),
            attempt: message.attempt,
            attempts: MAX_DELIVERIES,
            once: false,
            reported_generation: self.reported.get(&message.id).copied().unwrap_or_default(),
        };
        let mut execution = Execution::new(self.program.clone(), input);
        let Step::Ask(effect) = execution.resume(None, self.now()) else { panic!("it reads first") };
        let id = message.id.clone();
        self.running.insert(id, Running { execution, message, pending: Some(effect), disturbed: false });
    }

    /// One effect takes place and is answered.
    fn advance(&mut self, id: &str) {
        let Some(mut running) = self.running.remove(id) else { return };
        self.steps += 1;
        let effect = running.pending.take().unwrap();
        let answer = self.answer(id, effect, &mut running.disturbed);
        match running.execution.resume(Some(answer), self.now()) {
            Step::Ask(effect) => {
                running.pending = Some(effect);
                self.running.insert(id.to_owned(), running);
            }
            Step::Done(finished) => self.settle(&running.message, &finished, running.disturbed),
        }
    }

    fn settle(&mut self, message: &Message, finished: &Finished, disturbed: bool) {
        self.withheld += usize::from(finished.journal.withheld.is_some());
        if let Some(report) = &finished.journal.report {
            let health = report::status_of(report, "Health");
            assert!(
                disturbed || health == Some("True"),
                "seed {}: unwell without cause: {report}",
                self.seed
            );
        }
        assert!(
            disturbed || finished.outcome != Outcome::Error,
            "seed {}: an error without cause: {:?}",
            self.seed,
            finished.journal.errors
        );
        match &finished.settle {
            Settle::Acknowledge => {
                if finished.generation > 0 && finished.journal.report.is_some() {
                    self.reported.insert(message.id.clone(), finished.generation);
                }
            }
            Settle::Retry(_) if message.attempt >= MAX_DELIVERIES => {}
            Settle::Retry(_) => {
                self.queue.push_back(Message { attempt: message.attempt + 1, ..message.clone() });
            }
            Settle::Outage { .. } => self.queue.push_back(message.clone()),
        }
    }

    fn failure(&mut self) -> TargetError {
        let class = match self.rng.usize(..5) {
            0 => ErrorClass::Outage { retry_after: None },
            1 => ErrorClass::Terminal,
            _ => ErrorClass::Transient,
        };
        TargetError { class, reason: "Injected".to_owned(), message: "it failed".to_owned() }
    }

    fn answer(&mut self, id: &str, effect: Effect, disturbed: &mut bool) -> Answer {
        let of_api =
            matches!(effect, Effect::Read { .. } | Effect::LastReport | Effect::Call(_) | Effect::Report(_));
        let away = self.disturbs && if of_api { self.api_away } else { self.kubernetes_away };
        let fails = away || (self.disturbs && self.one_of(14));
        // An effect may take place although its answer is lost.
        let takes_place = !away && (!fails || self.one_of(2));
        let truth = if takes_place { Some(self.perform(id, &effect, disturbed)) } else { None };
        if !fails {
            return truth.unwrap();
        }
        *disturbed = true;
        let error = match away {
            true => {
                let class = ErrorClass::Outage { retry_after: None };
                TargetError { class, reason: "Away".to_owned(), message: "nobody answers".to_owned() }
            }
            false => self.failure(),
        };
        match effect {
            Effect::Read { .. } => Answer::Read(Err(error)),
            Effect::LastReport => Answer::LastReport(Err(error)),
            Effect::Call(_) => Answer::Called(Err(error)),
            Effect::File { .. } => Answer::None,
            Effect::Observe(lookups) => {
                Answer::Observed(lookups.iter().map(|_| Observation::Unknown(error.clone())).collect())
            }
            Effect::Owned => Answer::Observed(vec![Observation::Unknown(error)]),
            Effect::Apply(_) => Answer::Applied(Err(error)),
            Effect::Delete(_) => Answer::Deleted(Err(error)),
            Effect::Report(_) => Answer::Reported(Err(error)),
        }
    }

    fn perform(&mut self, id: &str, effect: &Effect, disturbed: &mut bool) -> Answer {
        match effect {
            Effect::Read { .. } => Answer::Read(Ok(self.resources.get(id).cloned())),
            Effect::LastReport => Answer::LastReport(Ok(self.reports.get(id).cloned())),
            Effect::Call(call) => panic!("the resource's own URL is not called: {call:?}"),
            Effect::File { .. } => Answer::None,
            Effect::Observe(lookups) => {
                Answer::Observed(lookups.iter().map(|lookup| self.observe(&lookup.query)).collect())
            }
            Effect::Owned => {
                let found = self.objects.values().filter(|object| object.of == id);
                let found: Vec<_> = found.map(|object| object.value.clone()).collect();
                Answer::Observed(vec![told(found)])
            }
            Effect::Apply(apply) => Answer::Applied(self.apply(id, apply, disturbed)),
            Effect::Delete(delete) => {
                let uid = &delete.object["metadata"]["uid"];
                let now = self.now().to_string();
                for object in
                    self.objects.values_mut().filter(|object| object.value["metadata"]["uid"] == *uid)
                {
                    object.value["metadata"]["deletionTimestamp"] = now.clone().into();
                }
                let at_once = self.one_of(2);
                self.objects.retain(|_, object| {
                    object.held || !at_once || object.value["metadata"].get("deletionTimestamp").is_none()
                });
                Answer::Deleted(Ok(()))
            }
            Effect::Report(report) => Answer::Reported(Ok(self.report(id, report))),
        }
    }

    fn observe(&self, query: &crate::targets::Query) -> Observation {
        let fits = |object: &&Object| {
            object.value["kind"] == query.kind.as_str()
                && match &query.matcher {
                    Matcher::Name(name) => object.value["metadata"]["name"] == name.as_str(),
                    Matcher::Labels(labels) => labels
                        .iter()
                        .all(|(key, value)| object.value["metadata"]["labels"][key] == value.as_str()),
                }
        };
        let mut found: Vec<_> =
            self.objects.values().filter(fits).map(|object| object.value.clone()).collect();
        found.sort_by_key(|object| {
            std::cmp::Reverse(object["metadata"]["annotations"]["hyperfleet.io/generation"].as_i64())
        });
        told(found)
    }

    fn apply(
        &mut self,
        id: &str,
        apply: &Apply,
        disturbed: &mut bool,
    ) -> Result<(Operation, Value), TargetError> {
        let mut value = apply.manifest.clone();
        let text = |pointer: &str| apply.manifest.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        let key = (text("/kind"), text("/metadata/name"));
        let before = self.objects.get(&key);
        if before.is_some_and(|object| object.value["metadata"].get("deletionTimestamp").is_some()) {
            *disturbed = true;
            let class = ErrorClass::Transient;
            return Err(TargetError {
                class,
                reason: "Terminating".into(),
                message: "it is being deleted".into(),
            });
        }
        if before.is_some_and(|object| {
            object.value["metadata"]["annotations"]["hyperfleet.io/generation"] == apply.ownership.generation
        }) {
            return Ok((Operation::Unchanged, before.unwrap().value.clone()));
        }
        self.uids += 1;
        value["metadata"]["uid"] =
            before.map_or(json!(self.uids), |object| object.value["metadata"]["uid"].clone());
        value["metadata"]["annotations"] = json!({"hyperfleet.io/generation": apply.ownership.generation});
        value["metadata"]["labels"]["hyperfleet.io/task-resource"] =
            apply.ownership.task_resource.clone().into();
        let operation = if before.is_some() { Operation::Updated } else { Operation::Created };
        self.objects.insert(key, Object { value: value.clone(), of: id.to_owned(), held: false });
        Ok((operation, value))
    }

    /// What the API does with a report, and what must never happen.
    fn report(&mut self, id: &str, report: &Value) -> Stored {
        assert_eq!(report::faults(report), Vec::<String>::new(), "seed {}: {report}", self.seed);
        let Some(resource) = self.resources.get(id) else { return Stored::Gone };
        let generation = report["observed_generation"].as_i64().unwrap();
        let stored = self.reports.get(id).and_then(|report| report["observed_generation"].as_i64());
        if generation > resource["generation"].as_i64().unwrap()
            || stored.is_some_and(|stored| generation < stored)
        {
            return Stored::Discarded;
        }
        let current = resource["generation"] == generation;
        if report::status_of(report, "Finalized") == Some("True") {
            assert!(
                resource.get("deleted_time").is_some(),
                "seed {}: a live resource is reported gone",
                self.seed
            );
            let left: Vec<_> = self.objects.values().filter(|object| object.of == id).collect();
            assert!(left.is_empty(), "seed {}: {id} is reported gone, but there is {left:?}", self.seed);
            if current {
                self.resources.remove(id);
                self.reports.remove(id);
                self.finalized += 1;
                return Stored::Stored;
            }
        }
        self.reports.insert(id.to_owned(), report.clone());
        Stored::Stored
    }

    fn is_reconciled(&self, id: &str) -> bool {
        let Some(resource) = self.resources.get(id) else { return true };
        let report = self.reports.get(id);
        let at_generation =
            report.is_some_and(|report| report["observed_generation"] == resource["generation"]);
        let is = |kind: &str| report.and_then(|report| report::status_of(report, kind)) == Some("True");
        // A precondition that is not met is an answer too.
        let done = is("Available") || resource["spec"]["allowed"] == false;
        resource.get("deleted_time").is_none() && at_generation && done && is("Health")
    }

    /// Nothing disturbs any more, and the Sentinel repeats what is not reconciled.
    fn settle_down(&mut self) {
        self.disturbs = false;
        (self.api_away, self.kubernetes_away) = (false, false);
        for _ in 0..60 {
            let ids: Vec<_> = self.resources.keys().cloned().collect();
            let open: Vec<_> = ids.into_iter().filter(|id| !self.is_reconciled(id)).collect();
            if open.is_empty() && self.running.is_empty() && self.queue.is_empty() {
                return;
            }
            self.clock += 60;
            open.iter().for_each(|id| self.publish(id));
            for _ in 0..200 {
                self.deliver();
                for id in ["a", "b", "c"] {
                    self.advance(id);
                }
            }
            (0..4).for_each(|_| self.controllers());
        }
        let reports = &self.reports;
        panic!("seed {}: stuck: {:?}\n{reports:?}\n{:?}", self.seed, self.resources, self.objects.keys());
    }
}

fn resource(id: &str) -> Value {
    json!({"id": id, "kind": "Cluster", "href": format!("/api/hyperfleet/v1/clusters/{id}"), "generation": 1,
           "spec": {"allowed": true}, "status": {"conditions": []}})
}

fn told(found: Vec<Value>) -> Observation {
    if found.is_empty() { Observation::Absent } else { Observation::Present(found) }
}

#[test]
fn no_interleaving_reports_a_deletion_that_did_not_happen_and_none_gets_stuck() {
    let runs = hyperfleet_service::settings::environment();
    let runs = runs.get("HYPERFLEET_SIMULATIONS").and_then(|n| n.parse().ok()).unwrap_or(RUNS);
    let programs = [program(CAREFUL), program(CARELESS)];
    let (mut steps, mut finalized, mut withheld) = (0, 0, 0);
    for seed in 0..runs {
        let mut world = World::new(seed, programs[(seed % 2) as usize].clone());
        for _ in 0..ACTIONS {
            world.act();
        }
        world.settle_down();
        for id in ["a", "b", "c"] {
            world.delete(id);
        }
        world.settle_down();
        assert!(world.resources.is_empty(), "seed {seed}: {:?}", world.resources);
        let left = world.objects.values().filter(|object| !object.of.is_empty()).count();
        assert_eq!(left, 0, "seed {seed}: objects are left behind");
        steps += world.steps;
        finalized += world.finalized;
        withheld += world.withheld;
    }
    assert_eq!(finalized as u64, 3 * runs);
    assert!(withheld as u64 > runs / 4, "the guard was hardly needed: {withheld}");
    println!("{runs} runs, {steps} steps, {withheld} withheld");
}

#[test]
fn the_model_notices_a_careless_author_without_the_guard() {
    let guarded = program(CARELESS);
    let task =
        Task::parse(&TASK.replace("FINALIZED", CARELESS), "task.yaml", Path::new("."), &Options::default());
    let unguarded = Arc::new(Program {
        task: task.task.unwrap(),
        adapter: guarded.adapter.clone(),
        version: String::new(),
        config: json!({}),
        environment: serde_json::Map::new(),
        base_url: guarded.base_url.clone(),
        api_version: guarded.api_version.clone(),
        guards_finalized: false,
    });
    let noticed = (0..20).any(|seed| {
        let unguarded = unguarded.clone();
        let run = move || {
            let mut world = World::new(seed, unguarded);
            (0..ACTIONS).for_each(|_| world.act());
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err()
    });
    assert!(noticed, "a deletion that did not happen was reported, and nobody noticed");
}
