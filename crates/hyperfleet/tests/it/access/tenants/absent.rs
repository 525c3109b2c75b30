//! Every operation on a resource, and every reference to one: foreign and absent give the same answer.

use super::*;

both_stores!(
    config = &tenants();
    a_foreign_resource_is_not_found_in_every_operation,
    a_foreign_child_below_an_own_resource_is_not_found,
    a_foreign_finalizing_resource_cannot_be_force_deleted,
    a_deleted_foreign_resource_is_not_found,
    a_reference_to_a_foreign_resource_is_not_found,
);

/// Asks for everything that has ids in its path, once with those of `real` and once with unknown ids; each pair of
/// answers must be the same 404. How many pairs there were.
async fn compare(
    app: &App,
    caller: &Caller<'_>,
    real: &[(&'static str, String)],
    fake: &[(&'static str, String)],
    wanted: impl Fn(&str) -> bool,
) -> usize {
    let masks: Vec<_> =
        real.iter().zip(fake).map(|((_, real), (_, fake))| (real.clone(), fake.clone())).collect();
    let mut pairs = 0;
    for (method, template, _) in operations(app).await {
        // Leases belong to no resource, so no foreign resource has their path.
        if !template.contains('{') || template.contains("/leases/") || !wanted(&template) {
            continue;
        }
        let any_kind = template.contains("/resources/");
        for (plural, _) in KINDS.iter().take(if any_kind { KINDS.len() } else { 1 }) {
            let last = template.trim_end_matches('}').rsplit('/').next().unwrap();
            let child = KINDS.iter().find(|(plural, _)| *plural == last).map_or("Cluster", |(_, kind)| kind);
            let (theirs, unknown) = (filled(&template, plural, real), filled(&template, plural, fake));
            let body = body(&method, &template, child);
            for if_match in [false, true] {
                let foreign = asked(caller, &method, &theirs, body.as_ref(), if_match).await;
                let absent = asked(caller, &method, &unknown, body.as_ref(), if_match).await;
                assert_eq!(absent.status, 404, "{method} {unknown}: {absent}");
                assert_eq!(masked(&foreign, &masks), masked(&absent, &masks), "{method} {theirs}");
                pairs += 1;
            }
        }
    }
    pairs
}

async fn a_foreign_resource_is_not_found_in_every_operation(app: &App) {
    let (a, b) = (org(app, "a"), org(app, "b"));
    let tree = Tree::plant(&a).await;
    let pairs = compare(app, &b, &tree.ids(), &unknown_ids(), |_| true).await;
    assert!(pairs > 150, "{pairs}");
    let question = |id: &str| json!({"verb": "read", "kind": "Cluster", "id": id});
    let cluster = id(&tree.0[0].1);
    let foreign = asked(&b, "POST", "/authz/check", Some(&question(cluster)), false).await;
    let absent = asked(&b, "POST", "/authz/check", Some(&question(&unknown_id(0))), false).await;
    assert_eq!(absent.status, 404);
    assert_eq!(masked(&foreign, &[(cluster.to_owned(), unknown_id(0))]), masked(&absent, &[]));
    tree.expect_untouched(&a).await;
    assert_eq!(b.list("/resources").await, (0, vec![]));
}

async fn a_foreign_child_below_an_own_resource_is_not_found(app: &App) {
    let (a, b) = (org(app, "a"), org(app, "b"));
    let (theirs, own) = (Tree::plant(&a).await, Tree::plant(&b).await);
    // Owners are the caller's own; what is below them is not.
    let is_owner = |plural: &str| ["clusters", "zones"].contains(&plural);
    let mix = |below: Vec<(&'static str, String)>| -> Vec<(&'static str, String)> {
        let own = own.ids();
        let pick = |(i, (plural, id)): (usize, (&'static str, String))| {
            if is_owner(plural) { own[i].clone() } else { (plural, id) }
        };
        below.into_iter().enumerate().map(pick).collect()
    };
    let below = |template: &str| template.matches('{').count() > 1;
    let pairs = compare(app, &b, &mix(theirs.ids()), &mix(unknown_ids()), below).await;
    assert!(pairs > 30, "{pairs}");
    theirs.expect_untouched(&a).await;
    own.expect_untouched(&b).await;
}

async fn a_foreign_finalizing_resource_cannot_be_force_deleted(app: &App) {
    let (a, b) = (org(app, "a"), org(app, "b"));
    let made = a.cluster("going", &json!({})).await;
    let before = a.delete(href(&made)).await.expect_status(202).json();
    let masks = [(id(&made).to_owned(), unknown_id(0))];
    let absent_path = href(&made).replace(id(&made), &unknown_id(0));
    let reason = json!({"reason": "not mine"});
    for (method, end, body) in [
        ("GET", "", None),
        ("PATCH", "", Some(json!({"labels": {"a": "b"}}))),
        ("DELETE", "", None),
        ("POST", "/force-delete", Some(reason.clone())),
        ("POST", "/force-delete?dryRun=true", Some(reason)),
        ("PUT", "/statuses", Some(validated())),
        ("POST", "/nodepools", Some(json!({"kind": "NodePool", "name": "late", "spec": {}}))),
    ] {
        let foreign = asked(&b, method, &format!("{}{end}", href(&made)), body.as_ref(), false).await;
        let absent = asked(&b, method, &format!("{absent_path}{end}"), body.as_ref(), false).await;
        assert_eq!(absent.status, 404, "{method} {end}: {absent}");
        assert_eq!(masked(&foreign, &masks), masked(&absent, &masks), "{method} {end}");
    }
    assert_eq!(a.get(href(&made)).await.expect_status(200).json(), before);
}

async fn a_deleted_foreign_resource_is_not_found(app: &App) {
    let (a, b) = (org(app, "a"), org(app, "b"));
    let tree = Tree::plant(&a).await;
    let of = |kind: &str| &tree.0.iter().find(|(plural, _)| *plural == kind).unwrap().1;
    for kind in ["permits", "services", "clusters", "zones", "networks"] {
        a.delete(href(of(kind))).await.expect_status(202);
        if a.get(href(of(kind))).await.status == 200 {
            a.post(&format!("{}/force-delete", href(of(kind))), &json!({"reason": "over"}))
                .await
                .expect_status(204);
        }
    }
    // All of it is gone; its past is there for those whose it was, and for the system.
    for (_, resource) in &tree.0 {
        for (end, status) in [("", 404), ("/timeline", 200), ("/diff", 200), ("?generation=1", 200)] {
            let path = format!("{}{end}", href(resource));
            a.get(&path).await.expect_status(status);
            system(app).get(&path).await.expect_status(status);
        }
        let absent = format!("/resources/{}", unknown_id(0));
        let masks = [(id(resource).to_owned(), unknown_id(0))];
        for end in ["?generation=1", "?generation=9", "/diff?from=1&to=9"] {
            let foreign = asked(&b, "GET", &format!("/resources/{}{end}", id(resource)), None, false).await;
            let none = asked(&b, "GET", &format!("{absent}{end}"), None, false).await;
            assert_eq!(none.status, 404, "{none}");
            assert_eq!(masked(&foreign, &masks), masked(&none, &masks), "{end}");
        }
    }
    let pairs = compare(app, &b, &tree.ids(), &unknown_ids(), |_| true).await;
    assert!(pairs > 150, "{pairs}");
    // A token of theirs is no good to anyone else.
    let cluster = format!("{}/timeline", href(of("clusters")));
    let list = a.get(&format!("{cluster}?pageSize=1")).await.expect_status(200).json();
    let further = format!("{cluster}?pageToken={}", text(&list["next_page_token"]));
    a.get(&further).await.expect_status(200);
    assert_refused(&b.get(&further).await, 400, "VAL-004");
}

async fn a_reference_to_a_foreign_resource_is_not_found(app: &App) {
    let (a, b) = (org(app, "a"), org(app, "b"));
    let (theirs, own) = (Tree::plant(&a).await, Tree::plant(&b).await);
    let network = |tree: &Tree| id(&tree.0[6].1).to_owned();
    let masks = [(network(&theirs), unknown_id(6))];
    let service = |id: &str| json!({"kind": "Service", "name": "new", "spec": {}, "references": {"networks": [{"id": id}]}});
    let patch = |id: &str| json!({"references": {"networks": [{"id": id}]}});
    let path = href(&own.0[7].1);
    for (method, path, body) in [
        ("POST", "/services", &service as &dyn Fn(&str) -> Value),
        ("POST", "/services?dryRun=true", &service),
        ("POST", "/resources", &service),
        ("PATCH", path, &patch),
    ] {
        let foreign = asked(&b, method, path, Some(&body(&network(&theirs))), false).await;
        let absent = asked(&b, method, path, Some(&body(&unknown_id(6))), false).await;
        assert_refused(&absent, 400, "VAL-002");
        assert_eq!(masked(&foreign, &masks), masked(&absent, &masks), "{method} {path}");
    }
    b.create("/services", &service(&network(&own))).await;
    // Who refers to it is not to be learnt either.
    let referring = |id: &str| format!("/services?ref_type=networks&ref_target_id={id}");
    assert_eq!(b.list(&referring(&network(&theirs))).await, (0, vec![]));
    assert_eq!(b.list(&referring(&network(&own))).await.0, 2);
    assert_eq!(a.list(&referring(&network(&theirs))).await.0, 1);
    theirs.expect_untouched(&a).await;
}
