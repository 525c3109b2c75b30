//! The programs of the guide to watches, run as they are printed.

use std::process::Stdio;

use hyperfleet_testkit::eventually;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::fenced;
use crate::operations::restore::copied;
use crate::support::*;

const GUIDE: &str = include_str!("../../../../../docs/how-to/watch.md");
const TYPESCRIPT: &str = include_str!("../../../../../examples/watch.ts");

any_store!(
    the_python_program_of_the_watch_guide_follows_changes_and_restores,
    the_typescript_program_of_the_watch_guide_follows_changes_and_restores,
);

async fn the_python_program_of_the_watch_guide_follows_changes_and_restores(app: &App) {
    let python = fenced(GUIDE).into_iter().find(|block| block.label == "python").unwrap().text;
    let mut program = Program::start(app, &["python3", "-c", python]);
    assert_eq!(program.line().await, "BOOKMARK 0 0");
    let cluster = app.create_cluster("gone").await;
    assert_eq!(program.line().await, "ADDED 1 1");
    app.merge(&cluster, &json!({"spec": {"size": 2}})).await;
    assert_eq!(program.line().await, "MODIFIED 2 1");
    app.remove(&cluster).await;
    assert_eq!(program.line().await, "DELETED 3 0");
    app.create_cluster("east").await;
    assert_eq!(program.line().await, "ADDED 4 1");

    restore(app, &mut program, "ADDED 5 2").await;
    assert_eq!(program.changes(3).await, ["RESTART 0 0", "ADDED 4 1", "ADDED 5 2"]);
}

async fn the_typescript_program_of_the_watch_guide_follows_changes_and_restores(app: &App) {
    // It has no annotations, so it is JavaScript too.
    let mut program = Program::start(app, &["node", "--input-type=module", "-e", TYPESCRIPT]);
    assert_eq!(program.line().await, "BOOKMARK 0 ");
    app.create_cluster("east").await;
    assert_eq!(program.line().await, "ADDED 1 east");
    restore(app, &mut program, "ADDED 2 lost").await;
    assert_eq!(program.changes(3).await, ["RESTART 0 ", "ADDED 1 east", "ADDED 2 west"]);
}

/// Creates `lost`, of which the program tells, puts the database back to before, and creates `west`, which gets the
/// version that `lost` had.
async fn restore(app: &App, program: &mut Program, told: &str) {
    let database = app.server.directory().join("hyperfleet.db");
    let execute = |statements: &str| {
        let connection = rusqlite::Connection::open(&database).unwrap();
        connection.busy_timeout(DEADLINE).unwrap();
        connection.execute_batch(statements).unwrap();
    };
    execute(&copied("kept_", ""));
    app.create_cluster("lost").await;
    assert_eq!(program.changes(1).await, [told]);
    execute(&copied("", "kept_"));
    let west = json!({"kind": "Cluster", "name": "west", "spec": {}});
    eventually("a write succeeds", DEADLINE, async || {
        let answer = app.post("/clusters").json(&west).await;
        // A write of the moment of the restore may be stored and answered with 503; then its name is taken.
        matches!(answer.status, 201 | 409).then_some(())
    })
    .await;
}

/// A program of the guide at work.
struct Program {
    lines: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Program {
    fn start(app: &App, command: &[&str]) -> Self {
        let mut child = Command::new(command[0])
            .args(&command[1..])
            .env("API", format!("http://{}{BASE}", app.api().authority()))
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("python3 and node must be installed: see scripts/setup");
        Self { lines: BufReader::new(child.stdout.take().unwrap()).lines(), _child: child }
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(DEADLINE, self.lines.next_line()).await;
        line.expect("the program must tell").unwrap().expect("the program must go on")
    }

    /// The next lines without bookmarks, of which there are few while changes are told.
    async fn changes(&mut self, count: usize) -> Vec<String> {
        let mut changes = Vec::new();
        for _ in 0..count + 20 {
            let line = self.line().await;
            if !line.starts_with("BOOKMARK") {
                changes.push(line);
            }
            if changes.len() == count {
                return changes;
            }
        }
        panic!("only {changes:?} in all this time")
    }
}
