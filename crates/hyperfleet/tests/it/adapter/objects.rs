//! A task with objects, on a real control plane: applied, repaired when somebody changes or deletes them, and gone before
//! the resource is.

use hyperfleet_testkit::{Kubernetes, eventually};
use serde_json::json;

use super::task::Adapter;
use super::{CONFIG, DEADLINE, reconciled};
use crate::support::{App, href, id};

const TASK: &str = r#"
params:
  - {name: clusterId, source: event.id, required: true}
  - {name: cluster, required: true, source: {api_call: {url: "/clusters/{{ .clusterId }}"}}}
  - {name: deleting, source: {expression: "has(cluster.deleted_time)"}}
resources:
  - name: settings
    transport: {client: kubernetes}
    manifest:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "c-{{ .clusterId }}", namespace: default}
      data: {region: eu, generation: "{{ .cluster.generation }}"}
    discovery: {namespace: default, by_name: "c-{{ .clusterId }}"}
    lifecycle: {delete: {when: {expression: deleting}}}
status:
  available: has(resources.settings)
  data: {settings: {expression: resources.settings.metadata.name, default: ""}}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_applied_repaired_and_deleted_before_the_resource_is_gone() {
    let Some(server) = Kubernetes::shared().await else { return };
    let app = App::postgres(CONFIG).await;
    let kubeconfig = ("clients.kubernetes.kube_config_path", server.kubeconfig().display().to_string());
    let adapter = Adapter::start_with(&app, TASK, &[kubeconfig]).await;
    let cluster = app.create_cluster("prod-1").await;
    adapter.tell(&cluster).await;
    reconciled(&app, &cluster, "ReconciledAll").await;
    let path = format!("/api/v1/namespaces/default/configmaps/c-{}", id(&cluster));
    let object = server.read(&path).await.unwrap();
    assert_eq!(object["data"], json!({"region": "eu", "generation": "1"}));
    assert_eq!(object["metadata"]["labels"]["hyperfleet.io/resource-id"], id(&cluster));

    server.change(&path, &json!({"data": {"region": "elsewhere"}})).await;
    eventually("the change is repaired", DEADLINE, async || {
        (server.read(&path).await?["data"]["region"] == "eu").then_some(())
    })
    .await;
    server.delete(&path).await;
    eventually("the object is back", DEADLINE, async || server.read(&path).await.map(drop)).await;

    let cluster = app.remove(&cluster).await;
    adapter.tell(&cluster).await;
    eventually("the resource is gone", DEADLINE, async || {
        (app.get(href(&cluster)).await.status == 404).then_some(())
    })
    .await;
    assert_eq!(server.read(&path).await, None, "the object went first");
    adapter.stop().await;
}
