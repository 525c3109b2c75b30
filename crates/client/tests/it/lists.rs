//! Lists of servers that turn pages differently.

use futures_util::{StreamExt as _, TryStreamExt as _};
use hyperfleet_client::{Collection, Error, Kind, ListQuery};
use serde_json::{Value, json};

use crate::fake_server::{FakeServer, json};

fn page(ids: &[u32], more: &Value) -> crate::fake_server::Reply {
    let items: Vec<_> = ids.iter().map(|id| json!({"id": id.to_string()})).collect();
    let mut page = json!({"items": items});
    page.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json(&page)
}

async fn ids(server: &FakeServer, query: &ListQuery) -> Result<Vec<String>, Error> {
    let pages = server.client().pages(&Collection::of("clusters"), query);
    pages.map(|item| item.map(|resource| resource.id().to_owned())).try_collect().await
}

/// The paths that were asked for, without what all have in common.
fn asked(server: &FakeServer) -> Vec<String> {
    let path = |request: &String| request.split(' ').nth(1).unwrap().split('?').nth(1).unwrap().to_owned();
    server.requests().iter().map(path).collect()
}

#[tokio::test]
async fn pages_are_followed_by_their_tokens() {
    let server = FakeServer::replying([
        page(&[1, 2], &json!({"next_page_token": "t/1"})),
        page(&[], &json!({"next_page_token": "t2"})),
        page(&[3], &json!({})),
    ])
    .await;
    let query = ListQuery { page_size: Some(2), search: Some("name = 'a&b'".into()), ..ListQuery::default() };
    assert_eq!(ids(&server, &query).await.unwrap(), ["1", "2", "3"]);
    let search = "search=name%20%3D%20%27a%26b%27&size=2";
    assert_eq!(
        asked(&server),
        [
            format!("{search}&total=none"),
            format!("{search}&pageToken=t%2F1&total=none"),
            format!("{search}&pageToken=t2&total=none")
        ]
    );
}

#[tokio::test]
async fn a_server_without_page_tokens_is_read_by_page_numbers() {
    let of_five = json!({"total": 5, "page": 1, "size": 2});
    let server =
        FakeServer::replying([page(&[1, 2], &of_five), page(&[3, 4], &of_five), page(&[5], &of_five)]).await;
    let query = ListQuery { page_size: Some(2), ..ListQuery::default() };
    assert_eq!(ids(&server, &query).await.unwrap(), ["1", "2", "3", "4", "5"]);
    assert_eq!(asked(&server), ["size=2&total=none", "size=2&page=2&total=none", "size=2&page=3&total=none"]);

    // Clusters were deleted after the first page was counted.
    let server = FakeServer::replying([page(&[1, 2], &of_five), page(&[], &of_five)]).await;
    assert_eq!(ids(&server, &query).await.unwrap(), ["1", "2"]);
}

#[tokio::test]
async fn a_page_token_that_repeats_ends_the_list() {
    let server = FakeServer::replying([page(&[], &json!({"next_page_token": "again"}))]).await;
    let error = ids(&server, &ListQuery::default()).await.unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error}");
}

#[tokio::test]
async fn a_server_without_a_list_of_kinds_has_the_default_ones() {
    let described = json!({"paths": {"/api/hyperfleet/v1/clusters": {}, "/api/hyperfleet/v1/nodepools": {}}});
    let kinds = FakeServer::replying([json(&described)]).await.client().kinds().await.unwrap();
    let names: Vec<_> = kinds.iter().map(|kind| (kind.kind.as_str(), kind.parent_kind.as_deref())).collect();
    assert_eq!(names, [("Cluster", None), ("NodePool", Some("Cluster"))]);
    let none: Vec<Kind> = FakeServer::replying([json(&json!({}))]).await.client().kinds().await.unwrap();
    assert_eq!(none, []);
    let wrong = FakeServer::replying([json(&json!({"x-hyperfleet-kinds": [{"kind": 7}]}))]).await;
    assert!(matches!(wrong.client().kinds().await, Err(Error::Malformed { .. })));
}
