//! A recorded world: one event, answers of the API, and objects in memory. The three input files are those of the Go
//! adapter's dry run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hyperfleet_core::Timestamp;
use regex::Regex;
use serde_json::{Map, Value, json};

use crate::engine::{
    Answer, Apply, Effect, Execution, Finished, Input, Lookup, Program, Reply, Step, Stored,
};
use crate::files;
use crate::targets::{ErrorClass, Matcher, Observation, Operation, TargetError};

/// An input file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(String);

/// A world without I/O.
#[derive(Debug)]
pub struct World {
    /// Id of the event.
    pub event_id: String,
    /// Type of the event.
    pub event_type: String,
    event: Map<String, Value>,
    rules: Vec<Rule>,
    overrides: Map<String, Value>,
    /// Directories below which params may read files.
    pub file_roots: Vec<PathBuf>,
    objects: BTreeMap<String, Value>,
    /// What was asked of targets, in order: the verb and the object.
    pub operations: Vec<(&'static str, Value, &'static str)>,
}

/// Answers to one kind of request, in order; the last one is repeated.
#[derive(Debug)]
struct Rule {
    method: String,
    pattern: Regex,
    answers: Vec<(u16, Value)>,
    given: usize,
}

impl World {
    /// Reads the event, the answers of the API, and the objects that applied ones become, by name.
    pub fn read(event: &str, responses: Option<&str>, discovery: Option<&str>) -> Result<Self, BadInput> {
        let parse = |what: &str, text: &str| {
            serde_json::from_str::<Value>(text)
                .map_err(|error| BadInput(format!("{what} is no JSON: {error}")))
        };
        let event = parse("the event", event)?;
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (event_id, event_type) = (text("id"), text("type"));
        let Some(data) = event.get("data").and_then(Value::as_object).cloned() else {
            return Err(BadInput("the event has no object data".to_owned()));
        };
        if data.get("id").and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(BadInput("the event names no resource: data.id is missing".to_owned()));
        }
        let rules = match responses {
            None => Vec::new(),
            Some(text) => rules(&parse("the file of API responses", text)?)?,
        };
        let overrides = match discovery {
            None => Map::new(),
            Some(text) => match parse("the file of discoveries", text)? {
                Value::Object(members) => members,
                _ => return Err(BadInput("the file of discoveries must map names to objects".to_owned())),
            },
        };
        Ok(Self {
            event_id,
            event_type,
            event: data,
            rules,
            overrides,
            file_roots: Vec::new(),
            objects: BTreeMap::new(),
            operations: Vec::new(),
        })
    }

    /// One execution in this world.
    pub fn execute(&mut self, program: std::sync::Arc<Program>, now: Timestamp) -> Finished {
        let id = self.event["id"].as_str().unwrap_or_default().to_owned();
        let input =
            Input { event: self.event.clone(), id, attempt: 1, attempts: 1, once: true, ..Input::default() };
        let mut execution = Execution::new(program, input);
        let mut answer = None;
        loop {
            match execution.resume(answer.take(), now) {
                Step::Done(finished) => return *finished,
                Step::Ask(effect) => answer = Some(self.answer(&effect)),
            }
        }
    }

    fn answer(&mut self, effect: &Effect) -> Answer {
        match effect {
            Effect::Read { .. } => Answer::Read(self.resource()),
            Effect::LastReport => Answer::LastReport(Ok(None)),
            Effect::Call(call) => {
                let (status, body) = self.respond(call.method, &call.path).unwrap_or((200, json!({})));
                Answer::Called(Ok(Reply { status, body: body.to_string() }))
            }
            Effect::File { path } => {
                Answer::File(files::read_below(Path::new(path), &self.file_roots, files::MAX_PARAM))
            }
            Effect::Observe(lookups) => {
                Answer::Observed(lookups.iter().map(|one| self.observe(one)).collect())
            }
            Effect::Owned => {
                let found = self.objects.values().filter(|object| object.pointer(TERMINATING).is_none());
                Answer::Observed(vec![told(found.cloned().collect())])
            }
            Effect::Apply(apply) => Answer::Applied(self.apply(apply)),
            Effect::Delete(delete) => {
                self.objects.retain(|_, object| {
                    object["metadata"]["name"] != delete.object["metadata"]["name"]
                        || object["kind"] != delete.object["kind"]
                });
                self.operations.push(("delete", delete.object.clone(), "delete"));
                Answer::Deleted(Ok(()))
            }
            Effect::Report(_) => {
                let path = format!("{}/statuses", self.href());
                let answered = ["PUT", "POST"].iter().find_map(|method| self.respond(method, &path));
                Answer::Reported(match answered.map_or(200, |(status, _)| status) {
                    204 => Ok(Stored::Discarded),
                    200..300 => Ok(Stored::Stored),
                    404 => Ok(Stored::Gone),
                    status => Err(error(format!("the report was answered with {status}"))),
                })
            }
        }
    }

    fn href(&self) -> String {
        let text = |name: &str| self.event.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("href") {
            "" => format!("/api/hyperfleet/v1/{}s/{}", text("kind").to_lowercase(), text("id")),
            href => href.to_owned(),
        }
    }

    /// The resource as the recorded API gives it; made of the event where nothing is recorded.
    fn resource(&mut self) -> Result<Option<Value>, TargetError> {
        let href = self.href();
        match self.respond("GET", &href) {
            None => Ok(Some(Value::Object(self.event.clone()))),
            Some((200..300, body)) => Ok(Some(body)),
            Some((404, _)) => Ok(None),
            Some((status, _)) => Err(error(format!("GET {href} was answered with {status}"))),
        }
    }

    fn respond(&mut self, method: &str, path: &str) -> Option<(u16, Value)> {
        let fits = |rule: &&mut Rule| {
            (rule.method == "*" || rule.method.eq_ignore_ascii_case(method)) && rule.pattern.is_match(path)
        };
        let rule = self.rules.iter_mut().find(fits)?;
        let answer = rule.answers.get(rule.given).or(rule.answers.last()).cloned();
        rule.given += 1;
        answer
    }

    fn observe(&self, lookup: &Lookup) -> Observation {
        let query = &lookup.query;
        let fits = |object: &&Value| {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
            text("/apiVersion") == Some(&query.api_version)
                && text("/kind") == Some(&query.kind)
                && query
                    .namespace
                    .as_deref()
                    .is_none_or(|wanted| text("/metadata/namespace").is_none_or(|own| own == wanted))
                && match &query.matcher {
                    Matcher::Name(_) => true,
                    Matcher::Labels(labels) => labels.iter().all(|(key, value)| {
                        object
                            .pointer("/metadata/labels")
                            .and_then(|all| all.get(key))
                            .is_some_and(|own| own == value.as_str())
                    }),
                }
        };
        // By name, an object is found under the name that it was applied with.
        let named = |key: &str| match &query.matcher {
            Matcher::Name(name) => key.rsplit('/').next() == Some(name),
            Matcher::Labels(_) => true,
        };
        told(
            self.objects
                .iter()
                .filter(|(key, _)| named(key))
                .map(|(_, object)| object)
                .filter(fits)
                .cloned()
                .collect(),
        )
    }

    fn apply(&mut self, apply: &Apply) -> Result<(Operation, Value), TargetError> {
        let text =
            |pointer: &str| apply.manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = text("/metadata/name");
        let key = format!("{}/{}/{}/{name}", text("/apiVersion"), text("/kind"), text("/metadata/namespace"));
        let operation = match self.objects.contains_key(&key) {
            false => Operation::Created,
            true if apply.options.recreate => Operation::Recreating,
            true => Operation::Updated,
        };
        let object = self.overrides.get(name).unwrap_or(&apply.manifest).clone();
        self.objects.insert(key, object.clone());
        let word = match operation {
            Operation::Created => "create",
            Operation::Recreating => "recreate",
            _ => "update",
        };
        self.operations.push(("apply", apply.manifest.clone(), word));
        Ok((operation, object))
    }
}

