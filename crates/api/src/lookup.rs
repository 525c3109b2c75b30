//! Finds the resource and the owners that a path names.

use std::sync::Arc;

use hyperfleet_core::{AccessScope, Error, Resource, ResourceId, ResourcePath};

use crate::app::App;
use crate::route::Path;

/// The resource that the path names.
pub(crate) async fn find(app: &App, path: &Path, scope: &AccessScope) -> Result<Arc<Resource>, Error> {
    let found = match ResourceId::parse(path.id()) {
        Some(id) => app.store.get(scope, id).await?,
        None => None,
    };
    if let Some(resource) = found.filter(|resource| path.names(resource)) {
        // Roles may hide an owner, and with it everything below it.
        if scope.rights().is_some() {
            Box::pin(owner(app, path, scope)).await?;
        }
        return Ok(resource);
    }
    // Finds out which part of the path does not exist.
    Box::pin(owner(app, path, scope)).await?;
    Err(Error::not_found(path.route.kind(), path.id()))
}

/// The direct owner that the path names, checked up to the outermost.
pub(crate) async fn owner(app: &App, path: &Path, scope: &AccessScope) -> Result<Option<ResourceId>, Error> {
    let mut owner = None;
    for named in &path.target.ancestors {
        let found = match ResourceId::parse(&named.1) {
            Some(id) => app.store.get(scope, id).await?,
            None => None,
        };
        owner = Some(ResourcePath::check_owner(named, owner, found.as_deref())?);
    }
    Ok(owner)
}

/// The error that names the first part of the path that does not exist.
pub(crate) async fn not_there(app: &App, path: &Path, scope: &AccessScope) -> Error {
    find(app, path, scope).await.err().unwrap_or_else(|| Error::not_found(path.route.kind(), path.id()))
}
