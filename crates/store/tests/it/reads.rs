//! A read shows every write that was acknowledged before it, whichever process executed the write.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use futures_util::future::join_all;
use hyperfleet_core::{ResourceId, Version};
use hyperfleet_store::{Backend, SslMode};
use hyperfleet_testkit::Postgres;
use serde_json::json;

use crate::replica::{Replica, at, heard_at};

/// How often each resource is written by each process.
const ROUNDS: i64 = 40;

/// A resource, and what was acknowledged about it.
struct Written {
    id: ResourceId,
    generation: AtomicI64,
    second: AtomicI64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_sees_every_write_that_any_process_acknowledged_on_postgresql() {
    let database = Postgres::shared().database().await;
    let backend = Backend::Postgres { url: database.url(), ssl_mode: SslMode::Disable, root_cert_file: None };
    reads_see_acknowledged_writes(backend).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_sees_every_write_that_any_process_acknowledged_on_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    reads_see_acknowledged_writes(Backend::Sqlite { path: Some(directory.path().join("fleet.db")) }).await;
}

/// First one process writes alone, while both read; then both write.
async fn reads_see_acknowledged_writes(backend: Backend) {
    let (ours, other) = (Replica::at(backend.clone()).await, Replica::at(backend.clone()).await);
    let written: Vec<Written> = ours
        .clusters(6)
        .await
        .into_iter()
        .map(|id| Written { id, generation: AtomicI64::new(1), second: AtomicI64::new(1) })
        .collect();
    for writers in [vec![&ours], vec![&ours, &other]] {
        let done = AtomicBool::new(false);
        let writing = async {
            let patches = writers.iter().flat_map(|writer| written.iter().map(|one| patch(writer, one)));
            let reports = written.iter().map(|one| report(writers[writers.len() - 1], one));
            tokio::join!(join_all(patches), join_all(reports));
            done.store(true, Ordering::SeqCst);
        };
        let readers = [&ours, &ours, &other].map(|reader| watch(reader, &written, &done));
        tokio::join!(writing, join_all(readers));
    }
    let fresh = Replica::at(backend).await;
    for one in &written {
        let (shown, stored) = (ours.resource(one.id).await, fresh.resource(one.id).await);
        assert_eq!(*shown, *stored);
        assert_eq!(*other.resource(one.id).await, *stored);
        assert_eq!(shown.generation, 1 + 3 * ROUNDS);
    }
}

async fn patch(writer: &Replica, one: &Written) {
    for _ in 0..ROUNDS {
        let unique = ResourceId::generate().to_string();
        let outcome = writer.patch(one.id, json!({"spec": {"unique": unique}})).await.unwrap();
        let hyperfleet_core::rules::Outcome::Resource(resource) = outcome else { unreachable!() };
        one.generation.fetch_max(resource.generation, Ordering::SeqCst);
        for _ in 0..2 {
            assert!(writer.resource(one.id).await.version >= resource.version);
        }
    }
}

async fn report(writer: &Replica, one: &Written) {
    for _ in 0..ROUNDS {
        let second = one.second.load(Ordering::SeqCst) + 1;
        writer.report(one.id, "dns", second, "first").await.unwrap();
        one.second.store(second, Ordering::SeqCst);
    }
}

async fn watch(reader: &Replica, written: &[Written], done: &AtomicBool) {
    let mut last = vec![Version(0); written.len()];
    while !done.load(Ordering::SeqCst) {
        for (one, last) in written.iter().zip(&mut last) {
            let generation = one.generation.load(Ordering::SeqCst);
            let second = one.second.load(Ordering::SeqCst);
            let shown = reader.resource(one.id).await;
            assert!(shown.generation >= generation, "{} of {generation}", shown.generation);
            assert!(shown.version >= *last, "{} after {last}", shown.version);
            assert!(heard_at(&shown, "dns") >= at(second), "{second}: {}", shown.conditions.as_str());
            *last = shown.version;
            // A read of SQLite may end on this thread without a pause, and the writers share the task.
            tokio::task::yield_now().await;
        }
    }
}
