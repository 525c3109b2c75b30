//! Questions before anything is done: what the adapter may do, and whether the server would take a manifest.

use http::Method;
use serde_json::{Value, json};

use super::transport::{Call, JSON};
use super::{Kind, Kubernetes};
use crate::targets::TargetError;

/// How roles name a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceName {
    /// The API group; empty for the core group.
    pub group: String,
    /// Such as `configmaps`.
    pub plural: String,
    /// Whether objects of the kind are in namespaces.
    pub namespaced: bool,
}

impl Kubernetes {
    /// How roles name this kind.
    pub async fn resource_name(&self, kind: &Kind) -> Result<ResourceName, TargetError> {
        let place = self.place(&kind.api_version, &kind.kind).await?;
        let group = kind.api_version.split_once('/').map_or("", |(group, _)| group);
        Ok(ResourceName {
            group: group.to_owned(),
            plural: place.plural.clone(),
            namespaced: place.namespaced,
        })
    }

    /// Whether the adapter may do this, such as `list`, in a namespace or in all.
    pub async fn may(&self, verb: &str, kind: &Kind, namespace: Option<&str>) -> Result<bool, TargetError> {
        let name = self.resource_name(kind).await?;
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "verb": verb, "group": name.group, "resource": name.plural,
                "namespace": namespace.filter(|_| name.namespaced).unwrap_or_default(),
            }},
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let answer = self.0.transport.send(Call::with_body(Method::POST, path, JSON, &review)).await?;
        let review: Value = answer.object("asking what the adapter may do")?;
        Ok(review["status"]["allowed"] == true)
    }
}
