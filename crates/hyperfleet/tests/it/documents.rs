//! The OpenAPI document of a server, compared with the server: documented operations exist, JSON and YAML are one
//! document, and its examples work. A test beside the router proves that no operation is undocumented.

use hyperfleet_testkit::Answer;
use serde_json::{Value, json};

use crate::contract::walk::{document, operations, resolved};
use crate::support::*;

/// Three levels of kinds, of which one has a name that the written document uses at another level.
const DEEP: &str = r"
entities:
  - {kind: Zone, plural: zones}
  - {kind: Rack, plural: racks, parent_kind: Zone, on_parent_delete: cascade}
  - {kind: NodePool, plural: pools, parent_kind: Rack, on_parent_delete: restrict, required_adapters: [dns]}
";

async fn every_documented_operation_exists(app: &App) {
    for (method, path) in operations(app).await {
        let answer = app.call(&method, &path).await;
        assert_ne!(answer.status, 405, "{method} {path}");
        if answer.status == 404 {
            assert_ne!(answer.problem_code(), "HYPERFLEET-NTF-000", "{method} {path}");
        }
    }
}

async fn json_and_yaml_are_the_same_document(app: &App) {
    let yaml = app.get("/openapi.yaml").await.expect_status(200);
    assert_eq!(yaml.header("content-type"), Some("application/yaml"));
    let yaml: Value = serde_saphyr::from_str(std::str::from_utf8(&yaml.body).unwrap()).unwrap();
    let json = document(app).await;
    assert_eq!(yaml, json);
    assert!(text(&json["openapi"]).starts_with("3."));
}

/// Only the page's own scripts run, and no other page can embed it. A response of 304 has the headers too, because a
/// browser applies them to its copy.
#[track_caller]
fn page_is_guarded(page: &Answer) {
    let policy: Vec<&str> = page.header("content-security-policy").unwrap().split("; ").collect();
    for rule in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"] {
        assert!(policy.contains(&rule), "{rule}: {policy:?}");
    }
    for rule in ["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"] {
        assert!(policy.contains(&rule), "{rule}: {policy:?}");
    }
    assert!(!policy.iter().any(|rule| rule.contains("unsafe") || rule.contains("http")), "{policy:?}");
    for (header, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
    ] {
        assert_eq!(page.header(header), Some(value), "{header}");
    }
}

async fn the_api_page_works_without_any_other_server(app: &App) {
    let page = app.get("/openapi.html").await.expect_status(200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    page_is_guarded(&page);
    page_is_guarded(&app.get("/openapi.html").header("if-none-match", etag(&page)).await.expect_status(304));
    let html = String::from_utf8(page.body.to_vec()).unwrap();
    assert!(!html.contains("//") && !html.contains("style=") && !html.contains("<script>"), "{html}");
    let loaded: Vec<&str> =
        html.split('"').filter(|part| part.starts_with("/api/") && part.contains('?')).collect();
    assert_eq!(loaded.len(), 2, "{html}");
    for path in loaded {
        let asset = app.get(path).await.expect_status(200);
        assert!(asset.body.len() > 10_000, "{path}");
        assert_eq!(asset.header("cache-control"), Some("public, max-age=31536000, immutable"));
        assert_eq!(asset.header("x-content-type-options"), Some("nosniff"));
        let known = app.get(path).header("if-none-match", etag(&asset)).await.expect_status(304);
        assert!(known.body.is_empty());
        app.get(&format!("{path}&w=1")).await.expect_status(400);
    }
    for path in ["/openapi", "/openapi.yaml", "/openapi.html"] {
        let tag = etag(&app.get(path).await.expect_status(200));
        app.get(path).header("if-none-match", tag).await.expect_status(304);
    }
}

/// Every example of a request body: method, path template, media type and body.
fn requests(document: &Value) -> Vec<(String, String, String, Value)> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["put", "post", "patch"] {
            let Some(operation) = item.get(method) else { continue };
            let body = resolved(document, &operation["requestBody"]);
            for (media_type, content) in body["content"].as_object().unwrap() {
                let examples = content["examples"].as_object().unwrap().values();
                assert!(examples.len() > 0, "{method} {path} {media_type} has no example");
                found.extend(examples.map(|example| {
                    let value = resolved(document, example)["value"].clone();
                    (method.to_uppercase(), path.clone(), media_type.clone(), value)
                }));
            }
        }
    }
    found
}

