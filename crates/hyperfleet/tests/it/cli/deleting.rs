//! `delete` and `force-delete`: nothing goes without a look and a question, or without `-y`.

use super::Cli;
use crate::support::{App, CATALOG, both_stores};

async fn delete_without_a_terminal_requires_yes(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    cli.ok("create nodepool prod-1/workers").await;
    insta::assert_snapshot!(cli.transcript("delete cluster prod-1").await, @"
    --- stderr
    cluster/prod-1
    └─ nodepool/workers
    error: Delete these 2 resources? stdin is not a terminal; pass -y to confirm
    --- exit 2
    ");
    assert_eq!(cli.ok("get clusters -o name").await, "cluster/prod-1\n");
}

async fn a_deletion_can_be_awaited(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    let mut deleting = cli.start("delete cluster prod-1 -y --wait");
    super::until_finalizing(&cli, "cluster prod-1").await;
    for adapter in ["validator", "dns"] {
        cli.ok(&format!("report cluster prod-1 --adapter {adapter} --available false --finalized true"))
            .await;
    }
    assert_eq!(deleting.ended().await, Some(0));
    assert_eq!(deleting.stdout(), ["cluster/prod-1 deletion requested", "cluster/prod-1 gone"]);
    cli.ok("create cluster prod-1").await;
    insta::assert_snapshot!(cli.transcript("delete cluster prod-1 -y --wait --timeout 1ms").await, @"
    cluster/prod-1 deletion requested
    --- stderr
    error: cluster/prod-1: timed out after [age] waiting for deletion
      Required adapters not reporting Finalized=True at generation 2: validator, dns
    --- exit 7
    ");
}

async fn delete_selects_by_labels_search_and_all(app: &App) {
    let cli = Cli::of(app);
    for (name, environment) in [("dev-1", "dev"), ("dev-2", "dev"), ("prod-1", "production")] {
        cli.ok(&format!("create network {name} --label environment={environment}")).await;
    }
    assert_eq!(cli.run("delete networks").await.code, Some(2), "a kind alone is no selection");
    insta::assert_snapshot!(cli.transcript("delete networks -l environment=dev -y").await, @"
    network/dev-1 deletion requested
    network/dev-2 deletion requested
    ");
    assert_eq!(cli.ok("get networks -o name").await, "network/prod-1\n");
    insta::assert_snapshot!(cli.transcript("delete networks -l environment=dev -y").await, @"
    --- stderr
    nothing found
    ");
    cli.ok("delete networks --all -y").await;
    assert_eq!(cli.ok("get networks -o name").await, "");
}

async fn a_deletion_that_is_refused_says_why(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create zone z-1").await;
    cli.ok("create permit z-1/p-1").await;
    insta::assert_snapshot!(cli.transcript("delete zone z-1 -y").await, @"
    --- stderr
    error: State Conflict (HYPERFLEET-CNF-003, HTTP 409)
      Zone '[id 1]' still has active children: Permit (1)
      trace id: [trace]
    --- exit 4
    ");
    insta::assert_snapshot!(cli.transcript("delete zone z-1 z-2 -y").await, @"
    --- stderr
    error: there is no zone/z-2
    --- exit 3
    ");
}

async fn force_delete_requires_a_reason_and_a_finalizing_resource(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    assert_eq!(cli.run("force-delete cluster prod-1 -y").await.code, Some(2));
    insta::assert_snapshot!(cli.transcript("force-delete cluster prod-1 --reason x -y").await, @"
    --- stderr
    error: State Conflict (HYPERFLEET-CNF-003, HTTP 409)
      Cluster '[id 1]' is not being deleted: only a finalizing resource can be force-deleted, so DELETE it first
      trace id: [trace]
    --- exit 4
    ");
    cli.ok("delete cluster prod-1 -y").await;
    // The name is free again; the one that is being deleted is meant.
    cli.ok("create cluster prod-1").await;
    insta::assert_snapshot!(cli.transcript("force-delete cluster prod-1 --reason 'it hangs'").await, @"
    --- stderr
    error: Remove cluster/prod-1 with all below it, and leave behind what its adapters made? stdin is not a terminal; pass -y to confirm
    --- exit 2
    ");
    insta::assert_snapshot!(cli.transcript("force-delete cluster prod-1 --reason 'it hangs' -y").await, @"cluster/prod-1 removed");
    assert_eq!(cli.ok("get clusters --show-deleted -o name").await, "cluster/prod-1\n");
}

both_stores!(
    config = CATALOG;
    delete_without_a_terminal_requires_yes,
    a_deletion_can_be_awaited,
    delete_selects_by_labels_search_and_all,
    a_deletion_that_is_refused_says_why,
    force_delete_requires_a_reason_and_a_finalizing_resource,
);
