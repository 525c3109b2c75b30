//! The resources that filters are applied to: one that has every field, with values of every type and of awkward
//! sizes, and one that has as few as there can be.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use hyperfleet_core::search::Candidate;
use hyperfleet_core::{
    Catalog, Contract, Phase, RawJson, Resource, ResourceId, Stamp, Tenant, Timestamp, Version, View,
};

const SPEC: &str = r#"{
    "region": "eu-west-1", "count": 5, "ratio": 0.10, "big": 18446744073709551616, "huge": 1.5e400, "tiny": -1e-400,
    "beyond": 1e99999999999999999999999999999999999999999999, "on": true, "off": false, "nothing": null,
    "list": [10, {"x": "y"}, null, [7]], "a b": {"c": "d"}, "0": "member", "object": {}, "empty": "",
    "a": {"b": {"c": "100%_\\ \n\t'\"`é😀"}}
}"#;

const LABELS: &str =
    r#"{"environment": "production", "team.example.com/owner": "sre", "a..b": "dots", "blank": ""}"#;

const CONDITIONS: &str = r#"[{"type":"Reconciled","status":"True","reason":"","message":"All is well","observed_generation":2,"created_time":"2026-01-01T00:00:00.000000Z","last_updated_time":"2026-01-03T00:00:00.000000Z","last_transition_time":"2026-01-02T00:00:00.000000Z"}]"#;

static CATALOG: LazyLock<Catalog> =
    LazyLock::new(|| Catalog::new(Catalog::default_descriptors()).expect("the kinds that come with it"));

static TENANT: LazyLock<BTreeMap<String, String>> =
    LazyLock::new(|| BTreeMap::from([("organization".to_owned(), "acme".to_owned())]));

static POOL: LazyLock<Resource> = LazyLock::new(|| Resource {
    id: id("0192a000-0000-7000-8000-000000000002"),
    kind: "NodePool".into(),
    tenancy: Some(Tenant::new(&TENANT)),
    name: "pool-1".to_owned(),
    ancestors: vec![id("0192a000-0000-7000-8000-000000000001")],
    generation: 3,
    spec: RawJson::from_stored(SPEC),
    labels: RawJson::from_stored(LABELS),
    references: RawJson::from_stored("{}"),
    created: stamp("2026-01-01T12:00:00.000001Z", "ann@example.com"),
    updated: stamp("2026-01-02T12:00:00Z", "bob@example.com"),
    phase: Phase::Finalizing(stamp("2026-01-05T00:00:00Z", "cid@example.com")),
    conditions: RawJson::from_stored(CONDITIONS),
    pending_since: None,
    version: Version(7),
});

static CLUSTER: LazyLock<Resource> = LazyLock::new(|| Resource {
    id: id("0192a000-0000-7000-8000-000000000001"),
    kind: "Cluster".into(),
    name: "cluster-1".to_owned(),
    ancestors: Vec::new(),
    spec: RawJson::from_stored("{}"),
    labels: RawJson::from_stored("{}"),
    phase: Phase::Active,
    conditions: RawJson::from_stored("[]"),
    ..POOL.clone()
});

static CANDIDATES: LazyLock<[Candidate<'static>; 2]> = LazyLock::new(|| {
    let view = View {
        catalog: &CATALOG,
        contract: Contract::Documented,
        tenancy: true,
        href_prefix: "/api/hyperfleet/v1",
    };
    [Candidate::new(view, &POOL), Candidate::new(view, &CLUSTER)]
});

/// Each of them.
pub(crate) fn all() -> &'static [Candidate<'static>] {
    &*CANDIDATES
}

fn id(text: &str) -> ResourceId {
    ResourceId::parse(text).expect("an id")
}

fn stamp(at: &str, by: &str) -> Stamp {
    Stamp { at: Timestamp::parse(at).expect("a time"), by: by.to_owned() }
}
