//! Metrics under their public names with few labels, and log lines with the fields to search by.

use hyperfleet_testkit::{Server, eventually};
use serde_json::{Value, json};

use super::installation::Installation;
use super::program::Program;
use super::{CLUSTERS, DEADLINE, cluster, create_cluster, id};
use crate::support::{both_stores, redacted};

/// The metrics as text.
struct Scrape(String);

impl Scrape {
    async fn of(server: &Server) -> Self {
        let answer = server.metrics().get("/metrics").await.expect_status(200);
        assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"));
        Self(String::from_utf8(answer.body.to_vec()).unwrap())
    }

    /// The value of a series by its whole name.
    #[track_caller]
    #[allow(clippy::panic, reason = "a missing series fails the test")]
    fn value(&self, series: &str) -> f64 {
        let line = self.0.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{series} is missing in\n{}", self.0)).parse().unwrap()
    }
}

both_stores!(
    start = Installation::migrated;
    requests_are_counted_by_method_route_and_status,
    the_store_and_its_committer_have_metrics,
    every_request_leaves_one_line_with_the_fields_to_search_by,
);

async fn requests_are_counted_by_method_route_and_status(installation: &Installation) {
    let server = installation.serve().start().await.unwrap();
    let api = server.api();
    let made = id(&create_cluster(&api, "counted").await);
    let one = format!("{CLUSTERS}/{made}");
    for _ in 0..3 {
        api.get(&one).await.expect_status(200);
    }
    api.get(&format!("{CLUSTERS}/")).await.expect_status(200);
    api.get(&format!("{CLUSTERS}?pageSize=x")).await.expect_status(400);
    api.get(&format!("{one}/nodepools/absent")).await.expect_status(404);
    api.call("BREW".parse().unwrap(), CLUSTERS).await.expect_status(405);
    for unknown in ["/wild/path", "/api/hyperfleet/v9/x", "/api/hyperfleet/v1/nowhere/kind"] {
        api.get(unknown).await.expect_status(404);
    }

    let scrape = Scrape::of(&server).await;
    let item = format!("{CLUSTERS}/{{cluster_id}}");
    for (method, path, code, times) in [
        ("POST", CLUSTERS, 201, 1.0),
        ("GET", CLUSTERS, 200, 1.0),
        ("GET", CLUSTERS, 400, 1.0),
        ("GET", &item, 200, 3.0),
        ("GET", &format!("{item}/nodepools/{{nodepool_id}}"), 404, 1.0),
        ("OTHER", CLUSTERS, 405, 1.0),
        ("GET", "unmatched", 404, 3.0),
    ] {
        let labels = format!("method=\"{method}\",path=\"{path}\",code=\"{code}\"");
        assert_eq!(scrape.value(&format!("hyperfleet_api_requests_total{{{labels}}}")), times, "{labels}");
    }
    let duration = "hyperfleet_api_request_duration_seconds";
    assert_eq!(scrape.value(&format!("{duration}_count{{method=\"GET\",path=\"{item}\"}}")), 3.0);
    assert!(scrape.value(&format!("{duration}_sum{{method=\"GET\",path=\"{item}\"}}")) > 0.0);
    for unseen in [made.as_str(), "wild", "nowhere", "BREW", "absent"] {
        assert!(!scrape.0.contains(unseen), "callers make no labels: {unseen}\n{}", scrape.0);
    }
    let build = Program::new().run(&["version", "-o", "json"]).await.stdout;
    let build: Value = serde_json::from_str(&build).unwrap();
    let labels = format!("version={},git_sha={}", build["version"], build["git_sha"]);
    assert_eq!(scrape.value(&format!("hyperfleet_api_build_info{{{labels}}}")), 1.0);
    assert!(scrape.0.ends_with("# EOF\n"));
}

async fn the_store_and_its_committer_have_metrics(installation: &Installation) {
    let server = installation.serve().start().await.unwrap();
    let at_rest = at_rest(&server).await;
    for operation in ["commit", "get", "list", "ping"] {
        let series = format!("operation=\"{operation}\",error_type=\"unavailable\"");
        assert_eq!(at_rest.value(&format!("hyperfleet_db_errors_total{{{series}}}")), 0.0);
    }
    for idle in ["queue_length", "batch_size_count", "duration_seconds_count"] {
        assert_eq!(at_rest.value(&format!("hyperfleet_db_commit_{idle}")), 0.0, "{idle}");
    }

    let writes: Vec<_> = (0..20)
        .map(|number| {
            let api = server.api();
            tokio::spawn(async move { create_cluster(&api, &format!("many-{number}")).await })
        })
        .collect();
    let mut last = String::new();
    for write in writes {
        last = id(&write.await.unwrap());
    }
    server.api().get(&format!("{CLUSTERS}/{last}")).await.expect_status(200);
    server.api().get(CLUSTERS).await.expect_status(200);

    let scrape = Scrape::of(&server).await;
    let operation = |name: &str| {
        scrape.value(&format!("hyperfleet_db_query_duration_seconds_count{{operation=\"{name}\"}}"))
    };
    let commits = scrape.value("hyperfleet_db_commit_batch_size_count");
    assert!((1.0..=20.0).contains(&commits));
    assert_eq!(scrape.value("hyperfleet_db_commit_batch_size_sum"), 20.0, "every command in just one batch");
    assert_eq!(scrape.value("hyperfleet_db_commit_duration_seconds_count"), commits);
    assert_eq!(operation("commit"), commits);
    assert_eq!(scrape.value("hyperfleet_db_commit_queue_length"), 0.0);
    assert_eq!((operation("get"), operation("list")), (1.0, 1.0));
    assert!(scrape.value("hyperfleet_db_connections_in_use") >= 0.0);
    eventually("connections", DEADLINE, async || {
        (Scrape::of(&server).await.value("hyperfleet_db_connections_open") >= 2.0).then_some(())
    })
    .await;
}

