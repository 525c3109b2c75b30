//! The run that the tests with many writers share: a few trees, then concurrent writers, and in the end the fleet
//! compared with all answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyperfleet_testkit::model::Kinds;
use serde_json::Value;

use super::audit::{Audit, Final};
use super::fleet::{initial_commands, planned_commands};
use super::writers::{CompletedCommand, EVERYTHING, Observed, ServerAddress, SharedState, act};
use super::{cases, complaints, drawn, tables};
use crate::support::{App, href, id};

const WRITERS: usize = 32;

/// How many commands all writers send, beside those of the beginning.
pub(super) fn commands() -> usize {
    WRITERS * each()
}

/// A shorter run than this would not be hit by every axe.
fn each() -> usize {
    (cases(48).cases as usize).max(48)
}

/// The whole run, with every response and everything that was read.
pub(super) async fn perform(
    shared: Arc<SharedState>,
    servers: Vec<ServerAddress>,
) -> (Vec<CompletedCommand>, Observed) {
    let (mut told, mut observed) = act(&shared, &servers, [(WRITERS, initial_commands())]).await;
    let writers = drawn(&proptest::collection::vec(planned_commands(&shared.fleet.kinds, each()), WRITERS));
    let (more, seen) = act(&shared, &servers, writers.into_iter().enumerate()).await;
    told.extend(more);
    observed.extend(seen);
    (told, observed)
}

/// Whatever is wrong after a run, with the server, with the records and with the tables.
pub(super) async fn judge(
    app: &App,
    kinds: &Kinds,
    told: Vec<CompletedCommand>,
    mut observed: Observed,
) -> Vec<String> {
    let documents = app.get(EVERYTHING).await.expect_status(200).json()["items"].as_array().unwrap().clone();
    let mut end = Final { documents, versions: BTreeMap::new(), statuses: BTreeMap::new() };
    for document in &end.documents {
        let alone = app.get(href(document)).await.expect_status(200);
        assert_eq!(alone.json(), *document, "a resource is in the list as it is alone");
        end.versions.insert(id(document).to_owned(), alone.version().unwrap());
        let reports = app.reports(document).await.as_array().unwrap().clone();
        end.statuses.insert(id(document).to_owned(), reports);
    }
    observed.saw_all(end.documents.clone());
    let created = told.iter().filter_map(|told| Some(&told.reply.as_ref()?.body));
    let created: Vec<Value> = created.filter(|body| body["id"].is_string()).cloned().collect();
    observed.note(&created);

    let mut faults = tables::faults(app).await;
    faults.extend(tables::wrongly_pending(app, &end.documents).await);
    faults.extend(complaints(app));
    faults.extend(Audit { kinds, told, observed, end }.faults());
    faults
}
