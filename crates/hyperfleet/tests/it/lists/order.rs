//! Order: every sortable field in both directions, compared with an order that the test computes.

use std::cmp::Ordering;

use serde_json::{Value, json};

use crate::support::*;

/// Several kinds, active and finalizing, with equal and different names and generations.
async fn filled(app: &App) {
    for name in ["ab", "a0", "a-b", "a", "z9", "a-0", "0a"] {
        app.create_named("/networks", "Network", name).await;
    }
    for name in ["a-b", "mm", "ab"] {
        let zone = app.create_named("/zones", "Zone", name).await;
        let rack = app.create_named(&format!("{}/racks", href(&zone)), "Rack", "ab").await;
        app.create_named(&format!("{}/hosts", href(&rack)), "Host", name).await;
        if name == "mm" {
            app.merge(&rack, &json!({"spec": {"changed": true}})).await;
            app.remove(&rack).await;
        }
    }
    let cluster = app.create_cluster("abc").await;
    app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    app.merge(&cluster, &json!({"spec": {"a": 2}})).await;
    app.remove(&cluster).await;
}

fn key(item: &Value, field: &str) -> Value {
    match field {
        "owner_id" => item["owner_references"]["id"].clone(),
        "owner_kind" => item["owner_references"]["kind"].clone(),
        other => item[other].clone(),
    }
}

/// What lacks the field is last in both directions; text goes by code point.
fn compare(a: &Value, b: &Value, field: &str, descending: bool) -> Ordering {
    let (a, b) = (key(a, field), key(b, field));
    if a.is_null() || b.is_null() {
        return a.is_null().cmp(&b.is_null());
    }
    let order = match (a.as_u64(), b.as_u64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => text(&a).cmp(text(&b)),
    };
    if descending { order.reverse() } else { order }
}

fn sorted(mut items: Vec<Value>, order: &[(&str, bool)]) -> Vec<Value> {
    let ties = ("id", order.last().unwrap().1);
    items.sort_by(|a, b| {
        let by = |(field, descending): &(&str, bool)| compare(a, b, field, *descending);
        order.iter().chain([&ties]).map(by).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    items
}

async fn items(app: &App, query: &str) -> Vec<Value> {
    let list = app.get(&format!("/resources?showDeleted=true&pageSize=500&{query}")).await.expect_status(200);
    list.json()["items"].as_array().unwrap().clone()
}

#[track_caller]
fn same(found: &[Value], expected: &[Value], fields: &[&str], query: &str) {
    let shown = |items: &[Value]| {
        let one =
            |item: &Value| fields.iter().map(|field| key(item, field)).chain([item["id"].clone()]).collect();
        items.iter().map(one).collect::<Vec<Value>>()
    };
    assert_eq!(shown(found), shown(expected), "{query}");
}

async fn every_sortable_field_orders_any_kinds_both_ways(app: &App) {
    filled(app).await;
    let all = items(app, "").await;
    assert!(all.iter().any(|item| item.get("deleted_time").is_some()) && all.len() > 15);
    for field in SORTABLE_FIELDS {
        for (query, descending) in [
            (format!("orderBy={field}"), false),
            (format!("orderBy={field}%20asc&order=desc"), false),
            (format!("orderBy={field}&order=desc"), true),
            (format!("orderBy={field}+DESC&order=asc"), true),
            (format!("order={field}"), false),
            (format!("order={field}%20desc"), true),
        ] {
            let expected = sorted(all.clone(), &[(field, descending)]);
            same(&items(app, &query).await, &expected, &[field], &query);
        }
    }
}

async fn several_fields_order_one_after_the_other(app: &App) {
    filled(app).await;
    let all = items(app, "").await;
    for (query, order) in [
        ("orderBy=kind,name", vec![("kind", false), ("name", false)]),
        ("orderBy=kind%20desc,%20name", vec![("kind", true), ("name", false)]),
        ("orderBy=name,kind&order=desc", vec![("name", true), ("kind", true)]),
        (
            "orderBy=generation%20desc,owner_kind,name%20desc",
            vec![("generation", true), ("owner_kind", false), ("name", true)],
        ),
        ("orderBy=deleted_time%20desc,owner_id%20desc", vec![("deleted_time", true), ("owner_id", true)]),
        ("orderBy=owner_kind%20desc,href%20asc", vec![("owner_kind", true), ("href", false)]),
        ("order=kind,name%20desc", vec![("kind", false), ("name", true)]),
    ] {
        let fields: Vec<_> = order.iter().map(|(field, _)| *field).collect();
        same(&items(app, query).await, &sorted(all.clone(), &order), &fields, query);
    }
}

async fn by_default_the_newest_come_first(app: &App) {
    filled(app).await;
    let all = items(app, "").await;
    for (query, descending) in
        [("", true), ("order=desc", true), ("order=asc", false), ("orderBy=&order=", true)]
    {
        let expected = sorted(all.clone(), &[("created_time", descending)]);
        same(&items(app, query).await, &expected, &["created_time"], query);
    }
}

async fn names_are_ordered_by_code_point(app: &App) {
    filled(app).await;
    let order = ["0a", "a", "a-0", "a-b", "a0", "ab", "z9"];
    assert_eq!(app.names("/networks?orderBy=name").await, order);
    let mut reversed = order;
    reversed.reverse();
    assert_eq!(app.names("/networks?orderBy=name&order=desc").await, reversed);
}

async fn pages_follow_the_order_even_among_equal_values(app: &App) {
    filled(app).await;
    for order in ["created_by", "created_by%20desc", "deleted_time", "owner_id%20desc", "kind"] {
        let whole = items(app, &format!("orderBy={order}")).await;
        let mut paged = Vec::new();
        for number in 1..=whole.len().div_ceil(4) {
            let path = format!("/resources?showDeleted=true&pageSize=4&page={number}&orderBy={order}");
            paged.extend(app.get(&path).await.expect_status(200).json()["items"].as_array().unwrap().clone());
        }
        same(&paged, &whole, &["kind"], order);
    }
}

both_stores!(
    config = CATALOG;
    every_sortable_field_orders_any_kinds_both_ways,
    several_fields_order_one_after_the_other,
    by_default_the_newest_come_first,
    names_are_ordered_by_code_point,
    pages_follow_the_order_even_among_equal_values,
);
