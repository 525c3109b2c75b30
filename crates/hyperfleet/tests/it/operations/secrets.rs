//! No output shows a secret: not the printed configuration, not a fault of it, and not a log at trace level, where the
//! libraries tell what they send. A secret is planted in every setting that may hold one.

use hyperfleet_testkit::{Client, Nats, Postgres, RabbitMq};
use serde_json::json;

use super::program::{Program, Running};
use crate::support::{DEADLINE, database};

/// What all secrets of these tests begin with.
const PLANTED: &str = "planted";

/// Everything that a process has said.
fn said(running: &Running) -> String {
    [running.stdout(), running.stderr()].concat().join("\n")
}

#[track_caller]
fn expect_no_secret(what: &str, said: &str) {
    let line = said.lines().find(|line| line.contains(PLANTED));
    assert_eq!(line, None, "{what}");
}

/// A program with a secret in every setting that may hold one.
fn planted() -> Program {
    Program::new()
        .env("HYPERFLEET_DATABASE_URL", "postgres://me:planted-1@db:5432/fleet?password=planted-2")
        .env("HYPERFLEET_DATABASE_PASSWORD", "planted-3")
        .env("HYPERFLEET_BROKER_NATS_URL", "nats://planted-4@a:4222, b:planted-5@b:4222,planted-6@c")
        .env("HYPERFLEET_BROKER_RABBITMQ_URL", "amqp://me:planted-7@rabbit:5672/%2f")
        .env("HYPERFLEET_CLIENTS_HYPERFLEET_API_BASE_URL", "http://me:planted-8@api:8000")
        .env("HYPERFLEET_CLIENTS_HYPERFLEET_API_HEADERS", "{X-API-Key: planted-9, X-Tenant: planted-10}")
        .env("HYPERFLEET_CLIENTS_HYPERFLEET_API_DEFAULT_HEADERS", "{Authorization: Bearer planted-13}")
        .env("HYPERFLEET_CLIENTS_MAESTRO_AUTH", "{type: token, token: planted-14}")
        .env("HYPERFLEET_CLIENTS_MAESTRO_GRPC_SERVER_ADDRESS", "http://me:planted-15@maestro:8090")
        .env(
            "HYPERFLEET_SERVER_JWT_CONFIGS",
            "[{issuer_url: 'https://me:planted-11@idp', jwk_cert_url: 'https://me:planted-12@idp/keys', audience: a}]",
        )
}

#[tokio::test]
async fn a_printed_configuration_shows_no_secret() {
    let program = planted();
    for command in [
        &["config"][..],
        &["serve", "--print-config"],
        &["up", "--print-config"],
        &["sentinel", "config"],
        &["sentinel", "serve", "--print-config"],
        &["adapter", "simulate", "--print-config"],
        &["adapter", "config"],
    ] {
        let ended = program.run(command).await;
        expect_no_secret(&format!("{command:?}"), &(ended.stdout.clone() + &ended.stderr));
        assert!(ended.stdout.contains("***") || ended.code != Some(0), "{command:?} {ended:?}");
    }
    let shown = Program::new().env("HYPERFLEET_BROKER_NATS_URL", "nats://planted-1@a:4222");
    let shown = shown.run(&["sentinel", "config"]).await.stdout;
    assert!(shown.contains("nats://***@a:4222"), "{shown}");
}

