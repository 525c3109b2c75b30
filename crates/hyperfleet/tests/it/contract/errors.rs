//! Problem bodies: their members, their codes, all faults at once, and harmless quotations of input.

use serde_json::{Value, json};

use super::walk::UNKNOWN_ID;
use crate::support::*;

async fn a_path_without_a_route_is_not_found(app: &App) {
    let nowhere = app.get("/nowhere").await;
    let no_version = app.get("/api/hyperfleet/clusters").await;
    let other_version = app.get("/api/hyperfleet/v5/clusters").await;
    insta::allow_duplicates! {
        insta::assert_snapshot!(transcript(&nowhere), @r#"
        404
        content-type: application/problem+json

        {
          "type": "https://api.hyperfleet.io/errors/resource-not-found",
          "title": "Endpoint Not Found",
          "status": 404,
          "detail": "No endpoint has the path '/api/hyperfleet/v1/nowhere'.",
          "instance": "/api/hyperfleet/v1/nowhere",
          "code": "HYPERFLEET-NTF-000",
          "timestamp": "[time 1]",
          "trace_id": "[trace]"
        }
        "#);
        insta::assert_snapshot!(transcript(&no_version), @r#"
        404
        content-type: application/problem+json

        {
          "type": "https://api.hyperfleet.io/errors/resource-not-found",
          "title": "Endpoint Not Found",
          "status": 404,
          "detail": "API version is required. Use /api/hyperfleet/v1/...",
          "instance": "/api/hyperfleet/clusters",
          "code": "HYPERFLEET-NTF-000",
          "timestamp": "[time 1]",
          "trace_id": "[trace]",
          "supported_versions": [
            "v1"
          ],
          "error": {
            "code": "PATH_NOT_FOUND",
            "message": "API version is required. Use /api/hyperfleet/v1/...",
            "supported_versions": [
              "v1"
            ]
          }
        }
        "#);
        insta::assert_snapshot!(transcript(&other_version), @r#"
        404
        content-type: application/problem+json

        {
          "type": "https://api.hyperfleet.io/errors/resource-not-found",
          "title": "API Version Not Supported",
          "status": 404,
          "detail": "API version 'v5' is not supported.",
          "instance": "/api/hyperfleet/v5/clusters",
          "code": "HYPERFLEET-NTF-005",
          "timestamp": "[time 1]",
          "trace_id": "[trace]",
          "supported_versions": [
            "v1"
          ],
          "error": {
            "code": "UNSUPPORTED_API_VERSION",
            "message": "API version 'v5' is not supported.",
            "supported_versions": [
              "v1"
            ]
          }
        }
        "#);
    }

    for path in ["/api/hyperfleet/v1", "/api/hyperfleet/v1/", "/clusters/a/b", "/clusters/a/force-delete/b"] {
        let answer = app.get(path).await.expect_status(404);
        assert_eq!(answer.problem_code(), "HYPERFLEET-NTF-000", "{path}");
        assert_eq!(answer.json().get("supported_versions"), None, "{path}");
    }
    for path in ["/", "/api", "/api/", "/api/hyperfleetx/v1/clusters", "/index.html", "//"] {
        let answer = app.api().get(path).await.expect_status(404);
        assert_eq!(answer.problem_code(), "HYPERFLEET-NTF-000", "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "BREW"] {
        let answer = app.call(method, "/api/hyperfleet/v2/clusters").await.expect_status(404);
        assert_eq!(answer.problem_code(), "HYPERFLEET-NTF-005", "{method}");
        assert_eq!(answer.json()["error"]["code"], "UNSUPPORTED_API_VERSION");
    }
}

/// Each code that this release gives for what a caller does; those of a broken database are elsewhere.
async fn every_code_has_its_status_type_and_title(app: &App) {
    let cluster = app.create_cluster("taken").await;
    let going = app.create_cluster("going").await;
    app.remove(&going).await;
    let zone = app.create_named("/zones", "Zone", "z").await;
    let racks = format!("{}/racks", href(&zone));
    let good = json!({"kind": "Cluster", "name": "taken", "spec": {}});
    let long = "x".repeat(256);

    for (status, code, slug, title, asked) in [
        (400, "VAL-000", "validation-error", "Validation Error", app.post("/clusters").json(&json!({}))),
        (
            400,
            "VAL-001",
            "validation-error",
            "Required Field Missing",
            app.post("/clusters").json(&json!({"kind": "Cluster", "name": "abc"})),
        ),
        (
            400,
            "VAL-002",
            "validation-error",
            "Invalid Field Value",
            app.post("/clusters").json(&json!({"kind": "Cluster", "name": "a_c", "spec": {}})),
        ),
        (
            422,
            "VAL-002",
            "validation-error",
            "Invalid Field Value",
            app.post("/racks").json(&json!({"kind": "Rack", "name": "abc", "spec": {}})),
        ),
        (400, "VAL-003", "invalid-request", "Invalid Request Body", app.post("/clusters").body("{")),
        (400, "VAL-003", "invalid-request", "Invalid Request Body", app.post("/clusters").body("")),
        (400, "VAL-003", "invalid-request", "Invalid Request Body", app.post("/clusters").body("[]")),
        (
            400,
            "VAL-003",
            "invalid-request",
            "Invalid Request Body",
            app.patch(href(&cluster)).json(&json!({"name": "other"})),
        ),
        (
            413,
            "VAL-003",
            "invalid-request",
            "Invalid Request Body",
            app.post("/clusters").body(" ".repeat((1 << 20) + 1)),
        ),
        (
            415,
            "VAL-003",
            "invalid-request",
            "Invalid Request Body",
            app.post("/clusters").header("content-type", "text/plain").body("{}"),
        ),
        (400, "VAL-004", "validation-error", "Invalid Query Parameter", app.get("/clusters?page=0")),
        (400, "VAL-005", "validation-error", "Invalid Path Parameter", app.get(&format!("/clusters/{long}"))),
        (400, "VAL-005", "validation-error", "Invalid Path Parameter", app.delete("/racks/a%0ab")),
        (404, "NTF-000", "resource-not-found", "Endpoint Not Found", app.get("/nowhere")),
        (405, "NTF-000", "resource-not-found", "Endpoint Not Found", app.call("PUT", "/clusters")),
        (404, "NTF-000", "resource-not-found", "Endpoint Not Found", app.get("/api/hyperfleet/clusters")),
        (
            404,
            "NTF-001",
            "resource-not-found",
            "Resource Not Found",
            app.get(&format!("{racks}/{UNKNOWN_ID}")),
        ),
        (404, "NTF-001", "resource-not-found", "Resource Not Found", app.delete("/resources/absent")),
        (404, "NTF-002", "resource-not-found", "Cluster Not Found", app.get("/clusters/absent")),
        (404, "NTF-002", "resource-not-found", "Cluster Not Found", app.get("/clusters/absent/nodepools")),
        (404, "NTF-003", "resource-not-found", "NodePool Not Found", app.delete("/nodepools/absent")),
        (
            404,
            "NTF-005",
            "resource-not-found",
            "API Version Not Supported",
            app.get("/api/hyperfleet/v5/clusters"),
        ),
        (409, "CNF-001", "resource-conflict", "Resource Already Exists", app.post("/clusters").json(&good)),
        (
            409,
            "CNF-002",
            "version-conflict",
            "Version Conflict",
            app.delete(href(&cluster)).header("if-match", "\"0\""),
        ),
        (
            409,
            "CNF-003",
            "resource-conflict",
            "State Conflict",
            app.patch(href(&going)).json(&json!({"spec": {"a": 1}})),
        ),
        (
            409,
            "CNF-003",
            "resource-conflict",
            "State Conflict",
            app.post(&format!("{}/force-delete", href(&cluster))).json(&json!({"reason": "no"})),
        ),
    ] {
        let path = asked.path().to_owned();
        let answer = asked.header("x-request-id", "the-trace").await.expect_status(status);
        assert_eq!(answer.problem_code(), format!("HYPERFLEET-{code}"));
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        let problem = answer.json();
        assert_eq!(problem["type"], format!("https://api.hyperfleet.io/errors/{slug}"), "{answer}");
        assert_eq!(problem["title"], title, "{answer}");
        assert_eq!(problem["status"], status);
        assert_eq!(problem["instance"], path.split('?').next().unwrap());
        assert_eq!(problem["trace_id"], "the-trace");
        assert!(!text(&problem["detail"]).is_empty(), "{answer}");
        assert!(redacted(&problem["timestamp"]).contains("[time 1]"), "{answer}");
        // A body that cannot be used has no field to name.
        if status == 400 && code != "VAL-003" {
            assert!(!problem["errors"].as_array().unwrap().is_empty(), "{answer}");
        }
    }
    assert_eq!(app.read(&cluster).await, cluster);
}

async fn a_missing_resource_is_named_by_its_kind(app: &App) {
    for (path, detail) in [
        ("/clusters/absent", "Cluster 'absent' not found"),
        ("/clusters/absent/nodepools/other", "Cluster 'absent' not found"),
        ("/nodepools/absent", "NodePool 'absent' not found"),
        ("/resources/absent", "Resource 'absent' not found"),
    ] {
        assert_eq!(app.get(path).await.expect_status(404).json()["detail"], detail);
    }
}

async fn one_fault_has_its_own_code_and_several_keep_document_order(app: &App) {
    let one =
        app.post("/clusters").json(&json!({"kind": "Cluster", "name": "abc", "spec": {}, "colour": 1})).await;
    let body = r#"{"labels": {"a b": "c", "ok": "-"}, "name": "Not Good", "colour": "red", "status": {},
        "spec": [], "kind": "NodePool", "references": {"wif": []}}"#;
    let several = app.post("/clusters").header("content-type", "application/json").body(body).await;
    assert_eq!(several.problem_code(), "HYPERFLEET-VAL-000");
    let nothing = app.post("/clusters").json(&json!({})).await;
    insta::allow_duplicates! {
        insta::assert_snapshot!(transcript(&one), @r#"
        400
        content-type: application/problem+json

        {
          "type": "https://api.hyperfleet.io/errors/invalid-request",
          "title": "Invalid Request Body",
          "status": 400,
          "detail": "colour is not a known member",
          "instance": "/api/hyperfleet/v1/clusters",
          "code": "HYPERFLEET-VAL-003",
          "timestamp": "[time 1]",
          "trace_id": "[trace]",
          "errors": [
            {
              "field": "colour",
              "message": "colour is not a known member",
              "constraint": "unknown"
            }
          ]
        }
        "#);
        insta::assert_snapshot!(faults(&several), @r"
        labels['a b']: labels['a b']: the key's name must start and end with a letter or digit and hold only letters, digits, '.', '_' and '-'
        labels.ok: labels.ok: the value must start and end with a letter or digit and hold only letters, digits, '.', '_' and '-'
        name: name must consist of lower-case letters, digits and '-', and start and end with a letter or digit
        colour: colour is not a known member
        spec: spec must be an object, not an array
        kind: kind must be Cluster here
        references.wif: references.wif is no reference that Cluster declares
        ");
        insta::assert_snapshot!(text(&several.json()["detail"]), @"Request validation failed with 7 errors");
        insta::assert_snapshot!(faults(&nothing), @r"
        kind: kind is required
        name: name is required
        spec: spec is required
        ");
    }
}

/// Every string of a problem but the path itself.
fn strings<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(members) => {
            members
                .iter()
                .filter(|(name, _)| *name != "instance")
                .for_each(|(_, member)| strings(member, found));
        }
        _ => {}
    }
}

async fn quoted_input_is_shortened_and_free_of_control_characters(app: &App) {
    let cluster = app.create_cluster("echoed").await;
    // Control characters between the letters: what is left of them must be short as well.
    let nasty: String = "q\u{7}q\u{1b}[31mq\r\nq\u{85}q".repeat(100);
    let encoded: String = nasty.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let long = "q".repeat(2000);
    let named = |name: &str| json!({"kind": "Cluster", "name": name, "spec": {}});
    for asked in [
        app.post("/clusters").json(&named(&nasty)),
        app.post("/clusters").json(&json!({"kind": nasty, "name": "abc", "spec": {}})),
        app.post("/resources").json(&json!({"kind": nasty, "name": "abc", "spec": {}})),
        app.post("/clusters").json(&json!({"kind": "Cluster", "name": [nasty], "spec": nasty})),
        app.post("/clusters").json(&json!({"kind": "Cluster", "name": "abc", "spec": {}, &nasty: 1})),
        app.post("/clusters").json(&json!({"kind": "Cluster", "name": "abc", "spec": {&nasty: "\0"}})),
        app.post("/clusters")
            .json(&json!({"kind": "Cluster", "name": "abc", "spec": {}, "labels": {&nasty: nasty}})),
        app.post("/clusters")
            .json(&json!({"kind": "Cluster", "name": "abc", "spec": {}, "references": {&nasty: nasty}})),
        app.patch(href(&cluster)).json(&json!({"labels": {"a": nasty}, &nasty: 1})),
        app.patch(href(&cluster)).header("content-type", "application/json-patch+json").json(
            &json!([{"op": nasty, "path": nasty}, {"op": "test", "path": format!("/{nasty}"), "value": 1}]),
        ),
        app.patch(href(&cluster))
            .header("content-type", "application/json-patch+json")
            .json(&json!([{"op": "remove", "path": format!("/spec/{nasty}")}])),
        app.patch(href(&cluster)).header("if-match", format!("\"{long}\"")).json(&json!({"spec": {}})),
        app.patch(href(&cluster)).header("if-match", &long).json(&json!({"spec": {}})),
        app.patch(href(&cluster)).header("content-type", &long).json(&json!({"spec": {}})),
        app.post("/clusters").header("content-type", &long).body("{}"),
        app.post(&format!("{}/force-delete", href(&cluster))).json(&json!({"reason": nasty, &nasty: 1})),
        app.get(&format!("/clusters?page={encoded}&orderBy={encoded}&fields={encoded}&total={encoded}")),
        app.get(&format!("/clusters?{encoded}=1&order={encoded}")),
        app.get(&format!("/resources?kind={encoded}&showDeleted={encoded}")),
        app.get(&format!("/clusters/{encoded}")),
        app.get(&format!("/clusters/{long}")),
        app.get(&format!("/{long}")),
        app.get(&format!("/{encoded}")),
        app.get(&format!("/api/hyperfleet/v{}/x", "7".repeat(2000))),
        app.call(&long.to_uppercase(), "/clusters"),
    ] {
        let answer = asked.await;
        assert!((400..500).contains(&answer.status), "{answer}");
        let mut problem = answer.json();
        // It repeats what was sent, whatever that was.
        problem.as_object_mut().unwrap().remove("expected_version");
        let mut found = Vec::new();
        strings(&problem, &mut found);
        for text in found {
            assert!(!text.chars().any(char::is_control), "{text:?}");
            let repeated = text.chars().filter(|c| matches!(c, 'q' | 'Q' | '7')).count();
            assert!(repeated <= 256 + 64, "{repeated} characters of the caller's in {text:?}");
        }
    }
}

both_stores!(
    a_path_without_a_route_is_not_found,
    a_missing_resource_is_named_by_its_kind,
    one_fault_has_its_own_code_and_several_keep_document_order,
    quoted_input_is_shortened_and_free_of_control_characters,
);
both_stores!(config = CATALOG; every_code_has_its_status_type_and_title);
