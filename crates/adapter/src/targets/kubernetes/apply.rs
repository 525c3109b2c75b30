//! Server-side apply, sent only when something differs from what was applied last.

use std::sync::Arc;

use http::Method;
use serde_json::Value;
use tokio::time::Instant;

use super::delete::is_deleting;
use super::failure::{Cause, causes};
use super::kinds::Place;
use super::memory::{Standing, uid};
use super::observe::encoded;
use super::ownership::{self, APPLIED};
use super::transport::{Answer, Call};
use super::{Kubernetes, failure, managed_fields};
use crate::targets::{ApplyOptions, ErrorClass, Operation, Ownership, Propagation, TargetError};

/// What is known of the object that a manifest names.
#[derive(Debug, Clone, Copy)]
pub enum Current<'a> {
    /// Nothing: it is read first.
    Unread,
    /// The server has just said that it is not there.
    Absent,
    /// It has just been read, `managedFields` included.
    Present(&'a Value),
}

/// An object that somebody else changes as often as it is repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contested {
    /// The manager that wrote it last.
    pub manager: Option<String>,
    /// Whether it is left alone now.
    pub paused: bool,
}

/// One manifest on its way to the server.
struct Apply<'a> {
    place: Arc<Place>,
    path: String,
    name: &'a str,
    stamped: Value,
    options: &'a ApplyOptions,
}

/// What is to be done about an object that is there.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    /// Somebody asked for its deletion: it comes back when it is gone.
    Wait,
    Recreate,
    Send {
        repairs: bool,
    },
    Refuse,
}

impl Kubernetes {
    /// Makes the object what the manifest says. Gives the object as it is then.
    pub async fn apply(
        &self,
        manifest: &Value,
        current: Current<'_>,
        ownership: &Ownership,
        options: &ApplyOptions,
    ) -> Result<(Operation, Value), TargetError> {
        let apply = self.prepare(manifest, ownership, options).await?;
        let Apply { place, name, .. } = &apply;
        let namespace = manifest["metadata"]["namespace"].as_str();
        let read = match current {
            Current::Unread => self.read(place, namespace, name).await?,
            Current::Absent | Current::Present(_) => None,
        };
        let current = if let Current::Present(object) = current { Some(object) } else { read.as_ref() };
        let Some(object) = current else {
            let answer = self.send(&apply, None, "").await?;
            let created = answer.object(&apply.what())?;
            self.0.memory.remember(&created);
            return Ok((if answer.status == 201 { Operation::Created } else { Operation::Updated }, created));
        };
        let paused = self.0.memory.contested(object, Instant::now()) == Some(true);
        let repair = |standing| options.repair && !paused && standing != Standing::Same;
        match step(object, &apply.stamped, ownership, options, self.0.memory.standing(object), repair) {
            Step::Nothing => Ok((Operation::Unchanged, object.clone())),
            Step::Wait => Ok((Operation::Recreating, object.clone())),
            Step::Recreate => self.recreate(object).await,
            Step::Send { repairs } => self.update(&apply, object, repairs).await,
            Step::Refuse => Err(failure::error(
                ErrorClass::Business,
                "NotOurs",
                format!(
                    "{} {name} is not ours, and is not adopted: {}",
                    apply.place.kind,
                    ownership::owner(object)
                ),
            )),
        }
    }

    /// What the object would be, by the server's own word. Nothing is changed.
    pub async fn dry_run(
        &self,
        manifest: &Value,
        ownership: &Ownership,
        options: &ApplyOptions,
    ) -> Result<Value, TargetError> {
        let apply = self.prepare(manifest, ownership, options).await?;
        self.send(&apply, None, "&dryRun=All").await?.object(&apply.what())
    }

    /// Whether the object is repaired so often that somebody else must be changing it.
    pub fn contested(&self, object: &Value) -> Option<Contested> {
        let paused = self.0.memory.contested(object, Instant::now())?;
        Some(Contested { manager: managed_fields::last_other(object, &self.0.field_manager), paused })
    }

    /// Whether somebody else has changed the object since this process applied it.
    pub fn has_drifted(&self, object: &Value) -> bool {
        self.0.memory.standing(object) == Standing::Drifted
    }

