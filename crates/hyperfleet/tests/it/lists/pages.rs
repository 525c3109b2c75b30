//! Pages by token: each begins after the last resource of the one before, whatever was written meanwhile.

mod altered;
mod large;
mod moving;
mod servers;
mod tokens;

use serde_json::{Value, json};

use crate::search::{encoded, searched};
use crate::support::*;

/// Three kinds, two of them one below the other, active and finalizing, with equal names and generations.
async fn filled(app: &App) {
    for name in ["ab", "a0", "a-b", "a", "z9"] {
        app.create_named("/networks", "Network", name).await;
    }
    for name in ["abc", "mmm", "xyz", "zzz"] {
        let cluster = app.create_cluster(name).await;
        for pool in ["abc", "mmm"] {
            app.create_nodepool(&cluster, pool).await;
        }
        if name != "abc" {
            app.merge(&cluster, &json!({"spec": {"changed": true}})).await;
        }
        if name > "x" {
            app.remove(&cluster).await;
        }
    }
}

fn ids(items: &[Value]) -> Vec<String> {
    items.iter().map(|item| id(item).to_owned()).collect()
}

fn names(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| text(&item["name"])).collect()
}

/// The path of the page behind `list`; none behind the last.
fn next(route: &str, list: &Value) -> Option<String> {
    list.get("next_page_token").map(|token| format!("{route}?pageToken={}", encoded(text(token))))
}

/// The whole list at `path` by pages of that size. Every page but the last is full, and each counts the whole.
pub(crate) async fn walked(app: &App, path: &str, size: usize) -> Vec<Value> {
    let (route, query) = path.split_once('?').unwrap_or((path, ""));
    let mut page = format!("{route}?{query}");
    let mut all = Vec::new();
    let mut totals = Vec::new();
    for number in 1.. {
        let list = app.get(&format!("{page}&pageSize={size}")).await.expect_status(200).json();
        let items = list["items"].as_array().unwrap();
        assert_eq!((&list["page"], &list["size"]), (&json!(number), &json!(items.len())), "{path}");
        totals.push(list["total"].as_u64().unwrap());
        all.extend(items.clone());
        match next(route, &list) {
            Some(path) => page = path,
            None => break,
        }
        assert_eq!(items.len(), size, "{path}: a page that is not the last is full");
    }
    assert_eq!(totals, vec![all.len() as u64; all.len().div_ceil(size).max(1)], "{path}");
    all
}

/// Fails the test unless the pages make up the list.
async fn whole(app: &App, path: &str, size: usize) {
    let mark = if path.contains('?') { '&' } else { '?' };
    let list = app.get(&format!("{path}{mark}pageSize=500")).await.expect_status(200).json();
    let list = list["items"].as_array().unwrap();
    assert_eq!(ids(&walked(app, path, size).await), ids(list), "{path} by {size}");
}

async fn pages_add_up_to_the_list_in_every_order(app: &App) {
    filled(app).await;
    for field in SORTABLE_FIELDS {
        for way in ["asc", "desc"] {
            whole(app, &format!("/resources?showDeleted=true&orderBy={field}%20{way}"), 4).await;
        }
    }
    for order in [
        "kind,name",
        "kind%20desc,name",
        "kind,name%20desc",
        "deleted_time,owner_id%20desc",
        "deleted_time%20desc,owner_kind,name%20desc",
        "owner_id%20desc,deleted_by,generation",
        "owner_kind,owner_id%20desc,name,deleted_time%20desc",
        "generation%20desc,deleted_time,kind%20desc",
        "updated_time%20desc,deleted_time",
        "created_by,updated_by,deleted_by,owner_kind",
    ] {
        for size in [1, 3] {
            whole(app, &format!("/resources?showDeleted=true&orderBy={order}"), size).await;
        }
    }
}

async fn pages_add_up_to_every_kind_of_list(app: &App) {
    filled(app).await;
    let cluster = app.get("/clusters?orderBy=name").await.expect_status(200).json()["items"][0].take();
    let below = format!("{}/nodepools", href(&cluster));
    for path in [
        "/clusters",
        "/networks",
        "/nodepools",
        "/resources",
        "/zones",
        "/clusters?showDeleted=true",
        "/resources?kind=Network",
        "/resources?kind=NodePool&showDeleted=true",
        "/resources?order=asc",
        "/networks?order=name%20desc",
        &below,
        &format!("{below}?orderBy=name"),
        &searched("/resources", "name like 'a%'"),
        &searched("/resources?orderBy=deleted_time", "deleted_time is not null or kind = 'Network'"),
        &searched("/nodepools?showDeleted=true&orderBy=name", "status.conditions.Reconciled = 'False'"),
    ] {
        for size in [1, 2, 5, 500] {
            whole(app, path, size).await;
        }
    }
}

