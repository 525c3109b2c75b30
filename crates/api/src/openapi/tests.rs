use std::collections::HashSet;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::Request;
use http_body_util::BodyExt;
use hyperfleet_core::{Catalog, Contract, EntityDescriptor};
use serde_json::json;
use tower::ServiceExt;

use super::*;

fn kind(kind: &str, plural: &str, parent: Option<&str>) -> EntityDescriptor {
    EntityDescriptor {
        kind: kind.into(),
        plural: plural.into(),
        parent_kind: parent.map(Into::into),
        on_parent_delete: parent.map(|_| "cascade".into()),
        ..EntityDescriptor::default()
    }
}

fn document(kinds: Vec<EntityDescriptor>) -> Value {
    let catalog = Catalog::new(kinds).unwrap();
    serde_json::from_slice(
        &Document::build(View {
            catalog: &catalog,
            contract: Contract::Documented,
            tenancy: false,
            href_prefix: "/api/hyperfleet/v1",
        })
        .json,
    )
    .unwrap()
}

/// Default kinds, deep chains, names that hold the written kinds' names, and names that the
/// document itself uses.
fn catalogs() -> Vec<Vec<EntityDescriptor>> {
    let tight =
        EntityDescriptor { name_min_len: Some(1), name_max_len: Some(3), ..kind("Tag", "tags", None) };
    let long = EntityDescriptor {
        name_min_len: Some(60),
        name_max_len: Some(63),
        ..kind("Key", "keys", Some("Tag"))
    };
    let mut deep = Catalog::default_descriptors();
    deep.extend([
        kind("Disk", "disks", Some("NodePool")),
        kind("Partition", "disk-partitions", Some("Disk")),
        kind("ClusterNodePool", "clusternodepools", None),
        kind("Addon", "addons", Some("ClusterNodePool")),
    ]);
    let awkward = vec![
        kind("Problem", "problems", None),
        kind("Resource", "things", None),
        kind("Policy", "policies", Some("Resource")),
        kind("PolicyList", "policylists", Some("Problem")),
        kind("AB", "abs", None),
        kind("C", "cs", Some("AB")),
        kind("A", "as", None),
        kind("BC", "bcs", Some("A")),
    ];
    let moved = vec![kind("NodePool", "pools", None), kind("Cluster", "clusters", Some("NodePool"))];
    vec![Catalog::default_descriptors(), deep, awkward, moved, vec![tight, long], vec![]]
}

fn paths(document: &Value) -> Vec<&str> {
    document["paths"].as_object().unwrap().keys().map(String::as_str).collect()
}

fn visit<'a>(value: &'a Value, see: &mut impl FnMut(&'a Value)) {
    see(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| visit(item, see)),
        Value::Object(members) => members.values().for_each(|member| visit(member, see)),
        _ => {}
    }
}

fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(target) => document.pointer(&target[1..]).unwrap_or_else(|| panic!("{target} is not there")),
        None => value,
    }
}

fn each_operation(document: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let items = document["paths"].as_object().unwrap().iter();
    items.flat_map(|(path, item)| {
        let operations = METHODS.iter().filter_map(|method| item.get(*method));
        operations.map(move |operation| (path.as_str(), operation))
    })
}

#[test]
fn the_default_kinds_are_documented_as_the_hand_written_document() {
    assert_eq!(document(Catalog::default_descriptors()), source());
}

#[test]
fn clients_find_every_kind_with_its_paths_and_its_owner() {
    let deep = vec![
        kind("Disk", "disks", Some("Pool")),
        kind("Pool", "node-pools", Some("Site")),
        kind("Site", "sites", None),
    ];
    assert_eq!(
        document(deep)["x-hyperfleet-kinds"],
        json!([
            {"kind": "Disk", "plural": "disks", "parent_kind": "Pool"},
            {"kind": "Pool", "plural": "node-pools", "parent_kind": "Site"},
            {"kind": "Site", "plural": "sites"},
        ])
    );
    assert_eq!(document(vec![])["x-hyperfleet-kinds"], json!([]));
}

#[test]
fn every_reference_resolves() {
    for kinds in catalogs() {
        let document = document(kinds);
        visit(&document, &mut |value| {
            resolve(&document, value);
        });
    }
}

