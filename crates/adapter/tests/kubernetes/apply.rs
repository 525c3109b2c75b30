//! Applying: what is sent, what is left alone, what is refused.

use hyperfleet_adapter::targets::kubernetes::Current;
use hyperfleet_adapter::targets::{ApplyOptions, ErrorClass, Operation, Ownership};
use hyperfleet_testkit::eventually;
use serde_json::{Value, json};

use crate::support::{DEADLINE, OPTIONS, deployment, job, on_kubernetes, only};

fn managers(object: &Value) -> Vec<(String, String)> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    entries.iter().map(|entry| (text(&entry["manager"]), text(&entry["operation"]))).collect()
}

on_kubernetes! {
    async fn an_absent_object_is_created_and_leads_back_to_its_resource(world: World) {
        let (operation, object) = world.apply(&world.config_map(&json!({"a": "1"}))).await.unwrap();
        assert_eq!(operation, Operation::Created);
        assert_eq!(object["data"], json!({"a": "1"}));
        assert_eq!(
            object["metadata"]["labels"],
            json!({
                "app.kubernetes.io/managed-by": "hyperfleet",
                "hyperfleet.io/adapter": world.adapter,
                "hyperfleet.io/resource-kind": "Cluster",
                "hyperfleet.io/resource-id": world.ownership().resource_id,
                "hyperfleet.io/task-resource": "settings",
            })
        );
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations["hyperfleet.io/generation"], "1");
        assert_eq!(annotations["hyperfleet.io/href"], "/api/hyperfleet/v1/clusters/x");
        assert_eq!(annotations["hyperfleet.io/applied"].as_str().map(str::len), Some(32));
        assert_eq!(managers(&object), [(format!("hyperfleet-{}", world.adapter), "Apply".to_owned())]);
    }

    async fn only_differences_are_sent(world: World) {
        let manifest = world.config_map(&json!({"a": "1"}));
        let (_, created) = world.apply(&manifest).await.unwrap();
        let (operation, same) = world.apply(&manifest).await.unwrap();
        assert_eq!((operation, &same), (Operation::Unchanged, &created));
        // A corrected task file reaches objects of the same generation.
        let (operation, changed) = world.apply(&world.config_map(&json!({"b": "1"}))).await.unwrap();
        assert_eq!((operation, &changed["data"]), (Operation::Updated, &json!({"b": "1"})));
        let next = Ownership { generation: 2, ..world.ownership() };
        let manifest = world.config_map(&json!({"b": "1"}));
        let (operation, object) = world.target.apply(&manifest, Current::Unread, &next, &OPTIONS).await.unwrap();
        assert_eq!(operation, Operation::Updated);
        assert_eq!(object["metadata"]["annotations"]["hyperfleet.io/generation"], "2");
    }

    async fn what_was_just_observed_is_not_read_again(world: World) {
        let manifest = world.config_map(&json!({"a": "1"}));
        let (ownership, apply) = (world.ownership(), &world.target);
        let (operation, created) = apply.apply(&manifest, Current::Absent, &ownership, &OPTIONS).await.unwrap();
        assert_eq!(operation, Operation::Created);
        // Somebody replaces the object after it was observed.
        world.server.delete(&world.config_map_path()).await;
        let changed = world.config_map(&json!({"a": "2"}));
        let error = apply.apply(&changed, Current::Present(&created), &ownership, &OPTIONS).await.unwrap_err();
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Transient, "Conflict"), "{error}");
        assert_eq!(world.server.read(&world.config_map_path()).await, None, "an update does not create");
        world.server.create(&world.path("/api/v1", "configmaps"), &world.config_map(&json!({"a": "other"}))).await;
        let error = apply.apply(&changed, Current::Present(&created), &ownership, &OPTIONS).await.unwrap_err();
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Transient, "Conflict"), "{error}");
    }

    async fn another_replica_applies_once_and_then_knows(world: World) {
        let manifest = world.config_map(&json!({"a": "1"}));
        let (_, created) = world.apply(&manifest).await.unwrap();
        let replica = world.replica().await;
        let (operation, object) = replica.apply(&manifest, Current::Unread, &world.ownership(), &OPTIONS).await.unwrap();
        assert_eq!(operation, Operation::Unchanged, "the server decides that nothing differs");
        assert_eq!(object["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
        assert!(!replica.has_drifted(&object));
    }

    async fn drift_is_repaired(world: World) {
        let manifest = world.config_map(&json!({"a": "1"}));
        world.apply(&manifest).await.unwrap();
        let drifted = world.server.change(&world.config_map_path(), &json!({"data": {"a": "2"}})).await;
        assert!(world.target.has_drifted(&drifted));
        let watching = ApplyOptions { repair: false, ..OPTIONS };
        assert_eq!(world.apply_with(&manifest, &watching).await.unwrap().0, Operation::Unchanged);
        let (operation, object) = world.apply(&manifest).await.unwrap();
        assert_eq!((operation, &object["data"]), (Operation::Repaired, &json!({"a": "1"})));
        assert_eq!(world.apply(&manifest).await.unwrap().0, Operation::Unchanged);
        // What others add to an object is theirs.
        world.server.change(&world.config_map_path(), &json!({"data": {"theirs": "1"}})).await;
        let (operation, object) = world.apply(&manifest).await.unwrap();
        assert_eq!((operation, &object["data"]), (Operation::Unchanged, &json!({"a": "1", "theirs": "1"})));
    }

    async fn drift_of_labels_is_repaired(world: World) {
        let manifest = world.config_map(&json!({"a": "1"}));
        world.apply(&manifest).await.unwrap();
        let patch = json!({"metadata": {"labels": {"hyperfleet.io/task-resource": null}}});
        world.server.change(&world.config_map_path(), &patch).await;
        let (operation, object) = world.apply(&manifest).await.unwrap();
        assert_eq!(operation, Operation::Repaired);
        assert_eq!(object["metadata"]["labels"]["hyperfleet.io/task-resource"], "settings");
    }

    async fn drift_of_a_kind_with_generations_is_repaired(world: World) {
        let manifest = world.manifest("apps/v1", "Deployment", deployment(1));
        world.apply(&manifest).await.unwrap();
        let path = world.path("/apis/apps/v1", "deployments/a");
        eventually("kwok makes it available", DEADLINE, async || {
            let available = world.server.read(&path).await?["status"]["availableReplicas"].as_u64();
            (available == Some(1)).then_some(())
        })
        .await;
        assert_eq!(world.apply(&manifest).await.unwrap().0, Operation::Unchanged, "a status is no drift");
        world.server.change(&path, &json!({"spec": {"replicas": 3}})).await;
        let (operation, object) = world.apply(&manifest).await.unwrap();
        assert_eq!((operation, object["spec"]["replicas"].as_u64()), (Operation::Repaired, Some(1)));
    }

    async fn an_object_that_drifts_again_and_again_is_contested(world: World) {
        let manifest = world.config_map(&json!({"a": "1"}));
        let (_, object) = world.apply(&manifest).await.unwrap();
        for _ in 0..6 {
            assert_eq!(world.target.contested(&object), None);
            world.server.change(&world.config_map_path(), &json!({"data": {"a": "2"}})).await;
            assert_eq!(world.apply(&manifest).await.unwrap().0, Operation::Repaired);
        }
        let drifted = world.server.change(&world.config_map_path(), &json!({"data": {"a": "2"}})).await;
        assert_eq!(world.apply(&manifest).await.unwrap().0, Operation::Unchanged, "left alone for some minutes");
        let contested = world.target.contested(&drifted).unwrap();
        assert_eq!((contested.manager.as_deref(), contested.paused), (Some("kubectl"), true));
        let (operation, _) = world.apply(&world.config_map(&json!({"a": "3"}))).await.unwrap();
        assert_eq!(operation, Operation::Updated, "a change of the resource does not wait");
    }

    async fn what_the_go_adapter_made_is_taken_over(world: World) {
        let mut old = world.config_map(&json!({"a": "1", "removed": "1"}));
        old["metadata"]["annotations"] = json!({"hyperfleet.io/generation": "1"});
        let path = format!("{}?fieldManager=adapter", world.path("/api/v1", "configmaps"));
        let (status, _) = world.server.call(http::Method::POST, &path, Some(&old)).await.unwrap();
        assert_eq!(status, 201);
        world.server.change(&world.config_map_path(), &json!({"data": {"theirs": "1"}})).await;
        let (operation, object) = world.apply(&world.config_map(&json!({"a": "1"}))).await.unwrap();
        assert_eq!(operation, Operation::Updated);
        assert_eq!(object["data"], json!({"a": "1", "theirs": "1"}), "a field that we left out is gone");
        let of_go = managers(&object).into_iter().filter(|(manager, _)| manager == "adapter").count();
        assert_eq!(of_go, 0, "{object}");
        assert_eq!(world.apply(&world.config_map(&json!({"a": "1"}))).await.unwrap().0, Operation::Unchanged);
    }

    async fn what_is_not_ours_is_refused_unless_adopted(world: World) {
        let manifest = world.config_map(&json!({"a": "1"}));
        world.server.create(&world.path("/api/v1", "configmaps"), &world.config_map(&json!({"b": "1"}))).await;
        let strict = ApplyOptions { adopt: false, ..OPTIONS };
        let error = world.apply_with(&manifest, &strict).await.unwrap_err();
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Business, "NotOurs"));
        assert_eq!(error.message, "ConfigMap a is not ours, and is not adopted: it was there before");
        assert_eq!(world.apply(&manifest).await.unwrap().0, Operation::Updated);
        assert_eq!(world.apply_with(&manifest, &strict).await.unwrap().0, Operation::Unchanged, "now it is");
        let other = Ownership { resource_id: "another".to_owned(), ..world.ownership() };
        let error = world.target.apply(&manifest, Current::Unread, &other, &strict).await.unwrap_err();
        assert!(error.message.contains(&format!("adapter {} made it for Cluster id-of-", world.adapter)), "{error}");
    }

    async fn without_force_a_conflict_names_manager_and_field(world: World) {
        world.server.create(&world.path("/api/v1", "configmaps"), &world.config_map(&json!({"a": "1"}))).await;
        let polite = ApplyOptions { force: false, ..OPTIONS };
        let error = world.apply_with(&world.config_map(&json!({"a": "2"})), &polite).await.unwrap_err();
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Business, "FieldConflict"));
        assert_eq!(error.message, "ConfigMap a: .data.a belongs to kubectl");
        let (operation, object) = world.apply_with(&world.config_map(&json!({"b": "2"})), &polite).await.unwrap();
        assert_eq!((operation, &object["data"]), (Operation::Updated, &json!({"a": "1", "b": "2"})));
    }

    async fn an_immutable_field_is_named_or_the_object_recreated(world: World) {
        let manifest = |image| world.manifest("batch/v1", "Job", job(image));
        world.apply(&manifest("a")).await.unwrap();
        let error = world.apply(&manifest("secret-image")).await.unwrap_err();
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Terminal, "ImmutableField"));
        assert!(error.message.starts_with("Job a: spec.template cannot be changed;"), "{error}");
        assert!(!error.message.contains("secret-image"), "{error}");

        let recreating = ApplyOptions { recreate: true, ..OPTIONS };
        let (operation, old) = world.apply_with(&manifest("b"), &recreating).await.unwrap();
        assert_eq!(operation, Operation::Recreating);
        let created = eventually("the old one is gone and the new one there", DEADLINE, async || {
            match world.apply_with(&manifest("b"), &recreating).await.unwrap() {
                (Operation::Created, object) => Some(object),
                (Operation::Recreating, _) => None,
                (operation, object) => panic!("{operation:?} {object}"),
            }
        })
        .await;
        assert_ne!(created["metadata"]["uid"], old["metadata"]["uid"]);
        assert_eq!(created["spec"]["template"]["spec"]["containers"][0]["image"], "b");
        assert_eq!(world.apply_with(&manifest("b"), &recreating).await.unwrap().0, Operation::Unchanged);
    }

    async fn kwok_completes_a_job_and_fails_another(world: World) {
        world.apply(&world.manifest("batch/v1", "Job", job("a"))).await.unwrap();
        let mut failing = world.manifest("batch/v1", "Job", job("a"));
        failing["metadata"]["name"] = "failing".into();
        failing["spec"]["backoffLimit"] = 0.into();
        failing["spec"]["template"]["metadata"] = json!({"labels": {"hyperfleet.test/outcome": "failed"}});
        world.apply(&failing).await.unwrap();
        let ended = async |name: &str, condition: &str| {
            eventually(condition, DEADLINE, async || {
                let job = only(world.target.observe(&world.query("batch/v1", "Job", name)).await);
                let conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
                conditions.iter().find(|one| one["type"] == condition && one["status"] == "True").cloned()
            })
            .await
        };
        ended("a", "Complete").await;
        assert_eq!(ended("failing", "Failed").await["reason"], "BackoffLimitExceeded");
        assert_eq!(world.apply(&failing).await.unwrap().0, Operation::Unchanged, "a Job that ended is left alone");
    }

    async fn a_cluster_scoped_object_is_applied(world: World) {
        let name = format!("{}-more", world.namespace);
        let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"a": "1"}}});
        assert_eq!(world.apply(&manifest).await.unwrap().0, Operation::Created);
        assert_eq!(world.apply(&manifest).await.unwrap().0, Operation::Unchanged);
        let object = world.server.read(&format!("/api/v1/namespaces/{name}")).await.unwrap();
        assert_eq!(object["metadata"]["labels"]["a"], "1");
    }

    async fn a_refusal_names_the_field_and_not_the_value(world: World) {
        let mut manifest = world.manifest("apps/v1", "Deployment", deployment(1));
        manifest["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "s3cret".into();
        let error = world.apply(&manifest).await.unwrap_err();
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Terminal, "Invalid"));
        assert!(error.message.contains("spec.template.spec.containers[0].imagePullPolicy"), "{error}");
        assert!(!error.message.contains("s3cret"), "{error}");

        let secret = world.manifest("v1", "Secret", json!({"stringData": {"password": ["s3cret"]}}));
        let error = world.apply(&secret).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Terminal, "{error}");
        assert!(!error.message.contains("s3cret"), "{error}");

        let mut manifest = world.config_map(&json!({}));
        manifest["metadata"]["labels"] = json!({"a": "s3cret!"});
        let error = world.apply(&manifest).await.unwrap_err();
        assert!(error.message.contains("metadata.labels") && !error.message.contains("s3cret"), "{error}");

        let error = world.apply(&world.manifest("v1", "ConfigMap", json!({"dta": {}}))).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Terminal);
        assert!(error.message.contains("dta"), "{error}");
    }

    async fn a_hostile_manifest_does_not_leave_its_place(world: World) {
        world.server.create(&world.path("/api/v1", "configmaps"), &world.config_map(&json!({"a": "1"}))).await;
        for name in ["a/status", "../secrets/a", "..", "a?dryRun=All", "%2e%2e", ""] {
            let mut manifest = world.config_map(&json!({"a": "2"}));
            manifest["metadata"]["name"] = name.into();
            let error = world.apply(&manifest).await.unwrap_err();
            assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Terminal, "InvalidManifest"), "{name}");
        }
        for api_version in ["", "v1/../..", "apps/v1/x", "a/b?c", "../v1", "/v1"] {
            let error = world.apply(&world.manifest(api_version, "ConfigMap", json!({}))).await.unwrap_err();
            assert_eq!(error.class, ErrorClass::Terminal, "{api_version}: {error}");
        }
        let mut nowhere = world.config_map(&json!({}));
        nowhere["metadata"].as_object_mut().unwrap().remove("namespace");
        let error = world.apply(&nowhere).await.unwrap_err();
        assert_eq!(error.message, "metadata.namespace is required for ConfigMap");
    }

    async fn a_namespace_that_is_missing_or_goes_is_waited_for(world: World) {
        let mut manifest = world.config_map(&json!({"a": "1"}));
        manifest["metadata"]["namespace"] = format!("{}-later", world.namespace).into();
        let error = world.apply(&manifest).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Transient, "{error}");

        let mut kept = world.config_map(&json!({}));
        kept["metadata"]["name"] = "kept".into();
        kept["metadata"]["finalizers"] = json!(["hyperfleet.test/kept"]);
        world.server.create(&world.path("/api/v1", "configmaps"), &kept).await;
        world.server.delete(&format!("/api/v1/namespaces/{}", world.namespace)).await;
        let error = world.apply(&world.config_map(&json!({"a": "1"}))).await.unwrap_err();
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Transient, "NamespaceTerminating"), "{error}");
        let free = json!({"metadata": {"finalizers": null}});
        world.server.change(&world.path("/api/v1", "configmaps/kept"), &free).await;
    }
}
