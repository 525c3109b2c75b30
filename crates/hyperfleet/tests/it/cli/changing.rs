//! `create`, `patch`, `label`, `wait`: one resource at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::Cli;
use super::proxy::Proxy;
use crate::support::{App, CATALOG, both_stores, href};

async fn create_makes_a_resource_from_flags_or_a_document(app: &App) {
    let cli = Cli::of(app).file(
        "pool.yaml",
        "kind: nodepool\nname: infra\nowner: cluster/prod-1\nlabels: {a: b}\nspec: {replicas: 1}\n",
    );
    insta::assert_snapshot!(cli.transcript("create cluster prod-1 --label team=blue --set region=us-east-1 --set pool.size=3").await, @"cluster/prod-1 created");
    let made = cli.json("get cluster prod-1 -o json").await;
    assert_eq!(made["spec"], json!({"region": "us-east-1", "pool": {"size": 3}}));
    assert_eq!(made["labels"], json!({"team": "blue"}));
    insta::assert_snapshot!(cli.transcript("create -f pool.yaml --label c=d").await, @"nodepool/infra created");
    let made = cli.json("get nodepool infra -o json").await;
    assert_eq!((&made["labels"], &made["spec"]), (&json!({"a": "b", "c": "d"}), &json!({"replicas": 1})));
    let printed = cli.json("create cluster dev-1 --spec '{\"n\": 12345678901234567890123}' -o json").await;
    assert_eq!(printed["spec"]["n"].to_string(), "12345678901234567890123");
}

