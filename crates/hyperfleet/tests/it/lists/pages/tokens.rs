//! What a page token carries, what may be repeated beside it, and what may change.

use super::*;

/// The names of the page behind the first three of `first`, with more parameters beside the token.
async fn second(app: &App, first: &str, beside: &str) -> Vec<String> {
    let route = first.split('?').next().unwrap();
    let list = app.get(first).await.expect_status(200).json();
    app.names(&format!("{}&{beside}", next(route, &list).unwrap())).await
}

async fn services(app: &App) -> Value {
    let network = app.create_named("/networks", "Network", "target").await;
    let other = app.create_named("/networks", "Network", "other").await;
    for number in 0..8 {
        let target = if number == 7 { &other } else { &network };
        let body = json!({
            "kind": "Service", "name": format!("s{number}"), "spec": {},
            "labels": {"parity": if number % 2 == 0 { "even" } else { "odd" }},
            "references": {"networks": [{"id": target["id"]}]},
        });
        app.create("/services", &body).await;
    }
    network
}

async fn search_order_deleted_references_and_kind_are_carried(app: &App) {
    let network = services(app).await;
    let referring = format!("ref_type=networks&ref_target_id={}", id(&network));
    let odd = format!("search={}", encoded("labels.parity = 'odd'"));
    for (first, rest) in [
        (format!("/services?pageSize=3&orderBy=name&{odd}"), vec!["s7"]),
        (format!("/services?pageSize=3&orderBy=name%20desc&{odd}"), vec!["s1"]),
        (format!("/services?pageSize=3&order=desc&orderBy=name&{odd}"), vec!["s1"]),
        ("/services?pageSize=5&orderBy=name".to_owned(), vec!["s5", "s6", "s7"]),
        (format!("/services?pageSize=5&orderBy=name&{referring}"), vec!["s5", "s6"]),
        (format!("/services?pageSize=2&orderBy=name&{referring}&{odd}"), vec!["s5"]),
        ("/resources?kind=Network&pageSize=1&orderBy=name".to_owned(), vec!["target"]),
        (format!("/resources?kind=Service&pageSize=3&orderBy=name&{odd}"), vec!["s7"]),
        ("/services?pageSize=6".to_owned(), vec!["s1", "s0"]),
        ("/services?pageSize=6&order=asc".to_owned(), vec!["s6", "s7"]),
        ("/services?pageSize=6&order=name%20desc".to_owned(), vec!["s1", "s0"]),
    ] {
        assert_eq!(second(app, &first, "").await, rest, "{first}");
    }
    let longest = format!("name like 's%' or name = '{}'", "\"".repeat(4096 - 28));
    let first = format!("{}&pageSize=6&orderBy=name", searched("/services", &longest));
    assert_eq!(second(app, &first, "").await, ["s6", "s7"], "the longest search");
    for name in ["c-1", "c-2", "c-3", "c-4"] {
        let cluster = app.create_cluster(name).await;
        if name > "c-2" {
            app.remove(&cluster).await;
        }
    }
    for (first, rest) in [
        ("/clusters?pageSize=1&orderBy=name".to_owned(), vec!["c-2"]),
        ("/clusters?pageSize=1&orderBy=name&showDeleted=true".to_owned(), vec!["c-2", "c-3", "c-4"]),
        (
            format!("{}&pageSize=1&orderBy=name", searched("/clusters", "deleted_time is not null")),
            vec!["c-4"],
        ),
        (
            format!(
                "{}&pageSize=2&orderBy=name",
                searched("/clusters", "deleted_time is null or generation > 0")
            ),
            vec!["c-3", "c-4"],
        ),
    ] {
        assert_eq!(second(app, &first, "").await, rest, "{first}");
    }
}

