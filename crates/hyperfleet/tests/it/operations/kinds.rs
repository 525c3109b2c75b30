//! Kinds are configuration: an added one is served over HTTP, a removed one is hidden and returns unharmed.

use hyperfleet_testkit::{Answer, Client};
use serde_json::{Value, json};

use super::installation::Installation;
use super::{CLUSTERS, create_cluster, id};
use crate::support::{BASE, both_stores, redacted};

const THREE_LEVELS: &str = "
entities:
  - {kind: Fleet, plural: fleets, name_min_len: 2, name_max_len: 8}
  - {kind: Region, plural: regions, parent_kind: Fleet, on_parent_delete: restrict}
  - {kind: Zone, plural: zones, parent_kind: Region, on_parent_delete: cascade}
";

both_stores!(
    start = Installation::migrated;
    a_kind_added_by_configuration_is_served_over_http,
    a_kind_removed_from_the_configuration_is_hidden_and_returns_unharmed,
    the_target_of_a_hidden_referrer_cannot_be_deleted,
);

async fn create(api: &Client, path: &str, kind: &str, name: &str) -> Answer {
    api.post(path).json(&json!({"kind": kind, "name": name, "spec": {"size": 1}})).await
}

fn names(list: &Answer) -> Vec<String> {
    let list = list.json();
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

async fn a_kind_added_by_configuration_is_served_over_http(installation: &Installation) {
    let server = installation.serve().config(THREE_LEVELS).start().await.unwrap();
    let api = server.api();
    let fleets = format!("{BASE}/fleets");
    for (name, status) in [("a", 400), ("ab", 201), ("abcdefgh", 201), ("abcdefghi", 400)] {
        create(&api, &fleets, "Fleet", name).await.expect_status(status);
    }
    let fleet = create(&api, &fleets, "Fleet", "main").await.expect_status(201);
    insta::assert_snapshot!(redacted(&fleet.json()), @r#"
    {
      "kind": "Fleet",
      "id": "[id 1]",
      "href": "/api/hyperfleet/v1/fleets/[id 1]",
      "name": "main",
      "generation": 1,
      "spec": {
        "size": 1
      },
      "labels": {},
      "created_time": "[time 1]",
      "updated_time": "[time 1]",
      "created_by": "system@hyperfleet.local",
      "updated_by": "system@hyperfleet.local",
      "status": {
        "conditions": [
          {
            "type": "Reconciled",
            "status": "True",
            "reason": "NoRequiredAdapters",
            "message": "No adapters are required for this kind",
            "observed_generation": 1,
            "created_time": "[time 1]",
            "last_updated_time": "[time 1]",
            "last_transition_time": "[time 1]"
          },
          {
            "type": "LastKnownReconciled",
            "status": "True",
            "reason": "NoRequiredAdapters",
            "message": "No adapters are required for this kind",
            "observed_generation": 1,
            "created_time": "[time 1]",
            "last_updated_time": "[time 1]",
            "last_transition_time": "[time 1]"
          }
        ]
      }
    }
    "#);
    let fleet_path = format!("{fleets}/{}", id(&fleet));
    let regions = format!("{fleet_path}/regions");
    let region = create(&api, &regions, "Region", "north").await.expect_status(201);
    let region_path = format!("{regions}/{}", id(&region));
    let zones = format!("{region_path}/zones");
    let zone = create(&api, &zones, "Zone", "north-1").await.expect_status(201);
    let zone_path = format!("{zones}/{}", id(&zone));
    assert_eq!(zone.json()["owner_references"]["id"], region.json()["id"]);
    assert_eq!(zone.json()["href"], format!("{BASE}/zones/{}", id(&zone)));
    // A name of a default length, and no longer one.
    create(&api, &zones, "Zone", &"z".repeat(100)).await.expect_status(201);
    create(&api, &zones, "Zone", &"z".repeat(101)).await.expect_status(400);

    // Below the whole chain, below its owner, flat, and as any resource: it is the same zone.
    for path in [
        zone_path.clone(),
        format!("{BASE}/regions/{}/zones/{}", id(&region), id(&zone)),
        format!("{BASE}/zones/{}", id(&zone)),
        format!("{BASE}/resources/{}", id(&zone)),
    ] {
        let read = api.get(&path).await.expect_status(200);
        assert_eq!((read.json(), read.header("etag")), (zone.json(), zone.header("etag")), "{path}");
    }
    let other = id(&create(&api, &fleets, "Fleet", "other").await);
    api.get(&format!("{fleets}/{other}/regions/{}/zones/{}", id(&region), id(&zone)))
        .await
        .expect_status(404);
    api.post(&format!("{BASE}/zones"))
        .json(&json!({"kind": "Zone", "name": "x", "spec": {}}))
        .await
        .expect_status(422);
    assert_eq!(names(&api.get(&regions).await), ["north"]);
    let listed = api.get(&format!("{BASE}/resources?kind=Zone&orderBy=name")).await;
    assert_eq!(names(&listed), ["north-1", &"z".repeat(100)]);

    let patched = api.patch(&zone_path).json(&json!({"spec": {"size": 2}})).await.expect_status(200);
    assert_eq!((&patched.json()["generation"], &patched.json()["spec"]), (&2.into(), &json!({"size": 2})));
    let restricted = api.delete(&fleet_path).await.expect_status(409);
    assert_eq!(restricted.problem_code(), "HYPERFLEET-CNF-003");
    api.delete(&region_path).await.expect_status(202);
    for gone in [&region_path, &zone_path] {
        api.get(gone).await.expect_status(404);
    }
    api.delete(&fleet_path).await.expect_status(202);
    assert_eq!(api.get(&fleet_path).await.problem_code(), "HYPERFLEET-NTF-001");
    assert_eq!(
        api.get(CLUSTERS).await.problem_code(),
        "HYPERFLEET-NTF-000",
        "no kind but the configured ones"
    );

    let document = api.get(&format!("{BASE}/openapi")).await.json();
    let paths = document["paths"].as_object().unwrap();
    for path in [
        "/fleets",
        "/fleets/{fleet_id}/force-delete",
        "/fleets/{fleet_id}/regions/{region_id}",
        "/fleets/{fleet_id}/regions/{region_id}/zones/{zone_id}",
        "/regions/{region_id}/zones",
        "/zones/{zone_id}",
    ] {
        assert!(paths.keys().any(|known| known.ends_with(path)), "{path} is missing in {:?}", paths.keys());
    }
    assert!(!paths.keys().any(|path| path.contains("cluster")), "{:?}", paths.keys());
}

async fn a_kind_removed_from_the_configuration_is_hidden_and_returns_unharmed(installation: &Installation) {
    const CLUSTER: &str = "{kind: Cluster, plural: clusters}";
    let with = format!(
        "entities: [{CLUSTER}, {{kind: Pool, plural: pools, parent_kind: Cluster, on_parent_delete: cascade}}, {{kind: Lamp, plural: lamps}}]"
    );
    let without = format!("entities: [{CLUSTER}]");
    let mut server = installation.serve().config(&with).start().await.unwrap();
    let configuration = server.directory().join("config.yaml");
    let cluster = format!("{CLUSTERS}/{}", id(&create_cluster(&server.api(), "owner").await));
    let pool = create(&server.api(), &format!("{cluster}/pools"), "Pool", "inside").await.expect_status(201);
    let lamp = create(&server.api(), &format!("{BASE}/lamps"), "Lamp", "bright").await.expect_status(201);

    std::fs::write(&configuration, without).unwrap();
    server.restart().await.unwrap();
    let api = server.api();
    for path in [
        format!("{BASE}/lamps"),
        format!("{BASE}/lamps/{}", id(&lamp)),
        format!("{cluster}/pools"),
        format!("{BASE}/pools/{}", id(&pool)),
    ] {
        assert_eq!(api.get(&path).await.expect_status(404).problem_code(), "HYPERFLEET-NTF-000", "{path}");
    }
    for (method, path) in [
        ("GET", format!("{BASE}/resources/{}", id(&lamp))),
        ("DELETE", format!("{BASE}/resources/{}", id(&lamp))),
        ("PATCH", format!("{BASE}/resources/{}", id(&lamp))),
    ] {
        let call = api.call(method.parse().unwrap(), &path);
        let call = if method == "PATCH" { call.json(&json!({"spec": {"size": 9}})) } else { call };
        assert_eq!(call.await.expect_status(404).problem_code(), "HYPERFLEET-NTF-001", "{method}");
    }
    let all = api.get(&format!("{BASE}/resources")).await;
    assert_eq!((names(&all), &all.json()["total"]), (vec!["owner".to_owned()], &Value::from(1)));
    // Its owner cannot go while it is there, visible or not.
    api.delete(&cluster).await.expect_status(409);
    api.get(&cluster).await.expect_status(200);

    std::fs::write(&configuration, with).unwrap();
    server.restart().await.unwrap();
    for made in [&pool, &lamp] {
        let read = server.api().get(made.json()["href"].as_str().unwrap()).await.expect_status(200);
        assert_eq!((read.json(), read.header("etag")), (made.json(), made.header("etag")));
    }
    server.api().delete(&cluster).await.expect_status(202);
    server.api().get(pool.json()["href"].as_str().unwrap()).await.expect_status(404);
}

async fn the_target_of_a_hidden_referrer_cannot_be_deleted(installation: &Installation) {
    const NETWORK: &str = "{kind: Network, plural: networks, required_adapters: [router]}";
    let service = "{kind: Service, plural: services, references: [{ref_type: nets, target_kind: Network}]}";
    let mut server =
        installation.serve().config(format!("entities: [{NETWORK}, {service}]")).start().await.unwrap();
    let network =
        create(&server.api(), &format!("{BASE}/networks"), "Network", "inner").await.expect_status(201);
    let body = json!({"kind": "Service", "name": "user", "spec": {}, "references": {"nets": [{"id": id(&network)}]}});
    let user = server.api().post(&format!("{BASE}/services")).json(&body).await.expect_status(201);

    std::fs::write(server.directory().join("config.yaml"), format!("entities: [{NETWORK}]")).unwrap();
    server.restart().await.unwrap();
    let path = format!("{BASE}/networks/{}", id(&network));
    let refused = server.api().delete(&path).await.expect_status(409);
    assert_eq!(
        refused.json()["detail"],
        format!(
            "Network '{}' is referred to by resources of kinds that are not configured any more (1)",
            id(&network)
        )
    );
    let both = format!("entities: [{NETWORK}, {service}]");
    std::fs::write(server.directory().join("config.yaml"), both).unwrap();
    server.restart().await.unwrap();
    server.api().delete(user.json()["href"].as_str().unwrap()).await.expect_status(202);
    server.api().delete(&path).await.expect_status(202);
}
