//! `hyperfleet adapter simulate` as a process, fed by a Sentinel in another one.

use hyperfleet_testkit::{Nats, RabbitMq, eventually};
use serde_json::Value;

use super::{CONFIG, DEADLINE, reconciled};
use crate::operations::program::{Program, Running};
use crate::sentinel::{Variables, nats, rabbitmq};
use crate::support::{self, App, href, text, unique};

/// Two adapters for each kind, one of them for both.
const SEVERAL: &str = r"
entities:
  - {kind: Cluster, plural: clusters, required_adapters: [dns, network]}
  - {kind: NodePool, plural: nodepools, parent_kind: Cluster, on_parent_delete: cascade, required_adapters: [dns, machines]}
";

#[tokio::test(flavor = "multi_thread")]
async fn several_adapters_reconcile_a_fleet_over_nats() {
    looked_after(&App::sqlite(SEVERAL).await, nats(Nats::shared().url())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_adapters_reconcile_a_fleet_over_rabbitmq() {
    looked_after(&App::postgres(SEVERAL).await, rabbitmq(RabbitMq::shared().url())).await;
}

/// From the creation to the end, with a Sentinel and three adapters, each a process of its own.
async fn looked_after(app: &App, broker: Variables) {
    let program = Program::new()
        .env("HYPERFLEET_CLIENTS_HYPERFLEET_API_BASE_URL", &format!("http://{}", app.api().authority()))
        .env("HYPERFLEET_CLIENTS_BROKER_TOPIC", &format!("{}-{}", unique("simulated"), std::process::id()))
        .env("HYPERFLEET_HEALTH_PORT", "0")
        .env("HYPERFLEET_METRICS_PORT", "0");
    let program = broker.iter().fold(program, |program, (name, value)| program.env(name, value));
    let mut adapters: Vec<Running> = Vec::new();
    for (name, kind) in [("dns", None), ("network", Some("clusters")), ("machines", Some("NodePool"))] {
        let mut arguments = vec!["adapter", "simulate", "--name", name, "--delay", "10ms", "--seed", "1"];
        arguments.extend(kind.into_iter().flat_map(|kind| ["--kind", kind]));
        let adapter = program.start(&arguments);
        adapter.logged("ready").await;
        adapters.push(adapter);
    }
    let _sentinel = program.start(&["sentinel", "serve"]);

    let cluster = app.create_cluster("prod-1").await;
    let pool = app.create_nodepool(&cluster, "workers").await;
    for (resource, expected) in [(&cluster, ["dns", "network"]), (&pool, ["dns", "machines"])] {
        reconciled(app, resource, "ReconciledAll").await;
        let reports = app.reports(resource).await;
        let mut names: Vec<&str> =
            reports.as_array().unwrap().iter().map(|report| text(&report["adapter"])).collect();
        names.sort_unstable();
        assert_eq!(names, expected);
    }
    let line: Value = adapters[1].logged("reported").await;
    assert_eq!((text(&line["name"]), text(&line["outcome"])), ("prod-1", "done"));

    app.remove(&cluster).await;
    for resource in [&pool, &cluster] {
        eventually("its end", DEADLINE, async || (app.get(href(resource)).await.status == 404).then_some(()))
            .await;
    }
    for adapter in &mut adapters {
        adapter.signal("TERM").await;
        assert_eq!(adapter.ended().await, Some(0));
    }
}

#[test]
fn invalid_arguments_end_the_adapter_with_exit_code_2() {
    support::run(async {
        let app = App::sqlite(CONFIG).await;
        let url = format!("http://{}", app.api().authority());
        let server = format!("--clients-hyperfleet-api-base-url={url}");
        let program = Program::new();
        for (arguments, told) in [
            (&["--name", "dns"][..], "broker.type is memory (default)"),
            (&["--name", "dns", "--fail", "101%"], "expected a fraction such as 5% or 0.05"),
            (&["--name", "dns", "--broker-type", "pigeon"], "must be one of memory, nats"),
            (
                &["--name", "dns", "--broker-type", "nats", "--kind", "rockets", &server],
                "the server has no kind \"rockets\"; it has clusters, nodepools",
            ),
        ] {
            let ended = program.run(&[&["adapter", "simulate"][..], arguments].concat()).await;
            assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
            assert!(ended.stderr.contains(told), "{arguments:?}: {}", ended.stderr);
        }
    });
}