#[tokio::test]
async fn a_faulty_configuration_shows_no_secret() {
    let long = "x".repeat(200);
    let files = [
        "broker: nats://planted-1@host\n".to_owned(),
        "database: {url: {a: 'postgres://me:planted-2@host'}, password: [planted-3]}\n".to_owned(),
        format!("broker: {{nats: {{url: ['nats://me:planted-4{long}@host']}}}}\n"),
        format!("database: {{url: 'mysql://me:planted-5{long}@host'}}\n"),
        "database: {url: 'postgres://me:planted-6@host?sslmode=planted'}\n".to_owned(),
        "clients: {hyperfleet_api: {headers: [planted-7]}}\n".to_owned(),
        "clients: {hyperfleet_api: {headers: {X-API-Key: [planted-8]}}}\n".to_owned(),
        "server: {jwt: {configs: [{issuer_url: ['https://me:planted-9@idp']}]}}\n".to_owned(),
        "broker: {nats: {url: 'nats://planted-10@a b'}}\n".to_owned(),
    ];
    for file in files {
        let program = Program::new().file("config.yaml", &file);
        for command in [
            &["config", "--config", "config.yaml"][..],
            &["sentinel", "config", "--config", "config.yaml"],
            &["sentinel", "serve", "--broker-type", "nats", "--config", "config.yaml"],
        ] {
            let ended = program.run(command).await;
            // The name of a mode is no secret.
            let said =
                (ended.stdout + &ended.stderr).replace("\"planted\"", "").replace("sslmode=planted", "");
            expect_no_secret(&format!("{command:?} with {file}"), &said);
        }
    }
}

/// A role at trace level, with every listener on a port of the system's choice.
fn traced(program: Program) -> Program {
    ["SERVER", "HEALTH", "METRICS"]
        .iter()
        .fold(program, |program, listener| program.env(&format!("HYPERFLEET_{listener}_PORT"), "0"))
        .env("HYPERFLEET_LOGGING_LEVEL", "trace")
        .env("HYPERFLEET_LOG_LEVEL", "trace")
        .env("HYPERFLEET_SERVER_JWT_ENABLED", "false")
}

/// Waits until a process that serves is ready.
async fn ready(running: &Running) -> Client {
    let health = running.client("health").await;
    hyperfleet_testkit::eventually("a ready process", DEADLINE, async || {
        health.get("/readyz").send().await.ok().filter(|answer| answer.status == 200)
    })
    .await;
    health
}

