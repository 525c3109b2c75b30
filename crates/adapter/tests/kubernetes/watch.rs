//! Watches: which resource a change belongs to, and that none is missed.

use std::sync::Arc;
use std::time::Duration;

use hyperfleet_adapter::targets::kubernetes::{Change, Kubernetes, Settings, Sync, Watches, What};
use hyperfleet_adapter::targets::{ErrorClass, Observation, Propagation};
use hyperfleet_testkit::{Kubernetes as Server, eventually};
use serde_json::json;
use tokio::time::timeout;

use crate::support::{DEADLINE, OPTIONS, World, kind, on_kubernetes, unknown};
use hyperfleet_adapter::targets::kubernetes::Current;

async fn in_sync(watches: &Watches) {
    eventually("the watch is in sync", DEADLINE, async || watches.health.in_sync().then_some(())).await;
}

/// The next change that is none of these versions.
async fn next(watches: &mut Watches) -> Change {
    timeout(DEADLINE, watches.changes.recv()).await.expect("a change").expect("the watches go on")
}

/// Changes until one of this sort.
async fn until(watches: &mut Watches, wanted: impl Fn(&Change) -> bool) -> Change {
    loop {
        let change = next(watches).await;
        if wanted(&change) {
            return change;
        }
    }
}

on_kubernetes! {
    async fn a_change_leads_to_its_resource(world: World) {
        let mut watches = world.target.watch(&[kind("v1", "ConfigMap")], &world.adapter).unwrap();
        assert_eq!(watches.health.kinds()[0].1, Sync::Starting);
        in_sync(&watches).await;
        let manifest = world.config_map(&json!({"a": "1"}));
        let (_, created) = world.apply(&manifest).await.unwrap();
        let change = next(&mut watches).await;
        assert_eq!(change.what, What::Changed);
        assert_eq!((&*change.owner.resource_kind, &*change.owner.task_resource), ("Cluster", "settings"));
        assert_eq!(*change.owner.resource_id, world.ownership().resource_id);
        assert_eq!(created["metadata"]["uid"], change.uid.as_str());
        assert!(world.target.has_seen(&change), "the adapter made it itself");

        world.server.change(&world.config_map_path(), &json!({"data": {"a": "2"}})).await;
        let change = next(&mut watches).await;
        assert!(change.what == What::Changed && !world.target.has_seen(&change), "somebody else did");
        world.observe("v1", "ConfigMap").await;
        assert!(world.target.has_seen(&change), "and now it was read");

        // A label that is taken away hides the object, which is still there.
        world.server.change(&world.config_map_path(), &json!({"metadata": {"labels": {"hyperfleet.io/adapter": null}}})).await;
        let change = next(&mut watches).await;
        assert_eq!((&change.what, &*change.owner.resource_id), (&What::Gone, &*world.ownership().resource_id));
        world.apply(&manifest).await.unwrap();
        assert_eq!(next(&mut watches).await.what, What::Changed);

        world.target.delete(&created, Propagation::Background).await.unwrap();
        let change = until(&mut watches, |change| change.what == What::Gone).await;
        assert_eq!(*change.owner.resource_id, world.ownership().resource_id);
        assert!(!world.target.has_seen(&change));
    }

    async fn a_watch_begins_with_what_is_there(world: World) {
        let (_, created) = world.apply(&world.config_map(&json!({}))).await.unwrap();
        let other = Kubernetes::connect(&World::settings(world.server, "other")).await.unwrap();
        let mut ownership = world.ownership();
        ownership.adapter = format!("{}-other", world.adapter);
        let mut manifest = world.config_map(&json!({}));
        manifest["metadata"]["name"] = "of-another".into();
        other.apply(&manifest, Current::Absent, &ownership, &OPTIONS).await.unwrap();

        let mut watches = world.replica().await.watch(&[kind("v1", "ConfigMap")], &world.adapter).unwrap();
        let change = next(&mut watches).await;
        let applied = created["metadata"]["annotations"]["hyperfleet.io/applied"].as_str().map(str::to_owned);
        assert_eq!(change.what, What::Listed { applied, generation: Some(1) });
        in_sync(&watches).await;
        assert!(watches.changes.try_recv().is_err(), "objects of other adapters are not told");
    }

    async fn a_kind_that_appears_later_is_watched_then(world: World) {
        let group = format!("{}.example.com", world.namespace);
        let version = format!("{group}/v1");
        let mut watches = world.target.watch(&[kind("v1", "ConfigMap"), kind(&version, "Gadget")], &world.adapter).unwrap();
        eventually("the missing kind is named", DEADLINE, async || {
            watches.health.kinds().iter().find_map(|(kind, sync)| match sync {
                Sync::Lost(error) if kind.kind == "Gadget" && error.reason == "UnknownKind" => Some(()),
                _ => None,
            })
        })
        .await;
        assert!(!watches.health.in_sync());
        world.server.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("gadgets.{group}")},
            "spec": {
                "group": group, "scope": "Cluster",
                "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        })).await;
        in_sync(&watches).await;
        let manifest = json!({"apiVersion": version, "kind": "Gadget", "metadata": {"name": "a"}});
        world.apply(&manifest).await.unwrap();
        let change = next(&mut watches).await;
        assert_eq!((&change.what, &change.kind), (&What::Changed, &Arc::new(kind(&version, "Gadget"))));
    }

    async fn without_the_right_to_watch_nothing_is_in_sync(world: World) {
        let settings = Settings {
            kube_config_path: Some(world.server.kubeconfig_of(&format!("{}-user", world.namespace)).unwrap()),
            ..World::settings(world.server, &world.adapter)
        };
        let target = Kubernetes::connect(&settings).await.unwrap();
        let watches = target.watch(&[kind("v1", "ConfigMap")], &world.adapter).unwrap();
        let error = eventually("the watch is refused", DEADLINE, async || match &watches.health.kinds()[0].1 {
            Sync::Lost(error) => Some(error.clone()),
            _ => None,
        })
        .await;
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Terminal, "Forbidden"));
    }
}

