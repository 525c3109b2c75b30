//! Roles by label, and callers with several roles.

use super::*;
use crate::support::CATALOG;

const BY_LABEL: &str = r#"
  authorization:
    enabled: true
    roles:
      - name: red
        rules: [{verbs: [read, write], kinds: [Cluster, Network, Service, Zone, Rack], labels: {team: red}}]
      - name: remover
        rules: [{verbs: [delete, force-delete], kinds: ["*"], labels: {environment: dev}}]
      - name: admin
        rules: [{verbs: ["*"], kinds: ["*"]}]
    bindings:
      - {role: red, claims: {groups: [reds]}}
      - {role: remover, claims: {groups: [reds]}}
      - {role: admin, identities: [ann@example.com]}
"#;

both_stores!(
    start = async |backend| Guarded::on(backend, &format!("{BY_LABEL}{CATALOG}")).await;
    a_label_change_that_would_grant_deletion_is_refused,
    unreadable_referrers_are_not_named,
);

fn red(guarded: &Guarded) -> Caller<'_> {
    guarded.member("rea@example.com", &["reds"])
}

async fn a_label_change_that_would_grant_deletion_is_refused(guarded: &Guarded) {
    let (ann, rea) = (admin(guarded), red(guarded));
    let made = rea.cluster("hers", &json!({"team": "red", "environment": "prod"})).await;
    let widened = json!({"labels": {"environment": "dev"}});
    let operations = json!([{"op": "replace", "path": "/labels/environment", "value": "dev"}]);
    for path in [href(&made).to_owned(), format!("{}?dryRun=true", href(&made))] {
        let refused = rea.patch(&path, &widened).await;
        assert_refused(&refused, 403, "AUZ-002");
        let detail = refused.json()["detail"].clone();
        assert!(text(&detail).starts_with("With these labels your roles would allow to "), "{detail}");
        let asked = rea.call("PATCH", &path).header("content-type", "application/json-patch+json");
        assert_refused(&asked.json(&operations).await, 403, "AUZ-002");
    }
    assert_refused(&rea.delete(href(&made)).await, 403, "AUZ-002");
    assert_eq!(ann.get(href(&made)).await.expect_status(200).json(), made);

    // Labels that allow no more are theirs to set, also while they may remove it, and the way back is closed again.
    rea.patch(href(&made), &json!({"labels": {"tier": "tin"}})).await.expect_status(200);
    ann.patch(href(&made), &widened).await.expect_status(200);
    rea.patch(href(&made), &json!({"labels": {"tier": "gold"}})).await.expect_status(200);
    rea.patch(href(&made), &json!({"labels": {"environment": null}})).await.expect_status(200);
    assert_refused(&rea.patch(href(&made), &widened).await, 403, "AUZ-002");
    ann.patch(href(&made), &widened).await.expect_status(200);
    rea.delete(href(&made)).await.expect_status(202);
}

async fn unreadable_referrers_are_not_named(guarded: &Guarded) {
    let (ann, rea) = (admin(guarded), red(guarded));
    let labelled = |kind: &str, name: &str, team: &str| json!({"kind": kind, "name": name, "spec": {}, "labels": {"team": team, "environment": "dev"}});
    let network = ann.create("/networks", &labelled("Network", "shared", "red")).await;
    let mut referrers = Vec::new();
    for team in ["red", "blue"] {
        let mut service = labelled("Service", &format!("of-{team}"), team);
        service["references"] = json!({"networks": [{"id": id(&network)}]});
        referrers.push(ann.create("/services", &service).await);
    }
    let [seen, hidden] = [&referrers[0], &referrers[1]];
    let refused = rea.delete(href(&network)).await;
    assert_refused(&refused, 409, "CNF-003");
    assert!(refused.to_string().contains(id(seen)), "{refused}");
    for secret in [id(hidden), "of-blue"] {
        assert!(!refused.to_string().contains(secret), "{refused}");
    }
    assert!(text(&refused.json()["detail"]).contains("something that you may not read refers to Network"));
    let whole = ann.delete(href(&network)).await.to_string();
    assert!(whole.contains(id(seen)) && whole.contains(id(hidden)), "{whole}");
}
