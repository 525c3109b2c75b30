//! The order of an execution: read, params, preconditions, resources, post, report; and what becomes of a failure.

use std::sync::Arc;
use std::time::Duration;

use hyperfleet_core::Timestamp;
use serde_json::{Map, Value, json};

use super::effect::{Answer, Effect, Stored};
use super::journal::Journal;
use super::report::{self, Situation};
use super::{Exchange, Finished, Input, Outcome, Program, Settle, act, params, post, preconditions};
use crate::targets::{ErrorClass, Observation, TargetError};
use crate::task::{Expr, TargetClient, Variables};

/// A stale replica is asked once more after this.
const STALE_PAUSE: Duration = Duration::from_millis(200);
/// What was read longer ago is read again before something is deleted.
const OLD: Duration = Duration::from_secs(30);

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureClass {
    Outage {
        retry_after: Option<Duration>,
    },
    Transient,
    /// The adapter's fault, or its author's: it stays until somebody changes something.
    Terminal,
    /// The resource's fault: the adapter is well.
    Business,
}

/// Why a phase ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) class: FailureClass,
    pub(super) phase: &'static str,
    pub(super) step: String,
    pub(super) target: &'static str,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Failure {
    /// A fault of the task file.
    pub(super) fn of_author(phase: &'static str, step: &str, message: String) -> Self {
        let (class, target) = (FailureClass::Terminal, "task");
        Self { class, phase, step: step.to_owned(), target, reason: "ExecutionFailed".to_owned(), message }
    }

    pub(super) fn of_target(
        phase: &'static str,
        step: &str,
        target: &'static str,
        error: TargetError,
    ) -> Self {
        let class = match error.class {
            ErrorClass::Outage { retry_after } => FailureClass::Outage { retry_after },
            ErrorClass::Transient => FailureClass::Transient,
            ErrorClass::Terminal => FailureClass::Terminal,
            ErrorClass::Business => FailureClass::Business,
        };
        Self { class, phase, step: step.to_owned(), target, reason: error.reason, message: error.message }
    }

    pub(super) fn may_pass(&self) -> bool {
        matches!(self.class, FailureClass::Outage { .. } | FailureClass::Transient)
    }

    /// Whether the adapter itself is unwell.
    pub(super) fn is_of_adapter(&self) -> bool {
        self.class != FailureClass::Business
    }

    /// The code of the error standard.
    pub(super) fn code(&self) -> &'static str {
        match (self.class, self.target) {
            (FailureClass::Outage { .. }, _) => "HYPERFLEET-SVC-002",
            (FailureClass::Transient, _) => "HYPERFLEET-SVC-003",
            (FailureClass::Business, _) => "HYPERFLEET-VAL-002",
            (FailureClass::Terminal, "task") => "HYPERFLEET-INT-003",
            (FailureClass::Terminal, _) => "HYPERFLEET-SVC-004",
        }
    }
}

/// The error of a question that nobody answered.
pub(super) fn outage_or(message: &str) -> TargetError {
    TargetError { class: ErrorClass::Transient, reason: "NoAnswer".to_owned(), message: message.to_owned() }
}

/// The state of an execution.
pub(super) struct Run {
    pub(super) program: Arc<Program>,
    pub(super) input: Input,
    exchange: Arc<Exchange>,
    pub(super) journal: Journal,
    /// What templates see, and expressions but for `adapter`, `resources` and `params`.
    pub(super) params: Map<String, Value>,
    /// Names that the task defined, for the journal.
    defined: Vec<String>,
    /// The resource as it was read.
    pub(super) resource: Value,
    read_at: Timestamp,
    /// What is known of each declared resource.
    pub(super) observed: Vec<Option<Observation>>,
    /// `resources` of expressions.
    pub(super) objects: Value,
    /// `adapter` of expressions.
    adapter: Value,
    pub(super) resource_errors: Map<String, Value>,
    pub(super) failure: Option<Failure>,
    /// The precondition that is not met, and why.
    pub(super) unmet: Option<(String, String)>,
    pub(super) recheck: bool,
    /// The server does not have the resource any more.
    pub(super) gone: bool,
    pub(super) reported: bool,
}

impl Variables for Run {
    fn get(&self, name: &str) -> Option<&Value> {
        match name {
            "adapter" => Some(&self.adapter),
            "resources" => Some(&self.objects),
            _ => self.params.get(name),
        }
    }
}

