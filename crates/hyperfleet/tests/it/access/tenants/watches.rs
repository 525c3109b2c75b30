//! Watches and tenants: changes of another tenant are not sent, neither live nor replayed.

use super::*;
use crate::support::watched;

both_stores!(
    config = &tenants();
    a_watch_tells_a_tenant_only_of_its_own_resources,
    a_watch_below_a_foreign_owner_is_not_found,
    a_system_caller_watches_all_tenants,
    a_caller_without_a_tenant_cannot_watch,
);

/// Some of everything that a tenant can do, and a Cluster with this name at the end.
async fn live(caller: &Caller<'_>, name: &str) {
    let tree = Tree::plant(caller).await;
    for (_, resource) in tree.0.iter().rev() {
        let patch = json!({"labels": {"shared": "label"}, "spec": {"n": 1}});
        caller.patch(href(resource), &patch).await.expect_status(200);
    }
    for (_, resource) in tree.0.iter().rev() {
        caller.delete(href(resource)).await.expect_status(202);
    }
    let cluster = tree.0.iter().find(|(plural, _)| *plural == "clusters").unwrap();
    let reason = json!({"reason": "it hangs"});
    caller.post(&format!("{}/force-delete", href(&cluster.1)), &reason).await.expect_status(204);
    caller.cluster(name, &json!({"shared": "label"})).await;
}

async fn a_watch_tells_a_tenant_only_of_its_own_resources(app: &App) {
    let [busy, other] = [org(app, "busy"), org(app, "other")];
    let paths = [
        "/resources?showDeleted=true",
        "/resources",
        "/clusters?search=labels.shared%3D'label'",
        "/clusters",
    ];
    let mut streams = Vec::new();
    for caller in [&other, &org(app, "empty")] {
        for path in paths {
            let mut stream = caller.get(&watched(path)).watch().await;
            assert_eq!(stream.until_bookmark().await, (vec![], 0));
            streams.push((path, stream));
        }
    }
    let mut own = busy.get(&watched("/resources?showDeleted=true")).watch().await;
    live(&busy, "busy-one").await;
    let newest = busy.get("/clusters").await.json()["version"].as_u64().unwrap();
    for version in 1..=newest {
        assert_eq!(own.change().await.version(), version, "its own are all there");
    }
    // From the past and from the present it looks just so.
    for since in ["since=0".to_owned(), format!("since={}", newest / 2), String::new()] {
        for path in paths {
            let and = if path.contains('?') { '&' } else { '?' };
            let stream = other.get(&watched(&format!("{path}{and}{since}"))).watch().await;
            streams.push((path, stream));
        }
    }
    let mine = other.cluster("mine", &json!({"shared": "label"})).await;
    let empties = org(app, "empty").cluster("mine", &json!({"shared": "label"})).await;
    for (number, (path, stream)) in streams.iter_mut().enumerate() {
        let event = stream.change().await;
        let (expected, version) = match number {
            4..8 => (&empties, newest + 2),
            _ => (&mine, newest + 1),
        };
        assert_eq!((event.kind(), event.version(), event.object()), ("ADDED", version, expected), "{path}");
    }
}

async fn a_watch_below_a_foreign_owner_is_not_found(app: &App) {
    let cluster = org(app, "busy").cluster("hidden", &json!({})).await;
    let other = org(app, "other");
    for since in ["", "?since=0", "?since=1"] {
        let path = |id: &str| watched(&format!("/clusters/{id}/nodepools{since}"));
        let hidden = asked(&other, "GET", &path(id(&cluster)), None, false).await.expect_status(404);
        let none = asked(&other, "GET", &path(&unknown_id(0)), None, false).await.expect_status(404);
        let masks = [(id(&cluster).to_owned(), unknown_id(0))];
        assert_eq!(masked(&hidden, &masks), masked(&none, &masks));
    }
}

async fn a_system_caller_watches_all_tenants(app: &App) {
    let mut stream = system(app).get(&watched("/clusters")).watch().await;
    for name in ["one", "two"] {
        let made = org(app, name).cluster("same-name", &json!({})).await;
        assert_eq!(stream.change().await.object(), &made);
    }
    let project = Caller::new(app, &[("x-org", "one"), ("x-project", "p")]);
    project.cluster("in-project", &json!({})).await;
    let (events, _) = org(app, "one").get(&watched("/clusters")).watch().await.until_bookmark().await;
    let seen: Vec<_> = events.iter().map(|event| event.object()["name"].clone()).collect();
    let listed = org(app, "one").list("/clusters").await.1;
    assert_eq!(seen, listed, "a watch shows what a list shows");
}

async fn a_caller_without_a_tenant_cannot_watch(app: &App) {
    for headers in [&[][..], &[("x-project", "p")], &[("x-org", "not ok")]] {
        let caller = Caller::new(app, headers);
        assert_refused(&caller.get(&watched("/clusters")).await, 403, "AUZ-001");
    }
}
