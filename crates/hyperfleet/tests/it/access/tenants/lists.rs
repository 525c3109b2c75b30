//! Lists, counts, searches and page tokens of tenants, and the member `tenancy`.

use super::*;

both_stores!(
    config = &tenants();
    lists_counts_and_searches_leave_out_foreign_resources,
    a_page_token_is_valid_for_one_tenant,
    tenancy_is_shown_and_searched,
);

both_stores!(without_tenants_no_resource_shows_tenancy);

async fn lists_counts_and_searches_leave_out_foreign_resources(app: &App) {
    let (a, b, c) = (org(app, "a"), org(app, "b"), org(app, "c"));
    for (caller, names) in [(&a, &["one", "two", "three"][..]), (&b, &["one", "four"])] {
        for name in names {
            let made = caller.cluster(name, &json!({"tier": "gold"})).await;
            caller
                .create(
                    &format!("{}/nodepools", href(&made)),
                    &json!({"kind": "NodePool", "name": "pool", "spec": {"n": 1}}),
                )
                .await;
        }
    }
    let gone = a.cluster("gone", &json!({"tier": "gold"})).await;
    a.delete(href(&gone)).await.expect_status(202);
    for query in [
        "orderBy=name".to_owned(),
        search("labels.tier = 'gold'"),
        search("name = 'one' or name = 'four' or name = 'two' or name = 'three'"),
        search("name like 'o%' or not name = 'x'"),
        search("status.conditions.Reconciled = 'False'"),
        search("kind = 'Cluster'"),
        search("id != 'x' or tenancy.org = 'a'"),
    ] {
        let path = format!("/clusters?{query}");
        assert_eq!(names(&a.list(&path).await), (3, vec!["one", "three", "two"]), "{path}");
        assert_eq!(names(&b.list(&path).await), (2, vec!["four", "one"]), "{path}");
        assert_eq!(c.list(&path).await, (0, vec![]), "{path}");
    }
    assert_eq!(names(&a.list("/clusters?showDeleted=true").await), (4, vec!["gone", "one", "three", "two"]));
    assert_eq!(names(&b.list("/clusters?showDeleted=true").await), (2, vec!["four", "one"]));
    let deleted = format!("/clusters?{}", search("deleted_time is not null"));
    assert_eq!((a.list(&deleted).await.0, b.list(&deleted).await.0), (1, 0));
    let other = format!("/resources?{}", search("tenancy.org = 'a'"));
    assert_eq!((a.list(&other).await.0, b.list(&other).await.0), (6, 0));
    assert_eq!((a.list("/resources").await.0, b.list("/resources").await.0), (6, 4));
    assert_eq!(
        (a.list("/resources?kind=Cluster").await.0, b.list("/resources?kind=Cluster").await.0),
        (3, 2)
    );
    assert_eq!((a.list("/nodepools").await.0, b.list("/nodepools").await.0), (3, 2));
    assert_eq!(c.list("/resources?showDeleted=true").await, (0, vec![]));
    let numbered = b.get("/clusters?page=2&pageSize=1").await.expect_status(200).json();
    assert_eq!((&numbered["total"], &numbered["size"]), (&json!(2), &json!(1)));
}

async fn a_page_token_is_valid_for_one_tenant(app: &App) {
    let (a, b) = (org(app, "a"), org(app, "b"));
    for caller in [&a, &b] {
        for name in ["one", "two", "three"] {
            caller.cluster(name, &json!({})).await;
        }
    }
    let page = a.get("/clusters?pageSize=2").await.expect_status(200).json();
    let next = format!("/clusters?pageSize=2&pageToken={}", text(&page["next_page_token"]));
    let project = Caller::new(app, &[("x-org", "a"), ("x-project", "p")]);
    for caller in [&b, &project, &system(app)] {
        assert_refused(&caller.get(&next).await, 400, "VAL-004");
    }
    let rest = a.get(&next).await.expect_status(200).json();
    assert_eq!((&rest["size"], &rest["total"]), (&json!(1), &json!(3)));
    let all = system(app).get("/clusters?pageSize=2").await.expect_status(200).json();
    let next = format!("/clusters?pageToken={}", text(&all["next_page_token"]));
    assert_refused(&a.get(&next).await, 400, "VAL-004");
    // Reports of one resource, which the system sees too.
    let statuses = format!("{}/statuses", href(&rest["items"][0]));
    for adapter in ["one", "two"] {
        let mut report = validated();
        report["adapter"] = adapter.into();
        a.call("PUT", &statuses).json(&report).await.expect_status(201);
    }
    let page = a.get(&format!("{statuses}?pageSize=1")).await.expect_status(200).json();
    let next = format!("{statuses}?pageToken={}", text(&page["next_page_token"]));
    assert_refused(&system(app).get(&next).await, 400, "VAL-004");
    a.get(&next).await.expect_status(200);
}

async fn tenancy_is_shown_and_searched(app: &App) {
    let project = Caller::new(app, &[("x-org", "a"), ("x-project", "p")]);
    let mut body = cluster("both", &json!({}));
    body["tenancy"] = json!({"org": "b"});
    let made = project.create("/clusters", &body).await;
    assert_eq!(made["tenancy"], json!({"org": "a", "project": "p"}), "it follows from the caller alone");
    let pool = json!({"kind": "NodePool", "name": "pool", "spec": {"n": 1}});
    let pool = project.create(&format!("{}/nodepools", href(&made)), &pool).await;
    assert_eq!(pool["tenancy"], made["tenancy"]);
    let alone = org(app, "a").cluster("alone", &json!({})).await;
    assert_eq!(alone["tenancy"], json!({"org": "a"}));
    org(app, "b").cluster("other", &json!({})).await;
    assert_eq!(project.get("/whoami").await.json()["tenant"], made["tenancy"]);

    let changed = project.patch(href(&made), &json!({"labels": {"a": "b"}})).await.expect_status(200).json();
    assert_eq!(changed["tenancy"], made["tenancy"], "and it never changes");
    project.patch(href(&made), &json!({"tenancy": {"org": "b"}})).await.expect_status(400);

    let system = system(app);
    for (text, found) in [
        ("tenancy.org = 'a'", &["alone", "both"][..]),
        ("tenancy.org = 'b'", &["other"]),
        ("tenancy.org = 'c'", &[]),
        ("tenancy.project = 'p'", &["both"]),
        ("tenancy.org = 'a' and not tenancy.project = 'p'", &["alone"]),
        ("tenancy.org in ('a', 'b')", &["alone", "both", "other"]),
    ] {
        let list = system.list(&format!("/clusters?{}", search(text))).await;
        assert_eq!(names(&list), (found.len() as u64, found.to_vec()), "{text}");
    }
}

async fn without_tenants_no_resource_shows_tenancy(app: &App) {
    let a = org(app, "a");
    let made = a.cluster("plain", &json!({})).await;
    assert_eq!(made.get("tenancy"), None);
    assert_eq!(org(app, "b").get(href(&made)).await.expect_status(200).json(), made);
    let refused = a.get(&format!("/clusters?{}", search("tenancy.org = 'a'"))).await;
    assert_refused(&refused, 400, "VAL-004");
}
