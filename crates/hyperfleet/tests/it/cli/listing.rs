//! `get`: one, many, all; selected, ordered, limited, watched; in every form.

use hyperfleet_testkit::eventually;
use serde_json::json;

use super::{Cli, steady};
use crate::operations::program::Running;
use crate::support::{App, CATALOG, any_store};

/// Two clusters, one of them well, and node pools of the same name below both.
async fn fleet(app: &App) -> Cli {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1 --label environment=production --label team=blue --set region=us-east-1")
        .await;
    cli.ok("create cluster dev-1 --label environment=dev").await;
    for owner in ["prod-1", "dev-1"] {
        cli.ok(&format!("create nodepool {owner}/workers --set replicas=3")).await;
    }
    for adapter in ["validator", "dns"] {
        cli.ok(&format!("report cluster prod-1 --adapter {adapter} --reason Fine")).await;
    }
    cli.ok("report cluster dev-1 --adapter validator").await;
    cli.ok("report cluster dev-1 --adapter dns --available false --reason QuotaExceeded").await;
    cli
}

async fn get_prints_tables(app: &App) {
    let cli = fleet(app).await;
    insta::assert_snapshot!(cli.transcript("get clusters").await, @"
    NAME    STATUS      GEN  SINCE  AGE
    dev-1   Degraded    1    [age]  [age]
    prod-1  Reconciled  1    [age]  [age]
    ");
    insta::assert_snapshot!(cli.transcript("get clusters -o wide --order-by 'name desc'").await, @"
    NAME    STATUS      GEN  ADAPTERS  REASON                  ID                                    LABELS                            SINCE  AGE
    prod-1  Reconciled  1    2/2       ReconciledAll           [id 1]  environment=production,team=blue  [age]  [age]
    dev-1   Degraded    1    1/2       ReconciledNotAvailable  [id 2]  environment=dev                   [age]  [age]
    ");
    insta::assert_snapshot!(cli.transcript("get nodepools").await, @"
    NAME     OWNER           STATUS       GEN  SINCE  AGE
    workers  cluster/prod-1  Reconciling  1    [age]  [age]
    workers  cluster/dev-1   Reconciling  1    [age]  [age]
    ");
    insta::assert_snapshot!(cli.transcript("get clusters,nodepools --limit 3").await, @"
    NAME              OWNER           STATUS       GEN  SINCE  AGE
    cluster/dev-1     -               Degraded     1    [age]  [age]
    cluster/prod-1    -               Reconciled   1    [age]  [age]
    nodepool/workers  cluster/prod-1  Reconciling  1    [age]  [age]
    ");
    insta::assert_snapshot!(cli.transcript("get all --search \"name like '%-1'\"").await, @"
    NAME    STATUS      GEN  SINCE  AGE
    dev-1   Degraded    1    [age]  [age]
    prod-1  Reconciled  1    [age]  [age]
    ");
    insta::assert_snapshot!(cli.transcript("get zones").await, @"
    --- stderr
    nothing found
    ");
}

async fn get_adds_label_columns_and_omits_headers(app: &App) {
    let cli = fleet(app).await;
    insta::assert_snapshot!(cli.transcript("get clusters -L team,environment -L absent").await, @"
    NAME    STATUS      GEN  TEAM  ENVIRONMENT  ABSENT  SINCE  AGE
    dev-1   Degraded    1    -     dev          -       [age]  [age]
    prod-1  Reconciled  1    blue  production   -       [age]  [age]
    ");
    insta::assert_snapshot!(cli.transcript("get clusters --no-headers").await, @"
    dev-1   Degraded    1    [age]  [age]
    prod-1  Reconciled  1    [age]  [age]
    ");
    let watched = cli.start("get clusters --no-headers -L environment -w");
    line(&watched, &["prod-1", "production"]).await;
    assert!(!watched.stdout()[0].starts_with("NAME"), "{:?}", watched.stdout());
}

async fn get_prints_the_others_beside_a_missing_resource(app: &App) {
    let cli = fleet(app).await;
    insta::assert_snapshot!(cli.transcript("get cluster prod-1 absent dev-1 -o name").await, @"
    cluster/prod-1
    cluster/dev-1
    --- stderr
    error: there is no cluster/absent
    --- exit 3
    ");
    insta::assert_snapshot!(cli.transcript("get cluster/absent cluster/other").await, @"
    --- stderr
    error: there is no cluster/absent
    error: there is no cluster/other
    --- exit 3
    ");
    let list = cli.run("get cluster prod-1 absent -o json").await;
    assert!(list.code == Some(3) && list.stdout.contains("\"ClusterList\""), "{list:?}");
}

async fn a_misspelt_name_suggests_a_similar_one(app: &App) {
    let cli = fleet(app).await;
    for (what, told) in [
        ("cluster prdo-1", "there is no cluster/prdo-1; did you mean prod-1?"),
        ("cluster pro-1", "there is no cluster/pro-1; did you mean prod-1?"),
        ("nodepool prod-1/wrokers", "there is no nodepool/wrokers in cluster/prod-1; did you mean workers?"),
        ("cluster prod-2", "there is no cluster/prod-2"),
        ("cluster %", "there is no cluster/%"),
        ("cluster absent", "there is no cluster/absent"),
    ] {
        let ended = cli.run(&format!("get {what}")).await;
        assert_eq!((ended.code, ended.stderr), (Some(3), format!("error: {told}\n")));
    }
}

async fn every_kind_is_found_by_any_of_its_names(app: &App) {
    let cli = fleet(app).await;
    for word in ["clusters", "cluster", "Cluster", "CLUSTERS"] {
        assert_eq!(cli.ok(&format!("get {word} -o name")).await, "cluster/dev-1\ncluster/prod-1\n", "{word}");
    }
    insta::assert_snapshot!(cli.transcript("get clutsers").await, @r#"
    --- stderr
    error: the server has no kind "clutsers"; did you mean clusters?
      it has: clusters, nodepools, zones, racks, hosts, permits, networks, services
    --- exit 2
    "#);
}

async fn get_prints_data_formats(app: &App) {
    let cli = fleet(app).await;
    let one = cli.json("get cluster prod-1 -o json").await;
    assert_eq!((&one["name"], &one["spec"]), (&json!("prod-1"), &json!({"region": "us-east-1"})));
    let many = cli.json("get cluster prod-1 dev-1 -o json").await;
    assert_eq!((&many["kind"], &many["items"][1]["name"]), (&json!("ClusterList"), &json!("dev-1")));
    let list = cli.json("get clusters -l team -o json").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    insta::assert_snapshot!(steady(&cli.ok("get cluster/prod-1 -o yaml").await), @r#"
    kind: Cluster
    id: "[id 1]"
    href: /api/hyperfleet/v1/clusters/[id 1]
    name: prod-1
    generation: 1
    spec:
      region: us-east-1
    labels:
      environment: production
      team: blue
    created_time: "[time 1]"
    updated_time: "[time 1]"
    created_by: system@hyperfleet.local
    updated_by: system@hyperfleet.local
    status:
      conditions:
      - type: Reconciled
        status: "True"
        reason: ReconciledAll
        message: "All required adapters reported Available=True or Finalized=True at the current generation"
        observed_generation: 1
        created_time: "[time 1]"
        last_updated_time: "[time 2]"
        last_transition_time: "[time 3]"
      - type: LastKnownReconciled
        status: "True"
        reason: AllAdaptersReconciled
        message: "All required adapters report Available=True for the tracked generation"
        observed_generation: 1
        created_time: "[time 1]"
        last_updated_time: "[time 2]"
        last_transition_time: "[time 3]"
      - type: ValidatorSuccessful
        status: "True"
        reason: Fine
        message: ""
        observed_generation: 1
        created_time: "[time 1]"
        last_updated_time: "[time 2]"
        last_transition_time: "[time 2]"
      - type: DnsSuccessful
        status: "True"
        reason: Fine
        message: ""
        observed_generation: 1
        created_time: "[time 1]"
        last_updated_time: "[time 3]"
        last_transition_time: "[time 3]"
    "#);
    for (template, found) in [
        ("{.items[*].name}", "dev-1 prod-1\n"),
        (
            "{range .items[*]}{.name}={.status.conditions[?(@.type==\"Reconciled\")].status}{\"\\n\"}{end}",
            "dev-1=False\nprod-1=True\n",
        ),
    ] {
        assert_eq!(cli.ok(&format!("get clusters -o jsonpath='{template}'")).await, found, "{template}");
    }
    assert_eq!(cli.ok("get cluster prod-1 -o jsonpath=.spec.region").await, "us-east-1\n");
    assert_eq!(cli.run("get clusters -o jsonpath={.a").await.code, Some(2));
    assert_eq!(cli.run("get clusters -o xml").await.code, Some(2));
}

async fn get_selects_by_labels_search_and_owner(app: &App) {
    let cli = fleet(app).await;
    for (selection, found) in [
        ("clusters -l environment=production", "cluster/prod-1\n"),
        ("clusters -l environment!=production", "cluster/dev-1\n"),
        ("clusters -l 'environment in (dev,test)'", "cluster/dev-1\n"),
        ("clusters -l '!team'", "cluster/dev-1\n"),
        ("clusters -l team --search \"name='dev-1' or name='prod-1'\"", "cluster/prod-1\n"),
        ("clusters --search \"spec.region='us-east-1'\"", "cluster/prod-1\n"),
        ("nodepools --in clusters/dev-1", "nodepool/dev-1/workers\n"),
        ("nodepools --in cluster/prod-1 --search \"spec.replicas > 3\"", ""),
        ("clusters --limit 1", "cluster/dev-1\n"),
    ] {
        assert_eq!(cli.ok(&format!("get {selection} -o name")).await, found, "{selection}");
    }
    insta::assert_snapshot!(cli.transcript("get clusters --search \"nmae='x'\"").await, @"
    --- stderr
    error: Invalid Query Parameter (HYPERFLEET-VAL-004, HTTP 400)
      search at position 1: `nmae` is not a field: did you mean name?
        nmae='x'
        ^
      trace id: [trace]
    --- exit 1
    ");
    insta::assert_snapshot!(cli.transcript("get nodepools --in zones/x").await, @"
    --- stderr
    error: there is no zone/x
    --- exit 3
    ");
}

async fn get_shows_finalizing_resources_with_show_deleted(app: &App) {
    let cli = fleet(app).await;
    cli.ok("delete cluster dev-1 -y").await;
    assert_eq!(cli.ok("get clusters -o name").await, "cluster/prod-1\n");
    insta::assert_snapshot!(cli.transcript("get clusters --show-deleted").await, @"
    NAME    STATUS      GEN  SINCE  AGE
    dev-1   Finalizing  2    [age]  [age]
    prod-1  Reconciled  1    [age]  [age]
    ");
}

async fn get_reads_every_page(app: &App) {
    let cli = Cli::of(app);
    let documents: String =
        (0..700).map(|n| format!("{{\"kind\":\"Network\",\"name\":\"n-{n:03}\"}}\n")).collect();
    let cli = cli.file("many.json", &documents);
    cli.ok("apply -f many.json --parallel 32").await;
    let names = cli.ok("get networks -o name").await;
    let expected: String = (0..700).map(|n| format!("network/n-{n:03}\n")).collect();
    assert_eq!(names, expected);
    assert_eq!(cli.ok("get networks -o name --limit 501").await.lines().count(), 501);
}

/// Waits until a watch has printed a line that holds all of these.
async fn line(running: &Running, parts: &[&str]) -> String {
    eventually(&format!("{parts:?}"), super::DEADLINE, async || {
        running.stdout().into_iter().find(|line| parts.iter().all(|part| line.contains(part)))
    })
    .await
}

async fn a_failing_template_is_reported_once(app: &App) {
    let cli = fleet(app).await;
    // Every value for every value for every value …
    let template = format!("{}x{}", "{range $..*}".repeat(8), "{end}".repeat(8));
    let words = ["get", "clusters", "-w", "-o", &format!("jsonpath={template}")];
    let running = cli.program.start(&words);
    let said = async |parts: usize| {
        eventually("a fault", super::DEADLINE, async || {
            (running.stderr().len() >= parts).then(|| running.stderr())
        })
        .await
    };
    assert_eq!(said(1).await, ["error: jsonpath: it picks too many values"]);
    cli.ok("label cluster prod-1 a=b").await;
    let names = cli.program.start(&["get", "clusters", "-w", "-o", "name"]);
    line(&names, &["prod-1"]).await;
    assert_eq!(running.stderr().len(), 1);
}

async fn get_watch_prints_each_change(app: &App) {
    let cli = fleet(app).await;
    let table = cli.start("get clusters -w");
    line(&table, &["prod-1", "Reconciled"]).await;
    let documents = cli.start("get cluster prod-1 -w -o json");
    line(&documents, &["\"generation\":1"]).await;

    cli.ok("patch cluster prod-1 -p '{\"spec\": {\"region\": \"eu-west-1\"}}'").await;
    line(&table, &["prod-1", "Reconciling", "2"]).await;
    line(&documents, &["\"generation\":2", "eu-west-1"]).await;

    cli.ok("create cluster new-1").await;
    line(&table, &["new-1", "Reconciling"]).await;
    cli.ok("delete cluster new-1 -y").await;
    line(&table, &["new-1", "Finalizing"]).await;
}

any_store!(
    config = CATALOG;
    get_prints_tables,
    get_adds_label_columns_and_omits_headers,
    get_prints_the_others_beside_a_missing_resource,
    a_misspelt_name_suggests_a_similar_one,
    every_kind_is_found_by_any_of_its_names,
    get_prints_data_formats,
    get_selects_by_labels_search_and_owner,
    get_shows_finalizing_resources_with_show_deleted,
    get_reads_every_page,
    a_failing_template_is_reported_once,
    get_watch_prints_each_change,
);