/// The path with the ids of new resources in place of its parameters, made by the examples themselves.
async fn with_ids(app: &App, document: &Value, template: &str) -> String {
    let mut path = String::new();
    for segment in template.trim_start_matches('/').split('/') {
        if segment.starts_with('{') {
            let made = app.post(&path).json(&example(document, &path)).await;
            assert_eq!(made.status, 201, "{path}: {made}");
            path = format!("{path}/{}", id(&made.json()));
        } else {
            path = format!("{path}/{segment}");
        }
    }
    path
}

/// The example of a POST to a collection, with a name that is free.
fn example(document: &Value, path: &str) -> Value {
    let template = document["paths"].as_object().unwrap().keys().find(|template| {
        let (a, b): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
        a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a.starts_with('{') || a == b)
    });
    let operation = &document["paths"][template.unwrap()]["post"];
    let content = &resolved(document, &operation["requestBody"])["content"]["application/json"];
    let example = content["examples"].as_object().unwrap().values().next().unwrap();
    let mut body = resolved(document, example)["value"].clone();
    body["name"] = unique("ex").into();
    // Patches are the same for every kind: they speak of a region.
    body["spec"]["region"] = "us-east-1".into();
    body
}

async fn every_example_of_a_request_succeeds(app: &App) {
    let document = document(app).await;
    let owner = |template: &str| {
        let parameters = template.matches('{').count();
        // The shorter routes of a child kind lead to one that is made below all its owners.
        let nested = document["paths"].as_object().unwrap().keys().filter(|path| {
            path.ends_with(template.strip_prefix(BASE).unwrap()) && path.matches('{').count() > parameters
        });
        nested.max_by_key(|path| path.len()).cloned()
    };
    let mut sent = 0;
    for (method, template, media_type, body) in requests(&document) {
        if template.contains("/leases/") {
            let path = template.replace(['{', '}'], "");
            app.call(&method, &path).header("content-type", &media_type).json(&body).await.expect_status(200);
            continue;
        }
        let flat_child = owner(&template);
        let path = match &flat_child {
            Some(_) if template.matches('{').count() == 0 => {
                app.post(&template).json(&body).await.expect_status(422);
                continue;
            }
            Some(nested) => {
                let whole = with_ids(app, &document, nested).await;
                let kept = template.strip_prefix(BASE).unwrap().matches('/').count();
                let tail: Vec<&str> = whole.rsplit('/').take(kept).collect();
                tail.into_iter().rev().fold(BASE.to_owned(), |path, part| format!("{path}/{part}"))
            }
            None => with_ids(app, &document, &template).await,
        };
        if path.ends_with("/force-delete") {
            app.delete(path.strip_suffix("/force-delete").unwrap()).await.expect_status(202);
        }
        let answer = app.call(&method, &path).header("content-type", &media_type).json(&body).await;
        if path.ends_with("/force-delete") {
            // What has nothing to clean up is gone with its DELETE.
            assert!([204, 404].contains(&answer.status), "{method} {path}: {answer}");
        } else {
            let asks = method == "PATCH" || path.ends_with("/authz/check");
            answer.clone().expect_status(if asks { 200 } else { 201 });
        }
        if answer.status == 201 && !path.ends_with("/statuses") {
            app.remove(&answer.json()).await;
        }
        sent += 1;
    }
    assert!(sent > 10, "{sent}");
}

async fn a_configured_kind_is_described_like_the_default_kinds(app: &App) {
    let document = document(app).await;
    let kinds = &document["components"]["schemas"]["Kind"]["enum"];
    assert_eq!(kinds, &json!(["Zone", "Rack", "NodePool"]));
    for path in ["/zones", "/racks/{rack_id}/pools/{nodepool_id}", "/zones/{zone_id}/racks/{rack_id}/pools"] {
        assert!(document["paths"].get(format!("{BASE}{path}")).is_some(), "{path}");
    }
    assert!(document["paths"].as_object().unwrap().keys().all(|path| !path.contains("clusters")));
}

any_store!(
    every_documented_operation_exists,
    json_and_yaml_are_the_same_document,
    the_api_page_works_without_any_other_server,
    every_example_of_a_request_succeeds,
);
mod deep {
    use super::*;
    use crate::documents;

    async fn every_documented_operation_exists(app: &App) {
        documents::every_documented_operation_exists(app).await;
    }

    async fn json_and_yaml_are_the_same_document(app: &App) {
        documents::json_and_yaml_are_the_same_document(app).await;
    }

    async fn every_example_of_a_request_succeeds(app: &App) {
        documents::every_example_of_a_request_succeeds(app).await;
    }

    any_store!(
        config = DEEP;
        every_documented_operation_exists,
        json_and_yaml_are_the_same_document,
        every_example_of_a_request_succeeds,
        a_configured_kind_is_described_like_the_default_kinds,
    );
}
