//! Pages whose items are too large together: they end early, tokens lead through all of them, and page numbers leave
//! nothing out.

use super::*;

both_stores!(
    config = "server: {limits: {response_bytes: 65536}}";
    a_page_of_large_resources_ends_early_and_tokens_lead_through_all,
    a_page_of_large_reports_ends_early_and_tokens_lead_through_all,
    a_timeline_of_large_changes_ends_early_and_tokens_lead_through_all,
);

/// Three of these fit a page.
const SIZE: usize = 20_000;
const MANY: usize = 10;

/// Text that hardly compresses.
fn noise() -> String {
    std::iter::repeat_with(fastrand::alphanumeric).take(SIZE).collect()
}

/// The items of a list by tokens, and how many each page holds.
async fn by_tokens(app: &App, route: &str, size: usize) -> (Vec<Value>, Vec<usize>) {
    let (mut all, mut sizes) = (Vec::new(), Vec::new());
    let mut path = Some(format!("{route}?pageSize={size}"));
    while let Some(page) = path {
        let list = app.get(&page).await.expect_status(200).json();
        let items = list["items"].as_array().unwrap();
        assert_eq!((&list["page"], &list["size"]), (&json!(sizes.len() + 1), &json!(items.len())));
        sizes.push(items.len());
        all.extend(items.clone());
        path = next(route, &list).map(|path| format!("{path}&pageSize={size}"));
    }
    (all, sizes)
}

/// Fails the test unless the list of so many items is cut into these pages, and no page by number leaves an item out.
async fn cut(app: &App, route: &str, expected: &[usize]) {
    let count: usize = expected.iter().sum();
    let (all, sizes) = by_tokens(app, route, 500).await;
    assert_eq!((sizes.as_slice(), all.len()), (expected, count), "{route}");

    // The first page is the beginning of a walk by tokens, whether it is asked for by its number or not.
    for path in [format!("{route}?pageSize=500"), format!("{route}?pageSize=500&page=1")] {
        let first = app.get(&path).await.expect_status(200).json();
        assert_eq!((&first["size"], &first["total"]), (&json!(expected[0]), &json!(count)));
        assert_eq!(first["items"].as_array().unwrap(), &all[..expected[0]]);
    }
    for (size, page) in [(500, 2), (5, 2), (5, 3), (500, u64::MAX)] {
        let refused = app.get(&format!("{route}?pageSize={size}&page={page}")).await.expect_status(400);
        assert_eq!(refused.problem_code(), "HYPERFLEET-VAL-004");
        let problem = refused.json();
        let message = text(&problem["errors"][0]["message"]);
        assert_eq!(problem["errors"][0]["field"], "page");
        for told in ["65536", "next_page_token", "pageSize"] {
            assert!(message.contains(told), "{message}");
        }
    }
    // Small pages are whole, so they can be asked for by number.
    for (number, items) in all.chunks(2).enumerate() {
        let page =
            app.get(&format!("{route}?pageSize=2&page={}", number + 1)).await.expect_status(200).json();
        assert_eq!(page["items"].as_array().unwrap(), items, "{route}");
    }
}

async fn a_page_of_large_resources_ends_early_and_tokens_lead_through_all(app: &App) {
    let labels = ["a", "b"];
    for number in 0..MANY {
        let name = format!("large-{number}");
        let label = json!({"side": labels[number % 2]});
        app.create(
            "/clusters",
            &json!({"kind": "Cluster", "name": name, "labels": label, "spec": {"text": noise()}}),
        )
        .await;
    }
    for route in ["/clusters", "/resources"] {
        cut(app, route, &[3, 3, 3, 1]).await;
    }
    let ordered = app.get("/clusters?orderBy=name&pageSize=500").await.expect_status(200).json();
    assert_eq!(names(ordered["items"].as_array().unwrap()), ["large-0", "large-1", "large-2"]);
    for search in ["labels.side = 'a'", "name like 'large%' and labels.side in ['a', 'b']"] {
        let found = app
            .get(&format!("{}&pageSize=500", searched("/clusters", search)))
            .await
            .expect_status(200)
            .json();
        assert_eq!((&found["size"], found.get("next_page_token").is_some()), (&json!(3), true), "{search}");
    }
    // What is counted is what is read, whatever is shown of it.
    let fields = app.get("/clusters?fields=name&pageSize=500").await.expect_status(200).json();
    assert_eq!(fields["size"], 3);

    // A page that begins small and fits may hide a first one that did not.
    for number in 0..5 {
        app.create_cluster(&format!("small-{number}")).await;
    }
    let oldest = app.get("/clusters?pageSize=5&page=2").await.expect_status(400);
    assert_eq!(oldest.problem_code(), "HYPERFLEET-VAL-004");
    let hidden = app.get("/clusters?order=asc&pageSize=10&page=2").await.expect_status(400);
    assert_eq!(hidden.problem_code(), "HYPERFLEET-VAL-004");

    // One that is larger than a page is a page of its own.
    let huge = app
        .create(
            "/clusters",
            &json!({"kind": "Cluster", "name": "huge", "spec": {"text": "x".repeat(200_000)}}),
        )
        .await;
    let first = app.get("/clusters?pageSize=500").await.expect_status(200).json();
    assert_eq!(first["items"], json!([huge]));
}

async fn a_page_of_large_reports_ends_early_and_tokens_lead_through_all(app: &App) {
    let cluster = app.create_cluster("reported").await;
    for number in 0..MANY {
        let mut report = report(&format!("adapter-{number}"), 1, "True", &at(0));
        report["data"] = json!({"text": noise()});
        app.report(&cluster, &report).await.expect_status(201);
    }
    cut(app, &format!("{}/statuses", href(&cluster)), &[3, 3, 3, 1]).await;
    // Reports are stored compressed, and counted as they are shown.
    let even = app.create_cluster("even").await;
    for number in 0..MANY {
        let mut report = report(&format!("adapter-{number}"), 1, "True", &at(0));
        report["data"] = json!({"text": "x".repeat(SIZE)});
        app.report(&even, &report).await.expect_status(201);
    }
    cut(app, &format!("{}/statuses", href(&even)), &[3, 3, 3, 1]).await;
}

async fn a_timeline_of_large_changes_ends_early_and_tokens_lead_through_all(app: &App) {
    let cluster = app.create_cluster("changed").await;
    for number in 0..MANY {
        app.merge(&cluster, &json!({"spec": {format!("text-{number}"): noise()}})).await;
    }
    let route = format!("{}/timeline", href(&cluster));
    let (all, sizes) = by_tokens(app, &route, 500).await;
    assert_eq!(all.len(), timeline_size(app, &route).await);
    assert!(sizes.len() >= 4, "{sizes:?}");
    let refused = app.get(&format!("{route}?pageSize=500&page=2")).await.expect_status(400);
    assert_eq!(refused.problem_code(), "HYPERFLEET-VAL-004");
    // A numbered page is whole or refused; it never leaves items out.
    for (number, items) in all.chunks(1).enumerate() {
        let page = app.get(&format!("{route}?pageSize=1&page={}", number + 1)).await;
        if page.status == 400 {
            assert_eq!(page.problem_code(), "HYPERFLEET-VAL-004");
        } else {
            assert_eq!(page.expect_status(200).json()["items"].as_array().unwrap(), items);
        }
    }
}

async fn timeline_size(app: &App, route: &str) -> usize {
    let total = app.get(&format!("{route}?pageSize=1")).await.expect_status(200).json()["total"].take();
    usize::try_from(total.as_u64().unwrap()).unwrap()
}
