//! The last phase: payloads are built, then post actions run in order until one fails. A call that puts a report on the
//! resource is recognised, and guarded.

use serde_json::{Map, Value, json};

use super::effect::{Answer, Effect};
use super::guard::{self, Evidence};
use super::journal::{ActionRecord, CallRecord};
use super::report::{self, Situation};
use super::run::{Failure, Run};
use crate::targets::Observation;
use crate::task::{Action, StatusForm};

/// The name of the phase, as expressions and metrics know it.
pub(super) const PHASE: &str = "post_actions";

impl Run {
    pub(super) async fn post(&mut self) -> Result<(), Failure> {
        let program = self.program.clone();
        if let Some(form) = &program.task.status {
            // The framework's own report keeps what was known before.
            if self.failure.as_ref().is_some_and(Failure::is_of_adapter) {
                return Ok(());
            }
            let report = self.short_form(form).map_err(|why| Failure::of_author(PHASE, "status", why))?;
            return self.send_guarded(report).await;
        }
        let skipped =
            self.build_payloads().map_err(|why| Failure::of_author(PHASE, "build_payloads", why))?;
        for action in &program.task.actions {
            let done = self.act_after(action, &skipped).await;
            let (skipped, error) = match &done {
                Ok(None) => (None, None),
                Ok(Some(why)) => (Some(why.clone()), None),
                Err(failure) => (None, Some(failure.message.clone())),
            };
            self.journal.actions.push(ActionRecord { name: action.name.clone(), skipped, error });
            done?;
        }
        Ok(())
    }

    /// Builds every payload; the names of those whose condition is false.
    fn build_payloads(&mut self) -> Result<Vec<String>, String> {
        let program = self.program.clone();
        let mut skipped = Vec::new();
        for payload in &program.task.payloads {
            let wrong = |why: String| format!("payload {}: {why}", payload.name);
            if let Some(when) = &payload.when
                && !self.holds(when).map_err(wrong)?
            {
                skipped.push(payload.name.clone());
                continue;
            }
            let mut missing = Vec::new();
            let built = payload.build.build(self, &self.params, self.now(), &mut missing).map_err(wrong)?;
            self.journal.warnings.extend(missing.into_iter().map(|why| format!("{}: {why}", payload.name)));
            self.params.insert(payload.name.clone(), Value::String(built.to_string()));
        }
        Ok(skipped)
    }

    /// Runs an action; the reason when it is skipped.
    async fn act_after(&mut self, action: &Action, skipped: &[String]) -> Result<Option<String>, Failure> {
        let failed = |why| Failure::of_author(PHASE, &action.name, why);
        if let Some(call) = &action.call {
            let reads = |name: &&String| call.body.as_ref().is_some_and(|body| body.reads(name));
            if let Some(name) = skipped.iter().find(reads) {
                return Ok(Some(format!("referenced payload '{name}' was skipped")));
            }
        }
        if let Some(when) = &action.when
            && !self.holds(when).map_err(failed)?
        {
            return Ok(Some(format!("when condition evaluated to false: {}", when.source().trim())));
        }
        if let Some(log) = &action.log {
            self.log(log);
        }
        let Some(call) = &action.call else { return Ok(None) };
        let ready = self.ready(call).map_err(failed)?;
        if !matches!(ready.call.method, "PUT" | "POST") || !self.is_subject(&ready.path, "/statuses") {
            self.call(call, PHASE, &action.name).await?;
            return Ok(None);
        }
        let body = ready.call.body.clone().unwrap_or_default();
        let report: Value =
            serde_json::from_str(&body).map_err(|_| failed("the report is no JSON".to_owned()))?;
        let sent = self.send_guarded(report).await;
        let (status, response) = match &sent {
            Ok(()) => (201, String::new()),
            Err(failure) => (0, failure.message.clone()),
        };
        self.journal.calls.push(CallRecord {
            method: ready.call.method,
            path: ready.call.path,
            status,
            request: self.journal.report.as_ref().map(Value::to_string),
            response,
        });
        sent.map(|()| None).map_err(|failure| Failure { step: action.name.clone(), ..failure })
    }

