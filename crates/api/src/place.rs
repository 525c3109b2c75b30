//! Where in the tree of kinds a route stands: `B/nodepools`, `B/clusters/{cluster_id}/nodepools`,
//! `B/resources`. A place knows which kinds its path names, so a handler gets a checked
//! [`Target`] and never looks at the path itself.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use hyperfleet_core::{Catalog, Entity, Error, Fault, FaultKind, Faults, Resource, Sight, Target, echo};

use hyperfleet_service::problem::Failed;

/// The longest id that a path may hold.
const MAX_ID_BYTES: usize = 255;

/// A route's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The kind served here; `None` for any kind (`B/resources`).
    pub(crate) entity: Option<Arc<Entity>>,
    /// The owners that the path names, outermost first.
    owners: Vec<Arc<Entity>>,
}

impl Place {
    /// Every place of a catalog: any kind, each kind flat, and each kind below every chain of
    /// its owners.
    pub(crate) fn all(catalog: &Catalog) -> Vec<Self> {
        let mut places = vec![Self { entity: None, owners: Vec::new() }];
        for entity in catalog.kinds() {
            let line = catalog.lineage(entity);
            let owners = &line[..line.len() - 1];
            for start in (0..=owners.len()).rev() {
                places.push(Self {
                    entity: Some(entity.clone()),
                    owners: owners[start..].iter().map(|&owner| owner.clone()).collect(),
                });
            }
        }
        places
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

/// A request's place with the ids of its path, checked for form.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    /// The route's place.
    pub(crate) place: Arc<Place>,
    /// The owners that the path names: kind and id, outermost first.
    pub(crate) owners: Vec<(Arc<str>, String)>,
    /// The id of the resource itself, on item routes.
    id: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Path {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        let place = parts
            .extensions
            .get::<Arc<Place>>()
            .cloned()
            .ok_or_else(|| Error::internal("a route without a place"))?;
        // An id that is no text at all is nobody's.
        let ids = RawPathParams::from_request_parts(parts, state).await.map_err(|_| {
            Error::not_found(place.kind(), parts.uri.path().rsplit('/').next().unwrap_or_default())
        })?;
        let mut faults = Faults::default();
        for (name, id) in &ids {
            check_id(name, id, &mut faults);
        }
        let mut ids = ids.iter().map(|(_, id)| id.to_owned());
        let owners = place.owners.iter().map(|owner| owner.kind.clone()).zip(ids.by_ref()).collect();
        let id = ids.next();
        faults.or(()).map(|()| Self { place, owners, id }).map_err(Failed::from)
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
    faults.push(Fault::new(FaultKind::Path, name, rule.1).given(&echo(id).into()).rule(rule.0));
}

impl Path {
    /// The list that the path names, as a text that no other list has.
    pub(crate) fn list_name(&self) -> String {
        let owners = self.owners.iter().map(|(kind, id)| format!("{kind}/{id}/"));
        // That of every kind has a name that no kind can have.
        owners.collect::<String>() + self.place.entity.as_ref().map_or("*", |entity| &entity.kind)
    }

    /// What a page token of a list below one resource is bound to: which list, the route, the resource, and the tenant
    /// that sees it. No list of resources has a name like this.
    pub(crate) fn part_name(&self, part: &str, sight: &Sight) -> String {
        let tenant = sight.tenant().map(ToString::to_string).unwrap_or_default();
        format!("{part}\n{tenant}\n{}/{}", self.list_name(), self.id())
    }

    /// The id of the resource that it names; empty where it names none.
    pub(crate) fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }

    /// The resource that the path names.
    pub(crate) fn target(&self) -> Target {
        Target {
            kind: self.place.entity.as_ref().map(|e| e.kind.clone()),
            id: self.id().to_owned(),
            ancestors: self.owners.clone(),
        }
    }

    /// Whether a resource that was found by its id is the one that the path names.
    pub(crate) fn names(&self, resource: &Resource) -> bool {
        let kind = self.place.entity.as_ref().is_none_or(|e| e.kind == resource.kind);
        let owners = resource.ancestors.iter().rev().zip(self.owners.iter().rev());
        kind && resource.ancestors.len() >= self.owners.len()
            && owners.into_iter().all(|(is, (_, named))| is.to_string() == *named)
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
        let paths: Vec<_> = Place::all(&catalog).iter().map(Place::item_path).collect();
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