/// Variables with `params`, which upstream's own example uses.
struct WithParams<'r> {
    run: &'r Run,
    params: Value,
}

impl Variables for WithParams<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        if name == "params" { Some(&self.params) } else { self.run.get(name) }
    }
}

impl Run {
    fn new(program: Arc<Program>, input: Input, exchange: Arc<Exchange>) -> Self {
        let mut params = Map::new();
        params.insert("adapter".to_owned(), json!({"name": program.adapter, "version": program.version}));
        params.insert("metadata".to_owned(), json!({"name": program.adapter}));
        params.insert("config".to_owned(), program.config.clone());
        params.insert("env".to_owned(), Value::Object(program.environment.clone()));
        params.insert("event".to_owned(), Value::Object(input.event.clone()));
        let observed = vec![None; program.task.resources.len()];
        let mut run = Self {
            program,
            input,
            exchange,
            journal: Journal::default(),
            params,
            defined: Vec::new(),
            resource: Value::Null,
            read_at: Timestamp::from_micros(0),
            observed,
            objects: json!({}),
            adapter: Value::Null,
            resource_errors: Map::new(),
            failure: None,
            unmet: None,
            recheck: false,
            gone: false,
            reported: false,
        };
        run.refresh_adapter();
        run
    }

    pub(super) fn now(&self) -> Timestamp {
        self.exchange.now()
    }

    pub(super) async fn ask(&mut self, effect: Effect) -> Answer {
        self.exchange.ask(effect).await
    }

    /// Makes a value known under a name.
    pub(super) fn define(&mut self, name: &str, value: Value) {
        self.defined.push(name.to_owned());
        self.params.insert(name.to_owned(), value);
    }

    pub(super) fn evaluate(&self, expression: &Expr) -> Result<Value, String> {
        match expression.reads("params") {
            false => expression.evaluate(self, self.now()),
            true => {
                let own = self
                    .defined
                    .iter()
                    .filter_map(|name| Some((name.clone(), self.params.get(name)?.clone())));
                expression.evaluate(&WithParams { run: self, params: own.collect() }, self.now())
            }
        }
    }

    pub(super) fn holds(&self, expression: &Expr) -> Result<bool, String> {
        match self.evaluate(expression)? {
            Value::Bool(held) => Ok(held),
            other => Err(format!("came to {} instead of true or false", crate::task::type_of(&other))),
        }
    }

