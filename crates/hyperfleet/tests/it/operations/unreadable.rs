//! Unreadable resources are not read from the database, so neither time nor failure reveals them. Broken rows prove it:
//! a read of one fails.

use hyperfleet_testkit::{Answer, Client, Server};
use serde_json::{Value, json};

use super::installation::Installation;
use super::{CLUSTERS, id};
use crate::contract::walk::UNKNOWN_ID;
use crate::support::both_stores;

both_stores!(start = Installation::migrated; nothing_below_an_unreadable_resource_is_read);

const REDS: &str = r#"
server:
  authorization:
    enabled: true
    roles: [{name: red, rules: [{verbs: ["*"], kinds: ["*"], labels: {team: red}}]}]
    bindings: [{role: red, identities: [system@hyperfleet.local]}]
"#;

/// A Cluster of generation 2 with a NodePool.
async fn planted(api: &Client, team: &str) -> String {
    let labels = json!({"team": team});
    let body = json!({"kind": "Cluster", "name": format!("of-{team}"), "spec": {}, "labels": labels});
    let made = id(&api.post(CLUSTERS).json(&body).await.expect_status(201));
    let path = format!("{CLUSTERS}/{made}");
    let pool = json!({"kind": "NodePool", "name": "below", "spec": {}, "labels": labels});
    api.post(&format!("{path}/nodepools")).json(&pool).await.expect_status(201);
    api.patch(&path).json(&json!({"spec": {"n": 1}})).await.expect_status(200);
    made
}

/// Everything that looks at more than the resource itself.
async fn asked(server: &Server, id: &str) -> [Answer; 4] {
    let (api, path) = (server.api(), format!("{CLUSTERS}/{id}"));
    let reason = json!({"reason": "to see what happens"});
    [
        api.delete(&path).await,
        api.post(&format!("{path}/force-delete")).json(&reason).await,
        api.get(&format!("{path}?generation=1")).await,
        api.get(&format!("{path}/diff?from=1&to=2")).await,
    ]
}

fn status_and_detail(answer: &Answer, id: &str) -> (u16, Value) {
    let detail = answer.json()["detail"].as_str().unwrap().replace(id, "[id]");
    (answer.status, detail.into())
}

async fn nothing_below_an_unreadable_resource_is_read(installation: &Installation) {
    let server = installation.serve().start().await.unwrap();
    let [seen, unseen] = [planted(&server.api(), "red").await, planted(&server.api(), "blue").await];
    drop(server);
    installation.execute("update resources set ancestors = 'broken' where kind = 'NodePool'").await;
    installation.execute("update changes set body = 'broken'").await;

    let server = installation.serve().config(REDS).start().await.unwrap();
    server.api().get(&format!("{CLUSTERS}/{seen}")).await.expect_status(200);
    for answer in asked(&server, &seen).await {
        assert_eq!(answer.status, 500, "the rows can be read after all: {answer}");
    }
    for (hidden, absent) in asked(&server, &unseen).await.iter().zip(asked(&server, UNKNOWN_ID).await) {
        assert_eq!(absent.status, 404, "{absent}");
        assert_eq!(status_and_detail(hidden, &unseen), status_and_detail(&absent, UNKNOWN_ID));
    }
}