#[test]
fn every_component_is_used() {
    let document = source();
    let mut used = HashSet::new();
    visit(&document, &mut |value| used.extend(value.get("$ref").and_then(Value::as_str)));
    for (section, parts) in document["components"].as_object().unwrap() {
        for name in parts.as_object().unwrap().keys() {
            // An answer to a method that a path does not have belongs to no operation.
            // A security scheme is named, not referred to.
            let apart = name == "MethodNotAllowed" || section == "securitySchemes";
            assert!(
                apart || used.contains(format!("#/components/{section}/{name}").as_str()),
                "{section}/{name}"
            );
        }
    }
}

#[test]
fn every_operation_has_its_own_id_and_teaches() {
    for kinds in catalogs() {
        let document = document(kinds);
        let tags: HashSet<_> = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
        let mut ids = HashSet::new();
        for (path, operation) in each_operation(&document) {
            let id = operation["operationId"].as_str().unwrap();
            assert!(id.chars().all(|c| c.is_ascii_alphanumeric()), "{path}: {id}");
            assert!(ids.insert(id), "{path}: {id} is used twice");
            assert!(operation["summary"].is_string() && operation["description"].is_string(), "{path}");
            assert!(tags.contains(&operation["tags"][0]), "{path}: {}", operation["tags"]);
            assert!(operation["responses"].get("400").is_some(), "{path}");
        }
    }
}

#[test]
fn path_parameters_are_those_of_the_path() {
    for kinds in catalogs() {
        let document = document(kinds);
        for (path, operation) in each_operation(&document) {
            let parameters = operation.get("parameters").and_then(Value::as_array);
            let declared: Vec<_> = parameters
                .into_iter()
                .flatten()
                .map(|parameter| resolve(&document, parameter))
                .filter(|parameter| parameter["in"] == "path")
                .map(|parameter| format!("{{{}}}", parameter["name"].as_str().unwrap()))
                .collect();
            let in_path: Vec<_> = path.split('/').filter(|segment| segment.starts_with('{')).collect();
            assert_eq!(declared, in_path, "{path}");
        }
    }
}

#[test]
fn kinds_that_are_not_configured_vanish() {
    let document = document(vec![kind("WifConfig", "wifconfigs", None)]);
    let text = document["paths"].to_string() + &document["components"]["examples"].to_string();
    assert!(!text.to_lowercase().contains("cluster") && !text.to_lowercase().contains("nodepool"), "{text}");
    let mut schemas = document["components"]["schemas"].as_object().unwrap().keys();
    assert!(!schemas.any(|name| name.starts_with("Cluster") || name.starts_with("NodePool")));
    assert_eq!(document["components"]["schemas"]["Kind"]["enum"], json!(["WifConfig"]));
}

#[test]
fn a_configured_kind_has_paths_below_every_chain_of_its_owners() {
    let mut kinds = Catalog::default_descriptors();
    kinds.push(EntityDescriptor { name_max_len: Some(20), ..kind("Disk", "disks", Some("NodePool")) });
    let document = document(kinds);
    let disks: Vec<_> = paths(&document).into_iter().filter(|path| path.contains("disks")).collect();
    let ways = ["", "/nodepools/{nodepool_id}", "/clusters/{cluster_id}/nodepools/{nodepool_id}"];
    let expected: Vec<_> = ways
        .iter()
        .flat_map(|way| {
            let below = ["", "/force-delete", "/statuses", "/explain", "/timeline", "/diff"]
                .map(|end| format!("/{{disk_id}}{end}"));
            [String::new()].into_iter().chain(below).map(move |rest| (way, rest))
        })
        .map(|(way, rest)| format!("/api/hyperfleet/v1{way}/disks{rest}"))
        .collect();
    assert_eq!(disks, expected);

    let operation =
        &document["paths"]["/api/hyperfleet/v1/clusters/{cluster_id}/nodepools/{nodepool_id}/disks"]["post"];
    assert_eq!(operation["operationId"], "createClusterNodePoolDisk");
    assert_eq!(operation["summary"], "Create Disk below its NodePool");
    assert_eq!(operation["tags"], json!(["disks"]));
    assert!(document["paths"]["/api/hyperfleet/v1/disks"]["post"]["responses"].get("422").is_some());
    let schemas = &document["components"]["schemas"];
    assert_eq!(
        (&schemas["DiskName"]["minLength"], &schemas["DiskName"]["maxLength"]),
        (&json!(1), &json!(20))
    );
    assert_eq!(schemas["Disk"]["allOf"][1]["properties"]["kind"]["const"], "Disk");
    assert_eq!(
        schemas["Disk"]["allOf"][1]["properties"]["owner_references"]["properties"]["kind"]["const"],
        "NodePool"
    );
}

