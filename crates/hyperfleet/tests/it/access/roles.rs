//! Roles: a verb without a rule is refused, an unreadable resource does not exist, and access checks predict the
//! answers.

mod explained;
mod labels;
mod retries;
mod watches;
mod whoami;

use std::process::Command;

use hyperfleet_testkit::eventually;

use super::*;
use crate::support::{href, id, text};

both_stores!(
    start = async |backend| Guarded::on(backend, ROLES).await;
    a_verb_that_no_rule_grants_is_refused_before_the_resource_is_looked_for,
    a_verb_that_is_granted_for_other_resources_is_refused_for_this_one,
    an_unreadable_resource_is_not_found,
    the_history_of_an_unreadable_resource_is_not_found,
    lists_and_counts_leave_out_unreadable_resources,
    a_list_without_any_read_permission_is_refused,
    a_create_or_label_change_outside_the_callers_scope_is_refused,
    force_delete_is_a_verb_of_its_own,
    reporting_needs_the_report_permission,
);

const ROLES: &str = r#"
  authorization:
    enabled: true
    roles:
      - name: viewer
        rules: [{verbs: [read], kinds: ["*"]}]
      - name: developer
        rules: [{verbs: [read, write, delete], kinds: [Cluster, NodePool], labels: {environment: dev}}]
      - name: operator
        rules: [{verbs: [read, write, delete], kinds: [Cluster]}]
      - name: adapter
        rules: [{verbs: [read, report], kinds: ["*"]}]
      - name: admin
        rules: [{verbs: ["*"], kinds: ["*"]}]
    bindings:
      - {role: viewer, claims: {groups: [viewers, readers]}}
      - {role: developer, claims: {groups: [developers], team: [red]}}
      - {role: operator, claims: {groups: [operators]}}
      - {role: adapter, identities: ["*@adapters.example.com"]}
      - {role: admin, identities: [ann@example.com]}
"#;

fn admin(guarded: &Guarded) -> Caller<'_> {
    guarded.named("ann@example.com")
}

/// One who may read everything and change what is for development.
fn both(guarded: &Guarded) -> Caller<'_> {
    guarded.member("bea@example.com", &["viewers", "developers"])
}

/// A caller that may read development resources only.
fn developer(guarded: &Guarded) -> Caller<'_> {
    guarded.member("dev@example.com", &["developers"])
}

/// A Cluster for development and one that is not, each with a NodePool that is labelled likewise.
async fn fleet(guarded: &Guarded) -> [Value; 4] {
    let ann = admin(guarded);
    let mut made = Vec::new();
    for environment in ["dev", "prod"] {
        let labels = json!({"environment": environment, "tier": "gold"});
        let cluster = ann.cluster(&format!("{environment}-cluster"), &labels).await;
        let pool = json!({"kind": "NodePool", "name": format!("{environment}-pool"), "spec": {"n": 1}, "labels": labels});
        let pool = ann.create(&format!("{}/nodepools", href(&cluster)), &pool).await;
        made.extend([cluster, pool]);
    }
    made.try_into().unwrap()
}

/// The five things that can be done to a resource, none of them done.
async fn tried(caller: &Caller<'_>, verb: &str, path: &str) -> Answer {
    let patch = json!({"spec": {"tried": true}});
    match verb {
        "read" => caller.get(path).await,
        "write" => caller.patch(&format!("{path}?dryRun=true"), &patch).await,
        "delete" => caller.delete(&format!("{path}?dryRun=true")).await,
        "force-delete" => {
            caller.post(&format!("{path}/force-delete?dryRun=true"), &json!({"reason": "to try"})).await
        }
        "report" => caller.call("PUT", &format!("{path}/statuses?dryRun=true")).json(&validated()).await,
        other => panic!("{other}"),
    }
}

/// Has the server read another configuration, and waits until it says so.
async fn hang_up(guarded: &Guarded, config: &str, message: &str) {
    let count = || guarded.server.logs().iter().filter(|line| line["message"] == message).count();
    let before = count();
    std::fs::write(guarded.server.directory().join("config.yaml"), config).unwrap();
    let pid = guarded.server.pid().unwrap().to_string();
    let sent = Command::new("/bin/sh").args(["-c", "kill -HUP \"$1\"", "kill", &pid]).status().unwrap();
    assert!(sent.success());
    eventually(message, DEADLINE, async || (count() > before).then_some(())).await;
}

/// The answer without what differs from call to call.
fn problem_text(answer: &Answer, id: &str) -> String {
    let mut problem = answer.json();
    for member in ["timestamp", "trace_id"] {
        problem[member] = Value::Null;
    }
    format!("{} {problem}", answer.status).replace(id, "[id]")
}

