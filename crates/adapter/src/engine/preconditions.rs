//! The second phase: whether objects may be changed. Conditions are looked at in order, and the first that is not met
//! ends the phase.

use serde_json::{Map, Value};

use super::conditions::{self, Unmet};
use super::journal::PreconditionRecord;
use super::run::{Failure, Run};
use crate::task::{Extract, LogAction, Precondition, Test};

/// The name of the phase, as expressions and metrics know it.
pub(super) const PHASE: &str = "preconditions";

impl Run {
    /// The first precondition that is not met, with the reason.
    pub(super) async fn check_preconditions(&mut self) -> Result<Option<(String, String)>, Failure> {
        let program = self.program.clone();
        for one in &program.task.preconditions {
            let mut captured = Map::new();
            let met = self.check(one, &mut captured).await;
            let (matched, error) = match &met {
                Ok(None) => (true, None),
                Ok(Some(_)) => (false, None),
                Err(failure) => (false, Some(failure.message.clone())),
            };
            self.journal.preconditions.push(PreconditionRecord {
                name: one.name.clone(),
                matched,
                error,
                captured,
            });
            if let Some(why) = met? {
                return Ok(Some((one.name.clone(), why)));
            }
        }
        Ok(None)
    }

    async fn check(
        &mut self,
        one: &Precondition,
        captured: &mut Map<String, Value>,
    ) -> Result<Option<String>, Failure> {
        if let Some(log) = &one.log {
            self.log(log);
        }
        if let Some(call) = &one.call {
            let answer = self.call(call, PHASE, &one.name).await?;
            let Value::Object(members) = &answer else {
                return Err(Failure::of_author(PHASE, &one.name, "the answer is no JSON object".to_owned()));
            };
            for capture in &one.capture {
                match (capture.from.value(members, self.now()), &capture.from) {
                    (Ok(value), _) => drop(captured.insert(capture.name.clone(), value)),
                    (Err(why), from) => {
                        self.journal.warnings.push(format!("{}.{}: {why}", one.name, capture.name));
                        // As in Go, an expression that fails is null, and a field that is missing is not there.
                        if matches!(from, Extract::Expression(_)) {
                            captured.insert(capture.name.clone(), Value::Null);
                        }
                    }
                }
            }
            self.define(&one.name, answer);
            for (name, value) in captured.iter() {
                self.define(name, value.clone());
            }
        }
        let as_go = self.program.task.as_go;
        match &one.test {
            Test::Always => Ok(None),
            Test::Conditions(all) => {
                let mut unmet = Vec::new();
                for condition in all {
                    match conditions::evaluate(condition, self, as_go) {
                        Ok(()) => {}
                        Err(Unmet::No(why)) => unmet.push(why),
                        Err(Unmet::Error(why)) => return Err(Failure::of_author(PHASE, &one.name, why)),
                    }
                }
                Ok((!unmet.is_empty()).then(|| unmet.join("; ")))
            }
            Test::Expression(expression) => match self.holds(expression) {
                Ok(true) => Ok(None),
                Ok(false) => Ok(Some(format!("{} is false", expression.source().trim()))),
                Err(why) if as_go => Ok(Some(format!("CEL error: {why}"))),
                Err(why) => Err(Failure::of_author(PHASE, &one.name, why)),
            },
        }
    }

    pub(super) fn log(&mut self, log: &LogAction) {
        match log.message.render(&self.params, self.now()) {
            Ok(message) => self.journal.logs.push((log.level, message)),
            Err(why) => self.journal.warnings.push(format!("log: {why}")),
        }
    }
}