async fn create_names_the_fault(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    insta::assert_snapshot!(cli.transcript("create cluster prod-1").await, @"
    --- stderr
    error: Resource Already Exists (HYPERFLEET-CNF-001, HTTP 409)
      Cluster name 'prod-1' is already used by '[id 1]'
      trace id: [trace]
    --- exit 4
    ");
    insta::assert_snapshot!(cli.transcript("create cluster X! --label 'a b=c'").await, @r#"
    --- stderr
    error: Validation Error (HYPERFLEET-VAL-000, HTTP 400)
      Request validation failed with 3 errors
      name must have at least 3 characters, not 2 (given: "X!")
      name must consist of lower-case letters, digits and '-', and start and end with a letter or digit (given: "X!")
      labels['a b']: the key's name must start and end with a letter or digit and hold only letters, digits, '.', '_' and '-' (given: "a b")
      trace id: [trace]
    --- exit 1
    "#);
    insta::assert_snapshot!(cli.transcript("create nodepool workers").await, @"
    --- stderr
    error: the command line: a NodePool belongs to a Cluster; add owner: cluster/NAME
    --- exit 2
    ");
    insta::assert_snapshot!(cli.transcript("create nodepool prod-2/workers").await, @"
    --- stderr
    error: there is no cluster/prod-2
    --- exit 3
    ");
    let printed = cli.run("create nodepool prod-2/workers --curl").await;
    assert_eq!(printed.stderr, "there is no cluster/prod-2: ID_OF_cluster_prod-2 stands for its id\n");
    assert!(printed.stdout.contains("/clusters/ID_OF_cluster_prod-2/nodepools'"), "{printed:?}");
    insta::assert_snapshot!(cli.transcript("create cluster prod-3 --spec '{'").await, @"
    --- stderr
    error: --spec: unclosed bracket '{' at line 1, column 1
    --- exit 2
    ");
}

async fn a_dry_run_changes_nothing(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1 --set n=1").await;
    let before = cli.ok("get clusters --show-deleted -o json").await;
    for line in [
        "create cluster prod-2 --dry-run",
        "patch cluster prod-1 -p '{\"spec\": {\"n\": 2}}' --dry-run",
        "label cluster prod-1 a=b --dry-run",
        "delete cluster prod-1 --dry-run",
        "report cluster prod-1 --adapter dns --dry-run",
    ] {
        let said = cli.ok(line).await;
        assert!(said.ends_with("(dry run)\n"), "{line}: {said}");
    }
    assert_eq!(cli.ok("get clusters --show-deleted -o json").await, before);
}

async fn patches_merge_or_follow_operations(app: &App) {
    let cli = Cli::of(app).file("patch.yaml", "spec:\n  a: {c: 3}\n");
    cli.ok("create cluster prod-1 --spec '{\"a\": {\"b\": 1}, \"z\": 9}'").await;
    assert_eq!(cli.ok("patch cluster prod-1 -f patch.yaml").await, "cluster/prod-1 changed\n");
    assert_eq!(cli.ok("patch cluster prod-1 -f patch.yaml").await, "cluster/prod-1 unchanged\n");
    let operations =
        r#"[{"op": "test", "path": "/spec/z", "value": 9}, {"op": "remove", "path": "/spec/z"}]"#;
    assert_eq!(cli.ok(&format!("patch cluster prod-1 -p '{operations}'")).await, "cluster/prod-1 changed\n");
    let spec = cli.json("get cluster prod-1 -o json").await["spec"].take();
    assert_eq!(spec, json!({"a": {"b": 1, "c": 3}}));
    insta::assert_snapshot!(cli.transcript("patch cluster prod-1 -p '{\"spec\": {\"x\": 1}}' --if-version 1").await, @"
    --- stderr
    error: Version Conflict (HYPERFLEET-CNF-002, HTTP 409)
      Cluster '[id 1]' was modified by another request. Expected version 1, found version 3.
      trace id: [trace]
    --- exit 4
    ");
    insta::assert_snapshot!(cli.transcript("patch cluster prod-1 -p '{\"sepc\": {}}'").await, @"
    --- stderr
    error: Invalid Request Body (HYPERFLEET-VAL-003, HTTP 400)
      sepc is not a known member
      trace id: [trace]
    --- exit 1
    ");
    assert_eq!(cli.run("patch cluster prod-1").await.code, Some(2));
}

async fn labels_are_set_and_removed(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1 --label old=1").await;
    assert_eq!(cli.ok("label cluster prod-1 team.io/owner=blue old-").await, "cluster/prod-1 changed\n");
    assert_eq!(cli.ok("label cluster/prod-1 old-").await, "cluster/prod-1 unchanged\n");
    assert_eq!(cli.ok("get cluster prod-1 -o jsonpath={.labels}").await, "{\"team.io/owner\":\"blue\"}\n");
    insta::assert_snapshot!(cli.transcript("label cluster prod-1").await, @"
    --- stderr
    error: labels are required: key=value sets one, key- removes one
    --- exit 2
    ");
}

async fn label_changes_many_resources(app: &App) {
    let cli = Cli::of(app);
    for name in ["prod-1", "prod-2", "dev-1"] {
        cli.ok(&format!("create cluster {name} --label environment={}", &name[..name.len() - 2])).await;
    }
    insta::assert_snapshot!(cli.transcript("label clusters -l environment=prod team=blue").await, @"
    cluster/prod-1 changed
    cluster/prod-2 changed
    ");
    insta::assert_snapshot!(cli.transcript("label cluster prod-1 dev-1 team=blue").await, @"
    cluster/prod-1 unchanged
    cluster/dev-1 changed
    ");
    insta::assert_snapshot!(cli.transcript("label clusters --all 'not a key=1'").await, @"
    --- stderr
    error: cluster/dev-1: Invalid Field Value (HYPERFLEET-VAL-002, HTTP 400)
      labels['not a key']: the key's name must start and end with a letter or digit and hold only letters, digits, '.', '_' and '-'
      trace id: [trace]
    error: cluster/prod-1: Invalid Field Value (HYPERFLEET-VAL-002, HTTP 400)
      labels['not a key']: the key's name must start and end with a letter or digit and hold only letters, digits, '.', '_' and '-'
      trace id: [trace]
    error: cluster/prod-2: Invalid Field Value (HYPERFLEET-VAL-002, HTTP 400)
      labels['not a key']: the key's name must start and end with a letter or digit and hold only letters, digits, '.', '_' and '-'
      trace id: [trace]
    --- exit 1
    ");
    insta::assert_snapshot!(cli.transcript("label clusters team=red").await, @"
    --- stderr
    error: specify names, -l, --search or --all
    --- exit 2
    ");
    assert_eq!(cli.ok("get clusters -l team=blue -o name").await.lines().count(), 3);
}

async fn label_prints_many_resources_as_one_list(app: &App) {
    let cli = Cli::of(app);
    for name in ["prod-1", "prod-2"] {
        cli.ok(&format!("create cluster {name}")).await;
    }
    let list = cli.json("label cluster prod-1 prod-2 team=blue -o json").await;
    assert_eq!(list, cli.json("get clusters -o json").await);
    assert_eq!(
        cli.ok("label clusters --all team=red -o yaml").await,
        cli.ok("get cluster prod-1 prod-2 -o yaml").await
    );
    assert_eq!(
        cli.ok("label clusters -l team=red team=blue -o 'jsonpath={.items[*].labels.team}'").await,
        "blue blue\n"
    );
    let one = cli.json("label cluster prod-1 team=red -o json").await;
    assert_eq!(one, cli.json("get cluster prod-1 -o json").await);
    assert_eq!(
        cli.json("label clusters -l team=red a=b -o json").await["items"].as_array().unwrap().len(),
        1
    );
    assert_eq!(cli.ok("label clusters --all a=c -o name").await, "cluster/prod-1\ncluster/prod-2\n");
}

async fn label_survives_a_concurrent_removal(app: &App) {
    let cluster = json!({"kind": "Cluster", "name": "prod-1", "spec": {}, "labels": {"old": "1"}});
    let (href, api) = (href(&app.create("/clusters", &cluster).await).to_owned(), app.api());
    let is_first = Arc::new(AtomicBool::new(true));
    let proxy = Proxy::of(app, move |request| {
        let (href, api, is_first) = (href.clone(), api.clone(), Arc::clone(&is_first));
        Box::pin(async move {
            if request.starts_with("PATCH ") && is_first.swap(false, Ordering::Relaxed) {
                api.patch(&href)
                    .json(&json!({"labels": {"old": null, "theirs": "2"}}))
                    .await
                    .expect_status(200);
            }
            None
        })
    });
    let proxy = proxy.await;
    let cli = Cli::at(&proxy.server);
    assert_eq!(cli.ok("label cluster prod-1 new=3 old-").await, "cluster/prod-1 changed\n");
    assert_eq!(
        cli.ok("get cluster prod-1 -o jsonpath={.labels}").await,
        "{\"new\":\"3\",\"theirs\":\"2\"}\n"
    );
    // An invalid label is an error, not a conflict to retry.
    assert_eq!(cli.run("label cluster prod-1 'not a key=1'").await.code, Some(1));
}

async fn wait_ends_when_the_condition_holds_or_the_time_is_over(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    insta::assert_snapshot!(cli.transcript("wait cluster prod-1 --timeout 1ms").await, @"
    --- stderr
    error: cluster/prod-1: timed out after [age] waiting for Reconciled=True
      Required adapters have not yet reported status at generation 1: validator, dns
    --- exit 7
    ");

    let misspelt = cli.run("wait cluster prod-1 --for condition=Reconcild --timeout 1ms").await;
    assert!(
        misspelt
            .stderr
            .starts_with("cluster/prod-1 has no condition Reconcild yet; did you mean Reconciled?\n"),
        "{misspelt:?}"
    );

    let mut waiting = cli.start("wait cluster prod-1 --for condition=Reconciled --timeout 5m");
    let mut gone = cli.start("wait cluster prod-1 --for delete");
    for adapter in ["validator", "dns"] {
        cli.ok(&format!("report cluster prod-1 --adapter {adapter}")).await;
    }
    assert_eq!(waiting.ended().await, Some(0));
    assert_eq!(
        cli.ok("wait cluster prod-1 --for condition=Reconciled").await,
        "cluster/prod-1 Reconciled=True\n"
    );
    assert_eq!(
        cli.ok("wait cluster prod-1 --for condition=DnsSuccessful=true").await,
        "cluster/prod-1 DnsSuccessful=True\n"
    );

    let mut disappointed = cli.start("wait cluster prod-1 --for condition=Health=False");
    cli.ok("delete cluster prod-1 -y").await;
    for adapter in ["validator", "dns"] {
        cli.ok(&format!("report cluster prod-1 --adapter {adapter} --available false --finalized true"))
            .await;
    }
    assert_eq!(gone.ended().await, Some(0));
    assert_eq!(disappointed.ended().await, Some(3), "what is waited for can never come");
    insta::assert_snapshot!(cli.transcript("wait cluster prod-1 --for delete").await, @"
    --- stderr
    there is no cluster/prod-1
    ");
    assert_eq!(cli.run("wait cluster prod-1").await.code, Some(3));
    assert_eq!(cli.run("wait cluster prod-1 --for tea").await.code, Some(2));
}

both_stores!(
    config = CATALOG;
    create_makes_a_resource_from_flags_or_a_document,
    create_names_the_fault,
    a_dry_run_changes_nothing,
    patches_merge_or_follow_operations,
    labels_are_set_and_removed,
    label_changes_many_resources,
    label_prints_many_resources_as_one_list,
    label_survives_a_concurrent_removal,
    wait_ends_when_the_condition_holds_or_the_time_is_over,
);
