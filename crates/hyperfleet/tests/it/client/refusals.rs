//! Refusals as types: what was wrong, where, and when to come again.

use std::time::Duration;

use hyperfleet_client::{GetQuery, ListQuery, PatchKind, Problem};
use serde_json::json;

use super::*;
use crate::support::any_store;

any_store!(
    every_fault_of_a_body_is_named,
    a_conflict_names_both_versions,
    a_search_fault_shows_its_position,
    an_id_with_path_characters_is_not_found,
    an_idempotency_key_creates_one_resource_and_refuses_another_body,
);

any_store!(
    config = "server: {rate_limit: {enabled: true, reads: {per_second: 1, burst: 1}}}";
    a_rate_limited_call_is_retried_until_it_is_answered,
);

fn problem(error: &hyperfleet_client::Error) -> &Problem {
    error.problem().unwrap_or_else(|| panic!("no problem: {error}"))
}

async fn every_fault_of_a_body_is_named(app: &App) {
    let client = client(app);
    let body = json!({"kind": "Cluster", "name": "No", "spec": {}, "labels": {"a b": "x"}});
    let context = hyperfleet_client::Context { request_id: Some("order-7".into()), ..Default::default() };
    let client = client.in_context(&context).unwrap();
    let error = client.create(&clusters(), &body, false).await.unwrap_err();
    let problem = problem(&error);
    assert_eq!((problem.status, problem.code.as_str()), (400, "HYPERFLEET-VAL-000"));
    assert_eq!(problem.trace_id.as_deref(), Some("order-7"));
    let fields: Vec<_> = problem.errors.iter().map(|error| error.field.as_str()).collect();
    assert!(fields.contains(&"name") && fields.contains(&"labels['a b']"), "{fields:?}");
    assert!(problem.errors.iter().all(|error| !error.message.is_empty()), "{problem:?}");
    assert!(error.to_string().contains("labels['a b']"), "{error}");
}

async fn a_conflict_names_both_versions(app: &App) {
    let client = client(app);
    let made = create_cluster(&client, "east").await;
    let item = made.path().unwrap();
    let changed =
        client.patch(&item, &json!({"spec": {"a": 1}}), PatchKind::Merge, None, false).await.unwrap();
    for result in [
        client.patch(&item, &json!({"spec": {"a": 2}}), PatchKind::Merge, made.etag(), false).await.map(drop),
        client.delete(&item, made.etag(), false).await.map(drop),
    ] {
        let error = result.unwrap_err();
        assert!(error.is_conflict() && !error.is_transient(), "{error}");
        let problem = problem(&error);
        assert_eq!(problem.code, "HYPERFLEET-CNF-002");
        let tag = |resource: &Resource| resource.etag().unwrap().trim_matches('"').to_owned();
        assert_eq!(problem.body["expected_version"], tag(&made));
        let actual = problem.actual_version.unwrap();
        assert!(tag(&changed).starts_with(&format!("{actual}-")), "{actual}");
    }
    let body = json!({"kind": "Cluster", "name": "east", "spec": {}});
    let error = client.create(&clusters(), &body, false).await.unwrap_err();
    assert_eq!((problem(&error).code.as_str(), error.is_conflict()), ("HYPERFLEET-CNF-001", true));
    assert_eq!(problem(&error).errors[0].constraint.as_deref(), Some("unique"));
}

async fn a_search_fault_shows_its_position(app: &App) {
    let query = ListQuery { search: Some("name ~~ 'x'".into()), ..ListQuery::default() };
    let error = client(app).list(&clusters(), &query).await.unwrap_err();
    let problem = problem(&error);
    assert_eq!((problem.code.as_str(), problem.errors[0].field.as_str()), ("HYPERFLEET-VAL-004", "search"));
    assert!(problem.detail.contains('\n') && problem.detail.contains('^'), "{}", problem.detail);
}

async fn an_id_with_path_characters_is_not_found(app: &App) {
    let client = client(app);
    create_cluster(&client, "east").await;
    for id in ["", ".", "..", "a/b", "%2e%2e", "?size=1", "#", "x y", "ü", "../clusters", "nodepools"] {
        let item = clusters().item(id);
        for error in [
            client.get(&item, &GetQuery::default()).await.unwrap_err(),
            client.delete(&item, None, false).await.unwrap_err(),
            client.explain(&item).await.unwrap_err(),
        ] {
            assert!(error.is_not_found(), "{id:?}: {error}");
            assert_eq!(problem(&error).code, "HYPERFLEET-NTF-002", "{id:?}: {error}");
        }
    }
}

async fn an_idempotency_key_creates_one_resource_and_refuses_another_body(app: &App) {
    let client = client(app);
    let body = json!({"kind": "Cluster", "name": "east", "spec": {}});
    let made = client.create_by_key(&clusters(), &body, "order-4711").await.unwrap();
    assert_eq!(client.create_by_key(&clusters(), &body, "order-4711").await.unwrap(), made);
    let other = json!({"kind": "Cluster", "name": "west", "spec": {}});
    let error = client.create_by_key(&clusters(), &other, "order-4711").await.unwrap_err();
    assert_eq!(error.status(), Some(422), "{error}");
    client.create_by_key(&clusters(), &other, "two words").await.unwrap_err();
}

async fn a_rate_limited_call_is_retried_until_it_is_answered(app: &App) {
    let client = client(app);
    for _ in 0..3 {
        client.list(&clusters(), &ListQuery::default()).await.unwrap();
    }
    let hurried = Client::new(Settings { retry: Retry::NEVER, ..settings(app.api().authority()) }).unwrap();
    let error = loop {
        if let Err(error) = hurried.list(&clusters(), &ListQuery::default()).await {
            break error;
        }
    };
    assert_eq!((error.status(), error.retry_after()), (Some(429), Some(Duration::from_secs(1))));
    assert!(error.is_transient());
}
