//! `report`, which plays an adapter, and `api`, which sends anything.

use serde_json::json;

use super::Cli;
use crate::support::{App, CATALOG, any_store};

async fn report_sends_the_report_of_an_adapter(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    insta::assert_snapshot!(cli.transcript("report cluster prod-1 --adapter dns --available FALSE --reason Quota --condition Extra=unknown --data '{\"zone\": \"a\"}'").await, @"cluster/prod-1 report of dns stored");
    let report = cli.json("statuses cluster prod-1 -o json").await["items"][0].take();
    assert_eq!(
        (&report["adapter"], &report["observed_generation"], &report["data"]),
        (&json!("dns"), &json!(1), &json!({"zone": "a"}))
    );
    let kinds: Vec<_> = report["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["type"].as_str().unwrap(), one["status"].as_str().unwrap()))
        .collect();
    assert_eq!(
        kinds,
        [("Available", "False"), ("Applied", "True"), ("Health", "True"), ("Extra", "Unknown")]
    );
    insta::assert_snapshot!(cli.transcript("report cluster prod-1 --adapter dns --generation 7").await, @"
    cluster/prod-1 report of dns discarded
    --- stderr
    the server has a newer report, or has one already that Available=Unknown does not replace
    ");
    assert_eq!(cli.run("report cluster prod-1").await.code, Some(2));
    assert_eq!(cli.run("report cluster prod-1 --adapter dns --available maybe").await.code, Some(2));
}

async fn api_sends_any_request_and_prints_the_answer(app: &App) {
    let cli = Cli::of(app).file("body.json", r#"{"kind": "Cluster", "name": "prod-1", "spec": {"n": 1}}"#);
    let made = cli.json("api POST /clusters -d @body.json").await;
    assert_eq!(made["name"], json!("prod-1"));
    let list = cli.json("api get 'clusters?fields=name&total=none'").await;
    assert_eq!(list["items"][0]["name"], json!("prod-1"));
    let id = made["id"].as_str().unwrap();
    let patched = cli.json(&format!("api PATCH /clusters/{id} -d '{{\"spec\": {{\"m\": 2}}}}'")).await;
    assert_eq!(patched["spec"], json!({"n": 1, "m": 2}));
    assert_eq!(cli.json("api GET /api/hyperfleet/metadata").await["service"], json!("hyperfleet-api"));
    let headers = cli.run(&format!("api GET /clusters/{id} -i")).await;
    assert!(
        headers.stderr.starts_with("HTTP 200") && headers.stderr.contains("etag: \""),
        "{}",
        headers.stderr
    );
    for (line, code) in [
        ("api GET /clusters/absent", 3),
        ("api POST /clusters -d @body.json", 4),
        ("api POST /clusters -d '{'", 1),
        ("api 'G E T' /clusters", 2),
        ("api GET '/a b'", 2),
    ] {
        let ended = cli.run(line).await;
        assert_eq!(ended.code, Some(code), "{line}: {ended:?}");
    }
    let input = r#"{"kind": "Cluster", "name": "prod-2", "spec": {}}"#;
    assert_eq!(cli.run_with("api POST /clusters -d @-", input).await.code, Some(0));
}

any_store!(
    config = CATALOG;
    report_sends_the_report_of_an_adapter,
    api_sends_any_request_and_prints_the_answer,
);
