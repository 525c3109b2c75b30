//! Outages of Sentinel, brokers and API: no event is lost.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn events_are_published_after_an_outage_of_nats() {
    let server = Nats::start().await.unwrap();
    let url = server.url();
    a_broker_that_is_away_for_a_while_gets_everything_afterwards(
        nats(url),
        || server.kill(),
        async || server.start_again().await.unwrap(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_published_after_an_outage_of_rabbitmq() {
    let server = RabbitMq::start().await.unwrap();
    let url = server.url();
    a_broker_that_is_away_for_a_while_gets_everything_afterwards(
        rabbitmq(url),
        || server.kill(),
        async || server.start_again().await.unwrap(),
    )
    .await;
}

async fn a_broker_that_is_away_for_a_while_gets_everything_afterwards(
    broker: Variables,
    kill: impl Fn(),
    start_again: impl AsyncFn(),
) {
    let app = App::postgres(DEFAULT).await;
    let mut listener = EventListener::on(&broker).await;
    let running = start(&sentinel(&app, &broker, &listener)).await;
    let before = app.create_cluster(&unique("before")).await;
    listener.event_about(&before, 1).await;

    kill();
    let mut clusters = Vec::new();
    for _ in 0..5 {
        clusters.push(app.create_cluster(&unique("meanwhile")).await);
    }
    let health = running.client("health").await;
    hyperfleet_testkit::eventually("a readiness that names the broker", DEADLINE, async || {
        let answer = health.get("/readyz").send().await.unwrap();
        (answer.status == 503 && answer.json()["checks"]["broker"]["status"] == "failing").then_some(())
    })
    .await;
    health.get("/healthz").send().await.unwrap().expect_status(200);

    start_again().await;
    for cluster in &clusters {
        listener.event_about(cluster, 1).await;
    }
    assert!(metric(&running, "hyperfleet_sentinel_broker_errors_total").await >= 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sentinel_resumes_after_an_outage_of_the_api_over_rabbitmq() {
    an_api_that_is_away_for_a_while_is_followed_afterwards(rabbitmq(RabbitMq::shared().url())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sentinel_resumes_after_an_outage_of_the_api_over_nats() {
    an_api_that_is_away_for_a_while_is_followed_afterwards(nats(Nats::shared().url())).await;
}

async fn an_api_that_is_away_for_a_while_is_followed_afterwards(broker: Variables) {
    let database = std::sync::Arc::new(database().await);
    let mut app = App::on_database(at_one_port(DEFAULT), database).await;
    let mut listener = EventListener::on(&broker).await;
    let running = start(&sentinel(&app, &broker, &listener)).await;
    let cluster = app.create_cluster(&unique("cluster")).await;
    listener.event_about(&cluster, 1).await;

    app.server.kill9();
    let health = running.client("health").await;
    let problem = hyperfleet_testkit::eventually("a readiness that names the API", DEADLINE, async || {
        let answer = health.get("/readyz").send().await.unwrap();
        (answer.status == 503 && answer.json()["checks"]["api"]["status"] == "failing").then(|| answer.json())
    })
    .await;
    assert_eq!(problem["code"], "HYPERFLEET-SVC-002");
    assert_eq!(problem["title"], "Dependency Unavailable");
    assert!(problem["detail"].as_str().is_some_and(|it| it.starts_with("api: the API ")), "{problem}");
    app.restart().await;
    app.merge(&cluster, &serde_json::json!({"spec": {"a": 1}})).await;
    listener.event_about(&cluster, 2).await;
    let next = app.create_cluster(&unique("next")).await;
    listener.event_about(&next, 1).await;
    hyperfleet_testkit::eventually("a Sentinel that is ready again", DEADLINE, async || {
        health.get("/readyz").send().await.ok().filter(|answer| answer.status == 200)
    })
    .await;
}

over_brokers!(a_restarted_sentinel_publishes_missed_events);

async fn a_restarted_sentinel_publishes_missed_events(app: &App, broker: Variables) {
    let mut listener = EventListener::on(&broker).await;
    let program = sentinel(app, &broker, &listener);
    let running = start(&program).await;
    let cluster = app.create_cluster(&unique("cluster")).await;
    listener.event_about(&cluster, 1).await;
    drop(running);

    app.merge(&cluster, &serde_json::json!({"spec": {"a": 1}})).await;
    let missed = app.create_cluster(&unique("missed")).await;
    let _running = start(&program).await;
    listener.event_about(&cluster, 2).await;
    listener.event_about(&missed, 1).await;
}

#[tokio::test]
async fn a_misconfigured_sentinel_does_not_start_and_reports_every_fault() {
    let alone = Program::new().run(&["sentinel", "serve"]).await;
    assert_eq!(alone.code, Some(2));
    assert!(alone.stderr.contains("broker.type is memory"), "{}", alone.stderr);
    let file = "resource_type: {}\npol_interval: 5s\nmessage_decision: {params: {a: b}, result: a && c}\n\
                message_data: {x: resorce.id}\nresource_selector: [{label: 'a b', value: c}]\n";
    let faulty = Program::new().file("configs/sentinel.yaml", file).run(&["sentinel", "config"]).await;
    assert_eq!(faulty.code, Some(2));
    for expected in [
        "pol_interval (./configs/sentinel.yaml): unknown key, did you mean poll_interval?",
        "resource_type (./configs/sentinel.yaml): must be the plural of a kind",
        "params.a: line 1, column 1: unknown name 'b'",
        "result: line 1, column 6: unknown name 'c'",
        "x: line 1, column 1: unknown name 'resorce'; did you mean resource?",
        "[0] must be {label, value}",
    ] {
        assert!(faulty.stderr.contains(expected), "{expected} is missing in {}", faulty.stderr);
    }
}
