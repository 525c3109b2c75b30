//! The names of owners, and of others: a resource knows them by id, people by name. They are read together, some
//! dozens to a request, up to the root.

use std::collections::HashMap;

use hyperfleet_client::{Collection, ListQuery, Page, Request, Resource};

use super::Session;
use super::kinds::singular;
use super::target::quoted;
use crate::commands::Failure;
use crate::output::text::clean;

/// The number of ids in one search, well below its limit.
const AT_ONCE: usize = 80;
/// Ownership nests no deeper than kinds do; a server that says otherwise is not followed for ever.
const MAX_DEPTH: usize = 32;

/// Owners by id.
#[derive(Debug, Default)]
pub(crate) struct Owners(HashMap<String, Resource>);

impl Owners {
    /// All owners of these, and theirs.
    pub(crate) async fn of(session: &Session, resources: &[Resource]) -> Result<Self, Failure> {
        Self::with(session, resources, Vec::new()).await
    }

    /// The owners of a resource, the targets of its references, and others by their ids, each with all of its owners. A
    /// resource that the caller may not read has no name here.
    pub(crate) async fn of_related(
        session: &Session,
        resource: &Resource,
        others: &[String],
    ) -> Result<Self, Failure> {
        let targets = resource.references().into_iter().flat_map(|(_, targets)| targets);
        let mut ids: Vec<String> = targets.map(|target| target.id).chain(others.iter().cloned()).collect();
        ids.push(resource.id().to_owned());
        Self::with(session, std::slice::from_ref(resource), ids).await
    }

    async fn with(session: &Session, resources: &[Resource], ids: Vec<String>) -> Result<Self, Failure> {
        let mut known = Self::default();
        let mut wanted = missing(&known, resources);
        wanted.extend(ids);
        wanted.sort_unstable();
        wanted.dedup();
        for _ in 0..MAX_DEPTH {
            if wanted.is_empty() {
                break;
            }
            let mut found = Vec::new();
            for ids in wanted.chunks(AT_ONCE) {
                let ids: Vec<String> = ids.iter().map(|id| quoted(id)).collect();
                let query = ListQuery {
                    search: Some(format!("id in [{}]", ids.join(","))),
                    fields: Some("kind,name,owner_references,deleted_time".to_owned()),
                    show_deleted: true,
                    page_size: Some(AT_ONCE as u64),
                    ..ListQuery::default()
                };
                let answer = session.fetch(Request::list(&Collection::any(), &query)).await?;
                found.extend(Page::<Resource>::read(&answer)?.items);
            }
            wanted = missing(&known, &found);
            known.0.extend(found.into_iter().map(|one| (one.id().to_owned(), one)));
            wanted.retain(|id| !known.0.contains_key(id));
        }
        Ok(known)
    }

    /// `rack/zone-1/rack-1`: the names that lead to the owner.
    pub(crate) fn owner_path(&self, resource: &Resource) -> Option<String> {
        let owner = resource.owner()?;
        Some(match self.0.get(&owner.id) {
            Some(known) => self.path_of(known),
            None => format!("{}/{}", singular(&owner.kind), owner.id),
        })
    }

    /// `cluster/prod-1`, or the owner's id if its name was not found; empty without an owner.
    pub(crate) fn owner_of(&self, resource: &Resource) -> String {
        match resource.owner() {
            Some(owner) => match self.0.get(&owner.id) {
                Some(known) => format!("{}/{}", singular(&owner.kind), known.name()),
                None => format!("{}/{}", singular(&owner.kind), owner.id),
            },
            None => String::new(),
        }
    }

    /// The path of the resource with this id, such as `nodepool/prod-1/workers`, if it is known.
    pub(crate) fn named(&self, id: &str) -> Option<String> {
        self.0.get(id).map(|known| self.path_of(known))
    }

    /// Whether the resource with this id is known and not finalizing.
    pub(crate) fn is_active(&self, id: &str) -> bool {
        self.0.get(id).is_some_and(|known| !known.is_finalizing())
    }

    /// `nodepool/prod-1/workers`.
    pub(crate) fn path_of(&self, resource: &Resource) -> String {
        let mut names = vec![resource.name()];
        let mut next = resource.owner();
        while let Some(known) =
            next.and_then(|owner| self.0.get(&owner.id)).filter(|_| names.len() < MAX_DEPTH)
        {
            names.push(known.name());
            next = known.owner();
        }
        names.push("");
        names.reverse();
        clean(&format!("{}{}", singular(resource.kind()), names.join("/"))).into_owned()
    }
}

fn missing(known: &Owners, resources: &[Resource]) -> Vec<String> {
    let mut ids: Vec<String> = resources
        .iter()
        .filter_map(|resource| resource.owner().map(|owner| owner.id))
        .filter(|id| !known.0.contains_key(id))
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