    pub(super) fn text_of(&self, member: &str) -> String {
        self.resource.get(member).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    pub(super) fn generation(&self) -> i64 {
        let read = self.resource.get("generation").and_then(Value::as_i64);
        read.or_else(|| self.input.event.get("generation").and_then(Value::as_i64)).unwrap_or_default()
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.resource.get("deleted_time").is_some_and(|time| !time.is_null())
    }

    /// `adapter` anew, after something of it changed.
    pub(super) fn refresh_adapter(&mut self) {
        let failure = self.failure.as_ref();
        let reason = failure.map_or("", |failure| match failure.phase {
            params::PHASE => "ParameterExtractionFailed",
            preconditions::PHASE => "PreconditionFailed",
            act::PHASE => "ResourceFailed",
            _ => "PostActionFailed",
        });
        let error = failure
            .map(|failure| json!({"phase": failure.phase, "step": failure.step, "message": failure.message}));
        let skipped = self.journal.skipped.clone();
        self.adapter = json!({
            "name": self.program.adapter,
            "version": self.program.version,
            "executionStatus": if failure.is_some() { "failed" } else { "success" },
            "resourcesSkipped": skipped.is_some(),
            "skipReason": skipped.unwrap_or_default(),
            "errorReason": reason,
            "errorMessage": failure.map_or("", |failure| failure.message.as_str()),
            "executionError": error,
            "resourceErrors": self.resource_errors,
        });
    }

    async fn read(&mut self, after: Duration) -> Result<bool, Failure> {
        match self.ask(Effect::Read { after }).await {
            Answer::Read(Ok(Some(resource))) => {
                self.resource = resource;
                self.read_at = self.now();
                Ok(true)
            }
            Answer::Read(Ok(None)) => Ok(false),
            Answer::Read(Err(error)) => Err(Failure::of_target("read", "resource", "api", error)),
            _ => Err(Failure::of_target("read", "resource", "api", outage_or("the resource was not read"))),
        }
    }

    /// What is deleted cannot be brought back, so an old reading is not enough.
    pub(super) async fn read_again_if_old(&mut self) -> Result<(), Failure> {
        let age = self.now().micros().saturating_sub(self.read_at.micros());
        if u128::try_from(age).unwrap_or_default() <= OLD.as_micros() {
            return Ok(());
        }
        let (before, deleting) = (self.generation(), self.is_deleting());
        let there = self.read(Duration::ZERO).await?;
        if there && (self.generation(), self.is_deleting()) == (before, deleting) {
            return Ok(());
        }
        let error = outage_or("the resource changed meanwhile");
        Err(Failure::of_target(act::PHASE, "resource", "api", error))
    }

    fn fail(&mut self, failure: Failure) {
        self.journal.errors.push((failure.phase, failure.message.clone()));
        // The first failure is what the others follow from.
        self.failure.get_or_insert(failure);
        self.refresh_adapter();
    }

    /// Whether there is another attempt after this one.
    fn is_last(&self) -> bool {
        self.input.once || (self.input.attempts > 0 && self.input.attempt >= self.input.attempts)
    }

    fn finished(mut self, outcome: Outcome, settle: Settle) -> Finished {
        let own = self.defined.iter().filter_map(|name| Some((name.clone(), self.params.get(name)?.clone())));
        self.journal.params = own.collect();
        if let Value::Object(objects) = std::mem::take(&mut self.objects) {
            self.journal.objects = objects;
        }
        Finished {
            outcome,
            settle,
            generation: self.generation(),
            recheck: self.recheck,
            journal: self.journal,
        }
    }

    /// What may pass ends the execution here: the author's report would tell of a moment.
    async fn give_back(mut self, failure: Failure) -> Finished {
        let reason = format!("{}: {}", failure.reason, failure.message);
        let is_outage = matches!(failure.class, FailureClass::Outage { .. });
        let last = self.is_last() && !is_outage;
        // Without the API there is nobody to report to.
        if !(is_outage && failure.target == "api")
            && (is_outage || last || self.input.attempt > 1)
            && !self.resource.is_null()
        {
            let situation = if is_outage {
                Situation::Outage
            } else if last {
                Situation::GaveUp
            } else {
                Situation::Retrying
            };
            let _ = self.report_instead(situation, reason.clone()).await;
        }
        let settle = match failure.class {
            FailureClass::Outage { retry_after } => Settle::Outage { reason, retry_after },
            _ => Settle::Retry(reason),
        };
        self.finished(Outcome::Error, settle)
    }

    /// The framework's own report, where the author's cannot be had.
    pub(super) async fn report_instead(&mut self, situation: Situation, why: String) -> Result<(), Failure> {
        let needs_previous = self.failure.as_ref().is_some_and(Failure::is_of_adapter);
        let previous = match needs_previous {
            true => match self.ask(Effect::LastReport).await {
                Answer::LastReport(Ok(previous)) => previous,
                _ => None,
            },
            false => None,
        };
        let report = report::fallback(&self.facts(situation), previous.as_ref(), self.now());
        self.journal.fallback = Some(why);
        self.send(report).await
    }

    /// Sends a report; a refusal is a terminal failure.
    pub(super) async fn send(&mut self, report: Value) -> Result<(), Failure> {
        self.journal.report = Some(report.clone());
        let failed = |error| Err(Failure::of_target(post::PHASE, "report", "api", error));
        match self.ask(Effect::Report(report)).await {
            Answer::Reported(Ok(stored)) => {
                self.reported = true;
                self.gone |= stored == Stored::Gone;
                Ok(())
            }
            Answer::Reported(Err(error)) => failed(error),
            _ => failed(outage_or("the report was not answered")),
        }
    }

    fn outcome(&self) -> Outcome {
        if self.gone {
            return Outcome::Gone;
        }
        match &self.failure {
            Some(failure) if failure.is_of_adapter() => return Outcome::Error,
            Some(_) => return Outcome::Failed,
            None if self.unmet.is_some() => return Outcome::Skipped,
            None => {}
        }
        let is = |kind: &str, status: &str| {
            self.journal.report.as_ref().is_some_and(|report| report::status_of(report, kind) == Some(status))
        };
        match self.journal.report.is_none() || is("Available", "True") || is("Finalized", "True") {
            true => Outcome::Done,
            false => Outcome::Working,
        }
    }
}

/// The whole execution.
pub(super) async fn run(program: Arc<Program>, input: Input, exchange: Arc<Exchange>) -> Finished {
    let mut run = Run::new(program, input, exchange);
    match run.read_fresh().await {
        Ok(true) => {}
        Ok(false) => return run.finished(Outcome::Gone, Settle::Acknowledge),
        Err(failure) => {
            run.fail(failure.clone());
            return match failure.may_pass() {
                true => run.give_back(failure).await,
                // A wrong URL: there is nothing to report on.
                false => {
                    let reason = failure.message;
                    run.finished(Outcome::Error, Settle::Retry(reason))
                }
            };
        }
    }
    run.complete_event();
    if let Err(failure) = run.work().await {
        run.fail(failure);
    }
    let is_outage = |failure: &Failure| matches!(failure.class, FailureClass::Outage { .. });
    let pending =
        run.failure.clone().filter(|failure| failure.may_pass() && (!run.input.once || is_outage(failure)));
    if let Some(failure) = pending {
        return run.give_back(failure).await;
    }
    let extracted = run.failure.as_ref().is_none_or(|failure| failure.phase != params::PHASE);
    if extracted && let Err(failure) = run.post().await {
        let may_pass = failure.may_pass() && !run.input.once;
        run.fail(failure.clone());
        if may_pass {
            return run.give_back(failure).await;
        }
    }
    if let Some(failure) = run.failure.clone()
        && !run.reported
        && !run.gone
    {
        let why = format!("{}: {}", failure.phase, failure.message);
        let sent = run.report_instead(Situation::Final, why).await;
        if let Err(failure) = sent {
            run.journal.errors.push((failure.phase, failure.message.clone()));
            if failure.may_pass() && !run.input.once {
                return run.give_back(failure).await;
            }
        }
    }
    let outcome = run.outcome();
    run.finished(outcome, Settle::Acknowledge)
}

impl Run {
    /// Reads the resource; one that is older than the last report comes from a stale replica.
    async fn read_fresh(&mut self) -> Result<bool, Failure> {
        if !self.read(Duration::ZERO).await? {
            return Ok(false);
        }
        if self.generation() < self.input.reported_generation && !self.read(STALE_PAUSE).await? {
            return Ok(false);
        }
        if self.generation() < self.input.reported_generation {
            let error = outage_or("the API answered with an older generation than was reported");
            return Err(Failure::of_target("read", "resource", "api", error));
        }
        Ok(true)
    }

