//! Tenants by header, names per tenant, and system callers.

use super::*;

both_stores!(
    config = &tenants();
    two_tenants_may_use_the_same_name,
    a_caller_without_a_tenant_is_refused,
    a_system_caller_reads_everything_and_writes_only_reports,
    a_tenant_is_identified_by_all_its_dimensions,
    concurrent_creates_of_a_name_within_a_tenant_succeed_once,
);

both_stores!(config = CATALOG; resources_from_before_tenancy_belong_to_no_tenant);

async fn two_tenants_may_use_the_same_name(app: &App) {
    let taken = |answer: &Answer| assert_refused(answer, 409, "CNF-001");
    let callers = [
        org(app, "a"),
        org(app, "b"),
        Caller::new(app, &[("x-org", "a"), ("x-project", "p")]),
        Caller::new(app, &[("x-org", "a"), ("x-project", "q")]),
    ];
    for caller in &callers {
        let made = caller.cluster("shared", &json!({})).await;
        taken(&caller.post("/clusters", &cluster("shared", &json!({}))).await);
        taken(&caller.post("/resources", &cluster("shared", &json!({}))).await);
        taken(&caller.post("/clusters?dryRun=true", &cluster("shared", &json!({}))).await);
        assert_eq!(caller.list("/clusters").await, (1, vec!["shared".to_owned()]));
        caller.get(href(&made)).await.expect_status(200);
    }
    assert_eq!(system(app).list("/clusters").await.0, 4);
}

async fn a_caller_without_a_tenant_is_refused(app: &App) {
    let made = org(app, "a").cluster("kept", &json!({})).await;
    let long = "x".repeat(64);
    for headers in [
        &[][..],
        &[("x-project", "p")],
        &[("x-org", "")],
        &[("x-org", "  ")],
        &[("x-org", "a b")],
        &[("x-org", "a/b")],
        &[("x-org", "a\"b")],
        &[("x-org", "é")],
        &[("x-org", &long)],
        &[("x-org", "a"), ("x-org", "a")],
        &[("x-org", "a"), ("x-org", "b")],
        &[("x-org", "a"), ("x-project", "p q")],
        &[("x-org", "a"), ("x-project", "p"), ("x-project", "p")],
        &[("x-system", "yes")],
        &[("x-system", "false")],
        &[("x-system", "true"), ("x-system", "true")],
        &[("x-system", "true"), ("x-system", "false"), ("x-org", "a")],
    ] {
        let caller = Caller::new(app, headers);
        for (method, path, body) in [
            ("GET", "/clusters", None),
            ("GET", href(&made), None),
            ("GET", "/whoami", None),
            ("POST", "/clusters", Some(cluster("never", &json!({})))),
            ("PATCH", href(&made), Some(json!({"labels": {"a": "b"}}))),
            ("DELETE", href(&made), None),
            ("POST", "/authz/check", Some(json!({"verb": "read", "kind": "Cluster"}))),
        ] {
            let answer = asked(&caller, method, path, body.as_ref(), false).await;
            assert_refused(&answer, 403, "AUZ-001");
        }
    }
    for (_, path, _) in operations(app).await.into_iter().filter(|(.., open)| *open) {
        app.get(&path).await.expect_status(200);
    }
    let longest = "x".repeat(63);
    assert_eq!(org(app, &longest).list("/clusters").await, (0, vec![]));
    assert_eq!(org(app, "a").list("/clusters").await.0, 1);
}

