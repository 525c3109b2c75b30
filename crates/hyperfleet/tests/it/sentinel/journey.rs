//! Changes of resources become events.

use serde_json::json;

use super::*;

over_brokers!(
    every_change_of_desired_state_is_an_event,
    a_report_that_alters_a_condition_tells_the_other_adapters,
    a_file_of_the_go_sentinel_is_understood,
);

async fn every_change_of_desired_state_is_an_event(app: &App, broker: Variables) {
    let mut listener = EventListener::on(&broker).await;
    let running = start(&sentinel(app, &broker, &listener)).await;
    let cluster = app.create_cluster(&unique("cluster")).await;
    let event = listener.event_about(&cluster, 1).await;
    assert_eq!(event.event_type, "com.redhat.hyperfleet.cluster.reconcile");
    assert_eq!(event.source, "hyperfleet-sentinel");
    assert_eq!(event.traceparent, None);
    let about = json!({"id": cluster["id"], "kind": "Cluster", "href": cluster["href"], "generation": 1});
    assert_eq!(event.data, about);

    app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    listener.event_about(&cluster, 2).await;
    app.merge(&cluster, &json!({"labels": {"a": "b"}})).await;

    let pool = app.create_nodepool(&cluster, &unique("pool")).await;
    let event = listener.event_about(&pool, 1).await;
    assert_eq!(event.event_type, "com.redhat.hyperfleet.nodepool.reconcile");
    assert_eq!(event.data["owner_references"], pool["owner_references"]);

    app.remove(&cluster).await;
    listener.event_about(&cluster, 3).await;
    listener.event_about(&pool, 2).await;
    // An event may be received before the broker's word that it has it.
    hyperfleet_testkit::eventually("five events that are counted", DEADLINE, async || {
        let published = metric(&running, "hyperfleet_sentinel_events_published_total").await;
        let timed = metric(&running, "hyperfleet_sentinel_change_to_publish_seconds_count").await;
        (published >= 5.0 && timed >= 5.0).then_some(())
    })
    .await;
    // Those are counted once a second.
    hyperfleet_testkit::eventually("two that wait", DEADLINE, async || {
        (metric(&running, "hyperfleet_sentinel_pending_resources").await >= 2.0).then_some(())
    })
    .await;
}

async fn a_report_that_alters_a_condition_tells_the_other_adapters(app: &App, broker: Variables) {
    let mut listener = EventListener::on(&broker).await;
    let running = start(&sentinel(app, &broker, &listener)).await;
    let cluster = app.create_cluster(&unique("cluster")).await;
    listener.event_about(&cluster, 1).await;
    app.report(&cluster, &report_now("validator", 1, "False")).await.expect_status(201);
    hyperfleet_testkit::eventually("an event about the report", DEADLINE, async || {
        let series = "hyperfleet_sentinel_events_published_total{resource_type=\"clusters\",reason=\"inputs_changed\"}";
        metrics(&running).await.contains(series).then_some(())
    })
    .await;
    app.report(&cluster, &report_now("validator", 1, "True")).await.expect_status(201);
    hyperfleet_testkit::eventually("nothing that waits", DEADLINE, async || {
        (metric(&running, "hyperfleet_sentinel_pending_resources").await == 0.0).then_some(())
    })
    .await;
}

async fn a_file_of_the_go_sentinel_is_understood(app: &App, broker: Variables) {
    const FILE: &str = r#"
sentinel: {name: go-sentinel}
clients:
  hyperfleet_api: {base_url: http://absent, timeout: 10s}
  broker: {topic: absent}
resource_type: clusters
poll_interval: 1s
resource_selector: [{label: region, value: eu}]
message_decision:
  params:
    ref_time: condition("Reconciled").last_updated_time
    is_reconciled: condition("Reconciled").status == "True"
    has_ref_time: ref_time != ""
    is_new_resource: "!is_reconciled && resource.generation == 1"
    generation_mismatch: resource.generation > condition("Reconciled").observed_generation
    reconciled_and_stale: is_reconciled && has_ref_time && now - timestamp(ref_time) > duration("30m")
  result: is_new_resource || generation_mismatch || reconciled_and_stale
message_data:
  id: resource.id
  name: resource.name
  why: reason
tracing_enabled: true
"#;
    let mut listener = EventListener::on(&broker).await;
    let program = sentinel(app, &broker, &listener).file("configs/sentinel.yaml", FILE);
    let _running = start(&program).await;
    app.create_cluster(&unique("elsewhere")).await;
    let body = json!({"kind": "Cluster", "name": unique("here"), "spec": {}, "labels": {"region": "eu"}});
    let cluster = app.create("/clusters", &body).await;
    let event = listener.event_about(&cluster, 1).await;
    assert_eq!(event.data["name"], cluster["name"]);
    assert_eq!(event.data["why"], "message_decision");
    assert_eq!(event.source, "go-sentinel");
    assert!(event.traceparent.is_some_and(|it| it.len() == 55 && it.starts_with("00-")));
    assert!(
        listener.received.iter().all(|event| event.data["id"] == cluster["id"]),
        "{:?}",
        listener.received
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sentinel_works_over_pub_sub() {
    let app = App::postgres(DEFAULT).await;
    every_change_of_desired_state_is_an_event(&app, googlepubsub(hyperfleet_pubsub_emulator::host())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sentinel_follows_a_kind_added_at_a_restart_of_the_server() {
    const ZONES: &str = "entities: [{kind: Zone, plural: zones, required_adapters: [mapper]}]";
    let mut app = App::launched(at_one_port(DEFAULT), None).await;
    let broker = nats(Nats::shared().url());
    let mut listener = EventListener::on(&broker).await;
    let running = start(&sentinel(&app, &broker, &listener)).await;
    let cluster = app.create_cluster(&unique("cluster")).await;
    listener.event_about(&cluster, 1).await;

    app.restart_with(ZONES).await;
    hyperfleet_testkit::eventually("a look after zones", 2 * DEADLINE, async || {
        let zones = "hyperfleet_sentinel_pending_resources{resource_type=\"zones\"}";
        metrics(&running).await.contains(zones).then_some(())
    })
    .await;
    let zone = app.create("/zones", &json!({"kind": "Zone", "name": unique("zone"), "spec": {}})).await;
    assert_eq!(listener.event_about(&zone, 1).await.event_type, "com.redhat.hyperfleet.zone.reconcile");
    let health = running.client("health").await;
    hyperfleet_testkit::eventually("no trouble with kinds that are gone", DEADLINE, async || {
        let gone = !metrics(&running).await.contains("pending_resources{resource_type=\"clusters\"}");
        let ready = health.get("/readyz").send().await.ok().filter(|answer| answer.status == 200);
        ready.filter(|_| gone)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn under_the_go_contract_label_changes_are_events() {
    let app = App::sqlite("compatibility: {contract: go-0.2}").await;
    let broker = nats(Nats::shared().url());
    let mut listener = EventListener::on(&broker).await;
    let _running = start(&sentinel(&app, &broker, &listener)).await;
    let body = json!({"kind": "Cluster", "name": unique("cluster"), "spec": {}});
    let cluster = app.api().post("/api/hyperfleet/v1/clusters").json(&body).send().await.unwrap();
    let cluster = cluster.expect_status(201).json();
    listener.event_about(&cluster, 1).await;
    let path = cluster["href"].as_str().unwrap();
    app.api().patch(path).json(&json!({"labels": {"a": "b"}})).send().await.unwrap().expect_status(200);
    listener.event_about(&cluster, 2).await;
}
