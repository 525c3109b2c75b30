//! Deleting: the object that was seen, and no later one of its name. Finalizers of others are never removed.

use http::Method;
use serde_json::{Value, json};

use super::memory::uid;
use super::transport::{Call, JSON};
use super::{Kubernetes, failure};
use crate::targets::{Propagation, TargetError};

impl Kubernetes {
    /// Asks for the deletion of this very object. It may take its time: only an observation tells that it is gone.
    pub async fn delete(&self, object: &Value, propagation: Propagation) -> Result<(), TargetError> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (Some(uid), Some(name)) = (uid(object), object["metadata"]["name"].as_str()) else {
            return Err(failure::manifest("an object without uid and name cannot be deleted"));
        };
        if is_deleting(object) {
            return Ok(());
        }
        let (api_version, kind) =
            (text(&object["apiVersion"]).unwrap_or_default(), text(&object["kind"]).unwrap_or_default());
        let path =
            self.place(&api_version, &kind).await?.object(object["metadata"]["namespace"].as_str(), name)?;
        let options = json!({
            "kind": "DeleteOptions", "apiVersion": "v1",
            "preconditions": {"uid": uid}, "propagationPolicy": propagation.as_str(),
        });
        let answer = self.0.transport.send(Call::with_body(Method::DELETE, &path, JSON, &options)).await?;
        self.0.memory.forget(uid);
        match answer.status {
            _ if answer.is_success() => Ok(()),
            // Gone already; with 409, replaced by another one of its name.
            404 => Ok(()),
            409 if answer.value()["message"]
                .as_str()
                .is_some_and(|message| message.contains("UID in precondition")) =>
            {
                Ok(())
            }
            _ => Err(answer.refused(&format!("deleting {kind} {name}"))),
        }
    }
}

/// Whether somebody has asked for the deletion.
pub(super) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}