async fn the_last_page_has_no_token_even_when_it_is_full(app: &App) {
    let token =
        async |path: &str| app.get(path).await.expect_status(200).json().get("next_page_token").is_some();
    assert!(!token("/networks").await, "an empty list");
    for number in 0..6 {
        app.create_named("/networks", "Network", &format!("n{number}")).await;
    }
    for (query, more) in [
        ("pageSize=6", false),
        ("pageSize=7", false),
        ("pageSize=5", true),
        ("pageSize=3", true),
        ("pageSize=3&page=2", false),
        ("pageSize=2&page=2", true),
        ("pageSize=2&page=3", false),
        ("pageSize=2&page=4", false),
        ("pageSize=500&page=18446744073709551615", false),
        ("pageSize=3&total=none", true),
        ("pageSize=6&total=none", false),
        ("pageSize=3&fields=name", true),
    ] {
        assert_eq!(token(&format!("/networks?{query}")).await, more, "{query}");
    }
    let two = searched("/networks", "name in ['n1', 'n3', 'n5']");
    assert!(token(&format!("{two}&pageSize=2")).await && !token(&format!("{two}&pageSize=3")).await);
}

async fn a_numbered_page_can_be_continued_by_its_token(app: &App) {
    for number in 0..10 {
        app.create_named("/networks", "Network", &format!("n{number}")).await;
    }
    let second = app.get("/networks?orderBy=name&pageSize=3&page=2").await.expect_status(200).json();
    assert_eq!(names(second["items"].as_array().unwrap()), ["n3", "n4", "n5"]);
    let third = app
        .get(&format!("{}&pageSize=3", next("/networks", &second).unwrap()))
        .await
        .expect_status(200)
        .json();
    assert_eq!(names(third["items"].as_array().unwrap()), ["n6", "n7", "n8"]);
    assert_eq!((&third["page"], &third["total"]), (&json!(3), &json!(10)));
    let last = app
        .get(&format!("{}&pageSize=3", next("/networks", &third).unwrap()))
        .await
        .expect_status(200)
        .json();
    assert_eq!(names(last["items"].as_array().unwrap()), ["n9"]);
    assert_eq!(last.get("next_page_token"), None);
    // A token can be used again, and with a slash.
    let path = format!("{}&pageSize=3", next("/networks", &second).unwrap());
    for path in [&path, &path.replacen('?', "/?", 1)] {
        assert_eq!(app.get(path).await.expect_status(200).json(), third);
        app.head(path).await.expect_status(200);
    }
}

/// These are found by an index that has its own place to begin behind.
async fn pages_add_up_to_the_matches_of_a_search(app: &App) {
    filled(app).await;
    let all = app.get("/resources?pageSize=500&showDeleted=true").await.expect_status(200).json();
    for (number, resource) in all["items"].as_array().unwrap().iter().enumerate() {
        if resource.get("deleted_time").is_none() {
            let (env, tier) = (["a", "b", "c"][number % 3], ["x", "y"][number % 2]);
            app.merge(resource, &json!({"labels": {"env": env, "tier": tier}})).await;
        }
    }
    let many: Vec<String> = (0..100).map(|number| format!("'{number}'")).chain(["'a'".to_owned()]).collect();
    for search in [
        "labels.env = 'a'",
        "labels.env in ['a', 'b']",
        "labels.env in ['a', 'b', 'c'] and labels.tier = 'x'",
        "labels.env != 'a'",
        &format!("labels.env in [{}]", many.join(",")),
        "status.conditions.Reconciled = 'False'",
        "status.conditions.Reconciled in ['True', 'False'] and labels.tier in ['x', 'y']",
        "status.conditions.Reconciled = 'False' and status.conditions.Reconciled.last_updated_time < '2999-01-01'",
        "status.conditions.Reconciled.last_updated_time > '2000-01-01'",
        "kind in ['Cluster', 'Network'] and labels.env in ['b', 'c']",
        "deleted_time is not null and status.conditions.Reconciled = 'False'",
        "name in ['abc', 'ab', 'mmm']",
    ] {
        for list in ["/resources", "/nodepools?showDeleted=true"] {
            for order in
                ["", "order=asc", "orderBy=name", "orderBy=created_time%20desc,name", "orderBy=owner_id"]
            {
                whole(app, &format!("{}&{order}", searched(list, search)), 3).await;
            }
        }
    }
}

both_stores!(
    config = CATALOG;
    pages_add_up_to_the_list_in_every_order,
    pages_add_up_to_every_kind_of_list,
    the_last_page_has_no_token_even_when_it_is_full,
    a_numbered_page_can_be_continued_by_its_token,
    pages_add_up_to_the_matches_of_a_search,
);
