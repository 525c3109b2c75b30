//! One history applied to a server and to the model. After every step each resource of the history must match the
//! model, down to its times, and no other resource may have changed.

use std::collections::BTreeMap;

use hyperfleet_testkit::Answer;
use hyperfleet_testkit::model::{
    Action, Expected, Learned, Model, Operation, Request, ResourceView, Slot, check_conditions,
    check_invariants, mismatches,
};
use serde_json::Value;

use super::complaints;
use crate::support::{App, BASE, id, text, unique};

/// Members that say who did something, which the model does not know.
const ACTORS: [&str; 3] = ["created_by", "updated_by", "deleted_by"];

/// A list that shows a whole history: the newest resources come first.
const EVERYTHING: &str = "/resources?showDeleted=true&pageSize=500";

/// Which of the equivalent paths and methods of a request are used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) path_form: PathForm,
    /// Reports by POST instead of PUT.
    pub(super) posts: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum PathForm {
    Flat,
    Nested,
    /// `B/resources`, for any kind.
    AnyKind,
}

impl Manner {
    fn method(self, request: &Request) -> &'static str {
        match request.action {
            Action::Report(_) if self.posts => "POST",
            _ => request.method(),
        }
    }

    fn path(self, request: &Request) -> String {
        match (self.path_form, &request.target) {
            (PathForm::Flat, _) => request.path(),
            (PathForm::AnyKind, Some((_, id))) => {
                let below = match request.action {
                    Action::Report(_) => "/statuses",
                    Action::ForceDelete { .. } => "/force-delete",
                    _ => "",
                };
                format!("{BASE}/resources/{id}{below}")
            }
            (PathForm::AnyKind, None) if request.owners.is_empty() => format!("{BASE}/resources"),
            // A child is made below its owner, whatever the form.
            (PathForm::AnyKind, None) | (PathForm::Nested, _) => request.nested_path(),
        }
    }
}

pub(super) struct ModelRun {
    pub(super) model: Model,
    /// Whether the model knows every member of the conditions.
    exact: bool,
    manner: Manner,
    /// Makes names unique among the histories of one server.
    prefix: String,
    /// How many resources the server has that this history did not make.
    others: u64,
    /// How many complaints the server had logged before.
    complaints: usize,
    /// The version of each resource when it was last read.
    tags: BTreeMap<Slot, String>,
}

/// Everything that the history made, as the server has it.
struct Reading {
    documents: Vec<Value>,
    statuses: BTreeMap<String, Vec<Value>>,
}

impl ModelRun {
    pub(super) async fn begin(app: &App, model: Model, exact: bool, manner: Manner) -> Self {
        let others = app.get(EVERYTHING).await.expect_status(200).json()["total"].as_u64().unwrap();
        let complaints = complaints(app).len();
        Self { model, exact, manner, prefix: unique("h"), others, complaints, tags: BTreeMap::new() }
    }

    /// What the server has complained of since the beginning.
    pub(super) fn complaints(&self, app: &App) -> Vec<String> {
        complaints(app).split_off(self.complaints)
    }

    /// Takes one step on both sides. A fault tells the step with its request and answer.
    pub(super) async fn step(&mut self, app: &App, operation: &Operation) -> Result<(), String> {
        let Some(mut request) = self.model.resolve(operation) else { return Ok(()) };
        self.rename(&mut request);
        let (method, path) = (self.manner.method(&request), self.manner.path(&request));
        let mut call = app.call(method, &path);
        if let Some(body) = request.body() {
            call = call.json(&body);
        }
        let answer = call.await;
        let body = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
        let expected = self.model.apply(&request, &Learned::from_answer(&body));

        let mut faults = self.judge_answer(&expected, &answer, &body);
        if faults.is_empty() {
            faults = self.compare(app, &expected.changed, &expected.removed).await;
            faults.extend(self.judge_tag(&expected, &answer));
        }
        if faults.is_empty() {
            return Ok(());
        }
        let body = request.body().unwrap_or(Value::Null);
        Err(format!("{operation:?}\n{method} {path} {body}\n{answer}\n{faults:#?}"))
    }

    /// Reads everything and compares it. `changed` are those whose version must have moved since the last time, no
    /// others; `removed` are gone.
    pub(super) async fn compare(&mut self, app: &App, changed: &[Slot], removed: &[Slot]) -> Vec<String> {
        let mut faults = self.compare_contents(app).await;
        for view in self.model.resources() {
            let fault = self.judge_version(app, &view, changed.contains(&view.slot)).await;
            faults.extend(fault.map(|fault| fault_line(&view, &fault)));
        }
        faults.extend(self.judge_removed(app, removed).await);
        faults
    }

    /// Reads everything and compares it, save the versions.
    pub(super) async fn compare_contents(&self, app: &App) -> Vec<String> {
        let views = self.model.resources();
        let Reading { documents, statuses } = match self.read(app, &views).await {
            Ok(reading) => reading,
            Err(fault) => return vec![fault],
        };
        let mut faults = Vec::new();
        for view in &views {
            let Some(found) = documents.iter().find(|document| id(document) == view.id) else {
                faults.push(fault_line(view, "is not in the list"));
                continue;
            };
            let differences = self.differences(&view.document, found);
            faults.extend(differences.iter().map(|difference| fault_line(view, difference)));
            if statuses[&view.id] != view.statuses {
                let found = &statuses[&view.id];
                faults.push(fault_line(view, &format!("reports {found:#?}, expected {:#?}", view.statuses)));
            }
        }
        faults.extend(check_invariants(self.model.kinds(), &documents, &statuses));
        faults.extend(check_conditions(self.model.kinds(), &documents, &statuses));
        faults
    }