async fn a_verb_that_no_rule_grants_is_refused_before_the_resource_is_looked_for(guarded: &Guarded) {
    let [dev, ..] = fleet(guarded).await;
    let viewer = guarded.member("vic@example.com", &["viewers"]);
    let unbound = guarded.named("unbound@example.com");
    let before = viewer.get(href(&dev)).await.expect_status(200).json();
    let absent = format!("/clusters/{}", walk::UNKNOWN_ID);
    for path in [href(&dev), &absent] {
        for verb in ["write", "delete", "force-delete", "report"] {
            let answer = tried(&viewer, verb, path).await;
            assert_refused(&answer, 403, "AUZ-003");
            assert!(text(&answer.json()["detail"]).contains(verb), "{answer}");
        }
        for verb in ["read", "write", "delete", "force-delete", "report"] {
            assert_refused(&tried(&unbound, verb, path).await, 403, "AUZ-003");
        }
    }
    assert_refused(&viewer.post("/clusters", &cluster("never", &json!({}))).await, 403, "AUZ-003");
    // The right is asked for before the body is read.
    assert_refused(&viewer.post("/clusters", &json!([])).await, 403, "AUZ-003");
    assert_eq!(viewer.get(href(&dev)).await.expect_status(200).json(), before);
}

async fn a_verb_that_is_granted_for_other_resources_is_refused_for_this_one(guarded: &Guarded) {
    let [dev, dev_pool, prod, prod_pool] = fleet(guarded).await;
    let bea = both(guarded);
    for resource in [&prod, &prod_pool] {
        for verb in ["write", "delete"] {
            assert_refused(&tried(&bea, verb, href(resource)).await, 403, "AUZ-002");
        }
    }
    for (verb, status) in [("write", 200), ("delete", 202)] {
        for resource in [&dev, &dev_pool] {
            tried(&bea, verb, href(resource)).await.expect_status(status);
        }
    }
    for path in [format!("/resources/{}", id(&prod)), format!("{}/nodepools/{}", href(&prod), id(&prod_pool))]
    {
        assert_refused(&tried(&bea, "write", &path).await, 403, "AUZ-002");
        assert_refused(&tried(&bea, "delete", &path).await, 403, "AUZ-002");
    }
    bea.get(href(&prod)).await.expect_status(200);
    bea.get(&format!("/clusters/{}", walk::UNKNOWN_ID)).await.expect_status(404);
    tried(&bea, "write", &format!("/clusters/{}", walk::UNKNOWN_ID)).await.expect_status(404);
}

async fn an_unreadable_resource_is_not_found(guarded: &Guarded) {
    let [dev, _, prod, prod_pool] = fleet(guarded).await;
    let caller = developer(guarded);
    caller.get(href(&dev)).await.expect_status(200);
    let pool =
        json!({"kind": "NodePool", "name": "mine", "spec": {"n": 1}, "labels": {"environment": "dev"}});
    for (resource, plural) in [(&prod, "clusters"), (&prod_pool, "nodepools")] {
        for base in [format!("/{plural}"), "/resources".to_owned()] {
            let (there, absent) =
                (format!("{base}/{}", id(resource)), format!("{base}/{}", walk::UNKNOWN_ID));
            for verb in ["read", "write", "delete"] {
                let (hidden, none) =
                    (tried(&caller, verb, &there).await, tried(&caller, verb, &absent).await);
                assert_eq!(none.status, 404, "{verb} {absent}: {none}");
                assert_eq!(
                    problem_text(&hidden, id(resource)),
                    problem_text(&none, walk::UNKNOWN_ID),
                    "{verb} {there}"
                );
            }
            let statuses = (
                caller.get(&format!("{there}/statuses")).await,
                caller.get(&format!("{absent}/statuses")).await,
            );
            assert_eq!(problem_text(&statuses.0, id(resource)), problem_text(&statuses.1, walk::UNKNOWN_ID));
        }
    }
    let (there, absent) =
        (format!("{}/nodepools", href(&prod)), format!("/clusters/{}/nodepools", walk::UNKNOWN_ID));
    for (hidden, none) in [
        (caller.get(&there).await, caller.get(&absent).await),
        (caller.post(&there, &pool).await, caller.post(&absent, &pool).await),
    ] {
        assert_eq!(none.status, 404, "{none}");
        assert_eq!(problem_text(&hidden, id(&prod)), problem_text(&none, walk::UNKNOWN_ID));
    }
    let question = |id: &str| json!({"verb": "write", "kind": "Cluster", "id": id});
    let hidden = caller.post("/authz/check", &question(id(&prod))).await.expect_status(404);
    let none = caller.post("/authz/check", &question(walk::UNKNOWN_ID)).await.expect_status(404);
    assert_eq!(problem_text(&hidden, id(&prod)), problem_text(&none, walk::UNKNOWN_ID));
    // A name that is taken has to be refused, without naming the resource that has it.
    let taken = caller.post("/clusters", &cluster("prod-cluster", &json!({"environment": "dev"}))).await;
    assert_refused(&taken, 409, "CNF-001");
    assert!(!taken.to_string().contains(id(&prod)), "{taken}");
}

