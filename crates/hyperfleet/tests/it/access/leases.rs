//! Permissions on leases, and lease groups per tenant.

use super::*;
use crate::support::{etag, text};

both_stores!(start = async |backend| Guarded::on(backend, ROLES).await; leases_need_the_report_permission_on_some_kind);

both_stores!(config = TENANTS; a_lease_group_belongs_to_one_tenant_or_to_the_system);

const ROLES: &str = r#"
  authorization:
    enabled: true
    roles:
      - {name: reporter, rules: [{verbs: [report], kinds: [NodePool], labels: {tier: gold}}]}
      - {name: owner, rules: [{verbs: [read, write, delete, force-delete], kinds: ["*"]}]}
    bindings:
      - {role: reporter, claims: {groups: [reporters]}}
      - {role: owner, claims: {groups: [owners]}}
"#;

const TENANTS: &str = "
server:
  tenant:
    enabled: true
    system_header: X-System
    dimensions: [{header: X-Org, key: org, required: true}]
";

fn claim(caller: &Caller<'_>, holder: &str) -> Asked {
    caller.call("PUT", "/leases/sentinel/range-0").json(&json!({"holder": holder, "ttl": "1h"}))
}

async fn leases_need_the_report_permission_on_some_kind(guarded: &Guarded) {
    let reporter = guarded.member("rea@example.com", &["reporters"]);
    let owner = guarded.member("oda@example.com", &["owners"]);
    let visitor = guarded.named("vic@example.com");
    for caller in [&owner, &visitor] {
        assert_refused(&caller.get("/leases?group=sentinel").await, 403, "AUZ-003");
        assert_refused(&claim(caller, "x").await, 403, "AUZ-003");
        // The role is asked for before anything is read.
        assert_refused(&caller.get("/leases?surprise=1").await, 403, "AUZ-003");
        assert_refused(&caller.call("PUT", "/leases/-/-").body("no JSON").await, 403, "AUZ-003");
    }
    let taken = claim(&reporter, "a").await.expect_status(200);
    let list = reporter.get("/leases?group=sentinel").await.expect_status(200).json();
    assert_eq!(list["items"], json!([taken.json()]));
    assert_eq!(taken.header("cache-control"), Some("private, no-cache"));
}

async fn a_lease_group_belongs_to_one_tenant_or_to_the_system(app: &App) {
    let callers = [
        Caller::new(app, &[("x-org", "a")]),
        Caller::new(app, &[("x-org", "b")]),
        Caller::new(app, &[("x-system", "true")]),
    ];
    let mut tags = Vec::new();
    for (number, caller) in callers.iter().enumerate() {
        let none = caller.get("/leases?group=sentinel").await.expect_status(200).json();
        assert_eq!((&none["items"], &none["total"]), (&json!([]), &json!(0)));
        // What others have is no hindrance, and its version is that of nothing.
        if let Some(foreign) = tags.last() {
            assert_refused(&claim(caller, "x").header("if-match", foreign).await, 409, "CNF-002");
            let absent = claim(caller, "x").header("if-match", foreign).await.json();
            assert_eq!(absent["actual_version"], 0);
        }
        tags.push(etag(&claim(caller, &format!("holder-{number}")).await.expect_status(200)));
    }
    for (number, caller) in callers.iter().enumerate() {
        let list = caller.get("/leases?group=sentinel").await.expect_status(200).json();
        assert_eq!((&list["total"], &list["size"]), (&json!(1), &json!(1)));
        assert_eq!(list["items"][0]["holder"], format!("holder-{number}"));
        caller
            .call("PUT", "/leases/sentinel/range-1")
            .json(&json!({"holder": "x", "ttl": "1h"}))
            .await
            .expect_status(200);
    }
    let page = callers[0].get("/leases?group=sentinel&pageSize=1").await.expect_status(200).json();
    let next = format!("/leases?group=sentinel&pageToken={}", text(&page["next_page_token"]));
    callers[0].get(&next).await.expect_status(200);
    for caller in &callers[1..] {
        assert_refused(&caller.get(&next).await, 400, "VAL-004");
    }
    assert_refused(&Caller::new(app, &[]).get("/leases?group=sentinel").await, 403, "AUZ-001");
}
