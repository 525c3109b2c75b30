//! The program of the guide to watches, run as it is printed.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{ChildStdout, Command};

use super::fenced;
use crate::support::*;

const GUIDE: &str = include_str!("../../../../../docs/how-to/watch.md");

any_store!(the_python_program_of_the_watch_guide_follows_changes);

async fn the_python_program_of_the_watch_guide_follows_changes(app: &App) {
    let program = fenced(GUIDE).into_iter().find(|block| block.label == "python").unwrap();
    let api = format!("http://{}{BASE}", app.api().authority());
    let mut python = Command::new("python3")
        .args(["-c", program.text])
        .env("API", api)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("python3 must be installed: see scripts/setup");
    let mut lines = BufReader::new(python.stdout.take().unwrap()).lines();
    assert_eq!(line(&mut lines).await, "BOOKMARK 0 0");
    let cluster = app.create_cluster("east").await;
    assert_eq!(line(&mut lines).await, "ADDED 1 1");
    app.merge(&cluster, &serde_json::json!({"spec": {"size": 2}})).await;
    assert_eq!(line(&mut lines).await, "MODIFIED 2 1");
    app.remove(&cluster).await;
    assert_eq!(line(&mut lines).await, "DELETED 3 0");
}

async fn line(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await;
    line.expect("the program must tell").unwrap().expect("the program must go on")
}
