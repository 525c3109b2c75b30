//! Single stories that no history of commands leads to, because the rules prevent their beginning:
//! another configuration or an older release may have left them behind.

use hyperfleet_core::{Phase, RawJson, References, ResourceId, ResourcePath, Stamp, Timestamp};
use serde_json::json;

use super::kinds::kind;
use super::request::{Request, Tag};
use super::{empty_database, shown};
use crate::database::Database;

const NOW: i64 = 1_800_000_000_000_000;

fn run(database: &mut Database, request: &Request) -> Result<ResourceId, &'static str> {
    let command = request.command("ann@example.com", false);
    let answer = database.run(&[command], Timestamp::from_micros(NOW)).remove(0);
    answer.map(|outcome| shown(&outcome).id).map_err(|error| error.code())
}

fn create(database: &mut Database, name: &str, owner: Option<(&'static str, ResourceId)>) -> ResourceId {
    let path = owner.map(|(kind, id)| (kind, id.to_string())).into_iter().collect();
    let request = Request::Create {
        kind: kind(name),
        path,
        name: "one",
        spec: json!({}),
        labels: Default::default(),
        references: References::new(),
    };
    run(database, &request).unwrap()
}

fn finalize(database: &mut Database, id: ResourceId) {
    let stamp = Stamp { at: Timestamp::from_micros(NOW), by: "bob@example.com".to_owned() };
    database.rows.get_mut(&id).unwrap().phase = Phase::Finalizing(stamp);
}

#[test]
fn an_active_child_of_a_finalizing_parent_refuses_a_patch() {
    let mut database = empty_database();
    let cluster = create(&mut database, "Cluster", None);
    let pool = create(&mut database, "NodePool", Some(("Cluster", cluster)));
    finalize(&mut database, cluster);
    let target = ResourcePath {
        kind: Some("NodePool".into()),
        id: pool.to_string(),
        ancestors: vec![("Cluster".into(), cluster.to_string())],
    };
    let patch = Request::Merge { target, tag: Tag::Absent, body: json!({"labels": {"a": "x"}}) };
    assert_eq!(run(&mut database, &patch), Err("HYPERFLEET-CNF-003"));
}

#[test]
fn a_force_delete_drops_the_references_of_others_and_names_them() {
    let mut database = empty_database();
    let cluster = create(&mut database, "Cluster", None);
    let identity = create(&mut database, "Identity", None);
    let zone = create(&mut database, "Zone", None);
    let references = json!({"backup": [identity, zone], "identity": [identity]});
    database.rows.get_mut(&cluster).unwrap().references = RawJson::from_value(&references);
    finalize(&mut database, identity);
    let target = ResourcePath { kind: None, id: identity.to_string(), ancestors: Vec::new() };
    assert_eq!(run(&mut database, &Request::ForceDelete { target, tag: Tag::Any }), Ok(identity));

    let left = &database.rows[&cluster];
    assert_eq!(left.references, RawJson::from_value(&json!({"backup": [zone]})));
    assert_eq!((left.generation, left.version), (2, database.history[3].version));
    let record = database.history.last().unwrap();
    assert_eq!((record.resource, record.version), (identity, database.version));
    let entry = &record.entries[0];
    assert_eq!((entry.reason.as_deref(), &entry.dropped_references_of), (Some("it hangs"), &vec![cluster]));
}