#[tokio::test(flavor = "multi_thread")]
async fn a_traced_server_tells_no_secret() {
    let database = database().await;
    let url = database.url().replace("postgres@", "postgres:planted-1@");
    let running = traced(Program::new().env("HYPERFLEET_DATABASE_URL", &url)).start(&["serve"]);
    ready(&running).await;
    let api = running.client("api").await;
    let body = json!({"kind": "Cluster", "name": "traced", "spec": {}});
    let call = api.post("/api/hyperfleet/v1/clusters?token=planted-2").json(&body);
    let call = call.header("authorization", "Bearer planted-3").header("x-api-key", "planted-4");
    call.header("cookie", "session=planted-5").await;
    api.get("/api/hyperfleet/v1/nowhere").header("authorization", "Basic planted-6").await;
    let told = said(&running);
    assert!(told.contains("\"level\":\"debug\""), "nothing is traced");
    expect_no_secret("serve", &told);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_traced_server_without_its_database_tells_no_secret() {
    let socket = Postgres::shared().socket_directory().display().to_string().replace('/', "%2F");
    for url in [
        "postgres://me:planted-1@127.0.0.1:1/fleet".to_owned(),
        "postgres://me:planted-2@nowhere.invalid/fleet".to_owned(),
        format!("postgres://nobody:planted-3@/fleet?host={socket}"),
        "postgres://me:planted%2D4@127.0.0.1:1/fleet?sslmode=require&unknown=planted-5".to_owned(),
    ] {
        let program = traced(Program::new().env("HYPERFLEET_DATABASE_URL", &url))
            .env("HYPERFLEET_DATABASE_POOL_CONN_RETRY_ATTEMPTS", "1")
            .env("HYPERFLEET_DATABASE_POOL_CONN_RETRY_INTERVAL", "10ms");
        for command in ["serve", "migrate"] {
            let ended = program.run(&[command]).await;
            assert_ne!(ended.code, Some(0), "{url}");
            expect_no_secret(&format!("{command} {url}"), &(ended.stdout + &ended.stderr));
        }
    }
}

/// Traces a Sentinel and an adapter of this broker until `enough` of what both say.
async fn trace_with_broker(broker: &[(&str, &str)], enough: impl Fn(&str) -> bool) {
    let server = crate::support::launch().start().await.unwrap();
    let api = format!("http://{}", server.api().authority());
    let program = traced(Program::new().file("token", "planted-token\n"))
        .env("HYPERFLEET_API_BASE_URL", &api)
        .env("HYPERFLEET_CLIENTS_HYPERFLEET_API_BASE_URL", &api)
        .env("HYPERFLEET_CLIENTS_HYPERFLEET_API_HEADERS", "{X-API-Key: planted-header}")
        .env("HYPERFLEET_CLIENTS_HYPERFLEET_API_AUTH_TOKEN_PATH", "token");
    let program = broker.iter().fold(program, |program, (name, value)| program.env(name, value));
    let sentinel = program.start(&["sentinel", "serve"]);
    let adapter = program.start(&["adapter", "simulate", "--name", "validator"]);
    let cluster = json!({"kind": "Cluster", "name": "traced", "spec": {}});
    server.api().post("/api/hyperfleet/v1/clusters").json(&cluster).await.expect_status(201);
    for (role, running) in [("sentinel", &sentinel), ("adapter", &adapter)] {
        let begun = std::time::Instant::now();
        while !enough(&said(running)) {
            assert!(begun.elapsed() < DEADLINE, "{role} {broker:?} says no more than {}", said(running));
            tokio::task::yield_now().await;
        }
        expect_no_secret(&format!("{role} {broker:?}"), &said(running));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn traced_roles_on_nats_tell_no_secret() {
    let connected = |said: &str| said.contains("connected successfully");
    for (arguments, login) in [
        (&["--auth", "planted-nats-token"][..], "planted-nats-token"),
        (&["--user", "me", "--pass", "planted-nats-password"], "me:planted-nats-password"),
    ] {
        let nats = Nats::start_with(arguments).await.unwrap();
        let url = nats.url().replace("nats://", &format!("nats://{login}@"));
        trace_with_broker(
            &[("HYPERFLEET_BROKER_TYPE", "nats"), ("HYPERFLEET_BROKER_NATS_URL", &url)],
            connected,
        )
        .await;
        let refused = url.replace("planted-nats", "planted-wrong");
        let login = refused.rsplit_once('@').unwrap().0;
        let refused = format!("{refused},{login}@127.0.0.1:1");
        trace_with_broker(
            &[("HYPERFLEET_BROKER_TYPE", "nats"), ("HYPERFLEET_BROKER_NATS_URL", &refused)],
            |said| said.contains("attempting connection") && said.contains("authorization violation"),
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn traced_roles_on_rabbitmq_tell_no_secret() {
    let url = RabbitMq::shared().url();
    let kind = ("HYPERFLEET_BROKER_TYPE", "rabbitmq");
    let refused = url.replace("guest:guest", "guest:planted-rabbit");
    let gone = "amqp://guest:planted-gone@127.0.0.1:1/".to_owned();
    for url in [refused, gone] {
        let failed =
            |said: &str| said.contains("lapin") || said.contains("broker") && said.lines().count() > 50;
        trace_with_broker(&[kind, ("HYPERFLEET_BROKER_RABBITMQ_URL", &url)], failed).await;
    }
    // Its only user has a password that everybody knows, and that is hidden all the same.
    let server = crate::support::launch().start().await.unwrap();
    let program = traced(Program::new())
        .env("HYPERFLEET_API_BASE_URL", &format!("http://{}", server.api().authority()))
        .env("HYPERFLEET_BROKER_TYPE", "rabbitmq")
        .env("HYPERFLEET_BROKER_RABBITMQ_URL", &url);
    let sentinel = program.start(&["sentinel", "serve"]);
    ready(&sentinel).await;
    let line = said(&sentinel).lines().find(|line| line.contains("guest")).map(str::to_owned);
    assert_eq!(line, None);
}
