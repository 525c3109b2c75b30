//! Requests repeated after the caller has lost the permission.

use super::*;

both_stores!(
    start = async |backend| Guarded::on(backend, SHRINKING).await;
    a_repeated_create_without_permission_is_refused,
    a_repeated_create_is_answered_to_write_only_callers,
    a_repeated_force_delete_without_permission_is_refused,
);

const SHRINKING: &str = r#"
  authorization:
    enabled: true
    roles:
      - name: everything
        rules: [{verbs: ["*"], kinds: [Cluster]}]
      - name: development
        rules: [{verbs: ["*"], kinds: [Cluster], labels: {environment: dev}}]
      - name: blind
        rules: [{verbs: [write], kinds: [Cluster]}]
      - name: viewer
        rules:
          - {verbs: [read], kinds: [Cluster]}
          - {verbs: [force-delete], kinds: [Cluster], labels: {environment: dev}}
    bindings:
      - {role: everything, claims: {groups: [all]}}
      - {role: development, claims: {groups: [dev]}}
      - {role: blind, claims: {groups: [blind]}}
      - {role: viewer, claims: {groups: [viewers]}}
"#;

/// One and the same caller, at a time when they are in that group.
fn kim<'a>(guarded: &'a Guarded, group: &str) -> Caller<'a> {
    guarded.member("kim@example.com", &[group])
}

async fn again(caller: &Caller<'_>, path: &str, body: &Value) -> Answer {
    caller.post(path, body).header("idempotency-key", "k").await
}

fn is_replayed(answer: &Answer) -> bool {
    answer.header("idempotency-replayed") == Some("true")
}

async fn a_repeated_create_without_permission_is_refused(guarded: &Guarded) {
    let body = cluster("made", &json!({"environment": "prod"}));
    again(&kim(guarded, "all"), "/clusters", &body).await.expect_status(201);
    assert!(is_replayed(&again(&kim(guarded, "all"), "/clusters", &body).await.expect_status(201)));
    let refused = again(&kim(guarded, "dev"), "/clusters", &body).await;
    assert_refused(&refused, 403, "AUZ-002");
    let without_a_key = kim(guarded, "dev").post("/clusters", &body).await;
    assert_eq!(refused.json()["title"], without_a_key.json()["title"]);
    assert!(is_replayed(&again(&kim(guarded, "all"), "/clusters", &body).await.expect_status(201)));
}

async fn a_repeated_create_is_answered_to_write_only_callers(guarded: &Guarded) {
    let (all, blind) = (kim(guarded, "all"), kim(guarded, "blind"));
    let body = cluster("made", &json!({}));
    let made = again(&blind, "/clusters", &body).await.expect_status(201).json();
    let replayed = again(&blind, "/clusters", &body).await.expect_status(201);
    assert!(is_replayed(&replayed));
    assert_eq!(replayed.json(), made);
    // The name is free again, but the request was done.
    all.delete(href(&made)).await.expect_status(202);
    assert_eq!(again(&blind, "/clusters", &body).await.expect_status(201).json(), made);
    assert_eq!(all.list("/clusters").await, (0, vec![]));
}

async fn a_repeated_force_delete_without_permission_is_refused(guarded: &Guarded) {
    let all = kim(guarded, "all");
    let made = all.cluster("made", &json!({"environment": "prod"})).await;
    all.delete(href(&made)).await.expect_status(202);
    let (path, reason) = (format!("{}/force-delete", href(&made)), json!({"reason": "it hangs"}));
    again(&all, &path, &reason).await.expect_status(204);
    for group in ["dev", "viewers"] {
        let refused = again(&kim(guarded, group), &path, &reason).await;
        let without_a_key = kim(guarded, group).post(&path, &reason).await;
        assert_refused(&refused, 404, "NTF-002");
        assert_eq!(problem_text(&refused, id(&made)), problem_text(&without_a_key, id(&made)));
    }
    assert!(is_replayed(&again(&all, &path, &reason).await.expect_status(204)));
}
