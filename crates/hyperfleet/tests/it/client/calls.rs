//! Every call, and what it brings.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use hyperfleet_client::{
    Collection, GetQuery, ListQuery, PatchKind, Reported, Request, Resource, Status, TimelineQuery, Waited,
};
use serde_json::{Value, json};

use super::*;
use crate::support::{CATALOG, both_stores};

both_stores!(
    config = CATALOG;
    a_resource_is_created_read_patched_and_deleted,
    reports_set_conditions_and_are_read_back,
    timelines_and_diffs_are_read,
    a_list_is_read_whole_and_by_page,
    kinds_are_found_with_their_owners,
    a_dry_run_changes_nothing,
    leases_are_claimed_renewed_and_released,
    a_wait_ends_with_its_condition_its_resource_or_its_timeout,
    every_other_endpoint_can_be_called,
);

both_stores!(
    config = "compatibility: {contract: go-0.2}";
    a_list_is_read_whole_under_the_go_contract,
);

async fn a_resource_is_created_read_patched_and_deleted(app: &App) {
    let client = client(app);
    let body = r#"{"kind":"Cluster","name":"east","labels":{"team":"a"},"spec":{"big":9007199254740993,"long":0.1000000000000000000001}}"#;
    let made = client.create(&clusters(), &serde_json::from_str(body).unwrap(), false).await.unwrap();
    assert_eq!((made.kind(), made.name(), made.generation()), ("Cluster", "east", 1));
    assert_eq!((made.label("team"), made.labels().collect::<Vec<_>>()), (Some("a"), vec![("team", "a")]));
    assert_eq!(
        made.spec().unwrap().to_string(),
        r#"{"big":9007199254740993,"long":0.1000000000000000000001}"#
    );
    assert_eq!((made.created_by(), made.created_time()), ("system@hyperfleet.local", made.updated_time()));
    assert!(made.created_time().is_some() && made.deleted_time().is_none() && made.owner().is_none());
    let reconciled = made.condition("Reconciled").unwrap();
    assert_eq!((reconciled.status, reconciled.observed_generation), (Status::False, Some(1)));

    let item = made.path().unwrap();
    assert_eq!(item, clusters().item(made.id()));
    let read = client.get(&item, &GetQuery::default()).await.unwrap();
    assert_eq!(read, made, "entity tag and all");
    let fields = Some("name".to_owned());
    let part = client.get(&item, &GetQuery { fields, ..GetQuery::default() }).await.unwrap();
    assert_eq!(part.into_value(), json!({"id": made.id(), "name": "east"}));

    let patch = json!({"spec": {"size": 3}, "labels": {"team": null}});
    let changed = client.patch(&item, &patch, PatchKind::Merge, made.etag(), false).await.unwrap();
    assert_eq!((changed.generation(), changed.label("team")), (2, None));
    let operations = json!([{"op": "replace", "path": "/spec/size", "value": 4}]);
    let again = client.patch(&item, &operations, PatchKind::Json, changed.etag(), false).await.unwrap();
    assert_eq!(again.spec().unwrap()["size"], 4);
    let past = GetQuery { generation: Some(2), ..GetQuery::default() };
    let past = client.get(&item, &past).await.unwrap();
    assert_eq!((&past.spec().unwrap()["size"], past.etag()), (&json!(3), None));

    let pool = json!({"kind": "NodePool", "name": "workers", "spec": {}});
    let pool = client.create(&item.below("nodepools"), &pool, false).await.unwrap();
    let owner = pool.owner().unwrap();
    assert_eq!(
        (owner.kind.as_str(), owner.id.as_str(), owner.href.as_str()),
        ("Cluster", made.id(), made.href())
    );
    let nested = item.below("nodepools").item(pool.id());
    assert_eq!(client.get(&nested, &GetQuery::default()).await.unwrap(), pool);

    let deleted = client.delete(&item, again.etag(), false).await.unwrap().unwrap();
    assert!(deleted.is_finalizing() && deleted.deleted_time().is_some());
    assert_eq!(deleted.deleted_by(), "system@hyperfleet.local");
    client.force_delete(&item, "the test needs it gone", false).await.unwrap();
    for path in [&item, &nested] {
        assert!(client.get(path, &GetQuery::default()).await.unwrap_err().is_not_found());
    }
    // A resource without adapters is removed at once; the response still shows it.
    let zone = json!({"kind": "Zone", "name": "z", "spec": {}});
    let zone = client.create(&Collection::any(), &zone, false).await.unwrap();
    assert!(client.delete(&zone.path().unwrap(), None, false).await.unwrap().is_some());
}

