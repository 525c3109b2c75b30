//! The database goes away and comes back: callers are told at once, no acknowledged write is lost, and no restart is
//! needed.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyperfleet_testkit::{Answer, Client, Launch, Postgres, Server, Store, eventually};
use tokio::sync::watch;

use super::installation::Installation;
use super::program::Program;
use super::{BINARY, CLUSTERS, DEADLINE, cluster, create_cluster, id};
use crate::support::{Backend, both_stores};

/// Longer than the request timeout that the servers here are given, by far: only a hang meets it.
const NO_HANG: Duration = Duration::from_secs(20);
const REPLICAS: usize = 3;
/// Through each replica.
const WRITERS: usize = 4;
/// Refusals after which a caller waits for the end of the outage.
const REFUSALS: usize = 5;

#[tokio::test]
async fn replicas_survive_a_database_restart_under_load() {
    survive(async |postgres| postgres.stop_fast().await.unwrap()).await;
}

#[tokio::test]
async fn replicas_survive_a_database_crash_under_load() {
    survive(async |postgres| postgres.stop_immediate().await.unwrap()).await;
}

async fn survive(stop: impl AsyncFn(&Postgres)) {
    let postgres = Postgres::durable().await.unwrap();
    let database = postgres.database().await;
    let mut servers = Vec::new();
    for _ in 0..REPLICAS {
        let server = Launch::new(BINARY)
            .store(Store::Postgres(database.url()))
            .env("HYPERFLEET_DATABASE_POOL_REQUEST_TIMEOUT", "2s")
            .discard_logs()
            .start();
        servers.push(server.await.unwrap());
    }
    let load = Load::start(&servers).await;

    for outages in 1..=2 {
        load.progress("before the outage").await;
        load.end_of_outage.send_replace(false);
        stop(&postgres).await;

        for server in &servers {
            refuses(server).await;
        }
        load.all_were_refused(outages).await;
        for server in &servers {
            counts_its_errors(server).await;
        }

        postgres.start().await.unwrap();
        for server in &servers {
            eventually("ready again", DEADLINE, async || {
                (server.health().get("/readyz").await.status == 200).then_some(())
            })
            .await;
        }
        load.end_of_outage.send_replace(true);
    }
    load.progress("after the outages").await;

    let acknowledged = load.stop().await;
    assert!(!acknowledged.is_empty());
    for (server, id) in servers.iter().cycle().zip(acknowledged) {
        server.api().get(&format!("{CLUSTERS}/{id}")).await.expect_status(200);
    }
    stop(&postgres).await;
    for server in &mut servers {
        assert_eq!(server.terminate().await.unwrap().code(), Some(0), "it stops without its database too");
    }
}

/// What a server says of itself while its database is away.
async fn refuses(server: &Server) {
    let not_ready = eventually("not ready", DEADLINE, async || {
        let answer = server.health().get("/readyz").await;
        (answer.status == 503).then_some(answer)
    })
    .await;
    assert_eq!(not_ready.problem_code(), "HYPERFLEET-SVC-002");
    assert!(not_ready.json()["detail"].as_str().unwrap().starts_with("database: "), "{not_ready}");
    server.health().get("/healthz").await.expect_status(200);
    server.api().get("/api/hyperfleet/health").await.expect_status(503);
    server.api().get("/api/hyperfleet/metadata").await.expect_status(200);
}

async fn counts_its_errors(server: &Server) {
    let metrics = server.metrics().get("/metrics").await.expect_status(200);
    for operation in ["commit", "get", "list", "ping"] {
        let counted = format!("hyperfleet_db_errors_total{{operation=\"{operation}\",error_type=\"");
        assert!(String::from_utf8_lossy(&metrics.body).contains(&counted), "{operation}: {metrics}");
    }
}

/// Callers that write, read and list for as long as they are let.
struct Load {
    callers: Vec<tokio::task::JoinHandle<Vec<String>>>,
    counts: Arc<Counts>,
    end_of_outage: watch::Sender<bool>,
    stop: watch::Sender<bool>,
}

#[derive(Default)]
struct Counts {
    served: AtomicUsize,
    waiting: AtomicUsize,
}

impl Load {
    async fn start(servers: &[Server]) -> Self {
        let counts = Arc::new(Counts::default());
        let end_of_outage = watch::Sender::new(true);
        let stop = watch::Sender::new(false);
        let some_cluster = format!("{CLUSTERS}/{}", id(&create_cluster(&servers[0].api(), "readable").await));
        let mut callers = Vec::new();
        for (replica, server) in servers.iter().enumerate() {
            let creates = (0..WRITERS).map(|writer| Request::Create(replica * WRITERS + writer));
            let reads = [&some_cluster, CLUSTERS].map(|path| Request::Read(path.to_owned()));
            for request in creates.chain(reads) {
                let (over, stop) = (end_of_outage.subscribe(), stop.subscribe());
                callers.push(tokio::spawn(call(server.api(), request, Arc::clone(&counts), over, stop)));
            }
        }
        Self { callers, counts, end_of_outage, stop }
    }

