//! The order of the access checks: a request that fails several is refused by the first.

use super::*;

both_stores!(start = async |backend| Guarded::on(backend, ALL).await; access_checks_run_in_their_documented_order);

const ALL: &str = r#"
  tenant:
    enabled: true
    dimensions: [{header: X-Org, key: org, required: true}]
  authorization:
    enabled: true
    roles: [{name: maker, rules: [{verbs: [read, write], kinds: [Cluster]}]}]
    bindings: [{role: maker, claims: {groups: [makers]}}]
  rate_limit:
    enabled: true
    writes: {per_second: 1, burst: 5}
"#;

async fn access_checks_run_in_their_documented_order(guarded: &Guarded) {
    let absent = format!("/clusters/{}", walk::UNKNOWN_ID);
    let of_any_kind = format!("/resources/{}", walk::UNKNOWN_ID);
    let wrong = async |caller: &Caller<'_>, org: bool, method: &str, path: &str| {
        let asked = caller.call(method, path);
        let asked = if org { asked.header("x-org", "a") } else { asked };
        asked.header("content-type", "application/json").body("no JSON").await
    };
    let stranger = Caller::new(guarded, &[]);
    let nameless = guarded.holder(&guarded.issuer.nameless());
    let visitor = guarded.named("vic@example.com");
    let maker = guarded.member("max@example.com", &["makers"]);

    assert_refused(&wrong(&stranger, false, "PATCH", "/nowhere").await, 404, "NTF-000");
    assert_refused(&wrong(&stranger, false, "PUT", &absent).await, 405, "NTF-000");
    assert_refused(&wrong(&stranger, false, "PATCH", &absent).await, 401, "AUT-001");
    assert_refused(&wrong(&nameless, false, "PATCH", &absent).await, 401, "AUT-001");
    for _ in 0..10 {
        // Refused requests do not count against the rate limit.
        assert_refused(&wrong(&maker, false, "PATCH", &absent).await, 403, "AUZ-001");
        assert_refused(&wrong(&visitor, true, "PATCH", &absent).await, 403, "AUZ-003");
        assert_refused(&wrong(&maker, true, "DELETE", &absent).await, 403, "AUZ-003");
        // Where any kind is served, the verb must be granted on one of them.
        assert_refused(&wrong(&visitor, true, "PATCH", &of_any_kind).await, 403, "AUZ-003");
        assert_refused(&wrong(&visitor, true, "POST", "/resources").await, 403, "AUZ-003");
        assert_refused(&wrong(&visitor, true, "GET", &of_any_kind).await, 403, "AUZ-003");
        assert_refused(&wrong(&maker, true, "DELETE", &of_any_kind).await, 403, "AUZ-003");
        assert_refused(&wrong(&maker, true, "PUT", &format!("{of_any_kind}/statuses")).await, 403, "AUZ-003");
    }
    assert_refused(&wrong(&maker, true, "PATCH", &of_any_kind).await, 400, "VAL-003");
    assert_refused(&wrong(&maker, true, "PATCH", &absent).await, 400, "VAL-003");
    let patch = json!({"spec": {"a": 1}});
    assert_refused(&maker.patch(&absent, &patch).header("x-org", "a").await, 404, "NTF-002");
    let mut answer = wrong(&maker, true, "PATCH", &absent).await;
    for _ in 0..1000 {
        if answer.status == 429 {
            break;
        }
        answer = wrong(&maker, true, "PATCH", &absent).await;
    }
    assert_refused(&answer, 429, "LMT-001");
}
