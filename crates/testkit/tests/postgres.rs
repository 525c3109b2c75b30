//! The temporary PostgreSQL keeps what it promises, first of all that it goes with its process.

#![allow(clippy::unwrap_used, reason = "a fault fails the test")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hyperfleet_testkit::{Postgres, eventually};
use tokio_postgres::NoTls;

const DEADLINE: Duration = Duration::from_secs(60);

async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn tables(url: &str) -> i64 {
    let count = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    connect(url).await.query_one(count, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn each_database_is_its_own_and_goes_when_dropped() {
    let postgres = Postgres::shared();
    let (one, other) = (postgres.database().await, postgres.database().await);
    connect(&one.url()).await.batch_execute("CREATE TABLE t (id int)").await.unwrap();
    assert_eq!(tables(&one.url()).await, 1);
    assert_eq!(tables(&other.url()).await, 0);

    let url = one.url();
    drop(one);
    eventually("the dropped database is gone", DEADLINE, async || {
        tokio_postgres::connect(&url, NoTls).await.is_err().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_database_can_start_as_a_copy_of_another() {
    let postgres = Postgres::shared();
    let template = postgres.database().await;
    let (client, connection) = tokio_postgres::connect(&template.url(), NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute("CREATE TABLE t (id int)").await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();

    let copy = postgres.database_from(template.name()).await;
    assert_eq!(tables(&copy.url()).await, 1);
}

#[tokio::test]
async fn a_durable_server_keeps_its_data_over_a_crash() {
    let postgres = Postgres::durable().await.unwrap();
    let database = postgres.database().await;
    connect(&database.url()).await.batch_execute("CREATE TABLE t (id int)").await.unwrap();

    postgres.stop_immediate().await.unwrap();
    assert!(tokio_postgres::connect(&database.url(), NoTls).await.is_err());
    postgres.start().await.unwrap();
    assert_eq!(tables(&database.url()).await, 1);

    let directory = postgres.socket_directory().to_owned();
    drop(postgres);
    assert!(!directory.exists());
}

#[test]
fn the_server_goes_with_a_process_that_is_killed() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holds_a_server_until_its_input_ends", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let directory = lines
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("directory=")?.1.to_owned()))
        .unwrap();
    let postmaster = std::fs::read_to_string(Path::new(&directory).join("data/postmaster.pid")).unwrap();
    let postmaster = Path::new("/proc").join(postmaster.lines().next().unwrap());
    assert!(postmaster.exists());

    child.kill().unwrap();
    child.wait().unwrap();
    let gone = eventually("server and directory are gone", DEADLINE, async || {
        (!postmaster.exists() && !Path::new(&directory).exists()).then_some(())
    });
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(gone);
}

#[test]
#[ignore = "the other half of the test above, which runs it in a process of its own"]
fn holds_a_server_until_its_input_ends() {
    println!("directory={}", Postgres::shared().socket_directory().display());
    let _ = std::io::stdin().read(&mut [0]);
}
