//! `GET …/statuses`: one report per adapter, by name, in pages.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::*;

both_stores!(
    a_resource_without_reports_has_an_empty_list,
    reports_are_listed_by_adapter_in_the_order_of_code_points,
    pages_cut_the_list_without_a_gap_or_an_overlap,
    tokens_lead_through_the_list_as_page_numbers_do,
    new_reports_do_not_shift_pages_by_token,
    a_page_token_continues_after_its_adapter_until_the_resource_is_removed,
    a_page_token_is_valid_for_its_reports_and_route_alone,
    every_bad_parameter_of_the_list_is_reported_at_once,
    the_version_is_the_counter_at_the_snapshot,
    other_methods_are_refused_with_the_allowed_ones,
    head_and_a_trailing_slash_work_for_reports,
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

/// The page behind this one.
fn next(path: &str, list: &Value) -> Option<String> {
    list.get("next_page_token").map(|token| format!("{path}?pageToken={}", text(token)))
}

async fn tokens_lead_through_the_list_as_page_numbers_do(app: &App) {
    let cluster = app.create_cluster("tokens").await;
    let path = format!("{}/statuses", href(&cluster));
    let all = [" ", "'", "10", "2", "B", "a", "a b", "\u{e9}", "\u{1d11e}"];
    for adapter in all {
        app.report(&cluster, &report(adapter, 1, "True", &at(0))).await.expect_status(201);
    }
    for size in [1, 2, 4, 8, 9, 10] {
        let mut further = Some(format!("{path}?total=exact"));
        for (number, page) in all.chunks(size).enumerate() {
            let by_token =
                app.get(&format!("{}&size={size}", further.unwrap())).await.expect_status(200).json();
            let names: Vec<&str> =
                by_token["items"].as_array().unwrap().iter().map(|item| text(&item["adapter"])).collect();
            assert_eq!(names, page, "page {number} of {size}");
            assert_eq!((&by_token["page"], &by_token["total"]), (&json!(number + 1), &json!(9)));
            let by_number = format!("{path}?page={}&pageSize={size}", number + 1);
            assert_eq!(app.get(&by_number).await.expect_status(200).json(), by_token);
            further = next(&path, &by_token);
        }
        assert_eq!(further, None);
    }
    let first = app.get(&format!("{path}?pageSize=4")).await.expect_status(200).json();
    let rest = format!("{}&total=none&pageSize=500", next(&path, &first).unwrap());
    let rest = app.get(&rest).await.expect_status(200).json();
    assert_eq!((rest.get("total"), &rest["size"], &rest["page"]), (None, &json!(5), &json!(2)));
}

async fn new_reports_do_not_shift_pages_by_token(app: &App) {
    let cluster = app.create_cluster("moving").await;
    let path = format!("{}/statuses", href(&cluster));
    let name = |number: usize| format!("adapter-{number:02}");
    let before: Vec<String> = (10..20).map(name).collect();
    for adapter in &before {
        app.report(&cluster, &report(adapter, 1, "True", &at(0))).await.expect_status(201);
    }
    let (mut seen, mut further, mut total) = (Vec::new(), Some(format!("{path}?total=exact")), 10);
    while let Some(page) = further {
        let list = app.get(&format!("{page}&pageSize=3")).await.expect_status(200).json();
        assert_eq!(list["total"], total);
        seen.extend(list["items"].as_array().unwrap().iter().map(|item| text(&item["adapter"]).to_owned()));
        further = next(&path, &list);
        // One in front of all, where numbered pages would shift, and one that is there says something new.
        let new = name(9 - (total - 10));
        app.report(&cluster, &report(&new, 1, "True", &at(0))).await.expect_status(201);
        app.report(&cluster, &report(&before[5], 1, "False", &at(total as u32))).await.expect_status(201);
        total += 1;
    }
    assert_eq!(seen, before);
}

async fn a_page_token_continues_after_its_adapter_until_the_resource_is_removed(app: &App) {
    let cluster = app.create_cluster("going").await;
    let path = format!("{}/statuses", href(&cluster));
    for adapter in ["b", "d", "f"] {
        app.report(&cluster, &report(adapter, 1, "True", &at(0))).await.expect_status(201);
    }
    let first = app.get(&format!("{path}?pageSize=1")).await.expect_status(200).json();
    app.report(&cluster, &report("c", 1, "True", &at(0))).await.expect_status(201);
    let rest = app.get(&next(&path, &first).unwrap()).await.expect_status(200).json();
    let names: Vec<&str> =
        rest["items"].as_array().unwrap().iter().map(|item| text(&item["adapter"])).collect();
    assert_eq!(names, ["c", "d", "f"]);
    app.remove(&cluster).await;
    app.force_delete(&cluster).await;
    app.get(&next(&path, &first).unwrap()).await.expect_status(404);
}

async fn a_page_token_is_valid_for_its_reports_and_route_alone(app: &App) {
    let cluster = app.create_cluster("bound").await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    let other = app.create_nodepool(&cluster, "other").await;
    for adapter in ["a", "b", "c"] {
        for resource in [&pool, &other] {
            app.report(resource, &report(adapter, 1, "True", &at(0))).await.expect_status(201);
        }
    }
    let path = format!("{}/statuses", href(&pool));
    let list = async |path: &str| app.get(&format!("{path}?pageSize=1")).await.expect_status(200).json();
    let first = list(&path).await;
    let token = text(&first["next_page_token"]);
    app.get(&format!("{path}?pageToken={token}")).await.expect_status(200);
    let (timeline, pools) = (list(&format!("{}/timeline", href(&pool))).await, list("/nodepools").await);
    let (head, last) = token.split_at(token.len() - 1);
    let altered = format!("{head}{}", if last == "A" { "B" } else { "A" });
    for (path, token) in [
        (format!("/resources/{}/statuses", id(&pool)), token),
        (format!("{}/nodepools/{}/statuses", href(&cluster), id(&pool)), token),
        (format!("{}/statuses", href(&other)), token),
        (format!("{}/timeline", href(&pool)), token),
        ("/nodepools".to_owned(), token),
        (path.clone(), text(&timeline["next_page_token"])),
        (path.clone(), text(&pools["next_page_token"])),
        (path.clone(), altered.as_str()),
        (path.clone(), &token[..token.len() / 2]),
        (path.clone(), "x"),
    ] {
        let refused = app.get(&format!("{path}?pageToken={token}")).await.expect_status(400);
        assert_eq!(refused.problem_code(), "HYPERFLEET-VAL-004", "{path}: {refused}");
        assert_eq!(refused.json()["errors"][0]["field"], "pageToken", "{path}");
    }
    let both = app.get(&format!("{path}?pageToken={token}&page=2")).await.expect_status(400);
    assert_eq!(both.json()["errors"][0]["field"], "page");
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
    let tag = async || json!(app.get(href(&cluster)).await.version().unwrap());
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

async fn other_methods_are_refused_with_the_allowed_ones(app: &App) {
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

async fn head_and_a_trailing_slash_work_for_reports(app: &App) {
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
    app.head("/clusters/absent/statuses").await.expect_status(404);
    app.get(&format!("{path}//")).await.expect_status(404);
}