#[test]
fn json_and_yaml_are_the_same_document() {
    for kinds in catalogs() {
        let document = Document::build(View {
            catalog: &Catalog::new(kinds).unwrap(),
            contract: Contract::Documented,
            tenancy: false,
            href_prefix: "/api/hyperfleet/v1",
        });
        let json: Value = serde_json::from_slice(&document.json).unwrap();
        let yaml: Value = serde_saphyr::from_str(std::str::from_utf8(&document.yaml()).unwrap()).unwrap();
        assert_eq!(json, yaml);
    }
}

#[test]
fn every_example_fits_its_schema() {
    for kinds in catalogs() {
        let document = document(kinds);
        let mut checked = 0;
        visit(&document, &mut |place| {
            let Some(schema) = place.get("schema") else { return };
            let whole = json!({"allOf": [schema], "components": document["components"]});
            let validator = jsonschema::draft202012::new(&whole).unwrap();
            let named = place.get("examples").and_then(Value::as_object).into_iter().flatten();
            let values = named
                .map(|(_, example)| &resolve(&document, example)["value"])
                .chain(place.get("example"))
                .chain(schema.get("examples").and_then(Value::as_array).into_iter().flatten());
            for value in values {
                let faults: Vec<_> = validator.iter_errors(value).map(|fault| fault.to_string()).collect();
                assert!(faults.is_empty(), "{value}: {faults:?}");
                checked += 1;
            }
        });
        assert!(checked > 30, "{checked}");
    }
}

#[test]
fn a_resource_that_breaks_the_contract_does_not_fit() {
    let document = source();
    let good = &document["components"]["examples"]["NodePool"]["value"];
    let schema = json!({"$ref": "#/components/schemas/NodePool", "components": document["components"]});
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    assert!(validator.is_valid(good));
    for (member, value) in [
        ("kind", json!("Cluster")),
        ("id", json!("1")),
        ("name", json!("a-name-of-16-char")),
        ("generation", json!(0)),
        ("labels", json!(null)),
        ("owner_references", json!([])),
        ("created_time", json!("yesterday")),
        ("deleted_by", json!("somebody")),
        ("status", json!({})),
        ("version", json!(1)),
    ] {
        let mut bad = good.clone();
        bad[member] = value;
        assert!(!validator.is_valid(&bad), "{member}");
    }
}

#[tokio::test]
async fn the_document_and_its_page_are_served_and_revalidated() {
    let document = when_asked(|| {
        Document::build(View {
            catalog: &Catalog::new(Catalog::default_descriptors()).unwrap(),
            contract: Contract::Documented,
            tenancy: false,
            href_prefix: "/api/hyperfleet/v1",
        })
    });
    let app = Router::new()
        .route("/openapi", get(json))
        .route("/openapi.yaml", get(yaml))
        .route("/openapi.html", get(page))
        .route("/openapi/swagger-ui.js", get(script))
        .route("/openapi/swagger-ui.css", get(style))
        .layer(Extension(document));
    let ask = async |path: &str, tag: &str| {
        let request = Request::get(path).header(IF_NONE_MATCH, tag).body(Body::empty()).unwrap();
        app.clone().oneshot(request).await.unwrap()
    };
    for (path, media_type) in [
        ("/openapi", "application/json"),
        ("/openapi.yaml", "application/yaml"),
        ("/openapi.html", "text/html; charset=utf-8"),
        ("/openapi/swagger-ui.js", "text/javascript; charset=utf-8"),
        ("/openapi/swagger-ui.css", "text/css; charset=utf-8"),
    ] {
        let response = ask(path, "\"other\"").await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CONTENT_TYPE], media_type);
        assert_eq!(response.headers()[CACHE_CONTROL], "no-cache");
        let tag = response.headers()[ETAG].to_str().unwrap().to_owned();
        let again = ask(path, &format!("\"x\", W/{tag}")).await;
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    }

    let html = ask("/openapi.html", "").await;
    assert!(html.headers()["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    let html = String::from_utf8(html.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
    assert!(!html.contains("//") && !html.contains("{{"), "{html}");
    let source = html.split('"').find(|part| part.contains("swagger-ui.js?v=")).unwrap();
    let kept = ask(source.strip_prefix("/api/hyperfleet/v1").unwrap(), "").await;
    assert_eq!(kept.headers()[CACHE_CONTROL], "public, max-age=31536000, immutable");
}
