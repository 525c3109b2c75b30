//! `fields`: projections of lists and of one resource.

use serde_json::{Value, json};

use crate::support::*;

async fn a_projection_holds_the_requested_fields_and_the_id(app: &App) {
    let body = json!({
        "kind": "Cluster", "name": "parts",
        "spec": {"region": "here", "net": {"cidr": "10.0.0.0/8", "dns": ["a", "b"]}, "list": [{"a": 1, "b": 2}, {"b": 3}],
                 "odd key": {"x.y": 1}},
        "labels": {"env": "dev", "team.example.com/owner": "me"},
    });
    let cluster = app.create("/clusters", &body).await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    let conditions = |member: &str| -> Value {
        let all = cluster["status"]["conditions"].as_array().unwrap();
        all.iter().map(|condition| json!({member: condition[member]})).collect()
    };
    for (resource, fields, expected) in [
        (&cluster, "name", json!({"name": "parts"})),
        (&cluster, "id", json!({})),
        (&cluster, "name,kind,%20generation", json!({"name": "parts", "kind": "Cluster", "generation": 1})),
        (&cluster, "spec", json!({"spec": cluster["spec"]})),
        (&cluster, "spec.region", json!({"spec": {"region": "here"}})),
        (
            &cluster,
            "spec.net.cidr,spec.region",
            json!({"spec": {"region": "here", "net": {"cidr": "10.0.0.0/8"}}}),
        ),
        (&cluster, "spec.net.cidr,spec", json!({"spec": cluster["spec"]})),
        (&cluster, "spec.list.a", json!({"spec": {"list": [{"a": 1}, {}]}})),
        (&cluster, "spec['odd%20key']['x.y']", json!({"spec": {"odd key": {"x.y": 1}}})),
        (&cluster, "spec.nothing.here", json!({})),
        (&cluster, "labels", json!({"labels": cluster["labels"]})),
        (&cluster, "labels.env", json!({"labels": {"env": "dev"}})),
        (&cluster, "labels.team.example.com/owner", json!({"labels": {"team.example.com/owner": "me"}})),
        (&cluster, "labels['team.example.com/owner']", json!({"labels": {"team.example.com/owner": "me"}})),
        (&cluster, "labels.nothing", json!({})),
        (&cluster, "status", json!({"status": cluster["status"]})),
        (&cluster, "status.conditions", json!({"status": cluster["status"]})),
        (&cluster, "status.conditions.type", json!({"status": {"conditions": conditions("type")}})),
        (&cluster, "deleted_time,references,owner_references", json!({})),
        (&pool, "owner_references.id", json!({"owner_references": {"id": cluster["id"]}})),
        (&pool, "owner_references", json!({"owner_references": pool["owner_references"]})),
    ] {
        let mut expected = expected;
        expected["id"] = resource["id"].clone();
        let one = app.get(&format!("{}?fields={fields}", href(resource))).await.expect_status(200);
        assert_eq!(one.json(), expected, "{fields}");
        assert_eq!(etag(&one), app.etag(resource).await, "{fields}");
        let collection = if *resource == cluster { "/clusters" } else { "/nodepools" };
        for list in [collection, &format!("/resources?kind={}", text(&resource["kind"]))] {
            let mark = if list.contains('?') { '&' } else { '?' };
            let list = app.get(&format!("{list}{mark}fields={fields}")).await.expect_status(200).json();
            assert_eq!(list["items"], json!([expected]), "{fields}");
        }
    }
    let whole = app.get(&format!("{}?fields=", href(&cluster))).await.expect_status(200).json();
    assert_eq!(whole, cluster);
}

async fn an_unknown_field_is_refused_even_for_an_empty_list(app: &App) {
    for (fields, hint) in [
        ("nmae", "did you mean name?"),
        ("name,labls", "did you mean labels?"),
        ("status.condition", "did you mean conditions?"),
        ("status.conditions.reson", "did you mean reason?"),
        ("owner_references.ids", "did you mean id?"),
        ("version", ""),
        ("zzzzzzzzz", "known are"),
        ("name.first", "deeper"),
        ("spec..a", "not a path"),
        ("spec['a", "not a path"),
        (".", "not a path"),
        ("name,,kind", "not a path"),
    ] {
        let answer = app.get(&format!("/clusters?fields={fields}")).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004", "{fields}");
        assert_eq!(answer.json()["errors"][0]["field"], "fields");
        assert!(text(&answer.json()["detail"]).contains(hint), "{fields}: {answer}");
        app.get(&format!("/clusters/absent?fields={fields}")).await.expect_status(400);
    }
    let many = vec!["name"; 101].join(",");
    let too_many = app.get(&format!("/clusters?fields={many}")).await.expect_status(400);
    assert!(text(&too_many.json()["detail"]).contains("at most 100 paths"), "{too_many}");
    let several = app.get("/clusters?fields=nmae,kidn").await.expect_status(400);
    assert_eq!(several.problem_code(), "HYPERFLEET-VAL-000");
    assert_eq!(several.json()["errors"].as_array().unwrap().len(), 2);
}

both_stores!(
    a_projection_holds_the_requested_fields_and_the_id,
    an_unknown_field_is_refused_even_for_an_empty_list,
);
