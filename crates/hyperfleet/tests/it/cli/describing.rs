//! Looking closely: `describe`, `why`, `timeline`, `tree`, `statuses`.

use serde_json::json;

use super::Cli;
use crate::support::{App, CATALOG, any_store};

async fn troubled(app: &App) -> Cli {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1 --label environment=production --spec '{\"region\": \"us-east-1\", \"zones\": [\"a\", \"b\"]}'").await;
    cli.ok("create nodepool prod-1/workers --set replicas=3").await;
    cli.ok("create nodepool prod-1/infra").await;
    cli.ok("report cluster prod-1 --adapter validator --reason Valid").await;
    cli.ok("report cluster prod-1 --adapter dns --available false --reason QuotaExceeded --message 'no room for zones'").await;
    cli
}

async fn describe_shows_everything_on_one_page(app: &App) {
    let cli = troubled(app).await;
    insta::assert_snapshot!(cli.transcript("describe cluster prod-1").await, @r#"
    Name:        prod-1
    Kind:        Cluster
    Id:          [id 1]
    Labels:      environment=production
    Generation:  1
    Created:     [time 1] ([age] ago) by system@hyperfleet.local
    Updated:     [time 1] ([age] ago) by system@hyperfleet.local
    Status:      Degraded
    Cluster 'prod-1' is degraded at generation 1 by adapter dns.

    Conditions:
      CONDITION            STATUS  GEN  REASON                       SINCE  CONFIRMED  MESSAGE
      Reconciled           False   1    ReconciledNotAvailable       [age]  [age]  Adapters reporting Available=False: dns (QuotaExceeded)
      LastKnownReconciled  False   1    AdapterReportedNotAvailable  [age]  [age]  One or more required adapters report Available=False: dns
      ValidatorSuccessful  True    1    Valid                        [age]  [age]  -
      DnsSuccessful        False   1    QuotaExceeded                [age]  [age]  no room for zones

    Reports:
      ADAPTER    GEN  AVAILABLE  APPLIED  HEALTH  FINALIZED  REASON         REPORTED
      dns        1    False      True     True    -          QuotaExceeded  [age]
      validator  1    True       True     True    -          Valid          [age]

    Blockers:
      • adapter dns (since [age]): Reports at generation 1: Available=False (QuotaExceeded), 'no room for zones'.
        → See `hyperfleet statuses cluster/prod-1` and the logs of adapter dns; if the spec is wrong, `hyperfleet edit cluster/prod-1`.

    Below:
      nodepools (2): infra, workers

    Spec:
      region: us-east-1
      zones:
      - a
      - b

    Timeline:
      AGE  ACTION          BY                       WHAT
      [age]  report_changed  adapter dns              observed_generation: 1; Applied: True; Available: False (QuotaExceeded); and 2 more
      [age]  report_changed  adapter validator        observed_generation: 1; Applied: True; Available: True (Valid); and 2 more
      [age]  created         system@hyperfleet.local  spec: {"region":"us-east-1","zones":["a","b"]}; labels: {"environment":"production"}
    "#);
    cli.ok("delete nodepool prod-1/workers -y").await;
    insta::assert_snapshot!(cli.transcript("describe nodepool/prod-1/workers").await, @r#"
    Name:        workers
    Kind:        NodePool
    Id:          [id 1]
    Owner:       cluster/prod-1
    Generation:  2
    Created:     [time 1] ([age] ago) by system@hyperfleet.local
    Updated:     [time 2] ([age] ago) by system@hyperfleet.local
    Deleted:     [time 2] ([age] ago) by system@hyperfleet.local
    Status:      Finalizing
    NodePool 'workers' is being deleted and waits for adapter validator.

    Conditions:
      CONDITION            STATUS  GEN  REASON                     SINCE  CONFIRMED  MESSAGE
      Reconciled           False   2    ReconciledMissingAdapters  [age]  [age]  Required adapters not reporting Finalized=True at generation 2: validator
      LastKnownReconciled  False   1    AdaptersMissingReports     [age]  [age]  Required adapters have not yet reported status

    Reports:
      ADAPTER  GEN  AVAILABLE  APPLIED  HEALTH  FINALIZED  REASON  REPORTED

    Blockers:
      • adapter validator (since [age]): Has never reported on this resource; Finalized=True at generation 2 is awaited.
        → Check that adapter validator is running and that its logs mention this resource; it may not handle kind NodePool. As a last resort `hyperfleet force-delete nodepool/prod-1/workers --reason REASON`.

    Spec:
      replicas: 3

    Timeline:
      AGE  ACTION              BY                       WHAT
      [age]  deletion_requested  system@hyperfleet.local  -
      [age]  created             system@hyperfleet.local  spec: {"replicas":3}
    "#);
}

async fn describe_names_the_targets_of_references(app: &App) {
    let cli = Cli::of(app).file(
        "web.yaml",
        "kind: Network\nname: front\n---\nkind: Zone\nname: z-1\n---\nkind: Rack\nname: r-1\nowner: zone/z-1\n---\n\
         kind: Rack\nname: r-2\nowner: zone/z-1\nreferences: {twins: [rack/z-1/r-1]}\n---\n\
         kind: Service\nname: web\nreferences: {networks: [network/front], zone: [zone/z-1]}\n",
    );
    cli.ok("apply -f web.yaml").await;
    let references = async |what: &str| {
        let page = cli.transcript(&format!("describe {what}")).await;
        let lines = page.lines().filter(|line| line.contains(" → ") && !line.starts_with("  →"));
        lines.map(|line| format!("{}\n", line.trim_start_matches("References:").trim())).collect::<String>()
    };
    insta::assert_snapshot!(references("service web").await, @"
    networks → network/front ([id 2])
    zone → zone/z-1 ([id 3])
    ");
    insta::assert_snapshot!(references("rack z-1/r-2").await, @"twins → rack/z-1/r-1 ([id 2])");
}

async fn why_names_the_blocking_adapters(app: &App) {
    let cli = troubled(app).await;
    insta::assert_snapshot!(cli.transcript("why cluster prod-1").await, @"
    Degraded  Cluster 'prod-1' is degraded at generation 1 by adapter dns.
    • adapter dns (since [age]): Reports at generation 1: Available=False (QuotaExceeded), 'no room for zones'.
      → See `hyperfleet statuses cluster/prod-1` and the logs of adapter dns; if the spec is wrong, `hyperfleet edit cluster/prod-1`.
    ");
    let explained = cli.json("why cluster/prod-1 -o json").await;
    assert_eq!(explained["phase"], json!("Degraded"));
    cli.ok("report cluster prod-1 --adapter dns").await;
    insta::assert_snapshot!(cli.transcript("why cluster prod-1").await, @"Reconciled  Cluster 'prod-1' is reconciled at generation 1.");
}

async fn why_advises_commands_that_run(app: &App) {
    let cli = troubled(app).await;
    cli.ok("delete cluster prod-1 -y").await;
    let told = cli.ok("why cluster prod-1").await;
    insta::assert_snapshot!(super::steady(&told), @"
    Finalizing  Cluster 'prod-1' is being deleted and waits for adapter validator, adapter dns, child infra and 1 more.
    • adapter validator (since [age]): Silent since [time 1], behind by 1 generation: its last report is on generation 1 of 2; Finalized=True at generation 2 is awaited.
      → Check that adapter validator is running and that its logs mention this resource and generation 2; reports with Available=Unknown are not kept once it has reported. As a last resort `hyperfleet force-delete cluster/prod-1 --reason REASON`.
    • adapter dns (since [age]): Silent since [time 2], behind by 1 generation: its last report is on generation 1 of 2 and says Available=False (QuotaExceeded), 'no room for zones'; Finalized=True at generation 2 is awaited.
      → Check that adapter dns is running and that its logs mention this resource and generation 2; reports with Available=Unknown are not kept once it has reported. As a last resort `hyperfleet force-delete cluster/prod-1 --reason REASON`.
    • child infra (since [age]): NodePool 'infra' is not finalized: Required adapters not reporting Finalized=True at generation 2: validator.
      → See `hyperfleet why nodepool/[id 1]`, which says what holds it. As a last resort `hyperfleet force-delete nodepool/[id 1] --reason REASON`.
    • child workers (since [age]): NodePool 'workers' is not finalized: Required adapters not reporting Finalized=True at generation 2: validator.
      → See `hyperfleet why nodepool/[id 2]`, which says what holds it. As a last resort `hyperfleet force-delete nodepool/[id 2] --reason REASON`.
    ");
    let commands: Vec<&str> = told.split('`').skip(1).step_by(2).collect();
    let raw = cli.json("why cluster prod-1 -o json").await.to_string();
    assert!(raw.contains("POST /api/hyperfleet/v1/clusters/"), "{raw}");
    for command in commands {
        let command = command.strip_prefix("hyperfleet ").unwrap().replace("REASON", "test --dry-run");
        cli.ok(&command).await;
    }
}

async fn timeline_reads_a_deleted_resource_by_id(app: &App) {
    let cli = troubled(app).await;
    cli.ok("patch cluster prod-1 -p '{\"spec\": {\"region\": \"eu-west-1\", \"zones\": null}}'").await;
    cli.ok("label cluster prod-1 environment- team=blue").await;
    insta::assert_snapshot!(cli.transcript("timeline cluster prod-1").await, @r#"
    AGE  ACTION          BY                       WHAT
    [age]  labels_changed  system@hyperfleet.local  labels.environment removed; labels.team: blue
    [age]  spec_changed    system@hyperfleet.local  spec.region: us-east-1 → eu-west-1; spec.zones removed
    [age]  report_changed  adapter dns              observed_generation: 1; Applied: True; Available: False (QuotaExceeded); and 2 more
    [age]  report_changed  adapter validator        observed_generation: 1; Applied: True; Available: True (Valid); and 2 more
    [age]  created         system@hyperfleet.local  spec: {"region":"us-east-1","zones":["a","b"]}; labels: {"environment":"production"}
    "#);
    assert_eq!(cli.ok("timeline cluster prod-1 --limit 2").await.lines().count(), 3);
    let id = cli.ok("get cluster prod-1 -o jsonpath=.id").await;
    cli.ok("delete cluster prod-1 -y").await;
    cli.ok("force-delete cluster prod-1 --reason 'it must go' -y").await;
    assert_eq!(cli.run("timeline cluster prod-1").await.code, Some(3));
    let gone = cli.json(&format!("timeline cluster {} -o json --limit 1", id.trim())).await;
    assert_eq!(
        (&gone["items"][0]["action"], &gone["items"][0]["reason"]),
        (&json!("force_deleted"), &json!("it must go"))
    );
}

async fn tree_shows_children_adapters_and_their_status(app: &App) {
    let cli = troubled(app).await;
    cli.ok("report nodepool prod-1/infra --adapter validator").await;
    insta::assert_snapshot!(cli.transcript("tree cluster prod-1").await, @"
    cluster/prod-1  Degraded (ReconciledNotAvailable)
    ├─ adapter dns  Available=False (QuotaExceeded)
    ├─ adapter validator  Available=True
    ├─ nodepool/infra  Reconciled
    │  └─ adapter validator  Available=True
    └─ nodepool/workers  Reconciling (ReconciledMissingAdapters)
    ");
    cli.ok("delete cluster prod-1 -y").await;
    cli.ok("report cluster prod-1 --adapter validator --available false --finalized true").await;
    insta::assert_snapshot!(cli.transcript("tree cluster prod-1").await, @"
    cluster/prod-1  Finalizing (ReconciledMissingAdapters)
    ├─ adapter dns  Available=False (QuotaExceeded) (of generation 1, not 2)
    ├─ adapter validator  Finalized=True
    ├─ nodepool/infra  Finalizing (ReconciledMissingAdapters)
    │  └─ adapter validator  Available=True (of generation 1, not 2)
    └─ nodepool/workers  Finalizing (ReconciledMissingAdapters)
    ");
}

async fn statuses_shows_the_reports(app: &App) {
    let cli = troubled(app).await;
    insta::assert_snapshot!(cli.transcript("statuses cluster prod-1").await, @"
    ADAPTER    GEN  AVAILABLE  APPLIED  HEALTH  FINALIZED  REASON         REPORTED
    dns        1    False      True     True    -          QuotaExceeded  [age]
    validator  1    True       True     True    -          Valid          [age]
    ");
    assert_eq!(cli.ok("statuses cluster prod-1 -o name").await, "dns\nvalidator\n");
    let reports = cli.json("statuses cluster prod-1 -o json").await;
    assert_eq!(reports["items"][0]["conditions"][0]["message"], json!("no room for zones"));
    insta::assert_snapshot!(cli.transcript("statuses nodepool prod-1/infra").await, @"
    --- stderr
    no adapter has reported yet
    ");
}

any_store!(
    config = CATALOG;
    describe_shows_everything_on_one_page,
    describe_names_the_targets_of_references,
    why_names_the_blocking_adapters,
    why_advises_commands_that_run,
    timeline_reads_a_deleted_resource_by_id,
    tree_shows_children_adapters_and_their_status,
    statuses_shows_the_reports,
);
