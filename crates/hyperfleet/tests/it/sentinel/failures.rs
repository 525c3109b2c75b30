//! Whatever stops for a while, nothing is lost.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn nats_that_is_away_for_a_while_gets_everything_afterwards() {
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
async fn rabbitmq_that_is_away_for_a_while_gets_everything_afterwards() {
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
    let app = App::on_postgres(DEFAULT).await;
    let mut ear = Ear::on(&broker).await;
    let running = start(&sentinel(&app, &broker, &ear)).await;
    let before = app.create_cluster(&unique("before")).await;
    ear.hears(&before, 1).await;

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
        ear.hears(cluster, 1).await;
    }
    assert!(metric(&running, "hyperfleet_sentinel_broker_errors_total").await >= 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_that_is_away_for_a_while_is_followed_afterwards_over_rabbitmq() {
    an_api_that_is_away_for_a_while_is_followed_afterwards(rabbitmq(RabbitMq::shared().url())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_that_is_away_for_a_while_is_followed_afterwards_over_nats() {
    an_api_that_is_away_for_a_while_is_followed_afterwards(nats(Nats::shared().url())).await;
}

async fn an_api_that_is_away_for_a_while_is_followed_afterwards(broker: Variables) {
    let database = std::sync::Arc::new(hyperfleet_testkit::Postgres::shared().database().await);
    let mut app = App::on_database(at_one_port(DEFAULT), database).await;
    let mut ear = Ear::on(&broker).await;
    let running = start(&sentinel(&app, &broker, &ear)).await;
    let cluster = app.create_cluster(&unique("cluster")).await;
    ear.hears(&cluster, 1).await;

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
    ear.hears(&cluster, 2).await;
    let next = app.create_cluster(&unique("next")).await;
    ear.hears(&next, 1).await;
    hyperfleet_testkit::eventually("a Sentinel that is ready again", DEADLINE, async || {
        health.get("/readyz").send().await.ok().filter(|answer| answer.status == 200)
    })
    .await;
}

over_brokers!(a_sentinel_that_was_killed_publishes_what_it_missed);

async fn a_sentinel_that_was_killed_publishes_what_it_missed(app: &App, broker: Variables) {
    let mut ear = Ear::on(&broker).await;
    let program = sentinel(app, &broker, &ear);
    let running = start(&program).await;
    let cluster = app.create_cluster(&unique("cluster")).await;
    ear.hears(&cluster, 1).await;
    drop(running);

    app.merge(&cluster, &serde_json::json!({"spec": {"a": 1}})).await;
    let missed = app.create_cluster(&unique("missed")).await;
    let _running = start(&program).await;
    ear.hears(&cluster, 2).await;
    ear.hears(&missed, 1).await;
}

#[tokio::test]
async fn a_sentinel_that_nobody_could_hear_does_not_start_and_every_fault_is_told_at_once() {
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
