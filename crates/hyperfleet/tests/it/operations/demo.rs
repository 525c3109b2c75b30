//! `hyperfleet up --demo` as a process: a fleet that becomes reconciled, lives, and ends with Ctrl-C.

use std::collections::{BTreeMap, BTreeSet};

use hyperfleet_testkit::{Client, eventually};
use serde_json::Value;

use super::cli::{client, mask_port, up};
use super::program::Program;
use super::{CLUSTERS, DEADLINE};

/// Fast adapters that never fail.
const QUICK: [&str; 4] = ["--demo", "--demo-delay=10ms", "--demo-fail=0%", "--port=0"];

async fn clusters(api: &Client) -> Vec<Value> {
    let list = api.get(&format!("{CLUSTERS}?size=500")).await.expect_status(200).json();
    list["items"].as_array().unwrap().clone()
}

fn is_reconciled(resource: &Value) -> bool {
    resource["status"]["conditions"][0]["status"] == "True"
}

#[tokio::test]
async fn a_demo_is_a_fleet_that_becomes_reconciled_changes_by_itself_and_ends_with_ctrl_c() {
    let (mut running, said) =
        up(&Program::new(), &[&QUICK[..], &["--demo-clusters=6", "--demo-pace=20ms"]].concat()).await;
    let told = said.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    let told: String = told.lines().map(|line| mask_port(line) + "\n").collect();
    insta::assert_snapshot!(told, @"
    HyperFleet VERSION is up

      API       http://localhost:PORT/api/hyperfleet/v1/clusters
      API docs  http://localhost:PORT/api/hyperfleet/v1/openapi.html
      Health    http://localhost:PORT/readyz
      Metrics   http://localhost:PORT/metrics
      Data      SQLite in memory, gone when this ends
      Login     none: reachable from this machine only
      Demo      6 clusters, and simulated adapters: validator, dns, network, machines

    Try it in another terminal:
      export HYPERFLEET_SERVER=http://localhost:PORT
      hyperfleet top                         the fleet at a glance, live
      hyperfleet get clusters -w             follow each change
      hyperfleet why cluster altair          what blocks it

    Ctrl-C stops it.
    ");
    let api = client(&said);

    // Every cluster is done at some moment, though some are changed again meanwhile.
    let mut done: BTreeMap<String, i64> = BTreeMap::new();
    eventually("six clusters that were reconciled, one of them again", DEADLINE, async || {
        for cluster in clusters(&api).await.iter().filter(|cluster| is_reconciled(cluster)) {
            let generation = cluster["generation"].as_i64().unwrap();
            let name = cluster["name"].as_str().unwrap().to_owned();
            done.entry(name).and_modify(|highest| *highest = generation.max(*highest)).or_insert(generation);
        }
        (done.len() == 6 && done.values().any(|generation| *generation > 1)).then_some(())
    })
    .await;
    let mut seen = BTreeSet::new();
    eventually("a cluster in the place of one that went", DEADLINE, async || {
        seen.extend(clusters(&api).await.iter().map(|cluster| cluster["id"].to_string()));
        (seen.len() > 6).then_some(())
    })
    .await;
    let pools = api.get("/api/hyperfleet/v1/nodepools?size=1").await.expect_status(200).json();
    assert_eq!(pools["items"].as_array().unwrap().len(), 1);

    running.signal("INT").await;
    assert_eq!(running.ended().await, Some(0));
    assert_eq!(running.stdout(), [""; 0], "messages go to stderr");
    assert_eq!(running.stderr().join("\n"), said, "nothing to complain about");
}

#[tokio::test]
async fn the_components_of_a_demo_call_its_api_in_process() {
    let (running, said) =
        up(&Program::new(), &[&QUICK[..], &["--demo-clusters=2", "--demo-pace=1h"]].concat()).await;
    let api = client(&said);
    eventually("two clusters that are reconciled", DEADLINE, async || {
        let clusters = clusters(&api).await;
        (clusters.len() == 2 && clusters.iter().all(is_reconciled)).then_some(())
    })
    .await;
    let metrics = said.lines().find_map(|line| line.trim().strip_prefix("Metrics   http://")).unwrap();
    let metrics = Client::new(metrics.trim_end_matches("/metrics"));
    // What comes from within is counted as everybody's.
    eventually("two watches and a lease", DEADLINE, async || {
        let text = String::from_utf8(metrics.get("/metrics").await.expect_status(200).body.to_vec()).unwrap();
        let lease =
            "hyperfleet_api_requests_total{method=\"PUT\",path=\"/api/hyperfleet/v1/leases/{group}/{name}\"";
        (text.contains("hyperfleet_watch_watchers 2\n") && text.contains(lease)).then_some(())
    })
    .await;
    let port: u16 = api.authority().rsplit_once(':').unwrap().1.parse().unwrap();
    let ports = running.connected_to();
    assert!(ports.contains(&0) && !ports.contains(&port), "{ports:?}");
}

#[tokio::test]
async fn a_kept_demo_is_continued_and_requires_tokens_when_configured() {
    let program = Program::new();
    let arguments = [&QUICK[..], &["--demo-clusters=3", "--demo-pace=1h", "--data=kept", "--auth"]].concat();
    let (mut ids, mut gone) = (Vec::new(), BTreeSet::new());
    for _ in 0..2 {
        let (mut running, said) = up(&program, &arguments).await;
        assert!(said.contains("export HYPERFLEET_TOKEN=$(hyperfleet dev token 2>/dev/null)"), "{said}");
        let api = client(&said);
        api.get(CLUSTERS).await.expect_status(401);
        let token = program.run(&["dev", "token"]).await.stdout;
        let bearer = format!("Bearer {}", token.trim());
        let leases = "/api/hyperfleet/v1/leases?group=sentinel-hyperfleet-sentinel";
        let holders = async || {
            let list = api.get(leases).header("authorization", &bearer).await.expect_status(200).json();
            let items = list["items"].as_array().unwrap().clone();
            items.iter().map(|lease| lease["holder"].to_string()).collect::<BTreeSet<_>>()
        };
        // A Sentinel that is stopped gives back what it held, so the next one need not wait.
        assert!(holders().await.is_disjoint(&gone));
        let found = eventually("three clusters that are reconciled", DEADLINE, async || {
            let answer = api.get(CLUSTERS).header("authorization", &bearer).await.expect_status(200).json();
            let items = answer["items"].as_array().unwrap();
            (items.len() == 3 && items.iter().all(is_reconciled))
                .then(|| items.iter().map(|item| item["id"].to_string()).collect::<BTreeSet<_>>())
        })
        .await;
        ids.push(found);
        gone = eventually("one holder", DEADLINE, async || {
            Some(holders().await).filter(|holders| holders.len() == 1)
        })
        .await;
        running.signal("TERM").await;
        assert_eq!(running.ended().await, Some(0));
    }
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn contradictory_demo_options_are_refused() {
    let program = Program::new();
    for (arguments, told) in [
        (&["--demo-clusters", "5"][..], "--demo"),
        (&["--demo", "--demo-clusters", "0"], "0 is not in 1..=100000"),
        (&["--demo", "--demo-fail", "dns=often"], "expected a fraction such as 5% or 0.05"),
        (
            &["--demo", "--demo-delay", "pigeon=1s"],
            "no kind requires an adapter \"pigeon\"; required are validator, dns, network, machines",
        ),
    ] {
        let ended = program.run(&[&["up"][..], arguments].concat()).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ended.stderr.contains(told), "{arguments:?}: {}", ended.stderr);
    }
}