/// The metrics once the first start has checked the conditions of both kinds, with four calls each. Before that, its
/// commands share the batches of the test.
async fn at_rest(server: &Server) -> Scrape {
    let checks = "hyperfleet_db_query_duration_seconds_count{operation=\"recompute\"} 8";
    eventually("the checks of a first start", DEADLINE, async || {
        let scrape = Scrape::of(server).await;
        scrape.0.lines().any(|line| line == checks).then_some(scrape)
    })
    .await
}

async fn every_request_leaves_one_line_with_the_fields_to_search_by(installation: &Installation) {
    let server = installation.serve().env("HYPERFLEET_SERVER_HOSTNAME", "machine-1").start().await.unwrap();
    let api = server.api();
    let traced = |call: hyperfleet_testkit::Call, id: &str| {
        call.header("x-request-id", id).header("traceparent", format!("00-{TRACE}-00f067aa0ba902b7-01"))
    };
    let made = traced(api.post(CLUSTERS).json(&cluster("logged")), "ask-1").await.expect_status(201);
    traced(api.get(&format!("{CLUSTERS}?page=0")), "ask-2").await.expect_status(400);

    let lines = async |request_id: &str| {
        // The line may come after the answer.
        eventually("the request's line", DEADLINE, async || {
            let logs = server.logs().into_iter();
            let lines: Vec<Value> = logs.filter(|line| line["request_id"] == request_id).collect();
            lines.last().is_some_and(|line| line["message"] == "request").then_some(lines)
        })
        .await
    };
    let [mut line] = <[Value; 1]>::try_from(lines("ask-1").await).unwrap();
    assert_eq!((&line["trace_id"], &line["resource_id"]), (&json!(TRACE), &made.json()["id"]));
    assert!(line["duration_ms"].take().as_f64().unwrap() > 0.0);
    insta::assert_snapshot!(redacted(&line), @r#"
    {
      "timestamp": "[time 1]",
      "level": "info",
      "message": "request",
      "component": "api",
      "version": "[version]",
      "hostname": "machine-1",
      "method": "POST",
      "route": "/api/hyperfleet/v1/clusters",
      "path": "/api/hyperfleet/v1/clusters",
      "status": 201,
      "duration_ms": null,
      "request_id": "ask-1",
      "trace_id": "[trace]",
      "resource_type": "Cluster",
      "resource_id": "[id 1]"
    }
    "#);

    let [refused, line] = <[Value; 2]>::try_from(lines("ask-2").await).unwrap();
    insta::assert_snapshot!(redacted(&refused), @r#"
    {
      "timestamp": "[time 1]",
      "level": "info",
      "message": "request refused",
      "component": "api",
      "version": "[version]",
      "hostname": "machine-1",
      "error_code": "HYPERFLEET-VAL-004",
      "error_type": "https://api.hyperfleet.io/errors/validation-error",
      "error": "page must be a whole number of at least 1, not '0'",
      "request_id": "ask-2",
      "trace_id": "[trace]",
      "request_context": {
        "method": "GET",
        "path": "/api/hyperfleet/v1/clusters",
        "field": "page"
      }
    }
    "#);
    assert_eq!((&line["status"], &line["trace_id"]), (&json!(400), &json!(TRACE)));
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[tokio::test]
async fn text_logs_are_readable_and_go_to_the_configured_output() {
    let program = Program::new();
    let running = program.start(&[
        "serve",
        "--server-jwt-enabled=false",
        "--database-url=sqlite::memory:",
        "--server-host=127.0.0.1",
        "--server-port=0",
        "--health-port=0",
        "--metrics-port=0",
        "--logging-format=text",
        "--logging-output=stderr",
    ]);
    let address = eventually("the address", DEADLINE, async || {
        let lines = running.stderr();
        let line = lines.iter().find(|line| line.contains("listening listener=api"))?;
        Some(line.split("address=").nth(1)?.split(' ').next()?.to_owned())
    })
    .await;
    create_cluster(&hyperfleet_testkit::Client::new(&address), "told").await;
    let line = eventually("the request's line", DEADLINE, async || {
        running.stderr().into_iter().find(|line| line.contains(" request "))
    })
    .await;
    let (time, rest) = line.split_once(' ').unwrap();
    assert_eq!((time.len(), time.matches(':').count()), ("12:00:00.000".len(), 2), "{line}");
    assert!(
        rest.starts_with(&format!("INFO  request method=POST route={CLUSTERS} path={CLUSTERS} status=201 ")),
        "{line}"
    );
    assert!(!line.contains('\u{1b}'), "no colours where no terminal is");
    assert_eq!(running.stdout(), [""; 0]);
}