    /// Waits until more was served.
    async fn progress(&self, when: &str) {
        let before = self.counts.served.load(Ordering::Relaxed);
        eventually(when, DEADLINE, async || {
            (self.counts.served.load(Ordering::Relaxed) > before + 40).then_some(())
        })
        .await;
    }

    /// Waits until every caller has met its share of refusals, in as many outages.
    async fn all_were_refused(&self, outages: usize) {
        eventually("refusals", DEADLINE, async || {
            (self.counts.waiting.load(Ordering::Relaxed) == outages * self.callers.len()).then_some(())
        })
        .await;
    }

    /// The ids of all clusters whose creation was acknowledged.
    async fn stop(self) -> Vec<String> {
        self.stop.send_replace(true);
        let mut acknowledged = Vec::new();
        for caller in self.callers {
            acknowledged.extend(caller.await.unwrap());
        }
        acknowledged
    }
}

enum Request {
    Create(usize),
    Read(String),
}

async fn call(
    api: Client,
    request: Request,
    counts: Arc<Counts>,
    mut end_of_outage: watch::Receiver<bool>,
    stop: watch::Receiver<bool>,
) -> Vec<String> {
    let mut acknowledged = Vec::new();
    let mut refusals = 0;
    for turn in 0.. {
        if *stop.borrow() {
            break;
        }
        let request = match &request {
            Request::Create(caller) => api.post(CLUSTERS).json(&cluster(&format!("c{caller}-{turn}"))),
            Request::Read(path) => api.get(path),
        };
        let answer = tokio::time::timeout(NO_HANG, request).await.expect("no request hangs");
        match answer.status {
            201 => acknowledged.push(id(&answer)),
            200 => {}
            _ => {
                expect_outage(&answer);
                assert!(!*end_of_outage.borrow(), "refused while the database was there: {answer}");
                refusals += 1;
                if refusals % REFUSALS == 0 {
                    counts.waiting.fetch_add(1, Ordering::Relaxed);
                    end_of_outage.wait_for(|over| *over).await.unwrap();
                }
                continue;
            }
        }
        counts.served.fetch_add(1, Ordering::Relaxed);
    }
    acknowledged
}

/// 503 with a time to come back, or 504, and no word of the database's own.
fn expect_outage(answer: &Answer) {
    match answer.status {
        503 => {
            assert_eq!(answer.problem_code(), "HYPERFLEET-SVC-002", "{answer}");
            answer.header("retry-after").unwrap().parse::<u32>().unwrap();
        }
        _ => assert_eq!(
            (answer.status, answer.problem_code().as_str()),
            (504, "HYPERFLEET-SVC-003"),
            "{answer}"
        ),
    }
    let body = String::from_utf8_lossy(&answer.body).to_lowercase();
    for word in ["socket", "57p0", "/tmp", "postgres", "connection", "administrator"] {
        assert!(!body.contains(word), "{word} leaked: {answer}");
    }
}

#[tokio::test]
async fn connections_cut_while_idle_fail_no_request() {
    let installation = Installation::migrated(Backend::Postgres).await;
    let server = installation.serve().start().await.unwrap();
    let one = format!("{CLUSTERS}/{}", id(&create_cluster(&server.api(), "first").await));
    let all_at_once = async |name: &str| {
        let api = server.api();
        let mut calls = vec![api.get(&one), api.post(CLUSTERS).json(&cluster(name))];
        calls.extend((0..8).map(|_| api.get(CLUSTERS)));
        let calls: Vec<_> = calls.into_iter().map(|call| tokio::spawn(call.into_future())).collect();
        for call in calls {
            let answer = call.await.unwrap();
            assert!(answer.status < 300, "{answer}");
        }
    };
    all_at_once("before").await;
    for name in ["second", "third"] {
        let cut = "select pg_terminate_backend(pid) from pg_stat_activity
                   where datname = current_database() and application_name = 'hyperfleet'";
        assert!(installation.rows(cut).await.len() >= 3, "the writer's, the readers' and a pooled one");
        all_at_once(name).await;
    }
}

both_stores!(start = Installation::migrated; requests_time_out_when_the_database_does_not_answer);

async fn requests_time_out_when_the_database_does_not_answer(installation: &Installation) {
    let server =
        installation.serve().env("HYPERFLEET_DATABASE_POOL_REQUEST_TIMEOUT", "300ms").start().await.unwrap();
    let one = format!("{CLUSTERS}/{}", id(&create_cluster(&server.api(), "first").await));
    let held = installation.hold_everything().await;
    let mut calls = vec![server.api().post(CLUSTERS).json(&cluster("late"))];
    if let Installation::Postgres(_) = installation {
        // On SQLite readers do not wait for the writer.
        calls.extend([server.api().get(&one), server.api().get(CLUSTERS)]);
    }
    for call in calls {
        let answer = tokio::time::timeout(NO_HANG, call.into_future()).await.expect("no request hangs");
        assert_eq!(answer.expect_status(504).problem_code(), "HYPERFLEET-SVC-003");
    }
    server.health().get("/healthz").await.expect_status(200);
    drop(held);
    eventually("writes go on", DEADLINE, async || {
        let answer = server.api().post(CLUSTERS).json(&cluster("after")).await;
        (answer.status == 201).then_some(())
    })
    .await;
    server.api().get(&one).await.expect_status(200);
    server.api().get(CLUSTERS).await.expect_status(200);
}

