//! Names wherever ids work: paths through owners, ids, ambiguity, kinds of any depth.

use super::Cli;
use crate::support::{App, CATALOG, any_store};

async fn a_name_an_id_and_a_path_find_the_same_resource(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    cli.ok("create nodepool workers --in clusters/prod-1").await;
    let id = cli.ok("get nodepool workers -o jsonpath=.id").await;
    let id = id.trim();
    for way in [
        "nodepool workers".to_owned(),
        "nodepools/prod-1/workers".to_owned(),
        "nodepool prod-1/workers".to_owned(),
        "nodepool workers --in cluster/prod-1".to_owned(),
        format!("nodepool {id}"),
        format!("nodepool/prod-1/{id}"),
    ] {
        assert_eq!(cli.ok(&format!("get {way} -o jsonpath=.id")).await.trim(), id, "{way}");
    }
}

async fn an_ambiguous_name_is_an_error(app: &App) {
    let cli = Cli::of(app);
    for owner in ["prod-1", "dev-1"] {
        cli.ok(&format!("create cluster {owner}")).await;
        cli.ok(&format!("create nodepool {owner}/workers")).await;
    }
    insta::assert_snapshot!(cli.transcript("describe nodepool workers").await, @"
    --- stderr
    error: nodepool/workers is ambiguous; name one by its path or its id:
      nodepool/dev-1/workers (id [id 1])
      nodepool/prod-1/workers (id [id 2])
    --- exit 2
    ");
    // A name is free again once its bearer is being deleted: then the living one is meant.
    cli.ok("delete nodepool dev-1/workers -y").await;
    assert_eq!(cli.ok("get nodepool workers -o name").await, "nodepool/prod-1/workers\n");
    cli.ok("create nodepool dev-1/workers").await;
    assert_eq!(cli.run("get nodepool dev-1/workers").await.code, Some(0));
}

async fn kinds_nest_to_any_depth(app: &App) {
    let cli = Cli::of(app);
    for zone in ["z-1", "z-2"] {
        cli.ok(&format!("create zone {zone}")).await;
        cli.ok(&format!("create rack {zone}/r-1")).await;
        cli.ok(&format!("create host {zone}/r-1/h-1")).await;
    }
    assert_eq!(cli.ok("get hosts -o name").await, "host/z-1/r-1/h-1\nhost/z-2/r-1/h-1\n");
    assert_eq!(cli.ok("get hosts --in zones/z-2 -o name").await, "host/z-2/r-1/h-1\n");
    assert_eq!(cli.ok("get host/z-2/r-1/h-1 -o name").await, "host/z-2/r-1/h-1\n");
    assert_eq!(cli.run("get host/r-1/h-1").await.code, Some(2), "two racks have that name");
    insta::assert_snapshot!(cli.transcript("tree zone z-1").await, @"
    zone/z-1  Reconciled
    └─ rack/r-1  Reconciled
       └─ host/h-1  Reconciling (ReconciledMissingAdapters)
    ");
}

async fn a_missing_resource_is_exit_code_3(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    insta::assert_snapshot!(cli.transcript("get cluster prod-2").await, @"
    --- stderr
    error: there is no cluster/prod-2
    --- exit 3
    ");
    insta::assert_snapshot!(cli.transcript("get nodepool prod-1/workers").await, @"
    --- stderr
    error: there is no nodepool/workers in cluster/prod-1
    --- exit 3
    ");
    insta::assert_snapshot!(cli.transcript("get zone/a/b").await, @r#"
    --- stderr
    error: a Zone has no owner, so "a" cannot be one
    --- exit 2
    "#);
    // A name is a name, not a piece of a query.
    for hostile in ["x' or name!='", "..", "%2e%2e", "a\\", "0198c0de-1111-7abc-8def-000000000001"] {
        let ended = cli.run(&format!("get cluster \"{hostile}\"")).await;
        assert_eq!(ended.code, Some(3), "{hostile}: {ended:?}");
    }
}

any_store!(
    config = CATALOG;
    a_name_an_id_and_a_path_find_the_same_resource,
    an_ambiguous_name_is_an_error,
    kinds_nest_to_any_depth,
    a_missing_resource_is_exit_code_3,
);
