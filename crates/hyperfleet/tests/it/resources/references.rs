//! References between resources: their form and counts, their targets, and the deletions that they block.

use hyperfleet_testkit::Answer;
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::*;

both_stores!(config = CATALOG;
    references_come_back_with_kind_id_and_href,
    counts_are_held_within_their_bounds,
    a_missing_target_is_named_by_its_entry,
    entries_of_the_wrong_form_are_all_reported,
    a_target_named_twice_is_refused,
    a_finalizing_target_is_a_conflict,
    patches_merge_by_ref_type_and_raise_the_generation,
    a_json_patch_addresses_single_entries,
    a_referenced_resource_cannot_be_deleted,
    references_inside_the_deleted_tree_do_not_block_it,
    a_dropped_reference_blocks_nothing,
    deletion_drops_the_references_of_the_deleted,
    lists_find_the_referrers,
    a_resource_that_refers_to_itself_can_be_deleted,
);

async fn network(app: &App) -> Value {
    app.create_named("/networks", "Network", &unique("net")).await
}

async fn post_service(app: &App, references: &Value) -> Answer {
    let body = json!({"kind": "Service", "name": unique("service"), "spec": {}, "references": references});
    app.post("/services").json(&body).await
}

async fn service(app: &App, references: &Value) -> Value {
    post_service(app, references).await.expect_status(201).json()
}

fn to(target: &Value) -> Value {
    json!({"id": target["id"]})
}

fn whole(target: &Value) -> Value {
    json!({"kind": target["kind"], "id": target["id"], "href": target["href"]})
}

async fn references_come_back_with_kind_id_and_href(app: &App) {
    let (one, two) = (network(app).await, network(app).await);
    let with_kind = json!({"kind": "Network", "id": two["id"]});
    let created = service(app, &json!({"networks": [to(&one), with_kind]})).await;
    assert_eq!(created["references"], json!({"networks": [whole(&one), whole(&two)]}));
    assert_eq!(app.read(&created).await, created);
    assert_eq!(app.get("/services").await.json()["items"][0], created);

    // What was read can be sent back.
    let again = service(app, &created["references"]).await;
    assert_eq!(again["references"], created["references"]);
    assert!(one.get("references").is_none(), "no references, no member: {one}");
}

async fn counts_are_held_within_their_bounds(app: &App) {
    let networks = [network(app).await, network(app).await, network(app).await];
    for none in [json!({}), json!({"networks": []}), json!(null)] {
        let answer = post_service(app, &none).await.expect_status(400);
        assert_eq!(answer.json()["errors"][0]["field"], "references.networks", "{none}");
    }
    let answer = post_service(app, &json!({})).await;
    assert_snapshot!(faults(&answer), @"references.networks: references.networks is required");
    let answer =
        post_service(app, &json!({"networks": networks.each_ref().map(to)})).await.expect_status(400);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-002");
    assert_snapshot!(faults(&answer), @"references.networks: references.networks takes at most 2 entries, not 3");

    let first = service(app, &json!({"networks": [to(&networks[0])]})).await;
    let mut peers = vec![to(&first)];
    for _ in 0..4 {
        peers.push(to(&service(app, &json!({"networks": [to(&networks[0])], "peers": peers})).await));
    }
    let empty = service(app, &json!({"networks": [to(&networks[0])], "peers": [], "zone": []})).await;
    assert_eq!(empty["references"], json!({"networks": [whole(&networks[0])]}));
}

async fn a_missing_target_is_named_by_its_entry(app: &App) {
    let here = network(app).await;
    let zone = app.create_named("/zones", "Zone", "zone").await;
    for missing in ["0198c0de-1111-7abc-8def-000000000001", "absent", id(&zone)] {
        let answer =
            post_service(app, &json!({"networks": [to(&here), {"id": missing}]})).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-002");
        let field = answer.json()["errors"][0]["field"].clone();
        assert!(text(&field).starts_with("references.networks[1]"), "{missing}: {answer}");
    }
    let answer = post_service(app, &json!({"networks": [{"id": "absent"}]})).await;
    assert_snapshot!(transcript(&answer), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Invalid Field Value",
      "status": 400,
      "detail": "references.networks[0].id: Network 'absent' not found",
      "instance": "/api/hyperfleet/v1/services",
      "code": "HYPERFLEET-VAL-002",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "references.networks[0].id",
          "message": "references.networks[0].id: Network 'absent' not found",
          "value": "absent",
          "constraint": "reference"
        }
      ]
    }
    "#);

    let created = service(app, &json!({"networks": [to(&here)]})).await;
    let answer = app.patch(href(&created)).json(&json!({"references": {"zone": [{"id": "absent"}]}})).await;
    assert_eq!(answer.expect_status(400).problem_code(), "HYPERFLEET-VAL-002");
    assert_eq!(app.read(&created).await, created);
}

