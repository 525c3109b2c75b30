//! Lists of servers that turn pages differently.

use futures_util::{StreamExt as _, TryStreamExt as _};
use hyperfleet_client::{Collection, Error, Kind, ListQuery};
use serde_json::{Value, json};

use crate::stranger::{Stranger, json};

fn page(ids: &[u32], more: &Value) -> crate::stranger::Say {
    let items: Vec<_> = ids.iter().map(|id| json!({"id": id.to_string()})).collect();
    let mut page = json!({"items": items});
    page.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json(&page)
}

async fn ids(stranger: &Stranger, query: &ListQuery) -> Result<Vec<String>, Error> {
    let pages = stranger.client().pages(&Collection::of("clusters"), query);
    pages.map(|item| item.map(|resource| resource.id().to_owned())).try_collect().await
}

/// The paths that were asked for, without what all have in common.
fn asked(stranger: &Stranger) -> Vec<String> {
    let path = |request: &String| request.split(' ').nth(1).unwrap().split('?').nth(1).unwrap().to_owned();
    stranger.asked().iter().map(path).collect()
}

#[tokio::test]
async fn pages_are_followed_by_their_tokens() {
    let stranger = Stranger::saying([
        page(&[1, 2], &json!({"next_page_token": "t/1"})),
        page(&[], &json!({"next_page_token": "t2"})),
        page(&[3], &json!({})),
    ])
    .await;
    let query = ListQuery { page_size: Some(2), search: Some("name = 'a&b'".into()), ..ListQuery::default() };
    assert_eq!(ids(&stranger, &query).await.unwrap(), ["1", "2", "3"]);
    let search = "search=name%20%3D%20%27a%26b%27&size=2";
    assert_eq!(
        asked(&stranger),
        [
            format!("{search}&total=none"),
            format!("{search}&pageToken=t%2F1&total=none"),
            format!("{search}&pageToken=t2&total=none")
        ]
    );
}

#[tokio::test]
async fn a_server_without_tokens_is_asked_by_numbers() {
    let of_five = json!({"total": 5, "page": 1, "size": 2});
    let stranger =
        Stranger::saying([page(&[1, 2], &of_five), page(&[3, 4], &of_five), page(&[5], &of_five)]).await;
    let query = ListQuery { page_size: Some(2), ..ListQuery::default() };
    assert_eq!(ids(&stranger, &query).await.unwrap(), ["1", "2", "3", "4", "5"]);
    assert_eq!(
        asked(&stranger),
        ["size=2&total=none", "size=2&page=2&total=none", "size=2&page=3&total=none"]
    );

    // Someone deleted what the count still held.
    let stranger = Stranger::saying([page(&[1, 2], &of_five), page(&[], &of_five)]).await;
    assert_eq!(ids(&stranger, &query).await.unwrap(), ["1", "2"]);
}

#[tokio::test]
async fn a_page_that_leads_to_itself_is_not_followed_for_ever() {
    let stranger = Stranger::saying([page(&[], &json!({"next_page_token": "again"}))]).await;
    let error = ids(&stranger, &ListQuery::default()).await.unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error}");
}

#[tokio::test]
async fn a_server_that_does_not_list_its_kinds_has_the_usual_ones() {
    let described = json!({"paths": {"/api/hyperfleet/v1/clusters": {}, "/api/hyperfleet/v1/nodepools": {}}});
    let kinds = Stranger::saying([json(&described)]).await.client().kinds().await.unwrap();
    let names: Vec<_> = kinds.iter().map(|kind| (kind.kind.as_str(), kind.parent_kind.as_deref())).collect();
    assert_eq!(names, [("Cluster", None), ("NodePool", Some("Cluster"))]);
    let none: Vec<Kind> = Stranger::saying([json(&json!({}))]).await.client().kinds().await.unwrap();
    assert_eq!(none, []);
    let wrong = Stranger::saying([json(&json!({"x-hyperfleet-kinds": [{"kind": 7}]}))]).await;
    assert!(matches!(wrong.client().kinds().await, Err(Error::Malformed { .. })));
}