async fn the_history_of_an_unreadable_resource_is_not_found(guarded: &Guarded) {
    let [dev, dev_pool, prod, prod_pool] = fleet(guarded).await;
    let (ann, caller) = (admin(guarded), developer(guarded));
    // One pool of theirs below a Cluster that is not.
    let pool = json!({"kind": "NodePool", "name": "strayed", "spec": {}, "labels": {"environment": "dev"}});
    let strayed = ann.create(&format!("{}/nodepools", href(&prod)), &pool).await;
    let nested = format!("{}/nodepools/{}", href(&prod), id(&strayed));
    for round in ["there", "gone"] {
        for end in ["/timeline", "/diff", "?generation=1"] {
            for resource in [&dev, &dev_pool, &strayed] {
                caller.get(&format!("{}{end}", href(resource))).await.expect_status(200);
            }
            for (resource, plural) in [(&prod, "clusters"), (&prod_pool, "nodepools")] {
                for base in [format!("/{plural}"), "/resources".to_owned()] {
                    ann.get(&format!("{base}/{}{end}", id(resource))).await.expect_status(200);
                    let hidden = caller.get(&format!("{base}/{}{end}", id(resource))).await;
                    let none = caller.get(&format!("{base}/{}{end}", walk::UNKNOWN_ID)).await;
                    assert_eq!(none.status, 404, "{none}");
                    assert_eq!(
                        problem_text(&hidden, id(resource)),
                        problem_text(&none, walk::UNKNOWN_ID),
                        "{round}: {base}{end}"
                    );
                }
            }
            ann.get(&format!("{nested}{end}")).await.expect_status(200);
            let below = caller.get(&format!("{nested}{end}")).await;
            assert_refused(&below, 404, "NTF-002");
            let unbound = guarded.named("unbound@example.com");
            assert_refused(&unbound.get(&format!("{}{end}", href(&dev))).await, 403, "AUZ-003");
        }
        if round == "there" {
            for cluster in [&dev, &prod] {
                ann.delete(href(cluster)).await.expect_status(202);
                ann.post(&format!("{}/force-delete", href(cluster)), &json!({"reason": "over"}))
                    .await
                    .expect_status(204);
            }
        }
    }
}

async fn lists_and_counts_leave_out_unreadable_resources(guarded: &Guarded) {
    fleet(guarded).await;
    let (ann, caller) = (admin(guarded), developer(guarded));
    for (path, all, seen) in [
        ("/clusters".to_owned(), 2, &["dev-cluster"][..]),
        ("/nodepools".to_owned(), 2, &["dev-pool"]),
        ("/resources".to_owned(), 4, &["dev-cluster", "dev-pool"]),
        ("/resources?kind=NodePool".to_owned(), 2, &["dev-pool"]),
        (format!("/clusters?{}", search("labels.tier = 'gold'")), 2, &["dev-cluster"]),
        (format!("/clusters?{}", search("labels.environment = 'prod'")), 1, &[]),
        (format!("/clusters?{}", search("name = 'prod-cluster' or not name = 'x'")), 2, &["dev-cluster"]),
        (format!("/clusters?{}", search("status.conditions.Reconciled = 'False'")), 2, &["dev-cluster"]),
        ("/clusters?showDeleted=true".to_owned(), 2, &["dev-cluster"]),
    ] {
        assert_eq!(ann.list(&path).await.0, all, "{path}");
        let (total, names) = caller.list(&path).await;
        assert_eq!(
            (total, names.iter().map(String::as_str).collect::<Vec<_>>()),
            (seen.len() as u64, seen.to_vec()),
            "{path}"
        );
        assert_eq!(both(guarded).list(&path).await.0, all, "a caller that may read all sees all: {path}");
    }
    let page = caller.get("/clusters?pageSize=1").await.expect_status(200).json();
    assert_eq!((&page["total"], page.get("next_page_token")), (&json!(1), None));
}

