//! Topics and subscriptions by HTTP and JSON.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State as With};
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::state::State;

type Named = Path<(String, String)>;
type JsonResponse = (StatusCode, Json<Value>);

fn refused(code: StatusCode, status: &str) -> JsonResponse {
    (code, Json(json!({"error": {"code": code.as_u16(), "message": status, "status": status}})))
}

fn found(value: Option<Value>) -> JsonResponse {
    value.map_or_else(|| refused(StatusCode::NOT_FOUND, "NOT_FOUND"), |value| (StatusCode::OK, Json(value)))
}

fn made(value: Option<Value>) -> JsonResponse {
    value.map_or_else(
        || refused(StatusCode::CONFLICT, "ALREADY_EXISTS"),
        |value| (StatusCode::OK, Json(value)),
    )
}

fn name(kind: &str, Path((project, name)): Named) -> String {
    format!("projects/{project}/{kind}/{name}")
}

pub(super) async fn topic(With(state): With<Arc<State>>, path: Named) -> JsonResponse {
    let name = name("topics", path);
    found(state.has_topic(&name).then(|| json!({"name": name})))
}

pub(super) async fn make_topic(With(state): With<Arc<State>>, path: Named) -> JsonResponse {
    let name = name("topics", path);
    made(state.make_topic(&name).then(|| json!({"name": name})))
}

pub(super) async fn subscription(With(state): With<Arc<State>>, path: Named) -> JsonResponse {
    found(state.subscription(&name("subscriptions", path)))
}

pub(super) async fn make_subscription(
    With(state): With<Arc<State>>,
    path: Named,
    Json(wanted): Json<Value>,
) -> JsonResponse {
    let topic = wanted["topic"].as_str().unwrap_or_default();
    if !state.has_topic(topic) {
        return refused(StatusCode::NOT_FOUND, "NOT_FOUND");
    }
    made(state.make_subscription(&name("subscriptions", path), &wanted).then_some(wanted))
}

pub(super) async fn remove_subscription(With(state): With<Arc<State>>, path: Named) -> JsonResponse {
    found(state.remove_subscription(&name("subscriptions", path)).then(|| json!({})))
}
