//! Leases over HTTP: one holder at a time, by the server's clock, also under concurrent claims at two servers.

mod race;

use hyperfleet_testkit::{Answer, eventually};
use serde_json::json;

use crate::support::*;

both_stores!(
    a_lease_is_claimed_renewed_and_released,
    a_held_lease_is_refused_to_other_holders,
    an_expired_lease_is_not_listed_and_can_be_claimed,
    leases_are_listed_by_name_and_in_pages,
    every_fault_of_a_claim_is_reported_at_once,
    every_bad_parameter_of_the_list_is_reported_at_once,
    leases_do_not_change_resources,
);

/// Asks for a lease of the group `sentinel`.
fn claim(app: &App, name: &str, holder: &str, ttl: &str) -> Asked {
    app.put(&format!("/leases/sentinel/{name}")).json(&json!({"holder": holder, "ttl": ttl}))
}

/// The leases of the group `sentinel`: names and holders.
async fn held(app: &App) -> Vec<(String, String)> {
    let list = app.get("/leases?group=sentinel").await.expect_status(200).json();
    let items = list["items"].as_array().unwrap();
    assert_eq!((&list["size"], &list["total"]), (&json!(items.len()), &json!(items.len())));
    items.iter().map(|item| (text(&item["name"]).to_owned(), text(&item["holder"]).to_owned())).collect()
}

#[track_caller]
fn assert_refused(answer: &Answer, code: &str) {
    assert_eq!((answer.status, answer.problem_code()), (409, format!("HYPERFLEET-{code}")), "{answer}");
}

async fn a_lease_is_claimed_renewed_and_released(app: &App) {
    let taken = claim(app, "range-0", "a", "10s").await.expect_status(200);
    let lease = taken.json();
    assert_eq!((text(&lease["name"]), text(&lease["holder"])), ("range-0", "a"));
    assert_eq!(taken.version(), lease["version"].as_u64());
    let list = app.get("/leases?group=sentinel").await.expect_status(200).json();
    assert_eq!(list, json!({"kind": "LeaseList", "page": 1, "size": 1, "total": 1, "items": [lease]}));

    let renewed = claim(app, "range-0", "a", "1h").header("if-match", etag(&taken)).await.expect_status(200);
    assert!(renewed.json()["version"].as_u64() > lease["version"].as_u64());
    assert!(text(&renewed.json()["expires_time"]) > text(&lease["expires_time"]));
    let stale = claim(app, "range-0", "a", "10s").header("if-match", etag(&taken)).await;
    assert_refused(&stale, "CNF-002");
    let problem = stale.json();
    assert_eq!(problem["expected_version"], etag(&taken).trim_matches('"'));
    assert_eq!(problem["actual_version"], renewed.json()["version"]);

    let back = claim(app, "range-0", "a", "0s").header("if-match", etag(&renewed)).await.expect_status(200);
    assert_eq!(held(app).await, []);
    assert_refused(&claim(app, "range-0", "b", "10s").header("if-match", etag(&renewed)).await, "CNF-002");
    claim(app, "range-0", "b", "10s").header("if-match", etag(&back)).await.expect_status(200);
    assert_eq!(held(app).await, [("range-0".to_owned(), "b".to_owned())]);
}

async fn a_held_lease_is_refused_to_other_holders(app: &App) {
    let taken = claim(app, "range-0", "a", "1h").header("if-none-match", "*").await.expect_status(200);
    for holder in ["a", "b"] {
        assert_refused(&claim(app, "range-0", holder, "10s").await, "CNF-002");
        assert_refused(&claim(app, "range-0", holder, "10s").header("if-none-match", "*").await, "CNF-002");
        let wrong = claim(app, "range-0", holder, "10s").header("if-match", "\"1\"").await;
        assert_refused(&wrong, "CNF-002");
    }
    // To know its version is not to have it, and no reason to give it back for its holder.
    for (tag, ttl) in [(etag(&taken), "10s"), (etag(&taken), "0s"), ("*".to_owned(), "10s")] {
        let other = claim(app, "range-0", "b", ttl).header("if-match", tag).await;
        assert_refused(&other, "CNF-003");
        assert!(text(&other.json()["detail"]).starts_with("Lease 'sentinel/range-0' is held by 'a' until 2"));
    }
    let list = app.get("/leases?group=sentinel").await.expect_status(200).json();
    assert_eq!(list["items"], json!([taken.json()]));
    // These leases are free.
    claim(app, "range-1", "b", "10s").header("if-match", "*").await.expect_status(404);
    assert_refused(&claim(app, "range-1", "b", "10s").header("if-match", "\"1\"").await, "CNF-002");
    claim(app, "range-1", "b", "10s").await.expect_status(200);
}

