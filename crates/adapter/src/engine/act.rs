//! The third phase: look at every object, plan, act in order, look again at what changed. While the resource is being
//! deleted nothing is created or updated, and a deletion that fails does not keep others from being tried.

use serde_json::Value;

use super::effect::{Answer, Apply, Delete, Effect, Lookup};
use super::guard::object_name;
use super::journal::ResourceRecord;
use super::nested::{self, Wanted};
use super::run::{Failure, Run, outage_or};
use crate::targets::{
    ApplyOptions, ErrorClass, Matcher, Observation, Operation, Ownership, Propagation, Query, TargetError,
};
use crate::task::{By, Declared, Discovery, Manifest, TargetClient, to_object};

/// The name of the phase, as expressions and metrics know it.
pub(super) const PHASE: &str = "resources";

/// The label that names the declared resource that an object was made for.
const TASK_RESOURCE: &str = "hyperfleet.io/task-resource";

/// What is to be done about a declared resource.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Apply,
    Delete,
    /// Left alone, with the word and the reason for it.
    Leave(&'static str, String),
    /// Left alone because the task says so, which counts as a skip.
    Skip(String),
}

impl Run {
    /// Looks at every declared object. An unknown one is a failure, unless nothing is going to be changed because of
    /// `lenient` and the lookup itself cannot be made.
    pub(super) async fn observe_all(&mut self, lenient: bool) -> Result<(), Failure> {
        let all: Vec<usize> = (0..self.program.task.resources.len()).collect();
        self.observe(&all, lenient).await
    }

    async fn observe(&mut self, which: &[usize], lenient: bool) -> Result<(), Failure> {
        let program = self.program.clone();
        let (mut lookups, mut asked) = (Vec::new(), Vec::new());
        let mut first_failure = None;
        for &at in which {
            let declared = &program.task.resources[at];
            match self.lookup(declared) {
                Ok(lookup) => {
                    lookups.push(lookup);
                    asked.push(at);
                }
                Err(why) => {
                    let error = TargetError {
                        class: ErrorClass::Terminal,
                        reason: "NotRendered".into(),
                        message: why,
                    };
                    self.observed[at] = Some(Observation::Unknown(error.clone()));
                    if !lenient {
                        first_failure.get_or_insert(Failure::of_author(PHASE, &declared.name, error.message));
                    }
                }
            }
        }
        if !lookups.is_empty() {
            let answers = match self.ask(Effect::Observe(lookups)).await {
                Answer::Observed(answers) => answers,
                _ => Vec::new(),
            };
            let mut answers = answers.into_iter();
            for at in asked {
                let observation = answers
                    .next()
                    .unwrap_or_else(|| Observation::Unknown(outage_or("it was not looked for")));
                if let Observation::Unknown(error) = &observation {
                    let name = &program.task.resources[at].name;
                    first_failure.get_or_insert(Failure::of_target(
                        PHASE,
                        name,
                        target(&program.task.resources[at]),
                        error.clone(),
                    ));
                }
                self.observed[at] = Some(observation);
            }
        }
        self.refresh_objects();
        first_failure.map_or(Ok(()), Err)
    }

    fn lookup(&self, declared: &Declared) -> Result<Lookup, String> {
        let cluster = self.cluster(declared)?;
        let rendered = || self.render_manifest(declared);
        let (api_version, kind) = match &declared.type_name {
            Some(known) => known.clone(),
            None => {
                let manifest = rendered()?;
                let text =
                    |key: &str| manifest.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                (text("apiVersion"), text("kind"))
            }
        };
        let (namespace, matcher) = match &declared.discovery {
            Some(discovery) => self.discovery(discovery)?,
            None => {
                let manifest = rendered()?;
                let text = |key: &str| manifest.pointer(key).and_then(Value::as_str).map(str::to_owned);
                (text("/metadata/namespace"), Matcher::Name(text("/metadata/name").unwrap_or_default()))
            }
        };
        let query = Query { api_version, kind, namespace, matcher };
        Ok(Lookup { client: declared.client, cluster, query })
    }

    fn cluster(&self, declared: &Declared) -> Result<Option<String>, String> {
        declared.target_cluster.as_ref().map(|cluster| cluster.render(&self.params, self.now())).transpose()
    }