async fn entries_of_the_wrong_form_are_all_reported(app: &App) {
    let here = network(app).await;
    let wrong = json!({
        "networks": [to(&here), 5, {}, {"id": 7}, {"id": here["id"], "kind": "Zone"}, {"id": here["id"], "colour": "red"}],
        "planets": [to(&here)], "zone": {"id": "x"}, "peers": null,
    });
    let answer = post_service(app, &wrong).await.expect_status(400);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-000");
    assert_snapshot!(faults(&answer), @"
    references.networks: references.networks takes at most 2 entries, not 6
    references.networks[1]: references.networks[1] must be an object with kind and id, not a number
    references.networks[2].id: references.networks[2].id is required
    references.networks[3].id: references.networks[3].id must be a string, not a number
    references.networks[4].kind: references.networks[4].kind must be Network
    references.networks[4].id: references.networks[4]: '[id 1]' is listed twice
    references.networks[5].colour: references.networks[5].colour is not a known member
    references.networks[5].id: references.networks[5]: '[id 1]' is listed twice
    references.planets: references.planets is no reference that Service declares
    references.zone: references.zone must be an array of {kind, id}, not an object
    references.peers: references.peers must be an array of {kind, id}, not null
    ");
}

async fn a_target_named_twice_is_refused(app: &App) {
    let here = network(app).await;
    let answer = post_service(app, &json!({"networks": [to(&here), to(&here)]})).await.expect_status(400);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-002");
    assert_eq!(answer.json()["errors"][0]["field"], "references.networks[1].id");
    let upper = json!({"id": id(&here).to_ascii_uppercase()});
    post_service(app, &json!({"networks": [to(&here), upper]})).await.expect_status(400);
}

async fn a_finalizing_target_is_a_conflict(app: &App) {
    let here = network(app).await;
    let zone = app.create_named("/zones", "Zone", "zone").await;
    let rack = app.create_named(&format!("{}/racks", href(&zone)), "Rack", "rack").await;
    app.create_named(&format!("{}/hosts", href(&rack)), "Host", "host").await;
    let before = service(app, &json!({"networks": [to(&here)]})).await;
    app.remove(&zone).await;

    let references = json!({"networks": [to(&here)], "zone": [to(&zone)]});
    assert_snapshot!(transcript(&post_service(app, &references).await), @r#"
    409
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/resource-conflict",
      "title": "State Conflict",
      "status": 409,
      "detail": "Cannot refer to what is being deleted: Zone '[id 1]' (zone)",
      "instance": "/api/hyperfleet/v1/services",
      "code": "HYPERFLEET-CNF-003",
      "timestamp": "[time 1]",
      "trace_id": "[trace]"
    }
    "#);
    let answer = app.patch(href(&before)).json(&json!({"references": {"zone": [to(&zone)]}})).await;
    assert_eq!(answer.expect_status(409).problem_code(), "HYPERFLEET-CNF-003");
}

async fn patches_merge_by_ref_type_and_raise_the_generation(app: &App) {
    let (one, two) = (network(app).await, network(app).await);
    let zone = app.create_named("/zones", "Zone", "zone").await;
    let before = service(app, &json!({"networks": [to(&one)]})).await;

    let after = app.merge(&before, &json!({"references": {"zone": [to(&zone)]}})).await;
    assert_eq!(after["references"], json!({"networks": [whole(&one)], "zone": [whole(&zone)]}));
    assert_eq!(after["generation"], 2);
    let after = app.merge(&before, &json!({"references": {"networks": [to(&two)], "zone": null}})).await;
    assert_eq!(after["references"], json!({"networks": [whole(&two)]}));
    assert_eq!(after["generation"], 3);
    let same = app.merge(&before, &json!({"references": {"networks": [whole(&two)]}})).await;
    assert_eq!(same, after);

    for short in [json!(null), json!({"networks": null}), json!({"networks": []})] {
        let answer = app.patch(href(&before)).json(&json!({"references": short})).await.expect_status(400);
        assert_eq!(answer.json()["errors"][0]["field"], "references.networks", "{short}");
    }
    assert_eq!(app.read(&before).await, after);
}

async fn a_json_patch_addresses_single_entries(app: &App) {
    let (one, two) = (network(app).await, network(app).await);
    let before = service(app, &json!({"networks": [to(&one)]})).await;
    let operations = json!([
        {"op": "test", "path": "/references/networks/0/id", "value": one["id"]},
        {"op": "add", "path": "/references/networks/-", "value": to(&two)},
        {"op": "copy", "from": "/references/networks/0", "path": "/references/networks/-"},
        {"op": "remove", "path": "/references/networks/0"},
    ]);
    let patch = app.patch(href(&before)).header("content-type", "application/json-patch+json");
    let after = patch.json(&operations).await.expect_status(200).json();
    assert_eq!(after["references"], json!({"networks": [whole(&two), whole(&one)]}));
}

async fn a_referenced_resource_cannot_be_deleted(app: &App) {
    let here = network(app).await;
    let one = service(app, &json!({"networks": [to(&here)]})).await;
    let two = service(app, &json!({"networks": [to(&here)]})).await;
    let answer = app.delete(href(&here)).await.expect_status(409);
    assert_eq!(answer.problem_code(), "HYPERFLEET-CNF-003");
    for referrer in [&one, &two] {
        assert!(text(&answer.json()["detail"]).contains(id(referrer)), "{answer}");
    }
    assert_eq!(app.read(&here).await, here);

    app.remove(&one).await;
    assert_snapshot!(transcript(&app.delete(href(&here)).await), @r#"
    409
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/resource-conflict",
      "title": "State Conflict",
      "status": 409,
      "detail": "Cannot be deleted while others refer to it: Service '[id 1]' refers to Network '[id 2]'",
      "instance": "/api/hyperfleet/v1/networks/[id 2]",
      "code": "HYPERFLEET-CNF-003",
      "timestamp": "[time 1]",
      "trace_id": "[trace]"
    }
    "#);
    app.remove(&two).await;
    app.remove(&here).await;
    app.get(href(&here)).await.expect_status(404);
}

async fn references_inside_the_deleted_tree_do_not_block_it(app: &App) {
    let (zone, other) =
        (app.create_named("/zones", "Zone", "zone").await, app.create_named("/zones", "Zone", "other").await);
    let (racks, others) = (format!("{}/racks", href(&zone)), format!("{}/racks", href(&other)));
    let one = app.create_named(&racks, "Rack", "one").await;
    let two = json!({"kind": "Rack", "name": "two", "spec": {}, "references": {"twins": [to(&one)]}});
    let inside = app.create(&racks, &two).await;
    app.merge(&one, &json!({"references": {"twins": [to(&inside)]}})).await;
    let outside = app.create(&others, &two).await;

    let answer = app.delete(href(&zone)).await.expect_status(409);
    let detail = answer.json()["detail"].clone();
    assert!(text(&detail).contains(id(&outside)) && !text(&detail).contains(id(&inside)), "{answer}");
    app.merge(&outside, &json!({"references": null})).await;
    app.remove(&zone).await;
    for gone in [&one, &inside, &zone] {
        app.get(href(gone)).await.expect_status(404);
    }
}

async fn a_dropped_reference_blocks_nothing(app: &App) {
    let here = network(app).await;
    let zone = app.create_named("/zones", "Zone", "zone").await;
    let holder = service(app, &json!({"networks": [to(&here)], "zone": [to(&zone)]})).await;
    let answer = app.delete(href(&zone)).await.expect_status(409);
    assert!(text(&answer.json()["detail"]).contains(id(&holder)), "{answer}");
    app.merge(&holder, &json!({"references": {"zone": null}})).await;
    app.remove(&zone).await;
}

async fn deletion_drops_the_references_of_the_deleted(app: &App) {
    let here = network(app).await;
    let created = service(app, &json!({"networks": [to(&here)]})).await;
    let removed = app.remove(&created).await;
    assert!(removed.get("references").is_none(), "{removed}");
    app.remove(&here).await;
}

async fn lists_find_the_referrers(app: &App) {
    let (one, two) = (network(app).await, network(app).await);
    let a = service(app, &json!({"networks": [to(&one)]})).await;
    let b = service(app, &json!({"networks": [to(&two), to(&one)], "peers": [to(&a)]})).await;
    for (ref_type, target, found) in [
        ("networks", &one, vec![&a, &b]),
        ("networks", &two, vec![&b]),
        ("peers", &a, vec![&b]),
        ("peers", &one, vec![]),
    ] {
        for path in ["/services", "/resources"] {
            let query = format!("{path}?ref_type={ref_type}&ref_target_id={}&order=asc", id(target));
            let list = app.get(&query).await.expect_status(200).json();
            let ids: Vec<_> =
                list["items"].as_array().unwrap().iter().map(|item| item["id"].clone()).collect();
            assert_eq!(ids, found.iter().map(|r| r["id"].clone()).collect::<Vec<_>>(), "{query}");
            assert_eq!(list["total"], found.len());
        }
    }
    for half in ["ref_type=networks", "ref_target_id=x"] {
        let answer = app.get(&format!("/services?{half}")).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004");
    }
    assert_eq!(app.names("/services?ref_type=networks&ref_target_id=absent").await, [""; 0]);
}

async fn a_resource_that_refers_to_itself_can_be_deleted(app: &App) {
    let here = network(app).await;
    let created = service(app, &json!({"networks": [to(&here)]})).await;
    let own = app.merge(&created, &json!({"references": {"peers": [to(&created)]}})).await;
    assert_eq!(own["references"]["peers"], json!([whole(&created)]));
    app.remove(&created).await;
    app.get(href(&created)).await.expect_status(404);
}
