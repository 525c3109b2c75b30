//! A few resources of several kinds, with labels, specs, reports and children.

use serde_json::{Value, json};

use crate::support::*;

/// A report with nothing but what must be there, and what is said of `Available`.
pub(super) fn report(adapter: &str, generation: u64, second: u32, available: &Value) -> Value {
    let mut report = crate::support::report(adapter, generation, "True", &at(second));
    report["conditions"][0].as_object_mut().unwrap().extend(available.as_object().unwrap().clone());
    report
}

/// The fleet that most tests search, by the kinds of [`CATALOG`].
///
/// | Cluster | labels | spec | conditions |
/// |---|---|---|---|
/// | alpha | production, owner, an empty tier | of everything | all True |
/// | beta | staging | numbers, generation 2 | validator False at 2, dns True at 1 |
/// | gamma | none | empty | no report |
/// | delta | dev | texts that look like alpha's values | validator True, and again |
/// | going | production | empty, finalizing | no report |
///
/// Below alpha are pool-1 and pool-2, below beta is pool-3, below going pool-4; a Zone has alpha's name and a rack.
pub(super) struct Fleet {
    pub(super) alpha: Value,
    pub(super) beta: Value,
    pub(super) gamma: Value,
    pub(super) going: Value,
    delta: Value,
    first_pool: Value,
}

impl Fleet {
    /// With the reports.
    pub(super) async fn built(app: &App) -> Self {
        let fleet = Self::silent(app).await;
        let broken = json!({"status": "False", "reason": "Broken", "message": "it's 100% a_b"});
        for (resource, adapter, generation, second, available) in [
            (&fleet.first_pool, "validator", 1, 60, json!({"status": "True"})),
            (&fleet.alpha, "validator", 1, 10, json!({"status": "True"})),
            (&fleet.alpha, "dns", 1, 20, json!({"status": "True", "reason": "Fine", "message": "all of it"})),
            (&fleet.beta, "validator", 2, 30, broken),
            (&fleet.beta, "dns", 1, 40, json!({"status": "True"})),
            (&fleet.delta, "validator", 1, 50, json!({"status": "True"})),
            (&fleet.delta, "validator", 1, 70, json!({"status": "True"})),
        ] {
            app.report(resource, &report(adapter, generation, second, &available)).await.expect_status(201);
        }
        fleet
    }

    /// Before the first report.
    pub(super) async fn silent(app: &App) -> Self {
        let cluster = async |name: &str, labels: Value, spec: Value| {
            let body = json!({"kind": "Cluster", "name": name, "labels": labels, "spec": spec});
            app.create("/clusters", &body).await
        };
        let labels = json!({"env": "production", "team.example.com/owner": "core", "tier": "", "rank": "B"});
        let alpha = cluster("alpha", labels, everything()).await;
        let beta = cluster(
            "beta",
            json!({"env": "staging", "rank": "a"}),
            json!({"region": "eu-west", "size": 10, "ratio": 0.25, "on": false, "text": "Fine"}),
        )
        .await;
        let gamma = cluster("gamma", json!({}), json!({})).await;
        let delta = cluster(
            "delta",
            json!({"env": "dev", "deleted_time": "label"}),
            json!({"region": null, "size": "3", "ratio": "0.1", "on": "true", "list": "10", "text": "fine"}),
        )
        .await;
        let going = cluster("going", json!({"env": "production"}), json!({})).await;

        let mut pools = Vec::new();
        for (owner, name, labels) in [
            (&alpha, "pool-1", json!({"env": "production"})),
            (&alpha, "pool-2", json!({})),
            (&beta, "pool-3", json!({"env": "dev"})),
            (&going, "pool-4", json!({"env": "production"})),
        ] {
            let body = json!({"kind": "NodePool", "name": name, "labels": labels, "spec": {"size": 1}});
            pools.push(app.create(&format!("{}/nodepools", href(owner)), &body).await);
        }
        let zone = json!({"kind": "Zone", "name": "alpha", "labels": {"env": "production"}, "spec": {}});
        let zone = app.create("/zones", &zone).await;
        app.create_named(&format!("{}/racks", href(&zone)), "Rack", "rack").await;

        app.merge(&beta, &json!({"spec": {"changed": true}})).await;
        app.remove(&going).await;
        Self { alpha, beta, gamma, going, delta, first_pool: pools.swap_remove(0) }
    }
}

fn everything() -> Value {
    json!({
        "region": "us-east", "size": 3, "ratio": 0.1, "on": true, "text": "FINE",
        "list": [10, "ten", {"a": "x", "b": [[true]]}, null],
        "net": {"cidr": "10.0.0.0/8", "a": {"b": {"c": {"d": {"e": "deep"}}}}},
        "odd key": {"x.y": 1, "it's": "quoted", "": "empty", "[0]": "bracket", "$": "dollar", "größe": "large"},
        "a/b": "slash", "a-b": "dash", "a_b": "under", "9": "nine",
        "and": "word", "In": {"not": {"null": "words"}},
        "nothing": null, "empty": "", "zero": 0, "no": false, "object": {}, "array": [],
    })
}