async fn reports_set_conditions_and_are_read_back(app: &App) {
    let client = client(app);
    let item = create_cluster(&client, "east").await.path().unwrap();
    let Reported::Stored(stored) = client.report(&item, &done("validator", 1)).await.unwrap() else {
        panic!("it must be kept")
    };
    assert_eq!((stored.adapter(), stored.observed_generation()), ("validator", 1));
    assert!(stored.condition("Health").unwrap().is_true() && stored.last_report_time().is_some());
    assert_eq!(stored.data().unwrap().to_string(), r#"{"exact":1.5}"#);
    assert_eq!(client.report(&item, &done("validator", 7)).await.unwrap(), Reported::Discarded);

    // More adapters than a page holds.
    for number in 0..120 {
        client.report(&item, &done(&format!("extra-{number:03}"), 1)).await.unwrap();
    }
    let reports = client.reports(&item).await.unwrap();
    let names: Vec<_> = reports.iter().map(hyperfleet_client::AdapterReport::adapter).collect();
    assert!(names.len() == 121 && names.is_sorted(), "{names:?}");
    assert_eq!(reports.last().unwrap(), &stored);

    client.report(&item, &done("dns", 1)).await.unwrap();
    let resource = client.get(&item, &GetQuery::default()).await.unwrap();
    assert!(resource.condition("Reconciled").unwrap().is_true());
}

async fn timelines_and_diffs_are_read(app: &App) {
    let client = client(app);
    let item = create_cluster(&client, "east").await.path().unwrap();
    client.patch(&item, &json!({"spec": {"region": "a"}}), PatchKind::Merge, None, false).await.unwrap();
    client.report(&item, &done("dns", 2)).await.unwrap();

    let mut query = TimelineQuery { page_size: Some(1), total: true, ..TimelineQuery::default() };
    let mut told = Vec::new();
    loop {
        let page = client.timeline(&item, &query).await.unwrap();
        assert_eq!((page.items.len(), page.total), (1, Some(3)), "{page:?}");
        told.extend(page.items);
        query.page_token = page.next;
        if query.page_token.is_none() {
            break;
        }
    }
    let actions: Vec<_> =
        told.iter().map(|entry| (entry.action.as_str(), entry.adapter.as_deref())).collect();
    assert_eq!(actions, [("report_changed", Some("dns")), ("spec_changed", None), ("created", None)]);
    let change = &told[1].changes[0];
    assert_eq!((change.path.as_str(), &change.from, &change.to), ("spec.region", &None, &Some(json!("a"))));

    let explained = client.explain(&item).await.unwrap();
    assert_eq!((explained.phase.as_str(), explained.blockers.len()), ("Reconciling", 1));
    assert_eq!(
        (explained.blockers[0].kind.as_str(), explained.blockers[0].name.as_str()),
        ("adapter", "validator")
    );
    let diff = client.diff(&item, Some(1), Some(2)).await.unwrap();
    assert_eq!((diff.from, diff.to, diff.changes[0].path.as_str()), (1, 2, "spec.region"));
    assert_eq!(client.diff(&item, None, None).await.unwrap(), diff);
}

async fn named(client: &Client, collection: &Collection, query: &ListQuery) -> Vec<String> {
    let all: Vec<Resource> = client.pages(collection, query).try_collect().await.unwrap();
    all.iter().map(|resource| resource.name().to_owned()).collect()
}

async fn a_list_is_read_whole_and_by_page(app: &App) {
    let client = client(app);
    let mut names: Vec<_> = (0..7).map(|number| format!("c{number}-x")).collect();
    for name in &names {
        create_cluster(&client, name).await;
    }
    let by_name = ListQuery { order_by: Some("name".into()), page_size: Some(3), ..ListQuery::default() };
    assert_eq!(named(&client, &clusters(), &by_name).await, names);

    let page = client.list(&clusters(), &ListQuery { total: true, ..by_name.clone() }).await.unwrap();
    assert_eq!((page.items.len(), page.total, page.next.is_some()), (3, Some(7), true));
    assert!(page.version.is_some());
    let page = client.list(&clusters(), &ListQuery { page: Some(3), ..by_name.clone() }).await.unwrap();
    assert_eq!((page.items[0].name(), page.total, page.next), ("c6-x", None, None));

    let search = ListQuery { search: Some("name in ('c1-x', 'c2-x')".into()), ..by_name.clone() };
    assert_eq!(named(&client, &clusters(), &search).await, names[1..3]);
    let item = page.items[0].path().unwrap();
    client.delete(&item, None, false).await.unwrap();
    assert_eq!(named(&client, &clusters(), &by_name).await, names[..6]);
    assert_eq!(
        named(&client, &clusters(), &ListQuery { show_deleted: true, ..by_name.clone() }).await,
        names
    );

    let network = json!({"kind": "Network", "name": "net", "spec": {}});
    let network = client.create(&Collection::of("networks"), &network, false).await.unwrap();
    let service = json!({
        "kind": "Service", "name": "web", "spec": {}, "references": {"networks": [{"id": network.id()}]},
    });
    let service = client.create(&Collection::of("services"), &service, false).await.unwrap();
    let references = service.references();
    assert_eq!((references[0].0, references[0].1[0].id.as_str()), ("networks", network.id()));
    let referring_to = Some(("networks".to_owned(), network.id().to_owned()));
    let referring = ListQuery { referring_to, ..ListQuery::default() };
    assert_eq!(named(&client, &Collection::any(), &referring).await, ["web"]);
    let kind = ListQuery { kind: Some("Network".into()), ..ListQuery::default() };
    assert_eq!(named(&client, &Collection::any(), &kind).await, ["net"]);
    names.truncate(6);
    names.extend(["net".to_owned(), "web".to_owned()]);
    assert_eq!(named(&client, &Collection::any(), &by_name).await, names);
}

async fn a_list_is_read_whole_under_the_go_contract(app: &App) {
    let client = client(app);
    for number in 0..5 {
        create_cluster(&client, &format!("c{number}-x")).await;
    }
    let query = ListQuery { page_size: Some(2), ..ListQuery::default() };
    let names = named(&client, &clusters(), &query).await;
    assert_eq!(names, ["c4-x", "c3-x", "c2-x", "c1-x", "c0-x"]);
    let item = clusters().item(client.list(&clusters(), &query).await.unwrap().items[0].id());
    client.report(&item, &done("validator", 1)).await.unwrap();
    assert_eq!(client.reports(&item).await.unwrap().len(), 1);
}

async fn kinds_are_found_with_their_owners(app: &App) {
    let kinds = client(app).kinds().await.unwrap();
    let found: Vec<_> = kinds
        .iter()
        .map(|kind| (kind.kind.as_str(), kind.plural.as_str(), kind.parent_kind.as_deref()))
        .collect();
    assert_eq!(
        found,
        [
            ("Cluster", "clusters", None),
            ("NodePool", "nodepools", Some("Cluster")),
            ("Zone", "zones", None),
            ("Rack", "racks", Some("Zone")),
            ("Host", "hosts", Some("Rack")),
            ("Permit", "permits", Some("Zone")),
            ("Network", "networks", None),
            ("Service", "services", None),
        ]
    );
    assert_eq!(kinds[0].collection(), clusters());
}

async fn a_dry_run_changes_nothing(app: &App) {
    let client = client(app);
    let body = json!({"kind": "Cluster", "name": "east", "spec": {}});
    assert_eq!(client.create(&clusters(), &body, true).await.unwrap().name(), "east");
    assert_eq!(client.list(&clusters(), &ListQuery::default()).await.unwrap().items, []);
    let made = client.create(&clusters(), &body, false).await.unwrap();
    let item = made.path().unwrap();
    let patched =
        client.patch(&item, &json!({"spec": {"a": 1}}), PatchKind::Merge, None, true).await.unwrap();
    assert_eq!(patched.generation(), 2);
    assert!(client.delete(&item, None, true).await.unwrap().unwrap().is_finalizing());
    let reported = client.report_maybe(&item, &done("dns", 1), true).await.unwrap();
    assert!(matches!(reported, Reported::Stored(_)), "{reported:?}");
    assert_eq!(client.get(&item, &GetQuery::default()).await.unwrap(), made);
    client.delete(&item, None, false).await.unwrap();
    client.force_delete(&item, "to see", true).await.unwrap();
    assert!(client.get(&item, &GetQuery::default()).await.unwrap().is_finalizing());
}

async fn a_wait_ends_with_its_condition_its_resource_or_its_timeout(app: &App) {
    let client = client(app);
    let item = create_cluster(&client, "east").await.path().unwrap();
    let short = Duration::from_millis(10);
    let waited = client.get_waiting(&item, "Reconciled=True", short).await.unwrap();
    assert!(matches!(&waited, Waited::TimedOut(resource) if resource.name() == "east"), "{waited:?}");

    let reports = async {
        client.report(&item, &done("validator", 1)).await.unwrap();
        client.report(&item, &done("dns", 1)).await.unwrap();
    };
    let (waited, ()) = tokio::join!(client.get_waiting(&item, "Reconciled=True", DEADLINE), reports);
    assert!(matches!(waited.unwrap(), Waited::Holds(_)));
    let removal = async {
        client.delete(&item, None, false).await.unwrap();
        client.force_delete(&item, "over", false).await.unwrap();
    };
    let (waited, ()) = tokio::join!(client.get_waiting(&item, "deleted", DEADLINE), removal);
    assert_eq!(waited.unwrap(), Waited::Gone);
    for awaited in ["deleted", "Reconciled=True"] {
        assert_eq!(client.get_waiting(&item, awaited, DEADLINE).await.unwrap(), Waited::Gone);
    }
}

async fn leases_are_claimed_renewed_and_released(app: &App) {
    let client = client(app);
    let minute = Duration::from_secs(60);
    // More than a page holds.
    for number in 0..120 {
        client.put_lease("sentinel", &format!("range-{number:03}"), "me", minute, None).await.unwrap();
    }
    let leases = client.leases("sentinel").await.unwrap();
    assert_eq!((leases.len(), leases[7].name.as_str(), leases[7].holder.as_str()), (120, "range-007", "me"));
    assert!(leases[7].expires_time.is_some() && leases[7].version.is_some());
    assert_eq!(client.leases("others").await.unwrap(), []);

    let renewed = client
        .put_lease("sentinel", "range-007", "me", minute, leases[7].if_match().as_deref())
        .await
        .unwrap();
    assert!(renewed.version.is_some() && renewed.version != leases[7].version);
    for stale in [leases[7].if_match(), None] {
        let error =
            client.put_lease("sentinel", "range-007", "you", minute, stale.as_deref()).await.unwrap_err();
        assert!(error.is_conflict(), "{error}");
    }
    client.put_lease("sentinel", "range-007", "me", Duration::ZERO, renewed.etag.as_deref()).await.unwrap();
    assert_eq!(client.leases("sentinel").await.unwrap().len(), 119);
    let taken = client.put_lease("sentinel", "range-007", "you", minute, None).await.unwrap();
    assert_eq!(taken.holder, "you");
}

async fn every_other_endpoint_can_be_called(app: &App) {
    let client = client(app);
    let metadata = client.metadata().await.unwrap();
    assert_eq!(
        (metadata.service.as_str(), metadata.api_versions.as_slice()),
        ("hyperfleet-api", ["v1".to_owned()].as_slice())
    );
    assert_eq!(client.whoami().await.unwrap().identity.as_deref(), Some("system@hyperfleet.local"));
    let made = create_cluster(&client, "east").await;
    for id in [None, Some(made.id())] {
        let decision = client.authz_check("delete", "Cluster", id).await.unwrap();
        assert_eq!((decision.allowed, decision.rule.as_str()), (true, "roles are off"));
    }
    let raw = client.send(Request::get("/clusters?size=1").param("fields", "name")).await.unwrap();
    let list: Value = raw.json().unwrap();
    assert_eq!(list["items"], json!([{"id": made.id(), "name": "east"}]));
    // A refusal is an answer too.
    let raw = client.send(Request::get("/api/hyperfleet/v5/clusters")).await.unwrap();
    assert_eq!((raw.status.as_u16(), raw.header("content-type")), (404, Some("application/problem+json")));
}
