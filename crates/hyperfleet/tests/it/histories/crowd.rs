//! The run that the tests with many writers share: a few trees to begin with, then everybody at once; and in the end
//! the fleet as it is, against what everybody was told.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyperfleet_testkit::model::Kinds;
use serde_json::Value;

use super::fleet::{first_wishes, wishes};
use super::ledger::{Final, Ledger};
use super::writers::{EVERYTHING, Observed, Stage, Told, Whereabouts, act};
use super::{cases, complaints, drawn, tables};
use crate::support::{App, etag, href, id};

const WRITERS: usize = 32;

/// How many commands the crowd gives in all, beside those of the beginning.
pub(super) fn commands() -> usize {
    WRITERS * each()
}

/// A shorter run than this would not be hit by every axe.
fn each() -> usize {
    (cases(48).cases as usize).max(48)
}

/// The whole run; everything that anybody was told or saw.
pub(super) async fn perform(stage: Arc<Stage>, servers: Vec<Whereabouts>) -> (Vec<Told>, Observed) {
    let (mut told, mut observed) = act(&stage, &servers, [(WRITERS, first_wishes())]).await;
    let crowd = drawn(&proptest::collection::vec(wishes(&stage.fleet.kinds, each()), WRITERS));
    let (more, seen) = act(&stage, &servers, crowd.into_iter().enumerate()).await;
    told.extend(more);
    observed.extend(seen);
    (told, observed)
}

/// Whatever is wrong after a run, with the server, with the records and with the tables.
pub(super) async fn judge(app: &App, kinds: &Kinds, told: Vec<Told>, mut observed: Observed) -> Vec<String> {
    let documents = app.get(EVERYTHING).await.expect_status(200).json()["items"].as_array().unwrap().clone();
    let mut end = Final { documents, versions: BTreeMap::new(), statuses: BTreeMap::new() };
    for document in &end.documents {
        let alone = app.get(href(document)).await.expect_status(200);
        assert_eq!(alone.json(), *document, "a resource is in the list as it is alone");
        end.versions.insert(id(document).to_owned(), etag(&alone).trim_matches('"').parse().unwrap());
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
    faults.extend(Ledger { kinds, told, observed, end }.faults());
    faults
}
