//! Diffs between two generations.

use super::*;
use crate::support::{CATALOG, both_stores, id};

both_stores!(
    config = CATALOG;
    a_diff_lists_the_changed_paths_between_two_generations,
    a_diff_without_numbers_is_of_the_last_generation,
    a_diff_with_a_generation_that_was_never_reached_is_not_found,
);

async fn diff(app: &App, resource: &Value, query: &str) -> Value {
    app.get(&format!("{}/diff{query}", href(resource))).await.expect_status(200).json()
}

async fn a_diff_lists_the_changed_paths_between_two_generations(app: &App) {
    let network = app.create_named("/networks", "Network", "net").await;
    let body = json!({
        "kind": "Service", "name": "svc", "spec": {"a": {"b": 1, "c": 2}, "same": true}, "labels": {"team": "red"},
        "references": {"networks": [{"id": id(&network)}]},
    });
    let service = app.create("/services", &body).await;
    app.merge(&service, &json!({"spec": {"a": {"b": 5}}})).await;
    app.merge(&service, &json!({"labels": {"team": "blue"}})).await;
    app.merge(&service, &json!({"spec": {"a": {"b": 1, "c": null}, "x/y": [1]}})).await;
    let forward = diff(app, &service, "?from=1&to=3").await;
    assert_eq!(
        forward,
        json!({"kind": "ServiceDiff", "id": id(&service), "from": 1, "to": 3, "changes": [
            {"path": "spec.a.c", "from": 2},
            {"path": "spec['x/y']", "to": [1]},
            {"path": "labels.team", "from": "red", "to": "blue"},
        ]})
    );
    let back = diff(app, &service, "?from=3&to=1").await;
    assert_eq!(
        back["changes"],
        json!([
            {"path": "spec.a.c", "to": 2},
            {"path": "spec['x/y']", "from": [1]},
            {"path": "labels.team", "from": "blue", "to": "red"},
        ])
    );
    assert_eq!(diff(app, &service, "?from=2&to=2").await["changes"], json!([]));
    let path = format!("/resources/{}/diff?from=1&to=3", id(&service));
    assert_eq!(app.get(&path).await.expect_status(200).json(), forward);
    app.remove(&service).await;
    assert_eq!(diff(app, &service, "?from=1&to=3").await, forward);
    let gone = json!([{"path": "references.networks", "from": [id(&network)]}]);
    assert_eq!(diff(app, &service, "").await["changes"], gone);
}

async fn a_diff_without_numbers_is_of_the_last_generation(app: &App) {
    let network = app.create_named("/networks", "Network", "net").await;
    let spans = async |query: &str| {
        let found = diff(app, &network, query).await;
        (
            found["from"].as_u64().unwrap(),
            found["to"].as_u64().unwrap(),
            found["changes"].as_array().unwrap().len(),
        )
    };
    assert_eq!(spans("").await, (1, 1, 0));
    for number in 0..3 {
        app.merge(&network, &json!({"spec": {(number.to_string()): 1}})).await;
    }
    assert_eq!(spans("").await, (3, 4, 1));
    assert_eq!(spans("?to=3").await, (2, 3, 1));
    assert_eq!(spans("?from=1").await, (1, 4, 3));
    assert_eq!(spans("?to=1").await, (1, 1, 0));
    assert_eq!(spans("?from=&to=").await, (3, 4, 1));
}

async fn a_diff_with_a_generation_that_was_never_reached_is_not_found(app: &App) {
    let network = app.create_named("/networks", "Network", "net").await;
    for query in ["?from=2", "?to=2", "?from=1&to=2", "?from=2&to=1", "?from=99999999999999999999"] {
        let answer = app.get(&format!("{}/diff{query}", href(&network))).await;
        assert_refused(&answer, 404, "NTF-001");
        assert!(text(&answer.json()["detail"]).ends_with("its newest is 1"), "{answer}");
    }
    for query in ["?from=0", "?to=-1", "?to=two", "?generation=1", "?fields=changes"] {
        assert_refused(&app.get(&format!("{}/diff{query}", href(&network))).await, 400, "VAL-004");
    }
}
