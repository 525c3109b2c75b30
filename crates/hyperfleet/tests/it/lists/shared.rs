//! Equal lists that wait at the same time are coalesced into one query, with the same answers as alone.

use serde_json::json;

use crate::support::*;

/// A kind whose name is that of the route for all kinds.
const AWKWARD: &str = "
entities:
  - {kind: Resource, plural: things}
  - {kind: Cluster, plural: clusters}
";

both_stores!(
    config = AWKWARD;
    a_list_after_a_write_contains_it,
    the_list_of_all_kinds_differs_from_that_of_a_kind_named_resource,
);

async fn a_list_after_a_write_contains_it(app: &App) {
    let writers = (0..8).map(async |writer| {
        for number in 0..12 {
            let name = format!("shared-{writer}-{number}");
            let created = app.create_named("/clusters", "Cluster", &name).await;
            let list = app.get("/clusters?pageSize=500").await.expect_status(200).json();
            let items = list["items"].as_array().unwrap();
            assert!(items.contains(&created), "{name} is not among {}", list["total"]);
            assert_eq!(list["total"], items.len());
        }
    });
    futures_util::future::join_all(writers).await;
}

async fn the_list_of_all_kinds_differs_from_that_of_a_kind_named_resource(app: &App) {
    for number in 0..3 {
        app.create_named("/things", "Resource", &format!("thing-{number}")).await;
        app.create_named("/clusters", "Cluster", &format!("cluster-{number}")).await;
    }
    let asked = (0..40).map(async |turn| {
        let (path, total) = [("/resources", 6), ("/things", 3)][turn % 2];
        let list = app.get(&format!("{path}?pageSize=2")).await.expect_status(200).json();
        assert_eq!(list["total"], json!(total), "{path}");
        (path, list["next_page_token"].as_str().unwrap().to_owned())
    });
    for (path, token) in futures_util::future::join_all(asked).await {
        let other = if path == "/things" { "/resources" } else { "/things" };
        app.get(&format!("{other}?pageToken={token}")).await.expect_status(400);
        app.get(&format!("{path}?pageToken={token}")).await.expect_status(200);
    }
}