/// A control plane of its own, because it is killed. Its server lists before it watches, as older ones do.
#[tokio::test(flavor = "multi_thread")]
async fn outages_are_told_and_nothing_that_happened_meanwhile_is_missed() {
    let Some(server) = Server::own(&["--feature-gates=WatchList=false"]).await else { return };
    let server: &'static Server = Box::leak(Box::new(server));
    let world = World::new(server).await;
    let mut watches = world.target.watch(&[kind("v1", "ConfigMap")], &world.adapter).unwrap();
    in_sync(&watches).await;
    let (_, kept) = world.apply(&world.config_map(&json!({"a": "1"}))).await.unwrap();
    let mut doomed = world.config_map(&json!({}));
    doomed["metadata"]["name"] = "doomed".into();
    let (_, doomed) = world.apply(&doomed).await.unwrap();
    for _ in 0..2 {
        next(&mut watches).await;
    }

    server.kill();
    eventually("the watch is lost", DEADLINE, async || (!watches.health.in_sync()).then_some(())).await;
    let error = unknown(world.observe("v1", "ConfigMap").await);
    assert!(matches!(error.class, ErrorClass::Outage { .. }), "{error}");
    server.start_again().await.unwrap();
    server.delete(&world.path("/api/v1", "configmaps/doomed")).await;
    server.change(&world.config_map_path(), &json!({"data": {"a": "2"}})).await;
    let mut gone = false;
    let mut changed = false;
    while !(gone && changed) {
        let change = next(&mut watches).await;
        gone |= change.what == What::Gone && doomed["metadata"]["uid"] == change.uid.as_str();
        changed |= change.what != What::Gone && kept["metadata"]["uid"] == change.uid.as_str();
    }
    in_sync(&watches).await;

    // An API server without its storage answers, but knows nothing.
    server.kill_storage();
    let impatient = Settings { timeout: Duration::from_secs(5), ..World::settings(server, &world.adapter) };
    let impatient = Kubernetes::connect(&impatient).await.unwrap();
    let query = world.query("v1", "ConfigMap", "a");
    let error = unknown(impatient.observe(&query).await);
    assert!(matches!(error.class, ErrorClass::Outage { .. }), "{error:?}");
    assert!(impatient.probe().await.is_err());
    server.start_storage_again().await.unwrap();
    eventually("it is known again", DEADLINE, async || match world.observe("v1", "ConfigMap").await {
        Observation::Present(_) => Some(()),
        _ => None,
    })
    .await;
    assert_eq!(world.observe("v1", "Secret").await, Observation::Absent);
}
