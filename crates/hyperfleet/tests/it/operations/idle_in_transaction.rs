//! A replica is frozen or cut off under load: the others write on after a moment, nothing that was acknowledged is lost, and
//! the replica serves again when it returns.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyperfleet_testkit::{Client, Database, Launch, Postgres, Server, Store, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, split};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{BINARY, CLUSTERS, DEADLINE, cluster, id};
use crate::support::database;

const REPLICAS: usize = 3;
/// Through each replica.
const WRITERS: usize = 8;
const FREEZES: usize = 12;

/// Far more than others may have to wait, and far less than the time after which they would give up.
const STANDSTILL: Duration = Duration::from_secs(10);

/// Longer than a request to a replica that cannot reach its database takes, by far.
const NO_HANG: Duration = Duration::from_secs(20);

async fn start(url: String) -> Server {
    Launch::new(BINARY).store(Store::Postgres(url)).discard_logs().start().await.unwrap()
}

/// The writes that were acknowledged: when, through which replica, and the id.
type Acknowledged = Arc<Mutex<Vec<(Instant, usize, String)>>>;

/// Callers that create clusters through replicas until they are dropped.
struct Load {
    acknowledged: Acknowledged,
    _callers: JoinSet<()>,
}

impl Load {
    fn on(servers: &[Server]) -> Self {
        let acknowledged = Acknowledged::default();
        let mut callers = JoinSet::new();
        for (replica, server) in servers.iter().enumerate() {
            for writer in 0..WRITERS {
                callers.spawn(create(server.api(), replica, writer, acknowledged.clone()));
            }
        }
        Self { acknowledged, _callers: callers }
    }

    /// Those through the replicas that fit.
    fn through(&self, fits: impl Fn(usize) -> bool) -> Vec<Instant> {
        let all = self.acknowledged.lock().unwrap();
        all.iter().filter(|(_, replica, _)| fits(*replica)).map(|(at, ..)| *at).collect()
    }

    /// Waits for so many further ones through the replicas that fit.
    async fn further(&self, count: usize, fits: impl Fn(usize) -> bool) {
        let before = self.through(&fits).len();
        eventually("further writes", DEADLINE, async || {
            (self.through(&fits).len() >= before + count).then_some(())
        })
        .await;
    }

    /// The longest time without one through the replicas that fit, since then.
    fn longest_standstill(&self, since: Instant, fits: impl Fn(usize) -> bool) -> Duration {
        let times = self.through(fits);
        let later = times.iter().filter(|at| **at > since);
        let gap = |(last, longest): (Instant, Duration), at: &Instant| (*at, longest.max(*at - last));
        later.fold((since, Duration::ZERO), gap).1
    }
}

async fn create(api: Client, replica: usize, writer: usize, acknowledged: Acknowledged) {
    for turn in 0.. {
        let name = format!("c{replica}-{writer}-{turn}");
        let Ok(answer) = api.post(CLUSTERS).json(&cluster(&name)).send().await else { continue };
        match answer.status {
            201 => acknowledged.lock().unwrap().push((Instant::now(), replica, id(&answer))),
            _ => assert!([503, 504].contains(&answer.status), "{answer}"),
        }
    }
}

