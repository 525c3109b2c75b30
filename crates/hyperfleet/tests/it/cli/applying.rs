//! `apply` and `diff` of documents in every form.

use serde_json::json;

use super::{Cli, transcript};
use crate::support::{App, CATALOG, any_store};

const FLEET: &str = "\
# What belongs to something may stand before it.
kind: NodePool
name: workers
owner: cluster/prod-1
spec: {replicas: 3}
---
kind: Cluster
name: prod-1
labels: {environment: production}
spec:
  region: us-east-1
  size: 2
---
kind: Host
name: h-1
owner: {kind: Rack, name: r-1, owner: {kind: Zone, name: z-1}}
---
kind: rack
name: r-1
owner: zone/z-1
---
kind: zones
name: z-1
---
kind: Service
name: web
references:
  networks: [network/front]
---
kind: Network
name: front
";

async fn apply_creates_then_changes_then_leaves_unchanged(app: &App) {
    let cli = Cli::of(app).file("fleet.yaml", FLEET);
    insta::assert_snapshot!(cli.transcript("apply -f fleet.yaml --parallel 1").await, @"
    cluster/prod-1 created
    zone/z-1 created
    network/front created
    nodepool/prod-1/workers created
    rack/z-1/r-1 created
    service/web created
    host/z-1/r-1/h-1 created
    --- stderr
    7 created, 0 changed, 0 unchanged, 0 failed
    ");
    insta::assert_snapshot!(cli.transcript("apply -f fleet.yaml --parallel 1").await, @"
    cluster/prod-1 unchanged
    zone/z-1 unchanged
    network/front unchanged
    nodepool/prod-1/workers unchanged
    rack/z-1/r-1 unchanged
    service/web unchanged
    host/z-1/r-1/h-1 unchanged
    --- stderr
    0 created, 0 changed, 7 unchanged, 0 failed
    ");
    let cli =
        cli.file("fleet.yaml", &FLEET.replace("size: 2", "size: 5").replace("replicas: 3", "replicas: 4"));
    insta::assert_snapshot!(cli.transcript("apply -f fleet.yaml --parallel 1").await, @"
    cluster/prod-1 changed
    zone/z-1 unchanged
    network/front unchanged
    nodepool/prod-1/workers changed
    rack/z-1/r-1 unchanged
    service/web unchanged
    host/z-1/r-1/h-1 unchanged
    --- stderr
    0 created, 2 changed, 5 unchanged, 0 failed
    ");
    assert_eq!(
        cli.ok("get cluster prod-1 -o jsonpath={.spec}").await,
        "{\"region\":\"us-east-1\",\"size\":5}\n"
    );
    assert_eq!(cli.ok("get cluster prod-1 -o jsonpath={.generation}").await, "2\n");
}

async fn diff_shows_what_apply_would_change_and_changes_nothing(app: &App) {
    let cli = Cli::of(app).file("fleet.yaml", FLEET);
    insta::assert_snapshot!(cli.transcript("diff -f fleet.yaml").await, @r#"
    cluster/prod-1 (new)
      + spec.region: "us-east-1"
      + spec.size: 2
      + labels.environment: "production"
    zone/z-1 (new)
    network/front (new)
    nodepool/prod-1/workers (new)
      + spec.replicas: 3
    rack/z-1/r-1 (new)
    service/web (new)
      + references.networks: [{"kind":"Network","name":"front"}]
    host/z-1/r-1/h-1 (new)
    --- exit 8
    "#);
    assert_eq!(cli.ok("get all -o name").await, "");
    cli.ok("apply -f fleet.yaml").await;
    assert_eq!(cli.ok("diff -f fleet.yaml").await, "");
    let cli = cli.file(
        "new.yaml",
        "kind: Cluster\nname: prod-1\nlabels: {environment: null, team: blue}\nspec: {region: eu-west-1}\n",
    );
    insta::assert_snapshot!(cli.transcript("diff -f new.yaml").await, @r#"
    cluster/prod-1
      - spec.region: "us-east-1"
      + spec.region: "eu-west-1"
      - labels.environment: "production"
      + labels.team: "blue"
    --- exit 8
    "#);
    insta::assert_snapshot!(cli.transcript("diff -f new.yaml --replace").await, @r#"
    cluster/prod-1
      - spec.region: "us-east-1"
      + spec.region: "eu-west-1"
      - spec.size: 2
      - labels.environment: "production"
      + labels.team: "blue"
    --- exit 8
    "#);
    assert_eq!(cli.run("diff -f new.yaml").await.code, Some(8));
    let changes = cli.run("diff -f new.yaml -o json").await;
    let changes: serde_json::Value = serde_json::from_str(&changes.stdout).unwrap();
    assert_eq!(changes[0]["changes"][2], json!({"path": "labels.team", "to": "blue"}));
}

async fn replace_removes_what_is_not_written(app: &App) {
    let cli = Cli::of(app)
        .file("a.yaml", "kind: Cluster\nname: prod-1\nlabels: {a: b}\nspec: {x: {y: 1, z: 2}, w: 3}\n");
    cli.ok("apply -f a.yaml").await;
    let cli = cli.file("a.yaml", "kind: Cluster\nname: prod-1\nlabels: {}\nspec: {x: {y: 1}}\n");
    assert_eq!(cli.ok("apply -f a.yaml").await, "cluster/prod-1 unchanged\n");
    assert_eq!(cli.ok("apply -f a.yaml --replace").await, "cluster/prod-1 changed\n");
    let now = cli.json("get cluster prod-1 -o json").await;
    assert_eq!((&now["spec"], &now["labels"]), (&json!({"x": {"y": 1}}), &json!({})));
}

async fn apply_reads_directories_stdin_and_exports(app: &App) {
    let cli = Cli::of(app)
        .file("fleet/1.yaml", "kind: Zone\nname: z-1\n")
        .file("fleet/2.json", "[{\"kind\": \"Zone\", \"name\": \"z-2\"}]")
        .file("fleet/notes.txt", "not a document")
        .file("fleet/deeper/3.yml", "kind: Zone\nname: z-3\n");
    assert_eq!(cli.ok("apply -f fleet --parallel 1").await, "zone/z-1 created\nzone/z-2 created\n");
    assert_eq!(
        cli.ok("apply -f fleet -R --parallel 1").await,
        "zone/z-1 unchanged\nzone/z-2 unchanged\nzone/z-3 created\n"
    );
    cli.ok("create rack z-1/r-1 --spec '{\"n\": 1.5e40, \"when\": \"2026-01-01\", \"t\": \"yes\"}'").await;
    let exported = cli.ok("get zones,racks -o yaml").await;
    let ended = cli.run_with("apply -f - --parallel 1", &exported).await;
    insta::assert_snapshot!(transcript(&ended), @"
    zone/z-1 unchanged
    zone/z-2 unchanged
    zone/z-3 unchanged
    rack/[id 1]/r-1 unchanged
    --- stderr
    0 created, 0 changed, 4 unchanged, 0 failed
    ");
}

async fn a_failing_document_does_not_stop_the_others(app: &App) {
    let cli = Cli::of(app).file(
        "mixed.yaml",
        "kind: Zone\nname: z-1\n---\nkind: Cluster\nname: X\n---\nkind: Rack\nname: r-1\nowner: zone/z-9\n---\nkind: Network\nname: front\n",
    );
    insta::assert_snapshot!(cli.transcript("apply -f mixed.yaml --parallel 1").await, @r#"
    zone/z-1 created
    network/front created
    --- stderr
    error: cluster/X: Validation Error (HYPERFLEET-VAL-000, HTTP 400)
      Request validation failed with 2 errors
      name must have at least 3 characters, not 1 (given: "X")
      name must consist of lower-case letters, digits and '-', and start and end with a letter or digit (given: "X")
      trace id: [trace]
    error: rack/z-9/r-1: there is no zone/z-9
    2 created, 0 changed, 0 unchanged, 2 failed
    --- exit 1
    "#);
    let cli = cli.file("bad.yaml", "kind: Zone\nname: z-2\nlables: {}\n");
    insta::assert_snapshot!(cli.transcript("apply -f bad.yaml").await, @r#"
    --- stderr
    error: bad.yaml: unknown member "lables"; did you mean labels?
    --- exit 2
    "#);
    insta::assert_snapshot!(cli.transcript("apply -f nowhere.yaml").await, @"
    --- stderr
    error: cannot read nowhere.yaml: No such file or directory (os error 2)
    --- exit 2
    ");
}

async fn an_apply_dry_run_creates_nothing(app: &App) {
    let cli = Cli::of(app).file("fleet.yaml", FLEET);
    insta::assert_snapshot!(cli.transcript("apply -f fleet.yaml --dry-run --parallel 1").await, @"
    cluster/prod-1 created (dry run)
    zone/z-1 created (dry run)
    network/front created (dry run)
    nodepool/prod-1/workers created (dry run)
    rack/z-1/r-1 created (dry run)
    service/web created (dry run)
    host/z-1/r-1/h-1 created (dry run)
    --- stderr
    7 created, 0 changed, 0 unchanged, 0 failed
    ");
    assert_eq!(cli.ok("get all --show-deleted -o name").await, "");
}

async fn curl_prints_placeholders_for_ids_of_planned_resources(app: &App) {
    let cli = Cli::of(app).file("fleet.yaml", FLEET);
    let ended = cli.run("apply -f fleet.yaml --curl --parallel 1").await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let what = |line: &str| {
        let (before, url) = line.rsplit_once(" 'http://").unwrap();
        let body = before.rsplit_once("--data-binary ").unwrap().1;
        format!("{} {body}\n", url.split_once("/v1").unwrap().1.trim_end_matches('\''))
    };
    insta::assert_snapshot!(ended.stdout.lines().map(what).collect::<String>(), @r#"
    /clusters '{"kind":"Cluster","name":"prod-1","spec":{"region":"us-east-1","size":2},"labels":{"environment":"production"}}'
    /zones '{"kind":"Zone","name":"z-1","spec":{}}'
    /networks '{"kind":"Network","name":"front","spec":{}}'
    /clusters/ID_OF_cluster_prod-1/nodepools '{"kind":"NodePool","name":"workers","spec":{"replicas":3}}'
    /zones/ID_OF_zone_z-1/racks '{"kind":"Rack","name":"r-1","spec":{}}'
    /services '{"kind":"Service","name":"web","spec":{},"references":{"networks":[{"kind":"Network","id":"ID_OF_network_front"}]}}'
    /racks/ID_OF_rack_z-1_r-1/hosts '{"kind":"Host","name":"h-1","spec":{}}'
    "#);
    assert_eq!(cli.ok("get all --show-deleted -o name").await, "");
}

async fn curl_prints_requests_below_a_missing_owner(app: &App) {
    let cli = Cli::of(app).file(
        "part.yaml",
        "kind: Rack\nname: r-1\nowner: zone/z-9\n---\nkind: Rack\nname: r-2\nowner: zone/z-9\n---\n\
         kind: Service\nname: web\nreferences: {networks: [network/front]}\n",
    );
    let ended = cli.run("apply -f part.yaml --curl --parallel 1").await;
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (
            Some(0),
            "there is no zone/z-9: ID_OF_zone_z-9 stands for its id\n\
             there is no network/front: ID_OF_network_front stands for its id\n"
        )
    );
    assert_eq!(ended.stdout.matches("/zones/ID_OF_zone_z-9/racks'").count(), 2, "{ended:?}");
    assert!(
        ended.stdout.contains(r#""networks":[{"kind":"Network","id":"ID_OF_network_front"}]"#),
        "{ended:?}"
    );
}

async fn numbers_of_any_size_keep_their_digits(app: &App) {
    const LARGE: &str = "123456789012345678901234567890";
    let cli = Cli::of(app).file(
        "exact.yaml",
        &format!(
            "kind: Cluster\nname: prod-1\nspec:\n  n: {LARGE}\n  deep: [{{f: 0.1234567890123456789012345}}]\n"
        ),
    );
    cli.ok("apply -f exact.yaml").await;
    assert_eq!(
        cli.ok("get cluster prod-1 -o jsonpath={.spec}").await,
        format!("{{\"n\":{LARGE},\"deep\":[{{\"f\":0.1234567890123456789012345}}]}}\n")
    );
    assert_eq!(cli.ok("apply -f exact.yaml").await, "cluster/prod-1 unchanged\n");
    let exported = cli.ok("get clusters -o yaml").await;
    assert_eq!(cli.run_with("apply -f -", &exported).await.stdout, "cluster/prod-1 unchanged\n");
}

async fn concurrent_applies_keep_each_others_changes(app: &App) {
    let cli = Cli::of(app)
        .file("all.yaml", "kind: Cluster\nname: prod-1\nspec: {n: 0}\n")
        .file("a.yaml", "kind: Cluster\nname: prod-1\nspec: {a: {x: 1}}\n")
        .file("b.yaml", "kind: Cluster\nname: prod-1\nspec: {b: {x: 1}}\nlabels: {b: b}\n");
    cli.ok("apply -f all.yaml").await;
    tokio::join!(cli.ok("apply -f a.yaml"), cli.ok("apply -f b.yaml"));
    let now = cli.json("get cluster prod-1 -o json").await;
    assert_eq!(now["spec"], json!({"n": 0, "a": {"x": 1}, "b": {"x": 1}}));
    assert_eq!(now["labels"], json!({"b": "b"}));
}

any_store!(
    config = CATALOG;
    curl_prints_requests_below_a_missing_owner,
    numbers_of_any_size_keep_their_digits,
    curl_prints_placeholders_for_ids_of_planned_resources,
    concurrent_applies_keep_each_others_changes,
    apply_creates_then_changes_then_leaves_unchanged,
    diff_shows_what_apply_would_change_and_changes_nothing,
    replace_removes_what_is_not_written,
    apply_reads_directories_stdin_and_exports,
    a_failing_document_does_not_stop_the_others,
    an_apply_dry_run_creates_nothing,
);
