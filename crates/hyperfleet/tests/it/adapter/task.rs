//! Adapters that run a task file, against the real server: in this process over the broker in memory, and as a process
//! of its own over NATS, fed by a Sentinel.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyperfleet_adapter::Config;
use hyperfleet_adapter::engine::Program as Task;
use hyperfleet_adapter::serve::{self, Driver, Metrics};
use hyperfleet_client::{Client, Settings};
use hyperfleet_events::{Broker, BrokerConfig, Event};
use hyperfleet_service::health::Health;
use hyperfleet_service::settings::Sources;
use hyperfleet_testkit::{Nats, eventually};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{CONFIG, DEADLINE, reconciled};
use crate::operations::program::Program;
use crate::sentinel::nats;
use crate::support::{App, both_stores, href, text, unique};

/// A task without a target: it looks at the cluster, and reports.
const TASK: &str = r#"
params:
  - {name: clusterId, source: event.id, type: string, required: true}
  - name: cluster
    required: true
    source:
      api_call: {method: GET, url: "/clusters/{{ .clusterId }}", timeout: 10s, retry_attempts: 2}
  - {name: generation, source: cluster.generation, type: int}
  - {name: deleting, source: {expression: "has(cluster.deleted_time)"}}
preconditions:
  - name: statuses
    api_call: {url: "/clusters/{{ .clusterId }}/statuses?size=10"}
    capture:
      - {name: reports, expression: items.size()}
  - {name: region, expression: "deleting || cluster.spec.?region.orValue('x') != 'nowhere'"}
post:
  payloads:
    - name: statusPayload
      build:
        adapter: "{{ .adapter.name }}"
        conditions:
          - type: Applied
            status: {expression: "deleting ? 'False' : 'True'"}
            reason: Applied
            message: "looked at {{ .cluster.name }} in generation {{ .generation }}"
          - type: Available
            status: {expression: "!deleting && !adapter.resourcesSkipped ? 'True' : 'False'"}
            reason: {expression: "adapter.resourcesSkipped ? 'Skipped' : 'Ready'"}
          - type: Health
            status: {expression: "adapter.executionStatus == 'success' && !adapter.resourcesSkipped ? 'True' : 'False'"}
            reason: {expression: "adapter.resourcesSkipped ? 'ResourcesSkipped' : 'Healthy'"}
          - {type: Finalized, status: {expression: "deleting ? 'True' : 'False'"}}
        observed_generation: {expression: generation}
        observed_time: "{{ now | date \"2006-01-02T15:04:05Z07:00\" }}"
        data: {reports: {expression: reports}, count: {field: cluster.spec.count, default: 0}}
  post_actions:
    - name: report
      api_call:
        method: PUT
        url: "/clusters/{{ .clusterId }}/statuses"
        headers: [{name: Content-Type, value: application/json}]
        body: "{{ .statusPayload }}"
"#;

both_stores!(
    config = CONFIG;
    a_task_reports_and_finalizes,
    a_precondition_that_is_not_met_is_no_illness,
    a_param_that_cannot_be_had_is_reported_by_the_framework,
    an_event_without_a_resource_becomes_a_dead_letter_and_one_of_a_gone_resource_does_not,
);