    /// Sends an author's report, corrected where the framework knows better.
    async fn send_guarded(&mut self, mut report: Value) -> Result<(), Failure> {
        let mut corrected = Vec::new();
        if !self.program.task.as_go && report::correct_health(&mut report, &self.facts(Situation::Final)) {
            corrected.push("Health");
        }
        if self.program.guards_finalized
            && report::status_of(&report, "Finalized") == Some("True")
            && let Some(withheld) = self.withheld(&report).await
        {
            report::withhold_finalized(&mut report, &withheld.message);
            self.journal.withheld = Some((withheld.why, withheld.message));
            corrected.push("Finalized");
        }
        let now = self.now();
        report::annotate(&mut report, &corrected, &self.facts(Situation::Final), now);
        self.journal.corrected.extend(&corrected);
        let faults = report::faults(&report);
        if !faults.is_empty() {
            let why = format!("the report would be refused: {}", faults.join("; "));
            return Err(Failure::of_author(PHASE, "report", why));
        }
        self.send(report).await
    }

    async fn withheld(&mut self, report: &Value) -> Option<guard::Withheld> {
        let owned = match self.has_kubernetes() && self.is_deleting() {
            true => match self.ask(Effect::Owned).await {
                Answer::Observed(mut answers) if answers.len() == 1 => answers.pop(),
                _ => Some(Observation::Unknown(super::run::outage_or(
                    "objects with our labels were not looked for",
                ))),
            },
            false => None,
        };
        let program = self.program.clone();
        let resources = program.task.resources.iter().zip(&self.observed);
        guard::withheld(&Evidence {
            deleting: self.is_deleting(),
            read_generation: self.generation(),
            reported_generation: report.get("observed_generation").and_then(Value::as_i64),
            failed: self.failure.as_ref().map(|failure| failure.phase),
            unmet: self.unmet.as_ref().map(|(name, _)| name.as_str()),
            resources: resources
                .map(|(declared, observed)| (declared.name.as_str(), observed.as_ref()))
                .collect(),
            owned: owned.as_ref(),
        })
    }

    /// The report of the short form `status`.
    fn short_form(&mut self, form: &StatusForm) -> Result<Value, String> {
        let facts = self.facts(Situation::Final);
        let now = self.now();
        let mut report = report::fallback(&facts, None, now);
        let text = |expression: &Option<crate::task::Expr>| -> Result<Option<String>, String> {
            let Some(expression) = expression else { return Ok(None) };
            Ok(self.evaluate(expression)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned))
        };
        if let Some(data) = &form.data {
            let mut missing = Vec::new();
            let built = data.build(self, &self.params, now, &mut missing)?;
            if let (Value::Object(built), Some(data)) =
                (built, report.get_mut("data").and_then(Value::as_object_mut))
            {
                data.extend(built);
            }
        }
        // What a failure or a precondition says is said already.
        if self.failure.is_some() || self.unmet.is_some() {
            return Ok(report);
        }
        let gone = self.is_deleting() && self.facts(Situation::Final).remaining.is_empty();
        let (available, failed) = match self.is_deleting() {
            true => (false, false),
            false => {
                let available = truth(&self.evaluate(&form.available)?)?;
                let failed =
                    form.failed.as_ref().map(|failed| self.holds(failed)).transpose()?.unwrap_or(false);
                (available && !failed, failed)
            }
        };
        let reason = text(&form.reason)?.unwrap_or_else(|| match (available, failed, gone) {
            (true, ..) => "Ready".to_owned(),
            (_, true, _) => "Failed".to_owned(),
            (_, _, true) => "CleanupConfirmed".to_owned(),
            _ => "InProgress".to_owned(),
        });
        let message = text(&form.message)?.unwrap_or_default();
        let applied =
            !self.is_deleting() && (self.observed.is_empty() || self.facts(Situation::Final).applied);
        let mut conditions = vec![
            report::entry("Applied", applied, if applied { "Applied" } else { &reason }, ""),
            report::entry("Available", available, &reason, &message),
            report::entry("Health", true, "Healthy", ""),
        ];
        if self.is_deleting() {
            let remaining = self.facts(Situation::Final).remaining.join(", ");
            let (word, message) = match gone {
                true => ("CleanupConfirmed", String::new()),
                false => ("CleanupInProgress", format!("still there: {remaining}")),
            };
            conditions.push(report::entry("Finalized", gone, word, &message));
        }
        report["conditions"] = conditions.into();
        if report.get("data") == Some(&json!({})) {
            report.as_object_mut().map(|members: &mut Map<String, Value>| members.shift_remove("data"));
        }
        Ok(report)
    }
}

/// `true`, `"True"` and their opposites; `Unknown` is not yet.
fn truth(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(held) => Ok(*held),
        Value::String(text) if text == "True" => Ok(true),
        Value::String(text) if text == "False" || text == "Unknown" => Ok(false),
        other => Err(format!("status.available came to {}", crate::task::type_of(other))),
    }
}
