//! Lists: their envelope, pages, filters and parameters. Order and `fields` have modules of their own.

mod fields;
mod fresh;
mod order;
pub(crate) mod pages;
mod shared;

use serde_json::{Value, json};

use crate::support::*;

/// The names and the paging members of a list.
async fn page(app: &App, path: &str) -> (Vec<String>, u64, u64, Option<u64>) {
    let list = app.get(path).await.expect_status(200).json();
    let names: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|item| text(&item["name"]).to_owned()).collect();
    assert_eq!(list["size"], names.len());
    (names, list["page"].as_u64().unwrap(), list["size"].as_u64().unwrap(), list["total"].as_u64())
}

async fn a_list_has_its_kind_its_page_its_items_and_the_version_of_its_snapshot(app: &App) {
    let empty = app.get("/clusters").await.expect_status(200);
    app.create(
        "/clusters",
        &json!({"kind": "Cluster", "name": "first", "spec": {"a": 1}, "labels": {"b": "c"}}),
    )
    .await;
    let cluster = app.create_cluster("second").await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    let second = app.get("/clusters?pageSize=1&page=2").await.expect_status(200);
    insta::allow_duplicates! {
        insta::assert_snapshot!(transcript(&empty), @r#"
        200
        content-type: application/json

        {
          "kind": "ClusterList",
          "page": 1,
          "size": 0,
          "total": 0,
          "items": [],
          "version": "[version]",
          "position": "[position]"
        }
        "#);
        insta::assert_snapshot!(transcript(&second), @r#"
        200
        content-type: application/json

        {
          "kind": "ClusterList",
          "page": 2,
          "size": 1,
          "total": 2,
          "items": [
            {
              "kind": "Cluster",
              "id": "[id 1]",
              "href": "/api/hyperfleet/v1/clusters/[id 1]",
              "name": "first",
              "generation": 1,
              "spec": {
                "a": 1
              },
              "labels": {
                "b": "c"
              },
              "created_time": "[time 1]",
              "updated_time": "[time 1]",
              "created_by": "system@hyperfleet.local",
              "updated_by": "system@hyperfleet.local",
              "status": {
                "conditions": [
                  {
                    "type": "Reconciled",
                    "status": "False",
                    "reason": "ReconciledMissingAdapters",
                    "message": "Required adapters have not yet reported status at generation 1: validator",
                    "observed_generation": 1,
                    "created_time": "[time 1]",
                    "last_updated_time": "[time 1]",
                    "last_transition_time": "[time 1]"
                  },
                  {
                    "type": "LastKnownReconciled",
                    "status": "False",
                    "reason": "AdaptersMissingReports",
                    "message": "Required adapters have not yet reported status",
                    "observed_generation": 1,
                    "created_time": "[time 1]",
                    "last_updated_time": "[time 1]",
                    "last_transition_time": "[time 1]"
                  }
                ]
              }
            }
          ],
          "version": "[version]",
          "position": "[position]"
        }
        "#);
    }
    let nested = format!("{}/nodepools", href(&cluster));
    for (path, kind, item) in [
        ("/clusters", "ClusterList", &cluster),
        ("/nodepools", "NodePoolList", &pool),
        (&nested, "NodePoolList", &pool),
        ("/resources", "ResourceList", &pool),
        ("/resources?kind=NodePool", "ResourceList", &pool),
    ] {
        let list = app.get(path).await.expect_status(200).json();
        assert_eq!(list["kind"], kind, "{path}");
        assert_eq!(&list["items"][0], item, "{path}");
        assert_eq!(list.get("next_page_token"), None);
    }
}

async fn the_version_is_the_counter_at_the_snapshot(app: &App) {
    let version =
        async |path: &str| app.get(path).await.expect_status(200).json()["version"].as_u64().unwrap();
    let before = version("/clusters").await;
    let cluster = app.create_cluster("counted").await;
    let after = version("/clusters").await;
    assert!(after > before);
    assert_eq!(app.get(href(&cluster)).await.version(), Some(after));
    for path in ["/nodepools", "/resources?kind=NodePool", "/clusters?page=9", "/clusters?total=none"] {
        assert_eq!(version(path).await, after, "{path}");
    }
    app.merge(&cluster, &json!({"labels": {}})).await;
    assert_eq!(version("/clusters").await, after, "nothing was written");
    app.merge(&cluster, &json!({"labels": {"a": "b"}})).await;
    assert_eq!(app.get(href(&cluster)).await.version(), Some(version("/nodepools").await));
}

async fn pages_cut_the_list_without_a_gap_or_an_overlap(app: &App) {
    for number in 0..7 {
        app.create_cluster(&format!("c-{number}")).await;
    }
    let all: Vec<String> = (0..7).map(|number| format!("c-{number}")).collect();
    for size in [1, 2, 3, 7, 500] {
        let mut seen = Vec::new();
        for number in 1..=7_u64.div_ceil(size) {
            let path = format!("/clusters?orderBy=name&pageSize={size}&page={number}");
            let (names, page, _, total) = page(app, &path).await;
            assert_eq!((page, total), (number, Some(7)));
            seen.extend(names);
        }
        assert_eq!(seen, all, "pageSize={size}");
    }
    let same = page(app, "/clusters?orderBy=name&size=2").await;
    assert_eq!(same, page(app, "/clusters?orderBy=name&pageSize=2").await);
    assert_eq!(same, page(app, "/clusters?orderBy=name&pageSize=2&size=2").await);
    assert_eq!(page(app, "/clusters?orderBy=name&page=&pageSize=&size=%20&total=").await.0, all);
}

async fn a_page_has_twenty_items_by_default(app: &App) {
    for number in 0..22 {
        app.create_cluster(&format!("c-{number}")).await;
    }
    assert_eq!(page(app, "/clusters").await.2, 20);
    assert_eq!(page(app, "/clusters?page=2").await.2, 2);
    assert_eq!(page(app, "/clusters?pageSize=500").await.2, 22);
}

async fn every_page_past_the_end_is_empty(app: &App) {
    app.create_cluster("alone").await;
    for far in ["2", "1000000", "9223372036854775807", "18446744073709551615", "99999999999999999999999999"] {
        for size in ["1", "500"] {
            let list =
                app.get(&format!("/clusters?page={far}&pageSize={size}")).await.expect_status(200).json();
            assert_eq!((&list["items"], &list["size"], &list["total"]), (&json!([]), &json!(0), &json!(1)));
        }
    }
    assert_eq!(page(app, "/clusters?page=007").await.1, 7);
}

async fn every_bad_parameter_is_reported_at_once(app: &App) {
    let query = "page=0&pageSize=501&size=x&orderBy=nmae,name+sideways&order=up&fields=nmae,spec..a&showDeleted=yes\
                 &total=some&ref_type=wif&kind=Nope&serach=1&page=2";
    let several = app.get(&format!("/resources?{query}")).await.expect_status(400);
    assert_eq!(several.problem_code(), "HYPERFLEET-VAL-000");
    let one = app.get("/clusters?pageSize=501").await.expect_status(400);
    insta::allow_duplicates! {
        insta::assert_snapshot!(faults(&several), @r"
        page: page is given 2 times
        pageSize: pageSize must be a whole number from 1 to 500, not '501'
        size: size must be a whole number from 1 to 500, not 'x'
        orderBy: orderBy: 'nmae' is not a field to sort by: did you mean name?
        orderBy: orderBy: 'name sideways' is not a field with an optional asc or desc
        order: order must be asc or desc, not 'up'
        fields: fields: 'nmae' is not a member of a resource: did you mean name?
        fields: fields: 'spec..a' is not a path such as name, labels['a/b'] or spec.region
        showDeleted: showDeleted must be true or false, not 'yes'
        total: total must be exact or none, not 'some'
        kind: kind must be one of Cluster, NodePool, not 'Nope'
        serach: serach is not a parameter of this endpoint: did you mean search?
        ref_target_id: ref_target_id is required together with ref_type
        ");
        insta::assert_snapshot!(redacted(&one.json()["errors"]), @r#"
        [
          {
            "field": "pageSize",
            "message": "pageSize must be a whole number from 1 to 500, not '501'",
            "value": "501",
            "constraint": "max",
            "min_value": 1,
            "max_value": 500
          }
        ]
        "#);
    }
    for query in [
        "page=0",
        "page=-1",
        "page=1.5",
        "page=one",
        "page=0x10",
        "page=1&page=1",
        "pageSize=0",
        "pageSize=501",
        "size=501",
        "pageSize=5&size=6",
        "orderBy=spec",
        "orderBy=labels.a",
        "orderBy=name,",
        "orderBy=name%20asc%20desc",
        "orderBy=name&order=sideways",
        "orderBy=name,name%20desc",
        "order=nothing",
        "showDeleted=1",
        "showDeleted=TRUE",
        "total=false",
        "ref_type=wif",
        "ref_target_id=wif",
        "fields=nothing",
        "kind=Cluster",
    ] {
        let answer = app.get(&format!("/clusters?{query}")).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004", "{query}");
        let field = query.split('=').next().unwrap();
        let named = text(&answer.json()["errors"][0]["field"]).to_owned();
        let paired = [("ref_type", "ref_target_id"), ("ref_target_id", "ref_type"), ("pageSize", "size")];
        assert!(named == field || named == "order" || paired.contains(&(field, &named)), "{query}: {named}");
    }
}

async fn an_unknown_list_parameter_is_refused(app: &App) {
    for (query, rule) in
        [("Page=1", "unknown"), ("sort=name", "unknown"), ("since=1", "requires"), ("watch=yes", "enum")]
    {
        let answer = app.get(&format!("/clusters?{query}")).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004", "{query}");
        assert_eq!(answer.json()["errors"][0]["constraint"], rule, "{query}");
    }
    app.get("/clusters?watch=false").await.expect_status(200);
}

async fn finalizing_resources_are_listed_on_request(app: &App) {
    let cluster = app.create_cluster("going").await;
    app.create_nodepool(&cluster, "pool").await;
    app.create_cluster("staying").await;
    app.remove(&cluster).await;
    let nested = format!("{}/nodepools", href(&cluster));
    for (path, active, all) in [
        ("/clusters?orderBy=name", vec!["staying"], vec!["going", "staying"]),
        ("/nodepools?orderBy=name", vec![], vec!["pool"]),
        (&format!("{nested}?orderBy=name"), vec![], vec!["pool"]),
        ("/resources?orderBy=name", vec!["staying"], vec!["going", "pool", "staying"]),
    ] {
        let expected =
            |names: &[&str]| (names.len() as u64, names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        for (parameter, names) in
            [("", &active), ("&showDeleted=false", &active), ("&showDeleted=true", &all)]
        {
            let (found, _, _, total) = page(app, &format!("{path}{parameter}")).await;
            assert_eq!((total.unwrap(), found), expected(names), "{path}{parameter}");
        }
    }
}

async fn the_total_is_left_out_on_request(app: &App) {
    app.create_cluster("counted").await;
    assert_eq!(page(app, "/clusters?total=none").await.3, None);
    assert_eq!(page(app, "/clusters?total=exact").await.3, Some(1));
    let list = app.get("/clusters?total=none&page=5").await.expect_status(200).json();
    assert_eq!(list.get("total"), None);
    assert_eq!(list["items"], json!([]));
}

async fn the_list_of_any_kind_can_be_narrowed_to_one(app: &App) {
    let zone = app.create_named("/zones", "Zone", "zone").await;
    app.create_named(&format!("{}/racks", href(&zone)), "Rack", "rack").await;
    app.create_named("/networks", "Network", "network").await;
    assert_eq!(page(app, "/resources?orderBy=name").await.0, ["network", "rack", "zone"]);
    assert_eq!(page(app, "/resources?kind=Rack").await, (vec!["rack".to_owned()], 1, 1, Some(1)));
    assert_eq!(page(app, "/resources?kind=Host").await, (vec![], 1, 0, Some(0)));
    assert_eq!(page(app, "/resources?kind=").await.2, 3);
    for unknown in ["racks", "rack", "Nothing"] {
        let answer = app.get(&format!("/resources?kind={unknown}")).await.expect_status(400);
        let allowed = &answer.json()["errors"][0]["allowed_values"];
        assert!(allowed.as_array().unwrap().contains(&json!("Rack")), "{answer}");
    }
}

async fn a_nested_list_holds_the_children_of_that_owner_alone(app: &App) {
    let mut racks: Vec<Value> = Vec::new();
    for zone in ["a", "b"] {
        let zone = app.create_named("/zones", "Zone", zone).await;
        let rack = app.create_named(&format!("{}/racks", href(&zone)), "Rack", "rack").await;
        app.create_named(&format!("{}/hosts", href(&rack)), "Host", "host").await;
        racks.push(rack);
    }
    let zone_of = |rack: &Value| text(&rack["owner_references"]["href"]).to_owned();
    for rack in &racks {
        let list = app.get(&format!("{}/racks", zone_of(rack))).await.expect_status(200).json();
        assert_eq!((&list["total"], &list["items"]), (&json!(1), &json!([rack])));
        let below = format!("{}/racks/{}/hosts", zone_of(rack), id(rack));
        let list = app.get(&below).await.expect_status(200).json();
        assert_eq!(list["items"][0]["owner_references"]["id"], rack["id"]);
        assert_eq!(list, app.get(&format!("{}/hosts", href(rack))).await.expect_status(200).json());
    }
    assert_eq!(page(app, "/hosts").await.3, Some(2));
    let crossed = format!("{}/racks/{}/hosts", zone_of(&racks[0]), id(&racks[1]));
    let wrong = app.get(&crossed).await.expect_status(404);
    assert_eq!(wrong.json()["detail"], format!("Rack '{}' not found", id(&racks[1])));
    for path in ["/zones/absent/racks", "/racks/absent/hosts", &format!("/zones/{}/racks", id(&racks[0]))] {
        assert_eq!(app.get(path).await.expect_status(404).problem_code(), "HYPERFLEET-NTF-001", "{path}");
    }
}

async fn a_reference_filter_finds_the_referrers(app: &App) {
    let one = app.create_named("/networks", "Network", "one").await;
    let two = app.create_named("/networks", "Network", "two").await;
    let service = async |name: &str, networks: &[&Value]| {
        let entries: Vec<_> = networks.iter().map(|network| json!({"id": network["id"]})).collect();
        let body = json!({"kind": "Service", "name": name, "spec": {}, "references": {"networks": entries}});
        app.create("/services", &body).await
    };
    let first = service("first", &[&one]).await;
    let both = service("both", &[&one, &two]).await;
    app.merge(&both, &json!({"references": {"peers": [{"id": first["id"]}]}})).await;
    let found = async |list: &str, kind: &str, target: &str| {
        page(app, &format!("{list}?ref_type={kind}&ref_target_id={target}&orderBy=name")).await
    };
    let names = |names: &[&str]| {
        let count = names.len() as u64;
        (names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>(), 1, count, Some(count))
    };
    assert_eq!(found("/services", "networks", id(&one)).await, names(&["both", "first"]));
    assert_eq!(found("/services", "networks", id(&two)).await, names(&["both"]));
    assert_eq!(found("/resources", "networks", id(&two)).await, names(&["both"]));
    assert_eq!(found("/services", "peers", id(&first)).await, names(&["both"]));
    assert_eq!(found("/networks", "networks", id(&one)).await, names(&[]));
    for (kind, target) in [
        ("peers", id(&one)),
        ("nothing", id(&one)),
        ("networks", id(&first)),
        ("networks", "absent"),
        ("%00", id(&one)),
    ] {
        assert_eq!(found("/services", kind, target).await, names(&[]), "{kind} {target}");
    }
    app.merge(&both, &json!({"references": {"networks": [{"id": one["id"]}]}})).await;
    assert_eq!(found("/services", "networks", id(&two)).await, names(&[]));
}

both_stores!(
    a_list_has_its_kind_its_page_its_items_and_the_version_of_its_snapshot,
    the_version_is_the_counter_at_the_snapshot,
    pages_cut_the_list_without_a_gap_or_an_overlap,
    a_page_has_twenty_items_by_default,
    every_page_past_the_end_is_empty,
    every_bad_parameter_is_reported_at_once,
    an_unknown_list_parameter_is_refused,
    finalizing_resources_are_listed_on_request,
    the_total_is_left_out_on_request,
);
both_stores!(
    config = CATALOG;
    the_list_of_any_kind_can_be_narrowed_to_one,
    a_nested_list_holds_the_children_of_that_owner_alone,
    a_reference_filter_finds_the_referrers,
);