    /// Root kinds share their names with every other history.
    fn rename(&self, request: &mut Request) {
        let is_root = request.owners.is_empty();
        if let Action::Create { name, .. } = &mut request.action
            && is_root
            && !name.starts_with(&self.prefix)
        {
            *name = format!("{}-{name}", self.prefix);
        }
    }

    fn judge_answer(&self, expected: &Expected, answer: &Answer, body: &Value) -> Vec<String> {
        if answer.status != expected.status {
            return vec![format!(
                "answered {}, expected {} {:?}",
                answer.status, expected.status, expected.rule
            )];
        }
        expected.answer.as_ref().map_or_else(Vec::new, |document| self.differences(document, body))
    }

    /// An answer that carries a version carries the one that the resource has afterwards.
    fn judge_tag(&self, expected: &Expected, answer: &Answer) -> Option<String> {
        let told = answer.header("etag")?;
        let kept = self.tags.get(&expected.slot?)?;
        (told != kept).then(|| format!("the answer told version {told}, the resource has {kept}"))
    }

    async fn judge_removed(&mut self, app: &App, removed: &[Slot]) -> Vec<String> {
        let mut faults = Vec::new();
        for slot in removed {
            self.tags.remove(slot);
            let id = self.model.id(*slot).unwrap();
            for path in [format!("/resources/{id}"), format!("/resources/{id}/statuses")] {
                let status = app.get(&path).await.status;
                if status != 404 {
                    faults.push(format!("{slot} should be gone, but {path} answers {status}"));
                }
            }
        }
        faults
    }

    /// Whether the version moved as it should have, and whether the resource read alone is the one in the list.
    async fn judge_version(&mut self, app: &App, view: &ResourceView, should_move: bool) -> Option<String> {
        let path = format!("{BASE}/{}/{}", view.plural, view.id);
        let known = self.tags.get(&view.slot);
        let answer = app.api().get(&path).header("if-none-match", known.map_or("\"0\"", |tag| tag)).await;
        let moved = match answer.status {
            200 => true,
            304 => false,
            _ => return Some(format!("answers {answer}")),
        };
        let tag = answer.header("etag").map(ToOwned::to_owned);
        if moved != should_move {
            return Some(format!("version {known:?} moved to {tag:?}, should move: {should_move}"));
        }
        self.tags.insert(view.slot, tag?);
        let found = if moved { self.differences(&view.document, &answer.json()) } else { Vec::new() };
        (!found.is_empty()).then(|| format!("read alone: {found:?}"))
    }

    async fn read(&self, app: &App, views: &[ResourceView]) -> Result<Reading, String> {
        let mut list = app.get(EVERYTHING).await.expect_status(200).json();
        let total = list["total"].as_u64().unwrap();
        if total != self.others + views.len() as u64 {
            let ours = total as i64 - self.others as i64;
            return Err(format!("there are {ours} resources, expected {}", views.len()));
        }
        let mut documents: Vec<Value> = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        documents.truncate(views.len());
        let mut statuses = BTreeMap::new();
        for view in views {
            let path = format!("{BASE}/{}/{}/statuses?pageSize=500", view.plural, view.id);
            let answer = app.api().get(&path).await;
            if answer.status != 200 {
                return Err(format!("{path}: {answer}"));
            }
            let items = answer.json()["items"].as_array().cloned().unwrap_or_default();
            statuses.insert(view.id.clone(), items);
        }
        Ok(Reading { documents, statuses })
    }

    /// Where a document is not what the model says. Only the older conditions may have members that it leaves open.
    fn differences(&self, expected: &Value, found: &Value) -> Vec<String> {
        let mut expected = expected.clone();
        if !self.exact {
            leave_open(&mut expected);
        }
        let mut faults = mismatches(&expected, found);
        let surplus = found.as_object().into_iter().flat_map(|members| members.keys());
        let surplus = surplus.filter(|name| expected.get(name).is_none() && !ACTORS.contains(&name.as_str()));
        faults.extend(surplus.map(|name| format!(".{name} should not be there: {}", found[name])));
        if self.exact && faults.is_empty() && expected["status"] != found["status"] {
            faults.push(format!(".status: expected {}, found {}", expected["status"], found["status"]));
        }
        faults
    }
}

fn fault_line(view: &ResourceView, fault: &str) -> String {
    format!("{} {} {}: {fault}", view.slot, view.kind, view.id)
}

/// The tables of the older conditions give statuses and times, and words for the creation and for `True`. What a `Ready`
/// says that stays False once an adapter has reported is the server's choice.
fn leave_open(document: &mut Value) {
    let conditions = document.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    let Some(conditions) = conditions.filter(|conditions| conditions.iter().any(is_of_an_adapter)) else {
        return;
    };
    let unready = |it: &&mut Value| it["type"] == "Ready" && it["status"] == "False";
    if let Some(ready) = conditions.iter_mut().find(unready).and_then(Value::as_object_mut) {
        ready.retain(|member, _| member != "reason" && member != "message");
    }
}

fn is_of_an_adapter(condition: &Value) -> bool {
    text(&condition["type"]).ends_with("Successful")
}
