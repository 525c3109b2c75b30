//! Searches as the Go implementation's Sentinel and adapters send them, by `compatibility.contract: go-0.2`.

use super::*;

fn go() -> String {
    format!("{CATALOG}\ncompatibility: {{contract: go-0.2}}\n")
}

async fn a_search_that_finds_nothing_is_an_empty_list(app: &App) {
    app.create_cluster("alpha").await;
    let list = app.get("/clusters?page=1&size=1&search=labels.non_existing_label='value'").await;
    let list = list.expect_status(200).json();
    assert_eq!((&list["items"], &list["total"], &list["size"]), (&json!([]), &json!(0), &json!(0)));
    assert_eq!(list.get("next_page_token"), None);
    assert_eq!(list.get("kind"), None);
}

async fn a_search_comes_with_a_page_and_a_size(app: &App) {
    for number in 0..5 {
        let labels = json!({"x": if number == 4 { "z" } else { "y" }});
        let body = json!({"kind": "Cluster", "name": format!("c-{number}"), "spec": {}, "labels": labels});
        app.create("/clusters", &body).await;
    }
    let mut seen = Vec::new();
    for page in 1..=3 {
        let path = format!("/clusters?search=labels.x='y'&page={page}&size=2&orderBy=name");
        let list = app.get(&path).await.expect_status(200).json();
        assert_eq!((&list["total"], &list["page"]), (&json!(4), &json!(page)));
        seen.extend(app.names(&path).await);
    }
    assert_eq!(seen, ["c-0", "c-1", "c-2", "c-3"]);
    // Unknown parameters are ignored, but a malformed filter is refused.
    let noisy =
        app.get("/clusters?search=labels.x='z'&colour=red&pageSize=1").await.expect_status(200).json();
    assert_eq!(noisy["total"], 1);
    assert_eq!(mistake(app, "/clusters", "labels.x='y' nmae").await.position, 14);
    let first = app.get("/clusters?search=labels.x='y'&size=3&orderBy=name").await.expect_status(200).json();
    let rest = format!("/clusters?size=3&pageToken={}", encoded(text(&first["next_page_token"])));
    assert_eq!(app.names(&rest).await, ["c-3"]);
}

async fn finalizing_resources_are_found_like_all_others(app: &App) {
    Fleet::silent(app).await;
    finds(
        app,
        "/clusters",
        &[
            ("labels.env = 'production'", "alpha going"),
            ("name is not null", "alpha beta delta gamma going"),
            ("deleted_time is null", "alpha beta delta gamma"),
            ("deleted_time is not null", "going"),
            ("status.conditions.Reconciled = 'False'", "alpha beta delta gamma going"),
        ],
    )
    .await;
    assert_eq!(found(app, "/clusters?showDeleted=false", "labels.env = 'production'").await, "alpha");
}

async fn a_nested_href_is_found_as_shown(app: &App) {
    let Fleet { alpha, beta, .. } = Fleet::silent(app).await;
    let pools = app.get("/nodepools?orderBy=name").await.expect_status(200).json();
    for (number, pool) in pools["items"].as_array().unwrap().iter().enumerate() {
        assert!(href(pool).starts_with(&format!("{BASE}/clusters/")), "{pool}");
        let name = format!("pool-{}", number + 1);
        finds(
            app,
            "/nodepools",
            &[
                (&format!("href = '{}'", href(pool)), &name),
                (&format!("href in ['{}']", href(pool)), &name),
                (&format!("href like '%/{}'", id(pool)), &name),
                (&format!("href = '{BASE}/nodepools/{}'", id(pool)), ""),
            ],
        )
        .await;
    }
    finds(
        app,
        "/nodepools",
        &[
            (&format!("href like '{}/nodepools/%'", href(&alpha)), "pool-1 pool-2"),
            (&format!("href > '{}'", href(&beta)), "pool-3 pool-4"),
        ],
    )
    .await;
    let mut hrefs: Vec<String> =
        pools["items"].as_array().unwrap().iter().map(|pool| href(pool).to_owned()).collect();
    hrefs.sort();
    let list = app.get("/nodepools?orderBy=href").await.expect_status(200).json();
    let ordered: Vec<&str> = list["items"].as_array().unwrap().iter().map(href).collect();
    assert_eq!(ordered, hrefs);
}

both_stores!(
    config = &go();
    a_search_that_finds_nothing_is_an_empty_list,
    a_search_comes_with_a_page_and_a_size,
    finalizing_resources_are_found_like_all_others,
    a_nested_href_is_found_as_shown,
);
