//! Timelines by page number and by token, while they grow.

use super::*;
use crate::support::{CATALOG, both_stores, id};

both_stores!(
    config = CATALOG;
    pages_by_number_and_by_token_contain_every_entry_once,
    new_entries_do_not_shift_pages_by_token,
    a_page_token_is_valid_for_its_timeline_and_route_alone,
    a_page_past_the_end_is_empty,
);

/// A rack with many entries, some of them several to a version.
async fn eventful(app: &App) -> Value {
    let zone = app.create_named("/zones", "Zone", "zone").await;
    let rack = app.create_named(&format!("{}/racks", href(&zone)), "Rack", "rack").await;
    for number in 0..6 {
        app.merge(&rack, &json!({"spec": {"n": number}, "labels": {"n": number.to_string()}})).await;
        app.merge(&rack, &json!({"labels": {"m": number.to_string()}})).await;
    }
    rack
}

fn next(path: &str, list: &Value) -> Option<String> {
    list.get("next_page_token").map(|token| format!("{path}?pageToken={}", text(token)))
}

async fn pages_by_number_and_by_token_contain_every_entry_once(app: &App) {
    let rack = eventful(app).await;
    let path = format!("{}/timeline", href(&rack));
    let all = timeline(app, href(&rack)).await;
    assert_eq!(all.len(), 19);
    for size in [1, 2, 3, 5, 18, 19, 20] {
        let mut further = Some(path.clone() + "?total=exact");
        for (number, page) in all.chunks(size).enumerate() {
            let by_token = format!("{}&size={size}", further.unwrap());
            let by_token = app.get(&by_token).await.expect_status(200).json();
            assert_eq!(by_token["items"].as_array().unwrap(), page, "page {number} of {size}");
            assert_eq!((&by_token["page"], &by_token["total"]), (&json!(number + 1), &json!(19)));
            let by_number = format!("{path}?page={}&pageSize={size}", number + 1);
            let by_number = app.get(&by_number).await.expect_status(200).json();
            assert_eq!(by_number, by_token, "page {number} of {size}");
            further = next(&path, &by_token);
        }
        assert_eq!(further, None);
    }
    let uncounted = app.get(&format!("{path}?total=none&pageSize=4")).await.expect_status(200).json();
    assert_eq!((uncounted.get("total"), &uncounted["size"]), (None, &json!(4)));
}

async fn new_entries_do_not_shift_pages_by_token(app: &App) {
    let rack = eventful(app).await;
    let path = format!("{}/timeline", href(&rack));
    let before = timeline(app, href(&rack)).await;
    let (mut shown, mut further, mut total) = (Vec::new(), Some(format!("{path}?total=exact")), 19);
    while let Some(page) = further {
        let list = app.get(&format!("{page}&pageSize=2")).await.expect_status(200).json();
        assert_eq!(list["total"], total);
        shown.extend(list["items"].as_array().unwrap().clone());
        further = next(&path, &list);
        app.merge(&rack, &json!({"spec": {"late": total}})).await;
        total += 1;
    }
    assert_eq!(shown, before);
    // The way goes on after the end, too.
    let list = app.get(&format!("{path}?pageSize=3")).await.expect_status(200).json();
    app.remove(&rack).await;
    let rest =
        app.get(&format!("{}&pageSize=500", next(&path, &list).unwrap())).await.expect_status(200).json();
    assert_eq!(rest["size"], total - 3);
}

async fn a_page_token_is_valid_for_its_timeline_and_route_alone(app: &App) {
    let rack = eventful(app).await;
    let zone = text(&rack["owner_references"]["id"]);
    let other = app.create_named("/networks", "Network", "one").await;
    app.create_named("/networks", "Network", "two").await;
    let path = format!("{}/timeline", href(&rack));
    let first = app.get(&format!("{path}?pageSize=3")).await.expect_status(200).json();
    let token = text(&first["next_page_token"]);
    app.get(&format!("{path}?pageToken={token}")).await.expect_status(200);
    let resources = app.get("/networks?pageSize=1").await.expect_status(200).json();
    let (head, last) = token.split_at(token.len() - 1);
    let altered = format!("{head}{}", if last == "A" { "B" } else { "A" });
    for (path, token) in [
        (format!("/resources/{}/timeline", id(&rack)), token),
        (format!("/zones/{zone}/racks/{}/timeline", id(&rack)), token),
        (format!("{}/timeline", href(&other)), token),
        ("/racks".to_owned(), token),
        (path.clone(), text(&resources["next_page_token"])),
        (path.clone(), altered.as_str()),
    ] {
        assert_refused(&app.get(&format!("{path}?pageToken={token}")).await, 400, "VAL-004");
    }
    assert_refused(&app.get(&format!("{path}?pageToken={token}&page=2")).await, 400, "VAL-004");
}

async fn a_page_past_the_end_is_empty(app: &App) {
    let rack = eventful(app).await;
    for page in ["20", "18446744073709551615", "99999999999999999999999"] {
        let path = format!("{}/timeline?pageSize=1&page={page}", href(&rack));
        let list = app.get(&path).await.expect_status(200).json();
        assert_eq!(
            (&list["items"], &list["total"], list.get("next_page_token")),
            (&json!([]), &json!(19), None)
        );
    }
}