    fn discovery(&self, discovery: &Discovery) -> Result<(Option<String>, Matcher), String> {
        let render = |text: &crate::task::Text| text.render(&self.params, self.now());
        let namespace = discovery.namespace.as_ref().map(render).transpose()?;
        let namespace = namespace.filter(|namespace| !namespace.is_empty() && namespace != "*");
        let matcher = match &discovery.by {
            By::Name(name) => Matcher::Name(render(name)?),
            By::Labels(labels) => {
                let rendered = labels.iter().map(|(key, value)| Ok((render(key)?, render(value)?)));
                Matcher::Labels(rendered.collect::<Result<_, String>>()?)
            }
        };
        Ok((namespace, matcher))
    }

    fn render_manifest(&self, declared: &Declared) -> Result<Value, String> {
        let manifest = match &declared.manifest {
            Manifest::Tree(tree) => tree.build(self, &self.params, self.now(), &mut Vec::new())?,
            Manifest::Text(text) => Value::Object(to_object(&text.render(&self.params, self.now())?)?),
        };
        for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
            if manifest.pointer(pointer).and_then(Value::as_str).is_none_or(str::is_empty) {
                return Err(format!("the manifest has no {}", pointer[1..].replace('/', ".")));
            }
        }
        Ok(manifest)
    }

    /// Objects as expressions see them: the best match of each resource, and what is inside of it.
    pub(super) fn refresh_objects(&mut self) {
        let program = self.program.clone();
        let mut objects = serde_json::Map::new();
        for (declared, observed) in program.task.resources.iter().zip(&self.observed) {
            let Some(Observation::Present(found)) = observed else { continue };
            let Some(best) = found.first() else { continue };
            for one in &declared.nested {
                let Ok((namespace, matcher)) = self.discovery(&one.discovery) else { continue };
                let wanted = match matcher {
                    Matcher::Name(name) => Wanted::Name(name),
                    Matcher::Labels(labels) => Wanted::Labels(labels),
                };
                if let Some(inside) = nested::find(best, namespace.as_deref(), &wanted) {
                    objects.insert(one.name.clone(), inside);
                }
            }
            let mut best = best.clone();
            if let Some(metadata) = best.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.shift_remove("managedFields");
            }
            objects.insert(declared.name.clone(), best);
        }
        self.objects = Value::Object(objects);
    }

    /// Changes what has to be changed.
    pub(super) async fn act(&mut self) -> Result<(), Failure> {
        let program = self.program.clone();
        // A condition that cannot be told must keep everything as it is.
        for at in 0..program.task.resources.len() {
            self.decide(at)?;
        }
        let (mut first_failure, mut applied) = (None, Vec::new());
        for (at, declared) in program.task.resources.iter().enumerate() {
            let done = match self.decide(at)? {
                Decision::Leave(word, reason) => {
                    self.record(declared, word, reason);
                    Ok(())
                }
                Decision::Skip(reason) => {
                    let why = format!("{}: {reason}", declared.name);
                    self.journal.skipped.get_or_insert(why);
                    self.refresh_adapter();
                    self.record(declared, "skip", reason);
                    Ok(())
                }
                Decision::Delete => match self.remove(at).await {
                    // Others are still tried.
                    Err(failure) => {
                        self.fail_resource(&failure, &declared.name);
                        first_failure.get_or_insert(failure);
                        Ok(())
                    }
                    Ok(()) => Ok(()),
                },
                Decision::Apply => self.apply(at).await.map(|changed| applied.extend(changed.then_some(at))),
            };
            if let Err(failure) = done {
                self.fail_resource(&failure, &declared.name);
                first_failure.get_or_insert(failure);
                break;
            }
        }
        if first_failure.is_none()
            && let Err(failure) = self.remove_older().await
        {
            first_failure = Some(failure);
        }
        if !applied.is_empty() {
            let mismatched = applied.iter().find(|at| !self.is_discovered(**at)).copied();
            let seen = self.observe(&applied, false).await.and_then(|()| {
                mismatched.map_or(Ok(()), |at| {
                    let why = "its discovery does not match the manifest that was applied".to_owned();
                    Err(Failure::of_author(PHASE, &program.task.resources[at].name, why))
                })
            });
            if let Err(failure) = seen {
                let step = failure.step.clone();
                self.fail_resource(&failure, &step);
                first_failure.get_or_insert(failure);
            }
        }
        first_failure.map_or(Ok(()), Err)
    }

    /// Whether the discovery of a resource finds the object that was just applied.
    fn is_discovered(&self, at: usize) -> bool {
        let Some(Observation::Present(objects)) = &self.observed[at] else { return true };
        let Ok(lookup) = self.lookup(&self.program.task.resources[at]) else { return true };
        objects.iter().all(|object| match &lookup.query.matcher {
            Matcher::Name(name) => object.pointer("/metadata/name").is_some_and(|own| own == name.as_str()),
            Matcher::Labels(labels) => labels.iter().all(|(key, value)| {
                object
                    .pointer("/metadata/labels")
                    .and_then(|all| all.get(key))
                    .is_some_and(|own| own == value.as_str())
            }),
        })
    }

    fn fail_resource(&mut self, failure: &Failure, name: &str) {
        if let Some(record) = self.journal.resources.iter_mut().rfind(|record| record.name == name) {
            record.error = Some(failure.message.clone());
        }
        self.resource_errors.insert(
            name.to_owned(),
            serde_json::json!({"phase": PHASE, "step": name, "message": failure.message}),
        );
    }

    fn decide(&self, at: usize) -> Result<Decision, Failure> {
        let declared = &self.program.task.resources[at];
        let failed = |key: &str, why| {
            Failure::of_author(PHASE, &declared.name, format!("lifecycle.{key}.when: {why}"))
        };
        if declared.observe_only {
            return Ok(Decision::Leave("skip", "it is only observed".to_owned()));
        }
        if let Some(delete) = &declared.delete
            && self.holds(&delete.when).map_err(|why| failed("delete", why))?
        {
            return Ok(Decision::Delete);
        }
        if self.is_deleting() && !self.program.task.as_go {
            return Ok(Decision::Leave("hold", "the resource is being deleted".to_owned()));
        }
        let is_absent = !matches!(self.observed[at], Some(Observation::Present(_)));
        if let Some(create) = declared.create_when.as_ref().filter(|_| is_absent)
            && !self.holds(create).map_err(|why| failed("create", why))?
        {
            return Ok(Decision::Skip("lifecycle.create.when condition evaluated to false".to_owned()));
        }
        Ok(Decision::Apply)
    }

    fn record(&mut self, declared: &Declared, operation: &'static str, reason: String) {
        let (mut kind, mut namespace, mut object) = Default::default();
        if let Some(found) = self.objects.get(&declared.name) {
            let text =
                |pointer: &str| found.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            (kind, namespace, object) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
        }
        let name = declared.name.clone();
        let record =
            ResourceRecord { name, kind, namespace, object, operation, reason, error: None, manifest: None };
        self.journal.resources.push(record);
    }

    /// Applies a manifest; whether something changed.
    async fn apply(&mut self, at: usize) -> Result<bool, Failure> {
        let program = self.program.clone();
        let declared = &program.task.resources[at];
        self.record(declared, "apply", String::new());
        let author = |why| Failure::of_author(PHASE, &declared.name, why);
        let manifest = self.render_manifest(declared).map_err(author)?;
        let cluster = self.cluster(declared).map_err(author)?;
        if let Some(record) = self.journal.resources.last_mut() {
            let text = |pointer: &str| {
                manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            (record.kind, record.namespace, record.object) =
                (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
            record.manifest = Some(manifest.clone());
        }
        let ownership = Ownership {
            adapter: program.adapter.clone(),
            resource_kind: self.text_of("kind"),
            resource_id: self.input.id.clone(),
            task_resource: declared.name.clone(),
            generation: self.generation(),
            href: self.text_of("href"),
        };
        let options = ApplyOptions { force: true, adopt: true, recreate: declared.recreate, repair: true };
        let apply = Apply { client: declared.client, cluster, manifest, ownership, options };
        let (operation, object) = match self.ask(Effect::Apply(Box::new(apply))).await {
            Answer::Applied(Ok(applied)) => applied,
            Answer::Applied(Err(error)) => {
                return Err(Failure::of_target(PHASE, &declared.name, target(declared), error));
            }
            _ => {
                let error = outage_or("the apply was not answered");
                return Err(Failure::of_target(PHASE, &declared.name, target(declared), error));
            }
        };
        if let Some(record) = self.journal.resources.last_mut() {
            (record.operation, record.reason) = match operation {
                Operation::Created => ("create", "the object was absent".to_owned()),
                Operation::Updated => ("update", "the object differed".to_owned()),
                Operation::Repaired => ("update", "somebody else had changed the object".to_owned()),
                Operation::Recreating => ("recreate", "recreate_on_change".to_owned()),
                Operation::Unchanged => ("skip", "nothing differed".to_owned()),
            };
        }
        self.recheck |= operation == Operation::Recreating;
        let was_seen = matches!(self.observed[at], Some(Observation::Present(_)));
        self.observed[at] = Some(Observation::Present(vec![object]));
        self.refresh_objects();
        Ok(operation != Operation::Unchanged || !was_seen)
    }

    /// Deletes objects of ours under older names: of resources that are pruned, and of those that are being deleted.
    async fn remove_older(&mut self) -> Result<(), Failure> {
        let program = self.program.clone();
        let mut condemned = Vec::new();
        for (at, declared) in program.task.resources.iter().enumerate() {
            let deleted = self.is_deleting() && self.decide(at)? == Decision::Delete;
            if declared.client == TargetClient::Kubernetes
                && (deleted || (declared.prune && !self.is_deleting()))
            {
                condemned.push((at, declared));
            }
        }
        if condemned.is_empty() {
            return Ok(());
        }
        let owned = match self.ask(Effect::Owned).await {
            Answer::Observed(answers) => answers.into_iter().next(),
            _ => None,
        };
        let (name, objects) =
            match owned.unwrap_or_else(|| Observation::Unknown(outage_or("our objects were not listed"))) {
                Observation::Absent => return Ok(()),
                Observation::Present(objects) => (&condemned[0].1.name, objects),
                Observation::Unknown(error) => {
                    return Err(Failure::of_target(PHASE, &condemned[0].1.name, "kubernetes", error));
                }
            };
        for object in objects.iter().filter(|object| object.pointer("/metadata/deletionTimestamp").is_none())
        {
            let made_for = object.pointer("/metadata/labels").and_then(|labels| labels.get(TASK_RESOURCE));
            let of = condemned
                .iter()
                .find(|(_, declared)| made_for.is_some_and(|name| name == declared.name.as_str()));
            let Some((at, declared)) = of else { continue };
            let is_current = match &self.observed[*at] {
                Some(Observation::Present(current)) => {
                    current.iter().any(|one| one.pointer("/metadata/uid") == object.pointer("/metadata/uid"))
                }
                _ => false,
            };
            if is_current {
                continue;
            }
            let propagation =
                declared.delete.as_ref().map_or(Propagation::Background, |delete| delete.propagation);
            let delete =
                Delete { client: declared.client, cluster: None, object: object.clone(), propagation };
            let error = match self.ask(Effect::Delete(Box::new(delete))).await {
                Answer::Deleted(Ok(())) => continue,
                Answer::Deleted(Err(error)) => error,
                _ => outage_or("the deletion was not answered"),
            };
            return Err(Failure::of_target(PHASE, name, "kubernetes", error));
        }
        Ok(())
    }

    /// Deletes every match of a resource, and looks again.
    async fn remove(&mut self, at: usize) -> Result<(), Failure> {
        let program = self.program.clone();
        let declared = &program.task.resources[at];
        let Some(Observation::Present(objects)) = self.observed[at].clone() else {
            self.record(declared, "delete", "it is gone already".to_owned());
            return Ok(());
        };
        self.read_again_if_old().await?;
        self.record(declared, "delete", "lifecycle.delete.when evaluated to true".to_owned());
        let propagation =
            declared.delete.as_ref().map_or(Propagation::Background, |delete| delete.propagation);
        let cluster = self.cluster(declared).map_err(|why| Failure::of_author(PHASE, &declared.name, why))?;
        let mut first_failure = None;
        for object in objects.iter().filter(|object| object.pointer("/metadata/deletionTimestamp").is_none())
        {
            let delete = Delete {
                client: declared.client,
                cluster: cluster.clone(),
                object: object.clone(),
                propagation,
            };
            let error = match self.ask(Effect::Delete(Box::new(delete))).await {
                Answer::Deleted(Ok(())) => continue,
                Answer::Deleted(Err(error)) => error,
                _ => outage_or("the deletion was not answered"),
            };
            let message = format!("{}: {}", object_name(object), error.message);
            let error = TargetError { message, ..error };
            first_failure.get_or_insert(Failure::of_target(PHASE, &declared.name, target(declared), error));
        }
        let seen = self.observe(&[at], false).await;
        first_failure.map_or(seen, Err)
    }
}

fn target(declared: &Declared) -> &'static str {
    match declared.client {
        TargetClient::Kubernetes => "kubernetes",
        TargetClient::Maestro => "maestro",
    }
}
