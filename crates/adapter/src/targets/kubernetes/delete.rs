//! Deleting: the object that was seen, and no later one of its name. Finalizers of others are never removed.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::kinds::Place;
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
        let place = self.place(&api_version, &kind).await?;
        let path = place.object(object["metadata"]["namespace"].as_str(), name)?;
        let options = json!({
            "kind": "DeleteOptions", "apiVersion": "v1",
            "preconditions": {"uid": uid}, "propagationPolicy": propagation.as_str(),
        });
        let answer = self.0.transport.send(Call::with_body(Method::DELETE, &path, JSON, &options)).await?;
        self.0.memory.forget(uid);
        match answer.status {
            404 => Ok(()),
            _ if answer.is_success() => Ok(()),
            // With 409, another object may have taken its name.
            409 if !self.is_there(&place, object).await? => Ok(()),
            _ => Err(answer.refused(&format!("deleting {kind} {name}"))),
        }
    }

    /// Whether this very object is still there.
    async fn is_there(&self, place: &Arc<Place>, object: &Value) -> Result<bool, TargetError> {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let now = self.read(place, metadata["namespace"].as_str(), name).await?;
        Ok(now.is_some_and(|now| uid(&now) == uid(object)))
    }
}

/// Whether somebody has asked for the deletion.
pub(super) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}
