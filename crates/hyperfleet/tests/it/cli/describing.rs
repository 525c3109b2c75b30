//! Looking closely: `describe`, `why`, `timeline`, `tree`, `statuses`.

use serde_json::json;

use super::Cli;
use crate::support::{App, CATALOG, both_stores};

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
    insta::assert_snapshot!(cli.told("describe cluster prod-1").await, @"");
    cli.ok("delete nodepool prod-1/workers -y").await;
    insta::assert_snapshot!(cli.told("describe nodepool/prod-1/workers").await, @"");
}

async fn why_names_who_is_in_the_way(app: &App) {
    let cli = troubled(app).await;
    insta::assert_snapshot!(cli.told("why cluster prod-1").await, @"");
    let explained = cli.json("why cluster/prod-1 -o json").await;
    assert_eq!(explained["phase"], json!("Degraded"));
    cli.ok("report cluster prod-1 --adapter dns").await;
    insta::assert_snapshot!(cli.told("why cluster prod-1").await, @"");
}

async fn a_timeline_is_read_also_when_its_resource_is_gone(app: &App) {
    let cli = troubled(app).await;
    cli.ok("patch cluster prod-1 -p '{\"spec\": {\"region\": \"eu-west-1\", \"zones\": null}}'").await;
    cli.ok("label cluster prod-1 environment- team=blue").await;
    insta::assert_snapshot!(cli.told("timeline cluster prod-1").await, @"");
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

async fn a_tree_shows_what_is_below_and_how_it_is_doing(app: &App) {
    let cli = troubled(app).await;
    cli.ok("report nodepool prod-1/infra --adapter validator").await;
    insta::assert_snapshot!(cli.told("tree cluster prod-1").await, @"");
    cli.ok("delete cluster prod-1 -y").await;
    cli.ok("report cluster prod-1 --adapter validator --available false --finalized true").await;
    insta::assert_snapshot!(cli.told("tree cluster prod-1").await, @"");
}

async fn reports_are_shown_as_they_were_made(app: &App) {
    let cli = troubled(app).await;
    insta::assert_snapshot!(cli.told("statuses cluster prod-1").await, @"");
    assert_eq!(cli.ok("statuses cluster prod-1 -o name").await, "dns\nvalidator\n");
    let reports = cli.json("statuses cluster prod-1 -o json").await;
    assert_eq!(reports["items"][0]["conditions"][0]["message"], json!("no room for zones"));
    insta::assert_snapshot!(cli.told("statuses nodepool prod-1/infra").await, @"");
}

both_stores!(
    config = CATALOG;
    describe_shows_everything_on_one_page,
    why_names_who_is_in_the_way,
    a_timeline_is_read_also_when_its_resource_is_gone,
    a_tree_shows_what_is_below_and_how_it_is_doing,
    reports_are_shown_as_they_were_made,
);