    /// Checks what no server needs to see, and finds the place of the object.
    async fn prepare<'a>(
        &self,
        manifest: &'a Value,
        ownership: &Ownership,
        options: &'a ApplyOptions,
    ) -> Result<Apply<'a>, TargetError> {
        let text = |value: &'_ Value, what: &str| match value.as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(failure::manifest(format!("{what} is not a text"))),
        };
        let api_version = text(&manifest["apiVersion"], "apiVersion")?;
        let place = self.place(&api_version, &text(&manifest["kind"], "kind")?).await?;
        let metadata = &manifest["metadata"];
        let name =
            metadata["name"].as_str().ok_or_else(|| failure::manifest("metadata.name is not a text"))?;
        let namespace = metadata["namespace"].as_str();
        if place.namespaced && namespace.is_none() {
            return Err(failure::manifest(format!("metadata.namespace is required for {}", place.kind)));
        }
        let path = place.object(namespace, name)?;
        Ok(Apply { place, path, name, stamped: ownership::stamp(manifest, ownership)?, options })
    }

    async fn update(
        &self,
        apply: &Apply<'_>,
        object: &Value,
        repairs: bool,
    ) -> Result<(Operation, Value), TargetError> {
        if let Some(entries) = managed_fields::adopted(object, &self.0.field_manager, &self.0.adopt_managers)
        {
            let patch = managed_fields::patch(object, entries);
            let call = Call::with_body(Method::PATCH, &apply.path, "application/json-patch+json", &patch);
            self.0
                .transport
                .send(call)
                .await?
                .object(&format!("taking over the fields of {} {}", apply.place.kind, apply.name))?;
        }
        let answer = self.send(apply, uid(object), "").await?;
        if answer.is_success() {
            let after = answer.object(&apply.what())?;
            self.0.memory.remember(&after);
            let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
            let operation = match repairs {
                _ if version(object) == version(&after) => Operation::Unchanged,
                true => Operation::Repaired,
                false => Operation::Updated,
            };
            if operation == Operation::Repaired {
                self.0.memory.repaired(&after, Instant::now());
            }
            return Ok((operation, after));
        }
        let status = answer.value();
        let causes = causes(&status);
        let immutable: Vec<_> =
            causes.iter().filter(|cause| answer.status == 422 && cause.immutable()).collect();
        if immutable.iter().any(|cause| cause.field == "metadata.uid") {
            let message = format!("{} {} was replaced meanwhile", apply.place.kind, apply.name);
            return Err(failure::error(ErrorClass::Transient, "Conflict", message));
        }
        if immutable.is_empty() {
            return Err(apply.conflict(&answer, &causes).unwrap_or_else(|| answer.refused(&apply.what())));
        }
        if apply.options.recreate {
            return self.recreate(object).await;
        }
        let fields: Vec<_> = immutable.iter().map(|cause| cause.field).collect();
        let message = format!(
            "{} {}: {} cannot be changed; recreate_on_change deletes the object and creates it again",
            apply.place.kind,
            apply.name,
            fields.join(", ")
        );
        Err(failure::error(ErrorClass::Terminal, "ImmutableField", message))
    }

    async fn recreate(&self, object: &Value) -> Result<(Operation, Value), TargetError> {
        self.delete(object, Propagation::Background).await?;
        Ok((Operation::Recreating, object.clone()))
    }

    /// With a uid, an object that was deleted meanwhile is not created, and one that took its place is not touched.
    async fn send(&self, apply: &Apply<'_>, uid: Option<&str>, more: &str) -> Result<Answer, TargetError> {
        let mut body = apply.stamped.clone();
        if let Some(uid) = uid {
            body["metadata"]["uid"] = uid.into();
        }
        let path = format!(
            "{}?fieldManager={}&force={}{more}",
            apply.path,
            encoded(&self.0.field_manager),
            apply.options.force
        );
        let answer = self
            .0
            .transport
            .send(Call::with_body(Method::PATCH, &path, "application/apply-patch+yaml", &body))
            .await?;
        if answer.status == 404 && answer.value()["kind"] != "Status" {
            self.0.kinds.forget(&apply.place.api_version);
            return Err(super::kinds::unknown(&apply.place.api_version, &apply.place.kind));
        }
        Ok(answer)
    }
}

impl Apply<'_> {
    fn what(&self) -> String {
        format!("applying {} {}", self.place.kind, self.name)
    }

    /// Fields of others that were not to be taken over.
    fn conflict(&self, answer: &Answer, causes: &[Cause<'_>]) -> Option<TargetError> {
        if answer.status != 409 {
            return None;
        }
        let fields = causes.iter().filter(|cause| cause.reason == "FieldManagerConflict").map(|cause| {
            let manager = cause.message.split('"').nth(1).unwrap_or("another manager");
            format!("{} belongs to {manager}", cause.field)
        });
        let fields: Vec<_> = fields.take(10).collect();
        (!fields.is_empty()).then(|| {
            let message = format!("{} {}: {}", self.place.kind, self.name, fields.join(", "));
            failure::error(ErrorClass::Business, "FieldConflict", message)
        })
    }
}