/// Everything that was acknowledged is there, and each version is there once.
async fn nothing_is_lost(load: Load, server: &Server, database: &Database) {
    let all = load.acknowledged.lock().unwrap().clone();
    drop(load);
    for (_, _, id) in &all {
        server.api().get(&format!("{CLUSTERS}/{id}")).await.expect_status(200);
    }
    let (client, connection) = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
    let _connection = tokio::spawn(connection);
    let versions = "select count(*) = max(version) and max(version) = (select version from feed),
                           count(*) = (select count(*) from resources) from changes";
    let row = client.query_one(versions, &[]).await.unwrap();
    assert!(row.get::<_, bool>(0), "versions have gaps");
    assert!(row.get::<_, bool>(1), "a creation was executed twice, or in part");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_replica_stops_the_writes_of_others_for_a_moment() {
    let database = database().await;
    let mut servers = Vec::new();
    for _ in 0..REPLICAS {
        servers.push(start(database.url()).await);
    }
    let load = Load::on(&servers);
    let mut longest = Duration::ZERO;
    for freeze in 0..FREEZES {
        let frozen = freeze % REPLICAS;
        let others = |replica: usize| replica != frozen;
        // A number of writes that differs from time to time, so that each freeze meets another step of a commit.
        load.further(20 + freeze * 7 % 13, |_| true).await;
        let since = Instant::now();
        servers[frozen].signal("STOP").unwrap();
        load.further(100, others).await;
        let standstill = load.longest_standstill(since, others);
        longest = longest.max(standstill);
        servers[frozen].signal("CONT").unwrap();
        load.further(20, |replica| replica == frozen).await;
    }
    println!("with a frozen replica the others stood still for {longest:?} at most");
    assert!(longest < STANDSTILL, "{longest:?}");
    nothing_is_lost(load, &servers[0], &database).await;
}

/// A network between a replica and PostgreSQL that can lose everything: connections stay, and nothing comes.
struct Network {
    url: String,
    works: watch::Sender<bool>,
    _accepting: JoinSet<()>,
}

impl Network {
    async fn to(postgres: &Postgres, database: &Database) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let socket = postgres.socket_directory().join(".s.PGSQL.5432");
        let works = watch::Sender::new(true);
        let state = works.subscribe();
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (socket, state) = (socket.clone(), state.clone());
                connections.spawn(async move {
                    let Ok(server) = UnixStream::connect(socket).await else { return };
                    relay(client, server, state).await;
                });
            }
        });
        let url = format!("postgres://postgres@{address}/{}", database.name());
        Self { url, works, _accepting: accepting }
    }
}

/// Carries both directions until one of them ends.
async fn relay(client: TcpStream, server: UnixStream, works: watch::Receiver<bool>) {
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) = (split(client), split(server));
    let mut works_back = works.clone();
    let mut works_there = works;
    let mut there = Box::pin(async move {
        let mut buffer = vec![0; 65_536];
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            let _ = works_there.wait_for(|works| *works).await;
            if to_server.write_all(&buffer[..read]).await.is_err() {
                break;
            }
        }
    });
    let mut back = Box::pin(async move {
        let mut buffer = vec![0; 65_536];
        while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
            let _ = works_back.wait_for(|works| *works).await;
            if to_client.write_all(&buffer[..read]).await.is_err() {
                break;
            }
        }
    });
    tokio::select! {
        () = &mut there => {}
        () = &mut back => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_cut_off_says_so_and_the_others_write_on() {
    let database = database().await;
    let network = Network::to(Postgres::shared(), &database).await;
    let servers =
        [start(network.url.clone()).await, start(database.url()).await, start(database.url()).await];
    let cut_off = |replica: usize| replica == 0;
    let load = Load::on(&servers);
    load.further(1, cut_off).await;
    let seen = load.acknowledged.lock().unwrap().iter().find(|(_, replica, _)| cut_off(*replica)).cloned();
    let path = format!("{CLUSTERS}/{}", seen.unwrap().2);
    let (mut longest, mut slowest) = (Duration::ZERO, Duration::ZERO);
    for round in 0..4 {
        load.further(20 + round, cut_off).await;
        let since = Instant::now();
        network.works.send_replace(false);
        for call in [servers[0].api().get(&path), servers[0].api().post(CLUSTERS).json(&cluster("in-vain"))] {
            let refused =
                tokio::time::timeout(NO_HANG, call.send()).await.expect("no request hangs").unwrap();
            assert_eq!(refused.expect_status(503).problem_code(), "HYPERFLEET-SVC-002");
        }
        eventually("not ready", DEADLINE, async || {
            (servers[0].health().get("/readyz").await.status == 503).then_some(())
        })
        .await;
        slowest = slowest.max(since.elapsed());
        load.further(100, |replica| !cut_off(replica)).await;
        longest = longest.max(load.longest_standstill(since, |replica| !cut_off(replica)));
        network.works.send_replace(true);
        load.further(20, cut_off).await;
        eventually("ready again", DEADLINE, async || {
            (servers[0].health().get("/readyz").await.status == 200).then_some(())
        })
        .await;
    }
    println!(
        "a replica that was cut off said so after {slowest:?} at most, and the others stood still for {longest:?}"
    );
    assert!(longest < STANDSTILL && slowest < STANDSTILL, "{longest:?}, {slowest:?}");
    nothing_is_lost(load, &servers[1], &database).await;
}
