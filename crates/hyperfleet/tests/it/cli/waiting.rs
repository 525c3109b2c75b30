//! `wait` and `delete --wait` for many at once: bounded, with one deadline and one exit code.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use hyperfleet_testkit::eventually;
use serde_json::json;

use super::proxy::Proxy;
use super::{Cli, DEADLINE};
use crate::support::{App, CATALOG, any_store, href};

/// As many are waited for at a time.
const PARALLEL: usize = 64;
const REFUSAL: &str = "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

async fn wait_bounds_parallel_requests_and_shares_one_deadline(app: &App) {
    let names: Vec<String> = (0..PARALLEL + 6).map(|n| format!("c-{n:03}")).collect();
    let documents: String = names.iter().map(|name| format!("kind: Cluster\nname: {name}\n---\n")).collect();
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = Arc::clone(&seen);
    let proxy = Proxy::of(app, move |request| {
        if let Some((path, _)) = request.split_once("?waitFor=") {
            noted.lock().unwrap().insert(path.to_owned());
        }
        Box::pin(async { None })
    });
    let proxy = proxy.await;
    let cli = Cli::at(&proxy.server).file("many.yaml", &documents);
    cli.ok("apply -f many.yaml").await;
    let all = names.join(" ");
    let waiting = cli.start(&format!("wait cluster {all} --timeout 5m"));
    let count = || seen.lock().unwrap().len();
    eventually("as many as there may be", DEADLINE, async || (count() == PARALLEL).then_some(())).await;
    // Each that is done makes room for one more, and for no others.
    for adapter in ["validator", "dns"] {
        cli.ok(&format!("report cluster c-000 --adapter {adapter}")).await;
    }
    eventually("one more", DEADLINE, async || (count() == PARALLEL + 1).then_some(())).await;
    assert_eq!(waiting.stdout(), ["cluster/c-000 Reconciled=True"]);
    drop(waiting);

    let late = cli.run(&format!("wait cluster {all} --timeout 1ms")).await;
    assert_eq!(late.code, Some(7), "{late:?}");
    assert_eq!(late.stdout, "cluster/c-000 Reconciled=True\n");
    assert_eq!(late.stderr.matches(" waiting for Reconciled=True").count(), names.len() - 1, "{late:?}");
}

async fn waits_with_different_failures_are_exit_code_1(app: &App) {
    let cluster = |name: &str| json!({"kind": "Cluster", "name": name, "spec": {}});
    let refused = href(&app.create("/clusters", &cluster("prod-1")).await).to_owned();
    app.create("/clusters", &cluster("prod-2")).await;
    let proxy = Proxy::of(app, move |request| {
        let answer = request.contains(&format!("{refused}?waitFor=")).then_some(REFUSAL);
        Box::pin(async move { answer })
    });
    let proxy = proxy.await;
    let cli = Cli::at(&proxy.server);
    for (names, code) in [("prod-1", 5), ("prod-2", 7), ("prod-1 prod-2", 1), ("prod-2 prod-1", 1)] {
        let ended = cli.run(&format!("wait cluster {names} --timeout 1ms")).await;
        assert_eq!(ended.code, Some(code), "{names}: {ended:?}");
        assert_eq!(
            ended.stderr.matches("error: cluster/prod-").count(),
            names.split(' ').count(),
            "{ended:?}"
        );
    }
}

async fn a_refused_deletion_and_a_timeout_are_exit_code_1(app: &App) {
    let cli = Cli::of(app);
    for what in ["zone z-1", "permit z-1/p-1", "cluster prod-1"] {
        cli.ok(&format!("create {what}")).await;
    }
    let ended = cli.run("delete zone/z-1 cluster/prod-1 -y --wait --timeout 1ms").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("error: zone/z-1: "), "{ended:?}");
    assert!(ended.stderr.contains("error: cluster/prod-1: timed out"), "{ended:?}");
}

async fn an_interrupted_wait_reports_how_many_are_pending(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    let mut waiting = cli.start("wait cluster prod-1 -v");
    eventually("the wait", DEADLINE, async || {
        waiting.stderr().iter().any(|line| line.contains("waitFor=")).then_some(())
    })
    .await;
    waiting.signal("INT").await;
    assert_eq!(waiting.ended().await, Some(130));
    assert_eq!(waiting.stderr().last().map(String::as_str), Some("error: SIGINT: 1 of 1 still pending"));
}

any_store!(
    config = CATALOG;
    wait_bounds_parallel_requests_and_shares_one_deadline,
    waits_with_different_failures_are_exit_code_1,
    a_refused_deletion_and_a_timeout_are_exit_code_1,
    an_interrupted_wait_reports_how_many_are_pending,
);