/// Decides. `repair` tells whether an object that stands so is applied again.
fn step(
    object: &Value,
    stamped: &Value,
    ownership: &Ownership,
    options: &ApplyOptions,
    standing: Standing,
    repair: impl Fn(Standing) -> bool,
) -> Step {
    let is_ours = ownership::is_ours(object, ownership);
    if !is_ours && !options.adopt {
        return Step::Refuse;
    }
    if is_deleting(object) {
        return Step::Wait;
    }
    let applied = ownership::annotation(object, APPLIED);
    if is_ours && applied == ownership::annotation(stamped, APPLIED) {
        let standing = if ownership::has_metadata_of(object, stamped) { standing } else { Standing::Drifted };
        return if repair(standing) { Step::Send { repairs: true } } else { Step::Nothing };
    }
    // What the Go adapter made has no hash: it goes by the generation, and by what the server says of immutable fields.
    let changed = match (applied, ownership::generation(object)) {
        (Some(_), _) => true,
        (None, Some(generation)) => Some(generation) != ownership::generation(stamped),
        (None, None) => false,
    };
    if options.recreate && changed { Step::Recreate } else { Step::Send { repairs: false } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const OPTIONS: ApplyOptions = ApplyOptions { force: true, adopt: false, recreate: false, repair: true };

    fn ours() -> Ownership {
        Ownership {
            adapter: "job".to_owned(),
            resource_kind: "Cluster".to_owned(),
            resource_id: "0190".to_owned(),
            task_resource: "work".to_owned(),
            generation: 3,
            href: String::new(),
        }
    }

    fn stamped(generation: i64) -> Value {
        let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        ownership::stamp(&manifest, &Ownership { generation, ..ours() }).unwrap()
    }

    fn decide(object: &Value, options: &ApplyOptions, standing: Standing) -> Step {
        step(object, &stamped(3), &ours(), options, standing, |standing| {
            options.repair && standing != Standing::Same
        })
    }

    #[test]
    fn only_differences_are_sent() {
        assert_eq!(decide(&stamped(3), &OPTIONS, Standing::Same), Step::Nothing);
        assert_eq!(decide(&stamped(3), &OPTIONS, Standing::Drifted), Step::Send { repairs: true });
        assert_eq!(decide(&stamped(3), &OPTIONS, Standing::Unknown), Step::Send { repairs: true });
        let watching = ApplyOptions { repair: false, ..OPTIONS };
        assert_eq!(decide(&stamped(3), &watching, Standing::Drifted), Step::Nothing);
        assert_eq!(decide(&stamped(2), &watching, Standing::Same), Step::Send { repairs: false });
        let mut without_label = stamped(3);
        without_label["metadata"]["labels"]["hyperfleet.io/task-resource"].take();
        assert_eq!(decide(&without_label, &OPTIONS, Standing::Same), Step::Send { repairs: true });
    }

    #[test]
    fn what_is_not_ours_is_left_alone_or_adopted() {
        let foreign = json!({"metadata": {"name": "a", "deletionTimestamp": "2026-03-01T00:00:00Z"}});
        assert_eq!(decide(&foreign, &OPTIONS, Standing::Unknown), Step::Refuse);
        let adopting = ApplyOptions { adopt: true, ..OPTIONS };
        assert_eq!(decide(&foreign, &adopting, Standing::Unknown), Step::Wait);
        let mut of_another = stamped(3);
        of_another["metadata"]["labels"][ownership::RESOURCE_ID] = "0191".into();
        assert_eq!(decide(&of_another, &OPTIONS, Standing::Unknown), Step::Refuse);
        assert_eq!(decide(&of_another, &adopting, Standing::Unknown), Step::Send { repairs: false });
    }

    #[test]
    fn what_the_go_adapter_made_is_not_run_again() {
        let recreating = ApplyOptions { adopt: true, recreate: true, ..OPTIONS };
        let of_go = |generation: &str| json!({"metadata": {"name": "a", "annotations": {ownership::GENERATION: generation}}});
        assert_eq!(decide(&of_go("3"), &recreating, Standing::Unknown), Step::Send { repairs: false });
        assert_eq!(decide(&of_go("2"), &recreating, Standing::Unknown), Step::Recreate);
        assert_eq!(
            decide(&json!({"metadata": {"name": "a"}}), &recreating, Standing::Unknown),
            Step::Send { repairs: false }
        );
        assert_eq!(decide(&stamped(2), &recreating, Standing::Same), Step::Recreate);
        assert_eq!(decide(&stamped(3), &recreating, Standing::Drifted), Step::Send { repairs: true });
    }
}
