//! Checks specs against the schemas of their kinds. A brief check runs where the request is handled. A longer one runs on
//! a blocking thread, so that it delays no other request, and only a few run at a time, which bounds their memory.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use hyperfleet_core::{Entity, Error, ErrorKind, Fault, Faults, document_faults};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use crate::app::App;

/// How long a spec waits until its long check begins.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The permits of long checks: half of the processors stay free of them.
pub(crate) fn permits() -> Arc<Semaphore> {
    let processors = available_parallelism().map_or(1, NonZeroUsize::get);
    Arc::new(Semaphore::new((processors / 2).max(1)))
}

/// The faults of the member `spec` of a body, which stays as it is.
pub(crate) async fn faults(
    app: &App,
    entity: &Entity,
    members: &mut Map<String, Value>,
) -> Result<Vec<Fault>, Error> {
    let Some(spec) = members.get_mut("spec").filter(|spec| !spec.is_null()) else { return Ok(Vec::new()) };
    if !spec.is_object() {
        return Ok(vec![Fault::wrong_type("spec", "an object", spec)]);
    }
    let shape = document_faults("spec", spec);
    if !shape.is_empty() {
        return Ok(shape);
    }
    if let Some(faults) = app.rulebook.schemas.check_briefly(&entity.kind, spec) {
        return Ok(faults);
    }
    // Rare branches are boxed, so that they do not enlarge the future of every request.
    let (checked, faults) = Box::pin(long_check(app, &entity.kind, spec.take())).await?;
    *spec = checked;
    Ok(faults)
}

/// The spec that a patch leads to, once it is checked.
pub(crate) async fn checked(app: &App, kind: &Arc<str>, spec: Value) -> Result<Arc<Value>, Error> {
    let (spec, faults) = long_check(app, kind, spec).await?;
    Faults::from(faults).or(Arc::new(spec))
}

async fn long_check(app: &App, kind: &Arc<str>, spec: Value) -> Result<(Value, Vec<Fault>), Error> {
    let permit = tokio::time::timeout(LONGEST_WAIT, app.long_checks.clone().acquire_owned());
    let Ok(permit) = permit.await else {
        let detail = "Too many specs that take long to check are waiting. Please try again later.";
        return Err(Error::new(ErrorKind::Overloaded, detail));
    };
    let permit = permit.map_err(Error::internal)?;
    let (rulebook, kind) = (app.rulebook.clone(), kind.clone());
    let check = move || {
        let faults = rulebook.schemas.check(&kind, &spec);
        drop(permit);
        (spec, faults)
    };
    tokio::task::spawn_blocking(check).await.map_err(Error::internal)
}