async fn an_expired_lease_is_not_listed_and_can_be_claimed(app: &App) {
    let first = claim(app, "range-0", "a", "1s").await.expect_status(200);
    claim(app, "range-1", "a", "1s").await.expect_status(200);
    eventually("the leases are over", DEADLINE, async || held(app).await.is_empty().then_some(())).await;
    let stale = claim(app, "range-0", "b", "1h").header("if-match", "\"1\"").await;
    assert_refused(&stale, "CNF-002");
    let second = claim(app, "range-0", "b", "1h").header("if-match", etag(&first)).await.expect_status(200);
    claim(app, "range-1", "b", "1h").await.expect_status(200);
    assert!(second.json()["version"].as_u64() > first.json()["version"].as_u64());
    // The former holder is refused.
    assert_refused(&claim(app, "range-0", "a", "10s").header("if-match", etag(&first)).await, "CNF-002");
    let all = ["range-0", "range-1"].map(|name| (name.to_owned(), "b".to_owned()));
    assert_eq!(held(app).await, all);
}

async fn leases_are_listed_by_name_and_in_pages(app: &App) {
    let names = ["10", "2", "B", "a", "a-1", "a.b", "aB", "range:7", "z"];
    for name in names.iter().rev() {
        claim(app, name, "a", "1h").await.expect_status(200);
    }
    app.put("/leases/other/a").json(&json!({"holder": "b", "ttl": "1h"})).await.expect_status(200);
    assert_eq!(held(app).await.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), names);
    for size in [1, 4, 8, 9, 10] {
        let mut query = Some("total=exact".to_owned());
        for (number, page) in names.chunks(size).enumerate() {
            let path = format!("/leases?group=sentinel&pageSize={size}&{}", query.unwrap());
            let list = app.get(&path).await.expect_status(200).json();
            let shown: Vec<&str> =
                list["items"].as_array().unwrap().iter().map(|item| text(&item["name"])).collect();
            assert_eq!(shown, page, "page {number} of {size}");
            assert_eq!((&list["page"], &list["total"]), (&json!(number + 1), &json!(9)));
            let by_number = format!("/leases?group=sentinel&pageSize={size}&page={}", number + 1);
            assert_eq!(app.get(&by_number).await.expect_status(200).json(), list);
            query = list.get("next_page_token").map(|token| format!("pageToken={}", text(token)));
        }
        assert_eq!(query, None);
    }
    let first = app.get("/leases?group=sentinel&pageSize=1&total=none").await.expect_status(200).json();
    assert_eq!(first.get("total"), None);
    let token = text(&first["next_page_token"]);
    for query in [
        format!("group=other&pageToken={token}"),
        format!("group=sentinel&pageToken={token}x"),
        format!("group=sentinel&pageToken={token}&page=2"),
    ] {
        let refused = app.get(&format!("/leases?{query}")).await.expect_status(400);
        assert_eq!(refused.problem_code(), "HYPERFLEET-VAL-004", "{query}");
    }
    let none = app.get("/leases?group=unused").await.expect_status(200).json();
    assert_eq!((&none["items"], &none["total"]), (&json!([]), &json!(0)));
}

fn fields(answer: &Answer) -> Vec<String> {
    let problem = answer.json();
    problem["errors"].as_array().unwrap().iter().map(|fault| text(&fault["field"]).to_owned()).collect()
}

