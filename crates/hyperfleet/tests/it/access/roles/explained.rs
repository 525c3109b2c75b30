//! Explanations for callers who may not read every blocker.

use super::*;

both_stores!(
    start = async |backend| Guarded::on(backend, ROLES).await;
    an_explanation_counts_unreadable_blockers_without_their_names,
    an_explanation_needs_the_read_permission,
);

async fn an_explanation_counts_unreadable_blockers_without_their_names(guarded: &Guarded) {
    let ann = admin(guarded);
    let [dev, pool, ..] = fleet(guarded).await;
    let hidden =
        json!({"kind": "NodePool", "name": "hidden-pool", "spec": {}, "labels": {"environment": "prod"}});
    let hidden = ann.create(&format!("{}/nodepools", href(&dev)), &hidden).await;
    ann.delete(href(&dev)).await.expect_status(202);
    let path = format!("{}/explain", href(&dev));
    let names = |explanation: &Value| -> Vec<String> {
        let blockers = explanation["blockers"].as_array().unwrap().iter();
        blockers.map(|blocker| text(&blocker["name"]).to_owned()).collect()
    };
    let all = ann.get(&path).await.expect_status(200).json();
    assert_eq!(names(&all), ["validator", text(&pool["name"]), "hidden-pool"]);
    let some = developer(guarded).get(&path).await.expect_status(200).json();
    assert_eq!(names(&some), ["validator", text(&pool["name"]), "NodePool (1)"]);
    let some = some.to_string();
    assert!(!some.contains("hidden-pool") && !some.contains(id(&hidden)), "{some}");
    // One who may read clusters alone.
    let operator = guarded.member("otto@example.com", &["operators"]);
    let few = operator.get(&path).await.expect_status(200).json();
    assert_eq!(names(&few), ["validator", "NodePool (2)"]);
}

async fn an_explanation_needs_the_read_permission(guarded: &Guarded) {
    let [dev, _, prod, prod_pool] = fleet(guarded).await;
    let dan = developer(guarded);
    dan.get(&format!("{}/explain", href(&dev))).await.expect_status(200);
    for (resource, plural) in [(&prod, "clusters"), (&prod_pool, "nodepools")] {
        let refused = dan.get(&format!("{}/explain", href(resource))).await;
        let absent = dan.get(&format!("/{plural}/{}/explain", walk::UNKNOWN_ID)).await.expect_status(404);
        assert_eq!(problem_text(&refused, id(resource)), problem_text(&absent, walk::UNKNOWN_ID));
    }
    let unbound = guarded.named("unbound@example.com").get(&format!("{}/explain", href(&dev))).await;
    assert_refused(&unbound, 403, "AUZ-003");
}