/// An adapter `dns` in this process, with its broker.
pub(super) struct Adapter {
    broker: Broker,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Adapter {
    async fn start(app: &App, text: &str) -> Self {
        Self::start_with(app, text, &[]).await
    }

    /// With further settings.
    pub(super) async fn start_with(app: &App, text: &str, more: &[(&str, String)]) -> Self {
        let mut sources = Sources::default();
        sources.flags.extend(more.iter().map(|(path, value)| ((*path).to_owned(), value.clone())));
        for (path, value) in [
            ("adapter.name", "dns".to_owned()),
            ("clients.broker.subscription_id", "dns".to_owned()),
            ("clients.hyperfleet_api.base_url", format!("http://{}", app.api().authority())),
            ("clients.hyperfleet_api.base_delay", "10ms".to_owned()),
        ] {
            sources.flags.push((path.to_owned(), value));
        }
        let config = Config::load(&sources).unwrap();
        let options = hyperfleet_adapter::task::Options::default();
        let loaded = hyperfleet_adapter::task::Task::parse(text, "task.yaml", Path::new("."), &options);
        let task = loaded.task.unwrap_or_else(|| panic!("{:?}", loaded.findings));
        let mut broker = BrokerConfig::memory();
        broker.subscriber.max_deliveries = 2;
        broker.subscriber.backoff_initial = Duration::from_millis(10);
        let broker = Broker::open(&broker, hyperfleet_events::Metrics::default()).await.unwrap();
        let client = Client::new(Settings {
            retry: config.api.retry.clone(),
            ..Settings::of(config.api.base_url.clone())
        })
        .unwrap();
        let driver = Driver::connect(&config, client.clone(), &task, Path::new("task.yaml")).await.unwrap();
        let running = serve::Running {
            program: Arc::new(Task::new(&config, task, &BTreeMap::new())),
            driver,
            client,
            broker: broker.clone(),
            subscription: "dns".to_owned(),
            topic: Some("hyperfleet-clusters".to_owned()),
            kinds: Vec::new(),
            deadline: DEADLINE,
            grace: DEADLINE,
            metrics: Metrics::default(),
            health: Health::new(["subscription"]),
        };
        let (stop, health) = (CancellationToken::new(), running.health.clone());
        let stopped = stop.clone();
        let task = tokio::spawn(async move { serve::run(running, stopped).await.unwrap() });
        eventually("the adapter listens", DEADLINE, async || {
            health.not_ready_because().is_none_or(|why| !why.contains("subscription")).then_some(())
        })
        .await;
        Self { broker, stop, task }
    }

    pub(super) async fn tell(&self, resource: &Value) {
        let data = json!({"id": resource["id"], "kind": resource["kind"], "href": resource["href"],
                          "generation": resource["generation"]});
        let event = Event::reconcile("test", "Cluster", data, None);
        self.broker.publish("hyperfleet-clusters", &event).await.unwrap();
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

async fn report_of(app: &App, resource: &Value, generation: i64) -> Value {
    eventually("a report", DEADLINE, async || {
        let report = app.reports(resource).await.get_mut(0)?.take();
        (report["observed_generation"] == generation).then_some(report)
    })
    .await
}

fn condition<'r>(report: &'r Value, kind: &str) -> &'r Value {
    report["conditions"].as_array().unwrap().iter().find(|one| one["type"] == kind).unwrap()
}

async fn a_task_reports_and_finalizes(app: &App) {
    let adapter = Adapter::start(app, TASK).await;
    let cluster = app.create_cluster("prod-1").await;
    adapter.tell(&cluster).await;
    reconciled(app, &cluster, "ReconciledAll").await;
    let report = report_of(app, &cluster, 1).await;
    assert_eq!(report["adapter"], "dns");
    assert_eq!(condition(&report, "Applied")["message"], "looked at prod-1 in generation 1");
    assert_eq!(condition(&report, "Health")["status"], "True");
    assert_eq!(report["data"], json!({"reports": 0, "count": 0}));
    assert!(report.get("metadata").is_none(), "{report}");

    let cluster = app.remove(&cluster).await;
    adapter.tell(&cluster).await;
    eventually("it is gone", DEADLINE, async || (app.get(href(&cluster)).await.status == 404).then_some(()))
        .await;
    adapter.stop().await;
}

async fn a_precondition_that_is_not_met_is_no_illness(app: &App) {
    let adapter = Adapter::start(app, TASK).await;
    let body = json!({"kind": "Cluster", "name": "prod-1", "spec": {"region": "nowhere"}});
    let cluster = app.create("/clusters", &body).await;
    adapter.tell(&cluster).await;
    let report = report_of(app, &cluster, 1).await;
    assert_eq!(condition(&report, "Available")["status"], "False");
    let health = condition(&report, "Health");
    assert_eq!((&health["status"], &health["reason"]), (&json!("True"), &json!("PreconditionNotMet")));
    assert_eq!(report["metadata"]["corrected"], json!(["Health"]));
    adapter.stop().await;
}

async fn a_param_that_cannot_be_had_is_reported_by_the_framework(app: &App) {
    let text =
        TASK.replace("expression: \"has(cluster.deleted_time)\"", "expression: cluster.spec.nothing.here");
    let text = text.replace("{name: deleting, source", "{name: deleting, required: true, source");
    let adapter = Adapter::start(app, &text).await;
    let cluster = app.create_cluster("prod-1").await;
    adapter.tell(&cluster).await;
    let report = report_of(app, &cluster, 1).await;
    let health = condition(&report, "Health");
    assert_eq!(
        (&health["status"], &health["reason"]),
        (&json!("False"), &json!("ExecutionFailed:param_extraction"))
    );
    assert_eq!(condition(&report, "Available")["reason"], "NotVerified");
    assert_eq!(report["data"]["error"]["code"], "HYPERFLEET-INT-003");
    assert_eq!(report["data"]["error"]["step"], "deleting");
    let letters = adapter.broker.dead_letters("hyperfleet-clusters", "dns");
    assert_eq!(letters.list(10).await.unwrap().len(), 0);
    adapter.stop().await;
}

async fn an_event_without_a_resource_becomes_a_dead_letter_and_one_of_a_gone_resource_does_not(app: &App) {
    let adapter = Adapter::start(app, TASK).await;
    let cluster = app.create_cluster("prod-1").await;
    let mut gone = cluster.clone();
    gone["id"] = json!("00000000-0000-7000-8000-000000000000");
    gone["href"] = json!("/api/hyperfleet/v1/clusters/00000000-0000-7000-8000-000000000000");
    adapter.tell(&gone).await;
    adapter.tell(&cluster).await;
    reconciled(app, &cluster, "ReconciledAll").await;
    let nothing = Event::reconcile("test", "Cluster", json!({"name": "x"}), None);
    adapter.broker.publish("hyperfleet-clusters", &nothing).await.unwrap();
    let letters = adapter.broker.dead_letters("hyperfleet-clusters", "dns");
    let letter = eventually("a dead letter", DEADLINE, async || letters.list(10).await.unwrap().pop()).await;
    assert_eq!(letter.reason, "the event names no resource");
    adapter.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_two_files_of_the_go_adapter_run_as_a_process_over_nats() {
    let app = App::postgres(CONFIG).await;
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let topic = format!("{}-{}", unique("task"), std::process::id());
    let config = format!(
        "adapter: {{name: dns, version: '0.1.0'}}\nlog: {{level: info, format: json}}\nclients:\n  hyperfleet_api: {{base_url: 'http://{}', version: v1, timeout: 10s, retry_attempts: 3, retry_backoff: exponential}}\n  broker: {{subscription_id: dns-{topic}, topic: {topic}}}\n  kubernetes: {{api_version: v1}}\n",
        app.api().authority(),
    );
    let (config, task) = (write("adapter-config.yaml", &config), write("adapter-task-config.yaml", TASK));
    let program = |more: &[(&str, &str)]| {
        let program = Program::new()
            .env("HYPERFLEET_CLIENTS_HYPERFLEET_API_BASE_URL", &format!("http://{}", app.api().authority()))
            .env("HYPERFLEET_HEALTH_PORT", "0")
            .env("HYPERFLEET_METRICS_PORT", "0");
        let broker = nats(Nats::shared().url());
        let program = broker.iter().fold(program, |program, (name, value)| program.env(name, value));
        more.iter().fold(program, |program, (name, value)| program.env(name, value))
    };
    let adapter = program(&[]).start(&["adapter", "serve", "-c", &config, "-t", &task]);
    adapter.logged("subscribed").await;
    let sentinel =
        program(&[("HYPERFLEET_CLIENTS_BROKER_TOPIC", &topic), ("HYPERFLEET_RESOURCE_TYPE", "clusters")]);
    let _sentinel = sentinel.start(&["sentinel", "serve"]);
    let cluster = app.create_cluster("prod-1").await;
    reconciled(&app, &cluster, "ReconciledAll").await;
    let line = adapter.logged("executed").await;
    assert_eq!((text(&line["outcome"]), &line["generation"]), ("done", &json!(1)), "{line}");
    app.remove(&cluster).await;
    eventually("it is gone", DEADLINE, async || (app.get(href(&cluster)).await.status == 404).then_some(()))
        .await;
}
