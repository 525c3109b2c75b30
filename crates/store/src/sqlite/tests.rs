//! Long reads delay no short ones, and end with their callers.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use hyperfleet_core::{Catalog, ResourceId};
use hyperfleet_testkit::eventually;
use rusqlite::Connection;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinSet;

use super::cancellation::Cancellation;
use super::{SCANS, Sqlite};
use crate::failure::{Failure, FailureKind};
use crate::{Backend, Options};

const LONG: Duration = Duration::from_secs(3600);
/// Exceeded only by a failing test.
const DEADLINE: Duration = Duration::from_secs(30);

fn store() -> Arc<Sqlite> {
    Arc::new(opened(None))
}

fn opened(path: Option<&Path>) -> Sqlite {
    let options = Options {
        backend: Backend::Sqlite { path: None },
        max_connections: 1,
        request_timeout: LONG,
        connect_attempts: 1,
        connect_interval: LONG,
        queue_limit: 1,
        migrate: true,
        tenants: false,
    };
    let catalog = Arc::new(Catalog::new(Catalog::default_descriptors()).unwrap());
    super::open(path, &options, catalog, &Default::default()).unwrap().0
}

/// Searches that last until this is dropped.
struct Blocked {
    searches: JoinSet<Result<(), Failure>>,
    begun: Receiver<()>,
    _end: mpsc::Sender<()>,
}

async fn blocked(sqlite: &Arc<Sqlite>, number: usize) -> Blocked {
    let (_end, end) = mpsc::channel();
    let (begin, mut begun) = channel(number);
    let end = Arc::new(Mutex::new(end));
    let mut searches = JoinSet::new();
    for _ in 0..number {
        let (sqlite, begin, end) = (sqlite.clone(), begin.clone(), end.clone());
        let search = move |_: &Connection| {
            begin.try_send(()).unwrap();
            let _ = end.lock().unwrap().recv();
            Ok(())
        };
        searches.spawn(async move { sqlite.scan(LONG, search).await });
    }
    for _ in 0..SCANS {
        tokio::time::timeout(DEADLINE, begun.recv()).await.unwrap().unwrap();
    }
    Blocked { searches, begun, _end }
}

#[tokio::test]
async fn searches_delay_neither_point_reads_nor_readiness_nor_the_feed() {
    let sqlite = store();
    let Blocked { mut searches, mut begun, _end } = blocked(&sqlite, 3 * SCANS).await;
    assert_eq!(sqlite.scans.count(), (SCANS, SCANS));

    let others = async {
        sqlite.ping().await.unwrap();
        assert_eq!(sqlite.get(None, ResourceId::generate()).await.unwrap(), None);
        let newest = sqlite.bounds().await.unwrap().newest.version;
        let first = crate::read::FeedReader::Shared;
        assert!(sqlite.feed_page(first, newest, 256).await.unwrap().is_some());
    };
    tokio::time::timeout(DEADLINE, others).await.unwrap();
    assert!(begun.try_recv().is_err(), "the other searches wait for a permit");

    drop(_end);
    while let Some(done) = searches.join_next().await {
        done.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_search_whose_caller_leaves_before_it_has_a_permit_never_begins() {
    let sqlite = store();
    let blocked = blocked(&sqlite, SCANS).await;
    {
        let late = sqlite.scan(LONG, |_| -> Result<(), Failure> { unreachable!("nobody waits for this") });
        assert!(futures_util::poll!(pin!(late)).is_pending());
    }
    drop(blocked);
    sqlite.scan(LONG, |_| Ok(())).await.unwrap();
}

#[test]
fn a_read_whose_deadline_has_passed_never_begins() {
    let (late, _caller) = Cancellation::new(Duration::ZERO);
    let (unwanted, _) = Cancellation::new(LONG);
    for cancellation in [late, unwanted] {
        let failure =
            cancellation.run(|| -> Result<(), Failure> { unreachable!("it is too late") }).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Timeout);
    }
}

#[tokio::test]
async fn a_search_ends_when_its_caller_leaves() {
    let sqlite = store();
    let (begin, mut begun) = channel(1);
    let endless = sqlite.scan(2 * DEADLINE, move |reader| {
        begin.try_send(()).unwrap();
        let forever = "with recursive n (i) as (select 1 union all select i + 1 from n) select max(i) from n";
        Ok(reader.query_row(forever, (), |_| Ok(()))?)
    });
    tokio::select! {
        ended = endless => unreachable!("{ended:?}"),
        began = begun.recv() => began.unwrap(),
    }
    eventually("the reader to be free", DEADLINE, async || (sqlite.scans.count().1 == 0).then_some(())).await;
}

#[test]
fn a_new_file_and_those_beside_it_are_for_their_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fleet #1.db");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let open = opened(Some(&path));
    let files = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.map(|file| (file.file_name().unwrap().to_owned(), mode(&file))).collect();
    files.sort();
    let expected = ["fleet #1.db", "fleet #1.db-shm", "fleet #1.db-wal"].map(|name| (name.into(), 0o600));
    assert_eq!(files, expected);
    drop(open);

    // What the owner has changed stays as it is.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    drop(opened(Some(&path)));
    assert_eq!(mode(&path), 0o640);
}
