//! The routes of kinds: `B/nodepools`, `B/clusters/{cluster_id}/nodepools`, `B/resources`. A route knows which kinds its
//! path names, so a handler gets a checked [`ResourcePath`] and never parses the path itself.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use hyperfleet_core::{
    AccessScope, Catalog, Entity, Error, Fault, FaultKind, Faults, Resource, ResourcePath, echo,
};

use hyperfleet_service::http_error::HttpError;

/// The longest id that a path may hold.
const MAX_ID_BYTES: usize = 255;

/// The route of a kind, below a chain of its owners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KindRoute {
    /// The kind served here; `None` for any kind (`B/resources`).
    pub(crate) entity: Option<Arc<Entity>>,
    /// The owners that the path names, outermost first.
    owners: Vec<Arc<Entity>>,
}

impl KindRoute {
    /// Every route of a catalog: any kind, each kind flat, and each kind below every chain of its owners.
    pub(crate) fn all(catalog: &Catalog) -> Vec<Self> {
        let mut routes = vec![Self { entity: None, owners: Vec::new() }];
        for entity in catalog.kinds() {
            let line = catalog.lineage(entity);
            let owners = &line[..line.len() - 1];
            for start in (0..=owners.len()).rev() {
                routes.push(Self {
                    entity: Some(entity.clone()),
                    owners: owners[start..].iter().map(|&owner| owner.clone()).collect(),
                });
            }
        }
        routes
    }

    /// The path of the list, below the version.
    pub(crate) fn collection_path(&self) -> String {
        let mut path = String::new();
        for owner in &self.owners {
            path.push_str(&format!("/{}/{{{}}}", owner.plural, parameter(owner)));
        }
        path.push('/');
        path.push_str(self.entity.as_ref().map_or("resources", |e| &e.plural));
        path
    }

    /// The path of one resource, below the version.
    pub(crate) fn item_path(&self) -> String {
        format!(
            "{}/{{{}}}",
            self.collection_path(),
            self.entity.as_ref().map_or("id".to_owned(), |e| parameter(e))
        )
    }

    /// The kind's name, or the word for any.
    pub(crate) fn kind(&self) -> &str {
        self.entity.as_ref().map_or("Resource", |e| &e.kind)
    }

    /// Whether a child kind is addressed without its owner.
    pub(crate) fn lacks_owner(&self) -> bool {
        self.owners.is_empty() && self.entity.as_ref().is_some_and(|e| e.parent.is_some())
    }
}

/// The name of a kind's path parameter, such as `cluster_id`.
pub(crate) fn parameter(entity: &Entity) -> String {
    format!("{}_id", entity.kind.to_ascii_lowercase())
}

/// The route of a request with the ids of its path, checked for form.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    /// The route that matched.
    pub(crate) route: Arc<KindRoute>,
    /// The resource that the path names. Its id is empty on routes of collections.
    pub(crate) target: ResourcePath,
}

impl<S: Send + Sync> FromRequestParts<S> for Path {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpError> {
        let route = parts
            .extensions
            .get::<Arc<KindRoute>>()
            .cloned()
            .ok_or_else(|| Error::internal("a handler of kinds was reached by a route without a kind"))?;
        // No resource has an id that is not UTF-8.
        let ids = RawPathParams::from_request_parts(parts, state).await.map_err(|_| {
            Error::not_found(route.kind(), parts.uri.path().rsplit('/').next().unwrap_or_default())
        })?;
        let mut faults = Faults::default();
        for (name, id) in &ids {
            check_id(name, id, &mut faults);
        }
        let mut ids = ids.iter().map(|(_, id)| id.to_owned());
        let ancestors = route.owners.iter().map(|owner| owner.kind.clone()).zip(ids.by_ref()).collect();
        let id = ids.next().unwrap_or_default();
        let target = ResourcePath { kind: route.entity.as_ref().map(|e| e.kind.clone()), id, ancestors };
        faults.or(()).map(|()| Self { route, target }).map_err(HttpError::from)
    }
}

fn check_id(name: &str, id: &str, faults: &mut Faults) {
    let rule = if id.len() > MAX_ID_BYTES {
        ("max_length", format!("{name} must have at most {MAX_ID_BYTES} bytes, not {}", id.len()))
    } else if id.chars().any(char::is_control) {
        ("pattern", format!("{name} must not contain control characters"))
    } else {
        return;
    };
    faults.push(Fault::new(FaultKind::Identifier, name, rule.1).given(&echo(id).into()).rule(rule.0));
}

impl Path {
    /// A name of the list that is unique among all lists.
    pub(crate) fn list_name(&self) -> String {
        let owners = self.target.ancestors.iter().map(|(kind, id)| format!("{kind}/{id}/"));
        // `*` is no valid kind, so the list of all kinds has a name of its own.
        owners.collect::<String>() + self.route.entity.as_ref().map_or("*", |entity| &entity.kind)
    }

    /// The route that page tokens of a list below one resource are bound to: list, path and tenant. It differs from the
    /// name of every list of resources.
    pub(crate) fn part_name(&self, part: &str, scope: &AccessScope) -> String {
        let tenant = scope.tenant().map(ToString::to_string).unwrap_or_default();
        format!("{part}\n{tenant}\n{}/{}", self.list_name(), self.id())
    }

    /// The id of the resource; empty on routes of collections.
    pub(crate) fn id(&self) -> &str {
        &self.target.id
    }

    /// Whether the path names this resource.
    pub(crate) fn names(&self, resource: &Resource) -> bool {
        self.target.names(resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperfleet_core::EntityDescriptor;

    #[test]
    fn a_kind_has_a_path_below_every_chain_of_its_owners() {
        let kind = |kind: &str, plural: &str, parent: Option<&str>| EntityDescriptor {
            kind: kind.into(),
            plural: plural.into(),
            parent_kind: parent.map(Into::into),
            on_parent_delete: parent.map(|_| "cascade".into()),
            ..EntityDescriptor::default()
        };
        let catalog = Catalog::new(vec![
            kind("Zone", "zones", None),
            kind("Rack", "racks", Some("Zone")),
            kind("Host", "hosts", Some("Rack")),
        ])
        .unwrap();
        let paths: Vec<_> = KindRoute::all(&catalog).iter().map(KindRoute::item_path).collect();
        assert_eq!(
            paths,
            [
                "/resources/{id}",
                "/zones/{zone_id}",
                "/racks/{rack_id}",
                "/zones/{zone_id}/racks/{rack_id}",
                "/hosts/{host_id}",
                "/racks/{rack_id}/hosts/{host_id}",
                "/zones/{zone_id}/racks/{rack_id}/hosts/{host_id}",
            ]
        );
    }
}
