//! The retention of history, and the answers about expired history.

use hyperfleet_testkit::{Client, Server, eventually};
use serde_json::{Value, json};

use super::installation::Installation;
use super::{DEADLINE, create_cluster};
use crate::support::both_stores;

const BASE: &str = "/api/hyperfleet/v1/clusters";

both_stores!(start = Installation::migrated; expired_history_differs_from_history_that_never_was,);

/// Makes all changes up to a version older than they may become, and waits until they are forgotten.
async fn forget(installation: &Installation, server: &mut Server, version: u32) {
    server.terminate().await.unwrap();
    let age = match installation {
        Installation::Sqlite(_) => "changed_time - 7200000000",
        Installation::Postgres(_) => "changed_time - interval '2 hours'",
    };
    installation
        .execute(&format!("update changes set changed_time = {age} where version <= {version}"))
        .await;
    server.restart().await.unwrap();
    eventually("the old changes are pruned", DEADLINE, async || {
        let left =
            installation.rows(&format!("select count(*) from changes where version <= {version}")).await;
        (left == [["0"]]).then_some(())
    })
    .await;
    assert_eq!(installation.rows("select pruned_version from history").await, [[version.to_string()]]);
}

async fn patch(api: &Client, path: &str, patch: Value) {
    api.call("PATCH".parse().unwrap(), path).json(&patch).await.expect_status(200);
}

async fn expired_history_differs_from_history_that_never_was(installation: &Installation) {
    let mut server = installation.serve().env("HYPERFLEET_HISTORY_RETENTION", "1h").start().await.unwrap();
    let api = server.api();
    let kept = create_cluster(&api, "kept").await.json();
    let kept = format!("{BASE}/{}", kept["id"].as_str().unwrap());
    patch(&api, &kept, json!({"spec": {"n": 2}})).await;
    patch(&api, &kept, json!({"spec": {"n": 3}, "labels": {"n": "3"}})).await;
    let gone = create_cluster(&api, "gone").await.json();
    let gone = format!("{BASE}/{}", gone["id"].as_str().unwrap());
    api.call("DELETE".parse().unwrap(), &gone).await.expect_status(202);
    api.post(&format!("{gone}/force-delete")).json(&json!({"reason": "over"})).await.expect_status(204);

    forget(installation, &mut server, 2).await;
    let api = server.api();
    let timeline = api.get(&format!("{kept}/timeline")).await.expect_status(200).json();
    assert_eq!((&timeline["total"], &timeline["items"][0]["version"]), (&json!(2), &json!(3)));
    for (generation, n) in [(3, 3), (2, 2)] {
        let state = api.get(&format!("{kept}?generation={generation}")).await.expect_status(200).json();
        assert_eq!(state["spec"]["n"], n, "the change behind it is kept, and so the way back");
    }
    for end in ["?generation=1", "/diff?from=1", "/diff?from=3&to=1", "/diff?to=1"] {
        let answer = api.get(&format!("{kept}{end}")).await;
        assert_eq!(
            (answer.status, answer.problem_code()),
            (410, "HYPERFLEET-VAL-004".to_owned()),
            "{answer}"
        );
        let detail = answer.json()["detail"].to_string();
        assert!(detail.contains("Generation 1") && detail.contains("the oldest that is, is 2"), "{detail}");
    }
    assert_eq!(api.get(&format!("{gone}/timeline")).await.expect_status(200).json()["total"], 3);

    // The deletion of the other is forgotten, but not yet its end.
    forget(installation, &mut server, 5).await;
    let api = server.api();
    let timeline = api.get(&format!("{gone}/timeline")).await.expect_status(200).json();
    assert_eq!((&timeline["total"], &timeline["items"][0]["action"]), (&json!(1), &json!("force_deleted")));
    api.get(&format!("{gone}?generation=2")).await.expect_status(200);
    api.get(&format!("{gone}?generation=1")).await.expect_status(410);

    forget(installation, &mut server, 6).await;
    let api = server.api();
    let timeline = api.get(&format!("{kept}/timeline")).await.expect_status(200).json();
    assert_eq!(
        (&timeline["items"], &timeline["total"], &timeline["version"]),
        (&json!([]), &json!(0), &json!(6))
    );
    api.get(&format!("{kept}?generation=3")).await.expect_status(200);
    api.get(&format!("{kept}?generation=2")).await.expect_status(410);
    for end in ["/timeline", "?generation=1", "?generation=2", "/diff"] {
        let answer = api.get(&format!("{gone}{end}")).await;
        assert_eq!(
            (answer.status, answer.problem_code()),
            (404, "HYPERFLEET-NTF-002".to_owned()),
            "{answer}"
        );
    }
}
