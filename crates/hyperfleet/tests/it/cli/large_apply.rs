//! A thousand documents, and an apply that is killed in the middle of them, by a signal that it hears and by one that it
//! does not: run again, the result is the same as if nothing had happened.

use std::fmt::Write as _;

use hyperfleet_testkit::eventually;

use super::{Cli, DEADLINE};
use crate::support::{App, CATALOG, any_store};

const CLUSTERS: usize = 200;
const POOLS: usize = 4;

/// 200 clusters with four node pools each.
fn documents() -> String {
    let mut text = String::new();
    for cluster in 0..CLUSTERS {
        for pool in 0..POOLS {
            writeln!(
                text,
                "kind: NodePool\nname: pool-{pool}\nowner: cluster/c-{cluster:03}\nspec: {{n: {pool}}}\n---"
            )
            .unwrap();
        }
        writeln!(text, "kind: Cluster\nname: c-{cluster:03}\nspec: {{n: {cluster}}}\n---").unwrap();
    }
    text
}

async fn a_killed_apply_continues_when_run_again(app: &App) {
    let cli = Cli::of(app).file("many.yaml", &documents());
    for (signal, enough) in [("KILL", 20), ("INT", 150), ("KILL", 260), ("TERM", 500)] {
        let mut applying = cli.start("apply -f many.yaml");
        eventually("some lines", DEADLINE, async || (applying.stdout().len() >= enough).then_some(())).await;
        applying.signal(signal).await;
        let ended = applying.ended().await;
        match signal {
            "KILL" => assert_eq!(ended, None),
            "INT" => assert_eq!(ended, Some(130), "{:?}", applying.stderr()),
            _ => assert_eq!(ended, Some(143), "{:?}", applying.stderr()),
        }
        if signal != "KILL" {
            let said = eventually("the end", DEADLINE, async || applying.stderr().pop()).await;
            assert!(said.starts_with("interrupted: ") && said.contains("run it again"), "{said}");
        }
    }
    let ended = cli.run("apply -f many.yaml").await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.ends_with(" 0 changed, ") || ended.stderr.contains(" 0 failed"), "{}", ended.stderr);

    let again = cli.run("apply -f many.yaml").await;
    assert_eq!(
        again.stderr,
        format!("0 created, 0 changed, {} unchanged, 0 failed\n", CLUSTERS * (1 + POOLS))
    );
    let list = cli.json("get clusters,nodepools -o json").await;
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), CLUSTERS * (1 + POOLS), "nothing was made twice");
    assert!(items.iter().all(|item| item["generation"] == 1), "and nothing was changed");
}

any_store!(config = CATALOG; a_killed_apply_continues_when_run_again);
