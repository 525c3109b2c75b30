//! Every documented path of the OpenAPI document, with ids of no resource.

use serde_json::Value;

use crate::support::{App, text};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
/// The form of an id, but of nothing.
pub(crate) const UNKNOWN_ID: &str = "0198c0de-0000-7abc-8def-00000000000f";

/// Every documented path, its parameters filled in, and its methods.
pub(crate) async fn paths(app: &App) -> Vec<(String, Vec<String>)> {
    let document = document(app).await;
    let paths = document["paths"].as_object().unwrap().iter();
    paths
        .map(|(template, item)| {
            let methods = METHODS.iter().filter(|method| item.get(**method).is_some());
            (filled(template), methods.map(|method| method.to_ascii_uppercase()).collect())
        })
        .collect()
}

/// Every documented operation: method and path.
pub(crate) async fn operations(app: &App) -> Vec<(String, String)> {
    let paths = paths(app).await;
    let each = |(path, methods): (String, Vec<String>)| methods.into_iter().map(move |m| (m, path.clone()));
    let operations: Vec<_> = paths.into_iter().flat_map(each).collect();
    assert!(operations.len() > 20, "{operations:?}");
    operations
}

/// The OpenAPI document.
pub(crate) async fn document(app: &App) -> Value {
    app.get("/openapi").await.expect_status(200).json()
}

/// The part of `document` that `value` means.
pub(crate) fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value.get("$ref") {
        Some(target) => document.pointer(text(target).trim_start_matches('#')).unwrap(),
        None => value,
    }
}

fn filled(template: &str) -> String {
    let segments = template.split('/').map(|part| if part.starts_with('{') { UNKNOWN_ID } else { part });
    segments.collect::<Vec<_>>().join("/")
}
