//! Deleting: this very object, and why it stays.

use hyperfleet_adapter::targets::kubernetes::Blocked;
use hyperfleet_adapter::targets::{Observation, Operation, Propagation};
use hyperfleet_testkit::eventually;
use serde_json::json;

use crate::support::{DEADLINE, deployment, on_kubernetes, only};

on_kubernetes! {
    async fn an_object_is_deleted_once_and_for_all(world: World) {
        let (_, object) = world.apply(&world.config_map(&json!({}))).await.unwrap();
        world.target.delete(&object, Propagation::Background).await.unwrap();
        assert_eq!(world.observe("v1", "ConfigMap").await, Observation::Absent);
        world.target.delete(&object, Propagation::Background).await.unwrap();
    }

    async fn an_object_that_took_the_name_is_not_touched(world: World) {
        let (_, old) = world.apply(&world.config_map(&json!({}))).await.unwrap();
        world.server.delete(&world.config_map_path()).await;
        world.server.create(&world.path("/api/v1", "configmaps"), &world.config_map(&json!({"b": "1"}))).await;
        world.target.delete(&old, Propagation::Background).await.unwrap();
        assert_eq!(only(world.observe("v1", "ConfigMap").await)["data"], json!({"b": "1"}));
    }

    async fn a_finalizer_of_somebody_else_is_named_and_left(world: World) {
        let manifest = world.config_map(&json!({}));
        world.apply(&manifest).await.unwrap();
        let path = world.config_map_path();
        let object = world.server.change(&path, &json!({"metadata": {"finalizers": ["example.com/theirs"]}})).await;
        assert_eq!(Blocked::of(&object), None);
        world.target.delete(&object, Propagation::Foreground).await.unwrap();
        let blocked = Blocked::of(&only(world.observe("v1", "ConfigMap").await)).unwrap();
        assert!(blocked.finalizers.contains(&"example.com/theirs".to_owned()), "{blocked}");
        let (operation, _) = world.apply(&manifest).await.unwrap();
        assert_eq!(operation, Operation::Recreating, "it is not applied while it goes");
        world.server.change(&path, &json!({"metadata": {"finalizers": null}})).await;
        eventually("it is gone", DEADLINE, async || {
            (world.observe("v1", "ConfigMap").await == Observation::Absent).then_some(())
        })
        .await;
        assert_eq!(world.apply(&manifest).await.unwrap().0, Operation::Created, "it comes back when it is gone");
    }

    async fn a_namespace_tells_what_remains_in_it(world: World) {
        let name = format!("{}-blocked", world.namespace);
        let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let (_, namespace) = world.apply(&manifest).await.unwrap();
        let kept = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "kept", "finalizers": ["example.com/theirs"]},
        });
        world.server.create(&format!("/api/v1/namespaces/{name}/configmaps"), &kept).await;
        world.target.delete(&namespace, Propagation::Background).await.unwrap();
        let mut query = world.query("v1", "Namespace", &name);
        query.namespace = None;
        eventually("the finalizer is named", DEADLINE, async || {
            let blocked = Blocked::of(&only(world.target.observe(&query).await))?.to_string();
            blocked.contains("example.com/theirs in 1 resource instances").then_some(())
        })
        .await;
        let free = json!({"metadata": {"finalizers": null}});
        world.server.change(&format!("/api/v1/namespaces/{name}/configmaps/kept"), &free).await;
        eventually("the namespace is gone", DEADLINE, async || {
            (world.target.observe(&query).await == Observation::Absent).then_some(())
        })
        .await;
    }

    async fn propagation_decides_about_what_the_object_owns(world: World) {
        let (_, object) = world.apply(&world.manifest("apps/v1", "Deployment", deployment(1))).await.unwrap();
        let replica_sets = async || {
            let list = world.server.read(&world.path("/apis/apps/v1", "replicasets")).await.unwrap();
            list["items"].as_array().unwrap().len()
        };
        eventually("it owns a replica set", DEADLINE, async || (replica_sets().await == 1).then_some(())).await;
        world.target.delete(&object, Propagation::Foreground).await.unwrap();
        eventually("it is gone", DEADLINE, async || {
            (world.observe("apps/v1", "Deployment").await == Observation::Absent).then_some(())
        })
        .await;
        assert_eq!(replica_sets().await, 0, "what it owns went first");

        let (_, object) = world.apply(&world.manifest("apps/v1", "Deployment", deployment(1))).await.unwrap();
        eventually("it owns a replica set", DEADLINE, async || (replica_sets().await == 1).then_some(())).await;
        world.target.delete(&object, Propagation::Orphan).await.unwrap();
        eventually("it is gone", DEADLINE, async || {
            (world.observe("apps/v1", "Deployment").await == Observation::Absent).then_some(())
        })
        .await;
        assert_eq!(replica_sets().await, 1, "what it owned stays");
    }
}
