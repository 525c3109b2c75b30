//! A resource as it was at the end of a generation.

use super::*;
use crate::support::{CATALOG, both_stores, id};

both_stores!(
    config = CATALOG;
    each_generation_is_read_as_it_was_at_its_end,
    a_generation_has_no_etag_and_accepts_fields,
    a_generation_before_many_changes_is_found,
    an_unknown_generation_differs_from_a_malformed_one,
);

async fn each_generation_is_read_as_it_was_at_its_end(app: &App) {
    let network = app.create_named("/networks", "Network", "net").await;
    let body = json!({
        "kind": "Service", "name": "svc", "spec": {"size": 1, "big": 123456789012345678901234567890.0_f64},
        "references": {"networks": [{"id": id(&network)}]},
    });
    let service = app.create("/services", &body).await;
    let mut ends = vec![app.merge(&service, &json!({"labels": {"team": "red"}})).await];
    app.merge(&service, &json!({"spec": {"size": 2, "more": {"a": [1]}}})).await;
    ends.push(app.merge(&service, &json!({"labels": {"team": null, "stage": "two"}})).await);
    let twin = app.create_named("/networks", "Network", "twin").await;
    ends.push(
        app.merge(&service, &json!({"references": {"networks": [{"id": id(&network)}, {"id": id(&twin)}]}}))
            .await,
    );
    ends.push(app.merge(&service, &json!({"spec": {"more": null}})).await);
    let read = async |generation: usize| {
        app.get(&format!("{}?generation={generation}", href(&service))).await.expect_status(200).json()
    };
    for (at, end) in ends.iter().enumerate() {
        assert_eq!(read(at + 1).await, *end, "generation {}", at + 1);
    }
    app.remove(&service).await;
    for (at, end) in ends.iter().enumerate() {
        assert_eq!(read(at + 1).await, *end, "generation {} of what is gone", at + 1);
    }
    let last = read(5).await;
    assert_eq!(
        (&last["spec"], last.get("references"), &last["generation"]),
        (&ends[3]["spec"], None, &json!(5))
    );

    // Reports are part of the state.
    let cluster = app.create_cluster("reported").await;
    app.report(&cluster, &report("validator", 1, "True", &at(1))).await.expect_status(201);
    app.report(&cluster, &report("dns", 1, "True", &at(2))).await.expect_status(201);
    let first = app.read(&cluster).await;
    app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    app.report(&cluster, &report("dns", 2, "True", &at(3))).await.expect_status(201);
    let second = app.read(&cluster).await;
    let finalizing = app.remove(&cluster).await;
    for (generation, state) in [(1, first), (2, second), (3, finalizing)] {
        let was = app.get(&format!("{}?generation={generation}", href(&cluster))).await.expect_status(200);
        assert_eq!(was.json(), state, "generation {generation}");
    }
}

async fn a_generation_has_no_etag_and_accepts_fields(app: &App) {
    let network =
        app.create("/networks", &json!({"kind": "Network", "name": "net", "spec": {"a": 1, "b": 2}})).await;
    let tag = app.etag(&network).await;
    app.merge(&network, &json!({"spec": {"a": 3}})).await;
    for generation in [1, 2] {
        let path = format!("{}?generation={generation}&fields=spec.a", href(&network));
        let answer = app.get(&path).header("if-none-match", &tag).await;
        assert_eq!(answer.header("etag"), None, "{answer}");
        let expected = json!({"id": id(&network), "spec": {"a": if generation == 1 { 1 } else { 3 }}});
        assert_eq!(answer.expect_status(200).json(), expected);
    }
    let any = app.get(&format!("{}?generation=1", href(&network))).header("if-none-match", "*").await;
    any.expect_status(200);
    app.get(&format!("{}?generation=", href(&network))).header("if-none-match", "*").await.expect_status(304);
}

async fn a_generation_before_many_changes_is_found(app: &App) {
    let network = app.create("/networks", &json!({"kind": "Network", "name": "net", "spec": {"n": 1}})).await;
    let second = app.merge(&network, &json!({"spec": {"n": 2}})).await;
    for number in 0..450 {
        app.merge(&network, &json!({"labels": {"n": number.to_string()}})).await;
    }
    let end = app.read(&network).await;
    app.merge(&network, &json!({"spec": {"n": 3}})).await;
    let read = async |generation: u32| {
        app.get(&format!("{}?generation={generation}", href(&network))).await.expect_status(200).json()
    };
    assert_eq!(read(1).await, network);
    assert_eq!(read(2).await, end);
    assert_ne!(end, second);
    let diff = app.get(&format!("{}/diff?from=1&to=2", href(&network))).await.expect_status(200).json();
    let expected = json!([{"path": "spec.n", "from": 1, "to": 2}, {"path": "labels.n", "to": "449"}]);
    assert_eq!(diff["changes"], expected);
}

async fn an_unknown_generation_differs_from_a_malformed_one(app: &App) {
    let network = app.create_named("/networks", "Network", "net").await;
    for bad in ["0", "-1", "1.5", "x", "1&generation=2", "1&waitFor=deleted"] {
        let answer = app.get(&format!("{}?generation={bad}", href(&network))).await;
        assert_refused(&answer, 400, "VAL-004");
        assert_eq!(answer.json()["errors"][0]["field"], "generation");
    }
    for (number, shown) in [
        ("2", "2"),
        ("9223372036854775807", "9223372036854775807"),
        ("99999999999999999999", "9223372036854775807"),
    ] {
        let answer = app.get(&format!("{}?generation={number}", href(&network))).await;
        assert_refused(&answer, 404, "NTF-001");
        let detail = format!("Network '{}' has no generation {shown}: its newest is 1", id(&network));
        assert_eq!(answer.json()["detail"], detail);
    }
}