const TERMINATING: &str = "/metadata/deletionTimestamp";

fn told(found: Vec<Value>) -> Observation {
    if found.is_empty() { Observation::Absent } else { Observation::Present(found) }
}

fn error(message: String) -> TargetError {
    TargetError { class: ErrorClass::Terminal, reason: "Recorded".to_owned(), message }
}

fn rules(file: &Value) -> Result<Vec<Rule>, BadInput> {
    let Some(all) = file.get("responses").and_then(Value::as_array) else {
        return Err(BadInput("the file of API responses has no list responses".to_owned()));
    };
    let mut rules = Vec::new();
    for (i, one) in all.iter().enumerate() {
        let text = |pointer: &str| one.pointer(pointer).and_then(Value::as_str);
        let wrong = |what: &str| BadInput(format!("the file of API responses: responses[{i}].{what}"));
        let method = text("/match/method").unwrap_or("*").to_owned();
        let source = text("/match/urlPattern").ok_or_else(|| wrong("match.urlPattern is missing"))?;
        let pattern = Regex::new(source).map_err(|_| wrong("match.urlPattern is no regular expression"))?;
        let answers = one.get("responses").and_then(Value::as_array).into_iter().flatten();
        let answers: Vec<_> = answers
            .map(|answer| {
                let status = answer.get("statusCode").and_then(Value::as_u64).unwrap_or(200);
                (u16::try_from(status).unwrap_or(500), answer.get("body").cloned().unwrap_or_default())
            })
            .collect();
        if answers.is_empty() {
            return Err(wrong("responses is missing or empty"));
        }
        rules.push(Rule { method, pattern, answers, given: 0 });
    }
    Ok(rules)
}