async fn a_list_without_any_read_permission_is_refused(guarded: &Guarded) {
    fleet(guarded).await;
    let unbound = guarded.named("unbound@example.com");
    for path in ["/clusters", "/nodepools", "/resources", "/resources?kind=Cluster"] {
        assert_refused(&unbound.get(path).await, 403, "AUZ-003");
    }
    let operator = guarded.member("ops@example.com", &["operators"]);
    assert_eq!(operator.list("/clusters").await.0, 2);
    assert_eq!(operator.list("/resources").await.0, 2, "of all kinds, those that may be read");
    for path in ["/nodepools", "/resources?kind=NodePool"] {
        assert_refused(&operator.get(path).await, 403, "AUZ-003");
    }
}

async fn a_create_or_label_change_outside_the_callers_scope_is_refused(guarded: &Guarded) {
    let [dev, _, prod, _] = fleet(guarded).await;
    for caller in [developer(guarded), both(guarded)] {
        let prefix = if caller.get(href(&prod)).await.status == 200 { "bea" } else { "dev" };
        for labels in [
            json!({}),
            json!({"environment": "prod"}),
            json!({"environment": "Dev"}),
            json!({"dev": "environment"}),
        ] {
            for path in ["/clusters", "/resources", "/clusters?dryRun=true"] {
                let refused = caller.post(path, &cluster(&format!("{prefix}-never"), &labels)).await;
                assert_refused(&refused, 403, "AUZ-002");
            }
        }
        let made = caller.cluster(&format!("{prefix}-made"), &json!({"environment": "dev"})).await;
        for patch in [
            json!({"labels": {"environment": "prod"}}),
            json!({"labels": {"environment": null}}),
            json!({"labels": null}),
            json!({"labels": {"environment": ""}, "spec": {"a": 1}}),
        ] {
            assert_refused(&caller.patch(href(&made), &patch).await, 403, "AUZ-002");
        }
        let operations = json!([{"op": "replace", "path": "/labels/environment", "value": "prod"}]);
        let asked = caller.call("PATCH", href(&made)).header("content-type", "application/json-patch+json");
        assert_refused(&asked.json(&operations).await, 403, "AUZ-002");
        assert_eq!(caller.get(href(&made)).await.expect_status(200).json(), made);
        caller.patch(href(&made), &json!({"labels": {"tier": "tin"}})).await.expect_status(200);
    }
    // What is not theirs does not become so by a label.
    let into = json!({"labels": {"environment": "dev"}});
    developer(guarded).patch(href(&prod), &into).await.expect_status(404);
    assert_refused(&both(guarded).patch(href(&prod), &into).await, 403, "AUZ-002");
    let ann = admin(guarded);
    for resource in [&dev, &prod] {
        assert_eq!(ann.get(href(resource)).await.expect_status(200).json(), *resource);
    }
}

async fn force_delete_is_a_verb_of_its_own(guarded: &Guarded) {
    let [dev, ..] = fleet(guarded).await;
    let operator = guarded.member("ops@example.com", &["operators"]);
    operator.delete(href(&dev)).await.expect_status(202);
    let (path, reason) = (format!("{}/force-delete", href(&dev)), json!({"reason": "it hangs"}));
    for caller in [&operator, &developer(guarded), &both(guarded)] {
        assert_refused(&caller.post(&path, &reason).await, 403, "AUZ-003");
    }
    operator.get(href(&dev)).await.expect_status(200);
    admin(guarded).post(&path, &reason).await.expect_status(204);
    operator.get(href(&dev)).await.expect_status(404);
}

async fn reporting_needs_the_report_permission(guarded: &Guarded) {
    let [dev, ..] = fleet(guarded).await;
    let path = format!("{}/statuses", href(&dev));
    for method in ["PUT", "POST"] {
        let answer = developer(guarded).call(method, &path).json(&validated()).await;
        assert_refused(&answer, 403, "AUZ-003");
    }
    let adapter = guarded.named("validator@adapters.example.com");
    adapter.call("PUT", &path).json(&validated()).await.expect_status(201);
    assert_eq!(developer(guarded).get(&path).await.expect_status(200).json()["total"], 1);
    for verb in ["write", "delete", "force-delete"] {
        assert_refused(&tried(&adapter, verb, href(&dev)).await, 403, "AUZ-003");
    }
    let stranger = guarded.named("validator@adapters.example.com.evil.org");
    assert_refused(&stranger.call("PUT", &path).json(&validated()).await, 403, "AUZ-003");
}
