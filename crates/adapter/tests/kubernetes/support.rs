//! What the tests share.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hyperfleet_adapter::targets::kubernetes::{Current, Kind, Kubernetes, Settings};
use hyperfleet_adapter::targets::{
    ApplyOptions, Matcher, Observation, Operation, Ownership, Query, TargetError,
};
use hyperfleet_testkit::Kubernetes as Server;
use serde_json::{Value, json};

/// Passes only when something is broken.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// As an old task file applies.
pub(crate) const OPTIONS: ApplyOptions =
    ApplyOptions { force: true, adopt: true, recreate: false, repair: true };

/// Runs the test on the shared control plane; where there is none, it is left out.
macro_rules! on_kubernetes {
    ($(async fn $name:ident($world:ident: World) $body:block)+) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let Some(server) = hyperfleet_testkit::Kubernetes::shared().await else { return };
                let $world = $crate::support::World::new(server).await;
                $body
            }
        )+
    };
}
pub(crate) use on_kubernetes;

/// A namespace, an adapter and its target.
pub(crate) struct World {
    pub(crate) server: &'static Server,
    pub(crate) target: Kubernetes,
    pub(crate) namespace: String,
    pub(crate) adapter: String,
}

impl World {
    pub(crate) async fn new(server: &'static Server) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (namespace, adapter) = (format!("test-{number}"), format!("adapter-{number}"));
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        server.create("/api/v1/namespaces", &object).await;
        let target = Kubernetes::connect(&Self::settings(server, &adapter)).await.unwrap();
        Self { server, target, namespace, adapter }
    }

    pub(crate) fn settings(server: &Server, adapter: &str) -> Settings {
        // Tests share the machine: an answer may take its time.
        Settings { kube_config_path: Some(server.kubeconfig()), timeout: DEADLINE, ..Settings::of(adapter) }
    }

    /// Another process of the same adapter.
    pub(crate) async fn replica(&self) -> Kubernetes {
        Kubernetes::connect(&Self::settings(self.server, &self.adapter)).await.unwrap()
    }

    pub(crate) fn ownership(&self) -> Ownership {
        Ownership {
            adapter: self.adapter.clone(),
            resource_kind: "Cluster".to_owned(),
            resource_id: format!("id-of-{}", self.namespace),
            task_resource: "settings".to_owned(),
            generation: 1,
            href: "/api/hyperfleet/v1/clusters/x".to_owned(),
        }
    }

    pub(crate) fn config_map(&self, data: &Value) -> Value {
        self.manifest("v1", "ConfigMap", json!({"data": data}))
    }

    /// An object of this namespace, called `a`.
    pub(crate) fn manifest(&self, api_version: &str, kind: &str, mut more: Value) -> Value {
        more["apiVersion"] = api_version.into();
        more["kind"] = kind.into();
        more["metadata"] = json!({"name": "a", "namespace": self.namespace});
        more
    }

    pub(crate) async fn apply(&self, manifest: &Value) -> Result<(Operation, Value), TargetError> {
        self.apply_with(manifest, &OPTIONS).await
    }

    pub(crate) async fn apply_with(
        &self,
        manifest: &Value,
        options: &ApplyOptions,
    ) -> Result<(Operation, Value), TargetError> {
        self.target.apply(manifest, Current::Unread, &self.ownership(), options).await
    }

    pub(crate) async fn observe(&self, api_version: &str, kind: &str) -> Observation {
        self.target.observe(&self.query(api_version, kind, "a")).await
    }

    pub(crate) fn query(&self, api_version: &str, kind: &str, name: &str) -> Query {
        Query {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: Some(self.namespace.clone()),
            matcher: Matcher::Name(name.to_owned()),
        }
    }

    /// The path of what is in this namespace.
    pub(crate) fn path(&self, base: &str, rest: &str) -> String {
        format!("{base}/namespaces/{}/{rest}", self.namespace)
    }

    /// The path of the config map called `a`.
    pub(crate) fn config_map_path(&self) -> String {
        self.path("/api/v1", "configmaps/a")
    }
}

/// A kind.
pub(crate) fn kind(api_version: &str, kind: &str) -> Kind {
    Kind { api_version: api_version.to_owned(), kind: kind.to_owned() }
}

/// The only object there is.
pub(crate) fn only(observation: Observation) -> Value {
    match observation {
        Observation::Present(objects) if objects.len() == 1 => objects.into_iter().next().unwrap(),
        other => panic!("not one object: {other:?}"),
    }
}

/// Why nobody can tell.
pub(crate) fn unknown(observation: Observation) -> TargetError {
    match observation {
        Observation::Unknown(error) => error,
        other => panic!("known: {other:?}"),
    }
}

/// A deployment that kwok makes available.
pub(crate) fn deployment(replicas: u32) -> Value {
    json!({"spec": {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
    }})
}

/// A Job that kwok completes.
pub(crate) fn job(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "a", "image": image}],
    }}}})
}
