//! Three answers: present, absent, unknown.

use hyperfleet_adapter::targets::kubernetes::{Kubernetes, Settings};
use hyperfleet_adapter::targets::{ErrorClass, Matcher, Observation, Operation, Ownership, Query};
use hyperfleet_testkit::eventually;
use serde_json::{Value, json};

use crate::support::{DEADLINE, OPTIONS, World, kind, on_kubernetes, only, unknown};
use hyperfleet_adapter::targets::kubernetes::Current;

/// A custom kind of this test.
fn definition(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }}}],
        },
    })
}

on_kubernetes! {
    async fn an_object_is_present_or_confirmed_absent(world: World) {
        assert_eq!(world.observe("v1", "ConfigMap").await, Observation::Absent);
        let (_, applied) = world.apply(&world.config_map(&json!({"a": "1"}))).await.unwrap();
        assert_eq!(only(world.observe("v1", "ConfigMap").await), applied);
        let mut elsewhere = world.query("v1", "ConfigMap", "a");
        elsewhere.namespace = Some(format!("{}-not-there", world.namespace));
        assert_eq!(world.target.observe(&elsewhere).await, Observation::Absent);
    }

    async fn labels_match_many_the_latest_generation_first(world: World) {
        for generation in [1, 3, 2] {
            let mut manifest = world.config_map(&json!({}));
            manifest["metadata"]["name"] = format!("a-{generation}").into();
            let ownership = Ownership { generation, ..world.ownership() };
            world.target.apply(&manifest, Current::Absent, &ownership, &OPTIONS).await.unwrap();
        }
        let labels = vec![("hyperfleet.io/resource-id".to_owned(), world.ownership().resource_id)];
        let mut query = Query { matcher: Matcher::Labels(labels), ..world.query("v1", "ConfigMap", "") };
        let names = |observation: Observation| match observation {
            Observation::Present(objects) => objects
                .iter()
                .map(|object| format!("{} {}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap()))
                .collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        let all = ["ConfigMap a-3", "ConfigMap a-2", "ConfigMap a-1"];
        assert_eq!(names(world.target.observe(&query).await), all);
        query.namespace = None;
        assert_eq!(names(world.target.observe(&query).await), all, "in all namespaces");
        query.matcher = Matcher::Name("a-2".to_owned());
        assert_eq!(names(world.target.observe(&query).await), ["ConfigMap a-2"], "by name in all namespaces");
        query.matcher = Matcher::Labels(Vec::new());
        assert_eq!(unknown(world.target.observe(&query).await).reason, "InvalidManifest");
    }

    async fn everything_that_was_made_for_a_resource_is_found(world: World) {
        let kinds = [kind("v1", "ConfigMap"), kind("v1", "Namespace"), kind("batch/v1", "Job")];
        let id = world.ownership().resource_id;
        assert_eq!(world.target.owned(&kinds, &world.adapter, &id).await, Observation::Absent);
        world.apply(&world.config_map(&json!({}))).await.unwrap();
        let found = only(world.target.owned(&kinds, &world.adapter, &id).await);
        assert_eq!((&found["kind"], &found["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
        assert_eq!(world.target.owned(&kinds, "another-adapter", &id).await, Observation::Absent);
        let error = unknown(world.target.owned(&[kind("v1", "ConfigMap"), kind("v1", "Nothing")], &world.adapter, &id).await);
        assert_eq!(error.reason, "UnknownKind");
    }

    async fn a_kind_is_unknown_until_it_appears_and_after_it_went(world: World) {
        let group = format!("{}.example.com", world.namespace);
        let version = format!("{group}/v1");
        let error = unknown(world.observe(&version, "Widget").await);
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Terminal, "UnknownKind"));
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        world.server.create(definitions, &definition(&group)).await;
        eventually("the kind appears", DEADLINE, async || {
            (world.observe(&version, "Widget").await == Observation::Absent).then_some(())
        })
        .await;
        let manifest = world.manifest(&version, "Widget", json!({"spec": {"size": 1}}));
        eventually("the kind takes objects", DEADLINE, async || world.apply(&manifest).await.ok()).await;
        let path = world.path(&format!("/apis/{version}"), "widgets/a");
        world.server.change(&path, &json!({"spec": {"size": 2}})).await;
        let (operation, object) = world.apply(&manifest).await.unwrap();
        assert_eq!((operation, object["spec"]["size"].as_u64()), (Operation::Repaired, Some(1)));
        // With its definition the object goes, and then nobody can tell of it.
        world.server.delete(&format!("{definitions}/widgets.{group}")).await;
        eventually("the kind is unknown again", DEADLINE, async || match world.observe(&version, "Widget").await {
            Observation::Unknown(error) if error.reason == "UnknownKind" => Some(()),
            _ => None,
        })
        .await;
    }

    async fn rights_and_manifests_are_checked_without_changing_anything(world: World) {
        let config_maps = kind("v1", "ConfigMap");
        let jobs = world.target.resource_name(&kind("batch/v1", "Job")).await.unwrap();
        assert_eq!((jobs.group.as_str(), jobs.plural.as_str(), jobs.namespaced), ("batch", "jobs", true));
        let user = format!("{}-reader", world.namespace);
        let settings = Settings {
            kube_config_path: Some(world.server.kubeconfig_of(&user).unwrap()),
            ..World::settings(world.server, &world.adapter)
        };
        let reader = Kubernetes::connect(&settings).await.unwrap();
        let namespace = Some(world.namespace.as_str());
        assert!(!reader.may("get", &config_maps, namespace).await.unwrap());
        let roles = world.path("/apis/rbac.authorization.k8s.io/v1", "roles");
        world.server.create(&roles, &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
        })).await;
        let bindings = world.path("/apis/rbac.authorization.k8s.io/v1", "rolebindings");
        world.server.create(&bindings, &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        })).await;
        eventually("the right is there", DEADLINE, async || {
            reader.may("get", &config_maps, namespace).await.unwrap().then_some(())
        })
        .await;
        assert!(!reader.may("get", &config_maps, None).await.unwrap());
        assert!(!reader.may("patch", &config_maps, namespace).await.unwrap());
        assert_eq!(reader.observe(&world.query("v1", "ConfigMap", "a")).await, Observation::Absent);

        let manifest = world.config_map(&json!({"a": "1"}));
        let would = world.target.dry_run(&manifest, &world.ownership(), &OPTIONS).await.unwrap();
        assert_eq!(would["data"], json!({"a": "1"}));
        assert_eq!(world.observe("v1", "ConfigMap").await, Observation::Absent);
        let wrong = world.manifest("v1", "ConfigMap", json!({"dta": {}}));
        let error = world.target.dry_run(&wrong, &world.ownership(), &OPTIONS).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Terminal, "{error}");
    }

    async fn what_may_not_be_read_is_unknown(world: World) {
        world.apply(&world.config_map(&json!({}))).await.unwrap();
        let user = format!("{}-user", world.namespace);
        let settings = Settings {
            kube_config_path: Some(world.server.kubeconfig_of(&user).unwrap()),
            ..World::settings(world.server, &world.adapter)
        };
        let target = Kubernetes::connect(&settings).await.unwrap();
        let error = unknown(target.observe(&world.query("v1", "ConfigMap", "a")).await);
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Terminal, "Forbidden"), "{error}");
        let error = unknown(target.owned(&[kind("v1", "ConfigMap")], &world.adapter, "x").await);
        assert_eq!(error.reason, "Forbidden");
        let manifest = world.config_map(&json!({}));
        let error = target.apply(&manifest, Current::Unread, &world.ownership(), &OPTIONS).await.unwrap_err();
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Terminal, "Forbidden"));
        target.probe().await.unwrap();
    }
}