async fn a_system_caller_reads_everything_and_writes_only_reports(app: &App) {
    let (a, b, system) = (org(app, "a"), org(app, "b"), system(app));
    let (first, second) = (Tree::plant(&a).await, Tree::plant(&b).await);
    assert_eq!(system.list("/clusters").await.0, 2);
    assert_eq!(system.list("/resources").await.0, 16);
    for tree in [&first, &second] {
        for (_, resource) in &tree.0 {
            assert_eq!(system.get(href(resource)).await.expect_status(200).json(), *resource);
        }
    }
    let mut refused = 0;
    for (method, template, open) in operations(app).await {
        let reports = template.ends_with("/statuses")
            || template.ends_with("/authz/check")
            || template.contains("/leases/");
        if open || method == "GET" || reports {
            continue;
        }
        let path = filled(&template, "clusters", &first.ids());
        let answer =
            asked(&system, &method, &path, body(&method, &template, "Cluster").as_ref(), false).await;
        assert_refused(&answer, 403, "AUZ-001");
        refused += 1;
    }
    assert!(refused > 30, "{refused}");
    first.expect_untouched(&a).await;

    let statuses = format!("{}/statuses", href(&first.0[0].1));
    asked(&system, "PUT", &statuses, Some(&validated()), false).await.expect_status(201);
    assert_eq!(a.get(&statuses).await.expect_status(200).json()["total"], 1);
    let whoami = system.get("/whoami").await.expect_status(200).json();
    assert_eq!((&whoami["system"], whoami.get("tenant")), (&json!(true), None));
    for (verb, allowed) in
        [("read", true), ("report", true), ("write", false), ("delete", false), ("force-delete", false)]
    {
        let question = json!({"verb": verb, "kind": "Cluster"});
        let verdict = system.post("/authz/check", &question).await.expect_status(200).json();
        assert_eq!(verdict["allowed"], allowed, "{verb}");
    }
}

async fn a_tenant_is_identified_by_all_its_dimensions(app: &App) {
    let callers = [
        org(app, "a"),
        Caller::new(app, &[("x-org", "a"), ("x-project", "p")]),
        Caller::new(app, &[("x-org", "p"), ("x-project", "a")]),
        Caller::new(app, &[("x-org", "A")]),
    ];
    let mut made = Vec::new();
    for caller in &callers {
        made.push(caller.cluster("own", &json!({})).await);
    }
    for (i, caller) in callers.iter().enumerate() {
        for (j, resource) in made.iter().enumerate() {
            caller.get(href(resource)).await.expect_status(if i == j { 200 } else { 404 });
        }
    }
    // Spaces around a value and the case of a header's name do not count.
    let spaced = Caller::new(app, &[("X-ORG", " a "), ("x-project", "")]);
    spaced.get(href(&made[0])).await.expect_status(200);
}

async fn concurrent_creates_of_a_name_within_a_tenant_succeed_once(app: &App) {
    let callers = [org(app, "a"), org(app, "b"), Caller::new(app, &[("x-org", "a"), ("x-project", "p")])];
    let body = cluster("wanted", &json!({}));
    let mut racing = tokio::task::JoinSet::new();
    for _ in 0..8 {
        for (i, caller) in callers.iter().enumerate() {
            let asked = caller.post("/clusters", &body);
            racing.spawn(async move { (i, asked.await.status) });
        }
    }
    let mut answers = racing.join_all().await;
    answers.sort_unstable();
    let expected = (0..3).flat_map(|i| std::iter::once((i, 201)).chain(std::iter::repeat_n((i, 409), 7)));
    assert_eq!(answers, expected.collect::<Vec<_>>());
}

async fn resources_from_before_tenancy_belong_to_no_tenant(app: &mut App) {
    let old = app.create_cluster("old").await;
    app.restart_with(&tenants()).await;
    let a = org(app, "a");
    assert_eq!(a.list("/resources").await, (0, vec![]));
    a.get(href(&old)).await.expect_status(404);
    a.delete(href(&old)).await.expect_status(404);
    let new = a.cluster("old", &json!({})).await;
    assert_eq!(system(app).list("/clusters").await.0, 2);
    system(app).get(href(&old)).await.expect_status(200);
    assert_eq!(a.get(href(&new)).await.expect_status(200).json(), new);
    app.restart_with(&tenants()).await;
    assert_eq!(org(app, "a").get(href(&new)).await.expect_status(200).json(), new, "and it is kept");
    org(app, "b").get(href(&new)).await.expect_status(404);
}
