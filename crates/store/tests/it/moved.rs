//! A report that says what was said before writes one row, that of its resource's conditions, where its own time is noted.

use hyperfleet_store::Target;
use rusqlite::Connection;

use crate::replica::Replica;

#[tokio::test]
async fn a_report_that_only_moves_its_time_leaves_its_row_alone_on_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fleet.db");
    let target = Target::Sqlite { path: Some(file.clone()) };
    let replica = Replica::at(target.clone()).await;
    let id = replica.clusters(1).await[0];
    let behind = Connection::open(&file).unwrap();
    behind
        .execute_batch(
            "create trigger untouched before update on reports
             begin select raise(abort, 'a row of reports is written'); end",
        )
        .unwrap();
    for second in [2, 3] {
        replica.report(id, "dns", second, "first").await.unwrap();
        replica.assert_last(id, "dns", second).await;
        replica.assert_last(id, "validator", 1).await;
    }
    replica.report(id, "dns", 4, "second").await.unwrap_err();
    // Another process reads both times, and goes on from the later.
    let other = Replica::at(target).await;
    other.assert_last(id, "dns", 3).await;
    behind.execute_batch("drop trigger untouched").unwrap();
    other.report(id, "dns", 5, "second").await.unwrap();
    for replica in [&replica, &other] {
        replica.assert_last(id, "dns", 5).await;
    }
}