async fn a_parameter_repeated_beside_a_token_must_be_equal(app: &App) {
    let network = services(app).await;
    let search = encoded("labels.parity = 'even'");
    let target = id(&network);
    let same = [
        format!("search={search}"),
        "orderBy=name%20desc".to_owned(),
        "showDeleted=true".to_owned(),
        format!("ref_type=networks&ref_target_id={target}"),
        "kind=Service".to_owned(),
    ];
    let all = same.join("&");
    let first = format!("/resources?pageSize=2&{all}");
    let expected = second(app, &first, "").await;
    assert_eq!(expected, ["s2", "s0"]);
    for beside in same.iter().chain([&all]) {
        assert_eq!(second(app, &first, beside).await, expected, "{beside}");
    }
    assert_eq!(
        second(app, &first, "search=&orderBy=&order=&showDeleted=&ref_type=&ref_target_id=&kind=").await,
        expected
    );

    let list = app.get(&first).await.expect_status(200).json();
    let path = next("/resources", &list).unwrap();
    for (beside, field) in [
        (format!("search={}", encoded("labels.parity = 'odd'")), "search"),
        (format!("search={}", encoded("labels.parity = 'even' or name = 'x'")), "search"),
        ("search=nmae".to_owned(), "search"),
        ("orderBy=name".to_owned(), "orderBy"),
        ("orderBy=name%20asc".to_owned(), "orderBy"),
        ("orderBy=name%20desc,id".to_owned(), "orderBy"),
        ("orderBy=created_time%20desc".to_owned(), "orderBy"),
        ("showDeleted=false".to_owned(), "showDeleted"),
        (format!("ref_type=peers&ref_target_id={target}"), "ref_type"),
        ("ref_type=networks&ref_target_id=absent".to_owned(), "ref_target_id"),
        ("kind=Network".to_owned(), "kind"),
        ("page=1".to_owned(), "page"),
        ("page=2".to_owned(), "page"),
    ] {
        let answer = app.get(&format!("{path}&{beside}")).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004", "{beside}: {answer}");
        assert_eq!(answer.json()["errors"][0]["field"], field, "{beside}: {answer}");
    }
    let several =
        format!("{path}&page=2&search=name='x'&orderBy=id&showDeleted=false&kind=Network&pageSize=0");
    let answer = app.get(&several).await.expect_status(400);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-000");
    let mut named: Vec<_> = answer.json()["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fault| text(&fault["field"]).to_owned())
        .collect();
    named.sort();
    assert_eq!(named, ["kind", "orderBy", "page", "pageSize", "search", "showDeleted"]);
}

/// What the first page did not ask for may not be asked for later, except for what it had without asking.
async fn a_parameter_added_beside_a_token_must_change_nothing(app: &App) {
    let network = services(app).await;
    let first = app.get("/services?pageSize=6").await.expect_status(200).json();
    let path = next("/services", &first).unwrap();
    for beside in
        ["showDeleted=false", "orderBy=created_time%20desc", "order=desc", "order=created_time%20desc"]
    {
        assert_eq!(app.names(&format!("{path}&{beside}")).await, ["s1", "s0"], "{beside}");
    }
    for beside in [
        "search=name='s0'".to_owned(),
        "showDeleted=true".to_owned(),
        "order=asc".to_owned(),
        format!("ref_type=networks&ref_target_id={}", id(&network)),
    ] {
        let answer = app.get(&format!("{path}&{beside}")).await.expect_status(400);
        let named = text(&answer.json()["errors"][0]["field"]).to_owned();
        assert!(beside.starts_with(&named) || named == "orderBy", "{beside}: {answer}");
    }
    let all = app.get("/resources?pageSize=1").await.expect_status(200).json();
    app.get(&format!("{}&kind=Service", next("/resources", &all).unwrap())).await.expect_status(400);
}

async fn size_fields_and_total_may_change_from_page_to_page(app: &App) {
    services(app).await;
    let first =
        app.get("/services?orderBy=name&pageSize=2&total=none&fields=name").await.expect_status(200).json();
    assert_eq!((first.get("total"), &first["items"][0]["name"]), (None, &json!("s0")));
    let second = app
        .get(&format!("{}&pageSize=1", next("/services", &first).unwrap()))
        .await
        .expect_status(200)
        .json();
    assert_eq!((&second["total"], names(second["items"].as_array().unwrap())), (&json!(8), vec!["s2"]));
    assert!(second["items"][0]["status"].is_object(), "all fields again");
    let third = format!("{}&size=3&fields=spec,generation&total=exact", next("/services", &second).unwrap());
    let third = app.get(&third).await.expect_status(200).json();
    assert_eq!((&third["total"], &third["size"]), (&json!(8), &json!(3)));
    assert_eq!(third["items"][0].as_object().unwrap().len(), 3);
    let last = app.get(&next("/services", &third).unwrap()).await.expect_status(200).json();
    assert_eq!(
        names(last["items"].as_array().unwrap()),
        ["s6", "s7"],
        "twenty unless asked for another number"
    );
    assert_eq!(last.get("next_page_token"), None);
    let uncounted =
        app.get(&format!("{}&total=none", next("/services", &first).unwrap())).await.expect_status(200);
    assert_eq!(uncounted.json().get("total"), None);
    let bad =
        app.get(&format!("{}&fields=nmae", next("/services", &first).unwrap())).await.expect_status(400);
    assert_eq!(bad.json()["errors"][0]["field"], "fields");
}

both_stores!(
    config = CATALOG;
    search_order_deleted_references_and_kind_are_carried,
    a_parameter_repeated_beside_a_token_must_be_equal,
    a_parameter_added_beside_a_token_must_change_nothing,
    size_fields_and_total_may_change_from_page_to_page,
);