async fn every_fault_of_a_claim_is_reported_at_once(app: &App) {
    let several = app
        .put("/leases/-x/a%20b")
        .header("if-match", "7")
        .header("if-none-match", "\"7\"")
        .json(&json!({"holder": " ", "ttl": "2h", "colour": "red"}))
        .await
        .expect_status(400);
    assert_eq!(several.problem_code(), "HYPERFLEET-VAL-000");
    assert_eq!(fields(&several), ["group", "name", "If-Match", "If-None-Match", "holder", "ttl", "colour"]);
    for (path, body, field, code) in [
        ("a/b", json!({"ttl": "10s"}), "holder", "VAL-001"),
        ("a/b", json!({"holder": null, "ttl": "10s"}), "holder", "VAL-001"),
        ("a/b", json!({"holder": "a"}), "ttl", "VAL-001"),
        ("a/b", json!({"holder": 7, "ttl": "10s"}), "holder", "VAL-002"),
        ("a/b", json!({"holder": "a\u{0}b", "ttl": "10s"}), "holder", "VAL-002"),
        ("a/b", json!({"holder": "a".repeat(254), "ttl": "10s"}), "holder", "VAL-002"),
        ("a/b", json!({"holder": "a", "ttl": 10}), "ttl", "VAL-002"),
        ("a/b", json!({"holder": "a", "ttl": "999ms"}), "ttl", "VAL-002"),
        ("a/b", json!({"holder": "a", "ttl": "3601s"}), "ttl", "VAL-002"),
        ("a/b", json!({"holder": "a", "ttl": "-1s"}), "ttl", "VAL-002"),
        ("a/b", json!({"holder": "a", "ttl": "99999999999999999999d"}), "ttl", "VAL-002"),
        ("a/b", json!({"holder": "a", "ttl": "10s", "name": "x"}), "name", "VAL-003"),
        ("a/%00", json!({"holder": "a", "ttl": "10s"}), "name", "VAL-005"),
        ("a/%ff", json!({"holder": "a", "ttl": "10s"}), "name", "VAL-005"),
        ("a/..%2fb", json!({"holder": "a", "ttl": "10s"}), "name", "VAL-005"),
        ("%C3%A9/b", json!({"holder": "a", "ttl": "10s"}), "group", "VAL-005"),
    ] {
        let refused = app.put(&format!("/leases/{path}")).json(&body).await.expect_status(400);
        let shown = fields(&refused);
        assert!(shown.iter().any(|shown| shown == field), "{path} {body}: {refused}");
        if shown.len() == 1 {
            assert_eq!(refused.problem_code(), format!("HYPERFLEET-{code}"), "{path} {body}");
        }
    }
    let long =
        app.put(&format!("/leases/a/{}", "b".repeat(254))).json(&json!({"holder": "a", "ttl": "1s"})).await;
    assert_eq!((long.status, long.problem_code()), (400, "HYPERFLEET-VAL-005".to_owned()));
    for body in ["", "[]", "{", "null"] {
        let refused = app.put("/leases/a/b").header("content-type", "application/json").body(body).await;
        assert_eq!(
            (refused.status, refused.problem_code()),
            (400, "HYPERFLEET-VAL-003".to_owned()),
            "{body}"
        );
    }
    let both = app.put("/leases/a/b").header("if-match", "*").header("if-none-match", "*");
    let both = both.json(&json!({"holder": "a", "ttl": "1s"})).await.expect_status(400);
    assert_eq!(fields(&both), ["If-None-Match"]);
    assert_eq!(app.get("/leases?group=a").await.expect_status(200).json()["total"], 0);
}

async fn every_bad_parameter_of_the_list_is_reported_at_once(app: &App) {
    let several = app.get("/leases?group=-&page=0&size=501&total=some&holder=a").await.expect_status(400);
    assert_eq!(fields(&several), ["group", "page", "size", "total", "holder"]);
    for query in ["", "?group=", "?group=%20", "?group=a&group=b", "?group=a/b", "?group=a&watch=true"] {
        let refused = app.get(&format!("/leases{query}")).await.expect_status(400);
        assert_eq!(refused.problem_code(), "HYPERFLEET-VAL-004", "{query}");
    }
    app.put("/leases/a/b?dryRun=true").json(&json!({"holder": "a", "ttl": "1s"})).await.expect_status(400);
    app.head("/leases?group=a").await.expect_status(200);
    for (method, path) in
        [("POST", "/leases"), ("PUT", "/leases"), ("GET", "/leases/a/b"), ("DELETE", "/leases/a/b")]
    {
        app.call(method, path).await.expect_status(405);
    }
    app.get("/leases/a").await.expect_status(404);
}

async fn leases_do_not_change_resources(app: &App) {
    app.create_cluster("still").await;
    let version = async || app.get("/clusters").await.expect_status(200).json()["version"].clone();
    let before = version().await;
    let mut tag = etag(&claim(app, "range-0", "a", "1h").await.expect_status(200));
    for _ in 0..5 {
        tag = etag(&claim(app, "range-0", "a", "1h").header("if-match", tag).await.expect_status(200));
    }
    assert_eq!(version().await, before);
    assert_eq!(app.get("/resources").await.expect_status(200).json()["total"], 1);
}
