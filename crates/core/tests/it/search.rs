//! The filter language: each form, field and type rule by example, each mistake by its place and its words, and
//! everything at random against a second evaluator that knows nothing but the JSON that the API shows.

mod agreement;
mod bounds;
mod faults;
mod generate;
mod meaning;
mod model;
mod spelling;

use hyperfleet_core::search::{self, Filter, Options, SearchError};
use hyperfleet_core::{
    Catalog, Condition, Contract, Phase, RawJson, Resource, ResourceId, Stamp, Status, Timestamp, Version,
    View,
};
use serde_json::Value;

/// With tenancy, so that every field is there.
fn parse(query: &str) -> Result<Filter, SearchError> {
    search::parse(query, Options { tenancy: true })
}

fn catalog() -> Catalog {
    Catalog::new(Catalog::default_descriptors()).unwrap()
}

fn view(catalog: &Catalog) -> View<'_> {
    View { catalog, contract: Contract::Documented, tenancy: false, href_prefix: "/api/hyperfleet/v1" }
}

fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn stamp(at: &str, by: &str) -> Stamp {
    Stamp { at: time(at), by: by.to_owned() }
}

fn id(last: u8) -> ResourceId {
    ResourceId::parse(&format!("0192a000-0000-7000-8000-0000000000{last:02x}")).unwrap()
}

fn condition(kind: &str, status: Status, reason: &str) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status,
        reason: reason.to_owned(),
        message: "All is well".to_owned(),
        observed_generation: 2,
        created_time: time("2026-01-01T00:00:00Z"),
        last_updated_time: time("2026-01-03T00:00:00Z"),
        last_transition_time: time("2026-01-02T00:00:00Z"),
    }
}

/// An active node pool of the cluster with id 1.
fn pool(labels: &Value, spec: &Value) -> Resource {
    Resource {
        id: id(2),
        kind: "NodePool".into(),
        name: "pool-1".to_owned(),
        tenancy: None,
        ancestors: vec![id(1)],
        generation: 3,
        spec: RawJson::from_value(spec),
        labels: RawJson::from_value(labels),
        references: RawJson::from_stored("{}"),
        created: stamp("2026-01-01T12:00:00.000001Z", "ann@example.com"),
        updated: stamp("2026-01-02T12:00:00Z", "bob@example.com"),
        phase: Phase::Active,
        conditions: RawJson::from_value(&[
            condition("Reconciled", Status::True, ""),
            condition("My.Type", Status::False, "Broken"),
        ]),
        pending_since: None,
        version: Version(7),
    }
}

/// A finalizing cluster.
fn cluster() -> Resource {
    let empty = Value::Object(serde_json::Map::new());
    Resource {
        id: id(1),
        kind: "Cluster".into(),
        name: "cluster-1".to_owned(),
        ancestors: Vec::new(),
        phase: Phase::Finalizing(stamp("2026-01-05T00:00:00Z", "cid@example.com")),
        ..pool(&empty, &empty)
    }
}