    /// The owner that an event leaves out is that of the resource.
    fn complete_event(&mut self) {
        let owner = self.resource.get("owner_references").filter(|owner| owner.is_object()).cloned();
        if let (Some(owner), Some(Value::Object(event))) = (owner, self.params.get_mut("event")) {
            event.entry("owner_references").or_insert(owner);
        }
    }

    async fn work(&mut self) -> Result<(), Failure> {
        self.extract_params().await?;
        let checked = self.check_preconditions().await;
        let as_go = self.program.task.as_go;
        match checked {
            Ok(None) => {}
            Ok(Some((name, why))) => {
                self.journal.skipped = Some(format!("precondition '{name}' not met: {why}"));
                self.unmet = Some((name, why));
                self.refresh_adapter();
                // Preconditions gate changes, not observation: without it a report would tell of nothing.
                return if as_go { Ok(()) } else { self.observe_all(true).await };
            }
            Err(failure) => {
                self.journal.skipped = Some("PreconditionFailed".to_owned());
                if !failure.may_pass() && !as_go {
                    let _ = self.observe_all(true).await;
                }
                return Err(failure);
            }
        }
        self.observe_all(false).await?;
        self.act().await
    }

    /// What a report of the framework is made of.
    pub(super) fn facts(&self, situation: Situation) -> report::Facts<'_> {
        let program = &self.program;
        let present = |observed: &Option<Observation>| matches!(observed, Some(Observation::Present(_)));
        let named = program.task.resources.iter().zip(&self.observed);
        let remaining =
            named.filter(|(_, observed)| present(observed)).map(|(declared, _)| declared.name.clone());
        report::Facts {
            adapter: &program.adapter,
            generation: self.generation(),
            deleting: self.is_deleting(),
            applied: !self.observed.is_empty() && self.observed.iter().all(present),
            remaining: remaining.collect(),
            unmet: self.unmet.as_ref(),
            failure: self.failure.as_ref(),
            attempt: self.input.attempt,
            attempts: self.input.attempts,
            situation,
        }
    }

    pub(super) fn has_kubernetes(&self) -> bool {
        self.program.task.uses(TargetClient::Kubernetes)
    }
}