/// A directory without a PostgreSQL in it.
const UNREACHABLE: &str = "postgres://postgres@/x?host=%2Fnonexistent";

#[tokio::test]
async fn a_server_without_a_database_retries_as_configured_and_gives_up_with_the_reason() {
    let program = Program::new()
        .env("HYPERFLEET_DATABASE_POOL_CONN_RETRY_ATTEMPTS", "2")
        .env("HYPERFLEET_DATABASE_POOL_CONN_RETRY_INTERVAL", "10ms");
    let serve = [
        "serve",
        "--server-jwt-enabled=false",
        "--database-url",
        UNREACHABLE,
        "--server-port=0",
        "--health-port=0",
        "--metrics-port=0",
    ];
    for arguments in [&serve[..], &["migrate", "--logging-output=stderr", "--database-url", UNREACHABLE]] {
        let ended = program.run(arguments).await;
        assert_eq!(ended.code, Some(1));
        let all = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(all.matches("the database is not reachable yet").count(), 2, "two retries: {all}");
        let last = ended.stderr.lines().last().unwrap();
        assert!(
            last.starts_with("error: cannot connect to the database after 3 attempts: ")
                && last.ends_with("host, name, user, password, TLS"),
            "{last}"
        );
    }
}

#[tokio::test]
async fn a_server_started_before_its_database_becomes_ready_when_it_comes() {
    let postgres = Postgres::durable().await.unwrap();
    let database = postgres.database().await;
    postgres.stop_fast().await.unwrap();
    let program = Program::new()
        .env("HYPERFLEET_SERVER_JWT_ENABLED", "false")
        .env("HYPERFLEET_DATABASE_URL", &database.url())
        .env("HYPERFLEET_DATABASE_POOL_CONN_RETRY_ATTEMPTS", "10000")
        .env("HYPERFLEET_DATABASE_POOL_CONN_RETRY_INTERVAL", "20ms");
    let running = program.start(&["serve", "--server-port=0", "--health-port=0", "--metrics-port=0"]);
    running.logged("the database is not reachable yet").await;
    let health = running.client("health").await;
    health.get("/healthz").await.expect_status(200);
    let waiting = health.get("/readyz").await.expect_status(503);
    assert_eq!(waiting.json()["detail"], "database: pending");

    postgres.start().await.unwrap();
    eventually("ready", DEADLINE, async || (health.get("/readyz").await.status == 200).then_some(())).await;
    create_cluster(&running.client("api").await, "patient").await;
}

both_stores!(start = Installation::migrated; a_statement_refused_by_the_database_fails_its_own_command_alone);

async fn a_statement_refused_by_the_database_fails_its_own_command_alone(installation: &Installation) {
    let server = installation.serve().start().await.unwrap();
    installation
        .execute(match installation {
            Installation::Sqlite(_) => {
                "create trigger sabotage before insert on resources when new.name = 'poison'
             begin select raise(abort, 'sabotage'); end"
            }
            Installation::Postgres(_) => {
                "create function sabotage() returns trigger language plpgsql as
             $$ begin if new.name = 'poison' then raise exception 'sabotage'; end if; return new; end $$;
             create trigger sabotage before insert on resources for each row execute function sabotage()"
            }
        })
        .await;

    let names =
        (0..32).map(|number| if number == 16 { "poison".to_owned() } else { format!("good-{number}") });
    let sent: Vec<_> = names
        .map(|name| {
            let api = server.api();
            tokio::spawn(async move { (api.post(CLUSTERS).json(&cluster(&name)).await, name) })
        })
        .collect();
    for answer in sent {
        let (answer, name) = answer.await.unwrap();
        if name == "poison" {
            assert_eq!((answer.status, answer.problem_code().as_str()), (500, "HYPERFLEET-INT-002"));
            assert_eq!(answer.json()["detail"], "The database could not carry out the request.");
            assert!(!String::from_utf8_lossy(&answer.body).contains("sabotage"), "{answer}");
        } else {
            answer.expect_status(201);
        }
    }
    create_cluster(&server.api(), "later").await;
    let list = server.api().get(&format!("{CLUSTERS}?pageSize=1")).await.json();
    assert_eq!((&list["total"], &list["version"]), (&32.into(), &32.into()), "the failure took no version");
    let cause = server.logs().into_iter().find(|line| line["error_code"] == "HYPERFLEET-INT-002").unwrap();
    assert!(cause["error"].as_str().unwrap().contains("sabotage"), "the log has the cause: {cause}");
}
