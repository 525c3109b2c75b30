//! `GET …/statuses`: one report per adapter, by name, in pages.

use insta::assert_snapshot;
use serde_json::json;

use super::*;
use crate::support::*;

both_stores!(
    a_resource_without_reports_has_an_empty_list,
    reports_are_listed_by_adapter_in_the_order_of_code_points,
    pages_cut_the_list_without_a_gap_or_an_overlap,
    every_bad_parameter_of_the_list_is_reported_at_once,
    the_version_is_the_counter_at_the_snapshot,
    other_methods_are_refused_with_those_that_work,
    head_and_a_trailing_slash_are_as_everywhere,
);

async fn a_resource_without_reports_has_an_empty_list(app: &App) {
    let cluster = app.create_cluster("silent").await;
    assert_snapshot!(transcript(&app.get(&format!("{}/statuses", href(&cluster))).await), @r#"
    200
    content-type: application/json

    {
      "kind": "AdapterStatusList",
      "page": 1,
      "size": 0,
      "total": 0,
      "items": [],
      "version": "[version]"
    }
    "#);
}

async fn adapters(app: &App, path: &str) -> Vec<String> {
    let list = app.get(path).await.expect_status(200).json();
    let items = list["items"].as_array().unwrap();
    assert_eq!(list["size"], items.len());
    items.iter().map(|item| text(&item["adapter"]).to_owned()).collect()
}

async fn reports_are_listed_by_adapter_in_the_order_of_code_points(app: &App) {
    let cluster = app.create_cluster("ordered").await;
    let ordered = [
        " ",
        "1",
        "10",
        "2",
        "B",
        "Z",
        "_",
        "a",
        "a b",
        "a-1",
        "a.b",
        "aB",
        "ab",
        "b",
        "z",
        "é",
        "\u{fffd}",
        "\u{1d11e}",
    ];
    for adapter in ordered.iter().rev() {
        app.report(&cluster, &report(adapter, 1, "True", &at(0))).await.expect_status(201);
    }
    assert_eq!(adapters(app, &format!("{}/statuses", href(&cluster))).await, ordered);
}

async fn pages_cut_the_list_without_a_gap_or_an_overlap(app: &App) {
    let cluster = app.create_cluster("paged").await;
    let path = format!("{}/statuses", href(&cluster));
    let all: Vec<String> = (0..23).map(|number| format!("adapter-{number:02}")).collect();
    for adapter in &all {
        app.report(&cluster, &report(adapter, 1, "True", &at(0))).await.expect_status(201);
    }
    assert_eq!(adapters(app, &path).await, all[..20], "twenty to a page unless asked for more");
    assert_eq!(adapters(app, &format!("{path}?page=2")).await, all[20..]);
    for size in [1, 5, 23, 500] {
        let mut seen = Vec::new();
        for page in 1..=23_usize.div_ceil(size) {
            let answer =
                app.get(&format!("{path}?pageSize={size}&page={page}")).await.expect_status(200).json();
            assert_eq!((&answer["page"], &answer["total"]), (&json!(page), &json!(23)));
            seen.extend(adapters(app, &format!("{path}?size={size}&page={page}")).await);
        }
        assert_eq!(seen, all, "pageSize={size}");
    }
    for query in ["page=3", "page=99999999999999999999&pageSize=500", "page=9223372036854775807"] {
        let list = app.get(&format!("{path}?{query}")).await.expect_status(200).json();
        assert_eq!((&list["items"], &list["size"], &list["total"]), (&json!([]), &json!(0), &json!(23)));
    }
    let uncounted = app.get(&format!("{path}?total=none&pageSize=2")).await.expect_status(200).json();
    assert_eq!((uncounted.get("total"), &uncounted["size"]), (None, &json!(2)));
    assert_eq!(adapters(app, &format!("{path}?page=&pageSize=%20&size=&total=")).await.len(), 20);
}

async fn every_bad_parameter_of_the_list_is_reported_at_once(app: &App) {
    let cluster = app.create_cluster("bad").await;
    let path = format!("{}/statuses", href(&cluster));
    let several =
        app.get(&format!("{path}?page=0&pageSize=501&total=some&adapter=a")).await.expect_status(400);
    assert_eq!(several.problem_code(), "HYPERFLEET-VAL-000");
    assert_eq!(
        faults(&several),
        "page: page must be a whole number of at least 1, not '0'\n\
         pageSize: pageSize must be a whole number from 1 to 500, not '501'\n\
         total: total must be exact or none, not 'some'\n\
         adapter: adapter is not a parameter of this endpoint"
    );
    for query in
        ["page=-1", "page=x", "page=1&page=1", "size=0", "size=501", "pageSize=5&size=6", "dryRun=true"]
    {
        let answer = app.get(&format!("{path}?{query}")).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004", "{query}");
    }
}

async fn the_version_is_the_counter_at_the_snapshot(app: &App) {
    let cluster = app.create_cluster("version").await;
    let path = format!("{}/statuses", href(&cluster));
    let version = async || app.get(&path).await.expect_status(200).json()["version"].clone();
    let tag = async || json!(app.etag(&cluster).await.trim_matches('"').parse::<u64>().unwrap());
    assert_eq!(version().await, tag().await);
    let before = version().await.as_u64().unwrap();
    app.report(&cluster, &report("validator", 1, "True", &at(0))).await.expect_status(201);
    assert_eq!(version().await, before + 1);
    assert_eq!(version().await, tag().await);
    app.report(&cluster, &report("validator", 1, "True", &at(1))).await.expect_status(201);
    assert_eq!(version().await, before + 1, "only a time moved");
    app.create_cluster("other").await;
    assert_eq!(version().await, before + 2);
}

async fn other_methods_are_refused_with_those_that_work(app: &App) {
    let cluster = app.create_cluster("methods").await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    for path in [
        format!("{}/statuses", href(&cluster)),
        format!("{}/statuses/", href(&cluster)),
        format!("{}/nodepools/{}/statuses", href(&cluster), id(&pool)),
        format!("/resources/{}/statuses", id(&pool)),
    ] {
        for method in ["PATCH", "DELETE", "OPTIONS", "BREW"] {
            let answer = app.call(method, &path).json(&json!({})).await.expect_status(405);
            assert_eq!(answer.problem_code(), "HYPERFLEET-NTF-000");
            let mut allowed: Vec<_> = answer.header("allow").unwrap().split(',').map(str::trim).collect();
            allowed.sort_unstable();
            assert_eq!(allowed, ["GET", "HEAD", "POST", "PUT"], "{method} {path}");
        }
    }
    app.get(&format!("{}/statuses/validator", href(&cluster))).await.expect_status(404);
}

async fn head_and_a_trailing_slash_are_as_everywhere(app: &App) {
    let cluster = app.create_cluster("head").await;
    app.report(&cluster, &report("validator", 1, "True", &at(0))).await.expect_status(201);
    let path = format!("{}/statuses", href(&cluster));
    let whole = app.get(&path).await.expect_status(200);
    let slashed = app.get(&format!("{path}/")).await.expect_status(200);
    assert_eq!(whole.json(), slashed.json());
    for path in [&path, &format!("{path}/?page=1")] {
        let head = app.head(path).await.expect_status(200);
        assert!(head.body.is_empty());
        assert_eq!(head.header("content-type"), Some("application/json"));
        assert_eq!(head.header("content-length"), whole.header("content-length"));
    }
    app.head("/clusters/nobody/statuses").await.expect_status(404);
    app.get(&format!("{path}//")).await.expect_status(404);
}
