//! `whoami`, access checks, and roles that change while the server runs.

use super::*;

both_stores!(
    start = async |backend| Guarded::on(backend, ROLES).await;
    whoami_lists_the_roles_of_identity_and_claims,
    an_access_check_predicts_the_answer,
    roles_are_reloaded_on_sighup,
);

both_stores!(start = async |backend| Guarded::on(backend, DEFAULT_ROLE).await; the_default_role_applies_to_every_caller);

const DEFAULT_ROLE: &str = r#"
  authorization:
    enabled: true
    default_role: viewer
    roles:
      - name: viewer
        rules: [{verbs: [read], kinds: ["*"]}]
      - name: admin
        rules: [{verbs: ["*"], kinds: ["*"]}]
    bindings:
      - {role: admin, identities: [ann@example.com]}
"#;

async fn whoami_lists_the_roles_of_identity_and_claims(guarded: &Guarded) {
    let red = Map::from_iter([("team".to_owned(), json!("red"))]);
    let wrong =
        Map::from_iter([("groups".to_owned(), json!({"viewers": true})), ("team".to_owned(), json!(7))]);
    let claiming =
        |claims| guarded.holder(&guarded.issuer.mint(&Grant { claims, ..Grant::new("x@example.com") }));
    for (caller, identity, roles) in [
        (admin(guarded), json!("ann@example.com"), &["admin"][..]),
        (both(guarded), json!("bea@example.com"), &["developer", "viewer"]),
        (
            guarded.member("x@example.com", &["readers", "viewers", "others"]),
            json!("x@example.com"),
            &["viewer"],
        ),
        (
            guarded.member("y@adapters.example.com", &["viewers"]),
            json!("y@adapters.example.com"),
            &["adapter", "viewer"],
        ),
        (guarded.named("unbound@example.com"), json!("unbound@example.com"), &[]),
        (guarded.named("joann@example.com"), json!("joann@example.com"), &[]),
        (claiming(red), json!("x@example.com"), &["developer"]),
        (claiming(wrong), json!("x@example.com"), &[]),
        (guarded.holder(&guarded.issuer.nameless()), Value::Null, &[]),
    ] {
        let told = caller.get("/whoami").await.expect_status(200).json();
        assert_eq!(told, json!({"identity": identity, "system": false, "roles": roles}));
    }
}

async fn an_access_check_predicts_the_answer(guarded: &Guarded) {
    let fleet = fleet(guarded).await;
    let callers = [
        admin(guarded),
        both(guarded),
        developer(guarded),
        guarded.member("vic@example.com", &["viewers"]),
        guarded.member("ops@example.com", &["operators"]),
        guarded.named("x@adapters.example.com"),
        guarded.named("unbound@example.com"),
    ];
    let mut verdicts = Vec::new();
    for (who, caller) in callers.iter().enumerate() {
        for resource in &fleet {
            for verb in ["read", "write", "delete", "force-delete", "report"] {
                let question = json!({"verb": verb, "kind": resource["kind"], "id": resource["id"]});
                let check = caller.post("/authz/check", &question).await;
                let answer = tried(caller, verb, href(resource)).await;
                let granted = ![403, 404].contains(&answer.status);
                match check.status {
                    200 => {
                        let verdict = check.json();
                        assert_eq!(verdict["allowed"], granted, "{who} {question}: {check}\n{answer}");
                        verdicts.push(text(&verdict["rule"]).to_owned());
                    }
                    _ => {
                        check.expect_status(404);
                        assert!(!granted, "{who} {question}: {answer}");
                        caller.get(href(resource)).await.status.checked_sub(403).expect("it may not be read");
                    }
                }
            }
        }
        for verb in ["read", "write", "delete", "force-delete", "report"] {
            for (kind, plural) in [("Cluster", "clusters"), ("NodePool", "nodepools")] {
                let question = json!({"verb": verb, "kind": kind});
                let verdict = caller.post("/authz/check", &question).await.expect_status(200).json();
                let answer = tried(caller, verb, &format!("/{plural}/{}", walk::UNKNOWN_ID)).await;
                assert_eq!(verdict["allowed"], answer.status == 404, "{who} {question}: {answer}");
            }
        }
    }
    verdicts.sort_unstable();
    verdicts.dedup();
    for role in ["role admin", "role developer", "role viewer", "role operator", "role adapter"] {
        assert!(verdicts.iter().any(|rule| rule == role), "{role}: {verdicts:?}");
    }
    for bad in [
        json!({}),
        json!({"verb": "own", "kind": "Cluster"}),
        json!({"verb": "read", "kind": "Castle"}),
        json!({"verb": "read", "kind": "Cluster", "as": "ann"}),
    ] {
        callers[0].post("/authz/check", &bad).await.expect_status(400);
    }
}

async fn roles_are_reloaded_on_sighup(guarded: &Guarded) {
    let vic = guarded.member("vic@example.com", &["viewers"]);
    let made = cluster("made", &json!({}));
    assert_refused(&vic.post("/clusters", &made).await, 403, "AUZ-003");
    let (good, bad) = ("roles were read again", "roles stay as they were: the configuration has faults");

    let more = ROLES.replace(
        "rules: [{verbs: [read], kinds: [\"*\"]}]",
        "rules: [{verbs: [read, write], kinds: [\"*\"]}]",
    );
    assert_ne!(more, ROLES);
    hang_up(guarded, &guarded.issuer.config(&more), good).await;
    let created = vic.create("/clusters", &made).await;

    for broken in [
        guarded.issuer.config(&ROLES.replace("role: viewer", "role: veiwer")),
        guarded.issuer.config(&ROLES.replace("verbs: [read]", "verbs: [reed]")),
        "server: [".to_owned(),
    ] {
        hang_up(guarded, &broken, bad).await;
        vic.patch(href(&created), &json!({"spec": {"still": broken.len()}})).await.expect_status(200);
    }
    let logs = guarded.server.logs();
    let fault =
        logs.iter().filter(|line| line["message"] == bad).map(|line| text(&line["error"])).next().unwrap();
    assert!(fault.contains("veiwer"), "{fault}");

    // Nothing that is left out, or lost, lets anyone do more.
    for without in [ROLES.replace("enabled: true", "enabled: false"), String::new()] {
        hang_up(
            guarded,
            &guarded.issuer.config(&without),
            "roles stay as they were: turning them off takes a restart",
        )
        .await;
        vic.patch(href(&created), &json!({"spec": {"still": without.len()}})).await.expect_status(200);
        assert_refused(&vic.delete(href(&created)).await, 403, "AUZ-003");
    }

    hang_up(guarded, &guarded.issuer.config(ROLES), good).await;
    assert_refused(&vic.patch(href(&created), &json!({"spec": {}})).await, 403, "AUZ-003");
    vic.get(href(&created)).await.expect_status(200);
}

async fn the_default_role_applies_to_every_caller(guarded: &Guarded) {
    let made = admin(guarded).cluster("seen", &json!({})).await;
    for (caller, roles) in [
        (guarded.named("unbound@example.com"), &["viewer"][..]),
        (guarded.holder(&guarded.issuer.nameless()), &["viewer"]),
        (admin(guarded), &["admin", "viewer"]),
    ] {
        assert_eq!(caller.get("/whoami").await.expect_status(200).json()["roles"], json!(roles));
        caller.get(href(&made)).await.expect_status(200);
    }
    assert_refused(&guarded.named("unbound@example.com").delete(href(&made)).await, 403, "AUZ-003");
    guarded.get(href(&made)).await.expect_status(401);
}
