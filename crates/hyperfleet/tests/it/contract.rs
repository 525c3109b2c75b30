//! What all answers of the API have in common: ids, `Vary`, compression, methods, and the refusal of unknown query
//! parameters. Problem bodies and log lines have modules of their own.

mod errors;
mod logs;
pub(crate) mod walk;

use std::io::Read as _;

use hyperfleet_testkit::Answer;
use serde_json::json;

use crate::support::*;
use walk::operations;

async fn the_service_describes_itself_to_anyone(app: &App) {
    let metadata = app.get("/api/hyperfleet/metadata").await.expect_status(200);
    assert_eq!(metadata.header("content-type"), Some("application/json"));
    let body = metadata.json();
    assert_eq!(body["service"], "hyperfleet-api");
    assert_eq!(body["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(body["api_versions"], json!(["v1"]));
    assert!(body["git_sha"].is_string() && body["build_timestamp"].is_string(), "{metadata}");
    assert_eq!(body.as_object().unwrap().len(), 5);
    for path in ["/api/hyperfleet", "/api/hyperfleet/", "/api/hyperfleet/metadata/"] {
        assert_eq!(app.get(path).await.expect_status(200).json(), body);
    }
}

async fn the_health_endpoints_tell_whether_requests_are_served(app: &App) {
    let health = app.get("/api/hyperfleet/health").await.expect_status(200);
    assert_eq!(health.json(), json!({"status": "ok"}));
    for path in ["/healthz", "/readyz"] {
        let answer = app.server.health().get(path).await.expect_status(200);
        assert_eq!(answer.json()["status"], "ok");
        assert!(answer.header("x-request-id").is_some());
    }
    for (method, path, status) in [("GET", "/other", 404), ("POST", "/readyz", 405)] {
        let answer = app.server.health().call(method.parse().unwrap(), path).await.expect_status(status);
        assert_eq!(answer.problem_code(), "HYPERFLEET-NTF-000");
    }
}

async fn a_wrong_method_is_refused_with_the_allowed_ones(app: &App) {
    for (path, documented) in walk::paths(app).await {
        let mut expected: Vec<&str> = documented.iter().map(String::as_str).collect();
        if expected.contains(&"GET") {
            expected.push("HEAD");
        }
        expected.sort_unstable();
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"] {
            if expected.contains(&method) {
                continue;
            }
            for path in [path.clone(), format!("{path}/")] {
                let answer = app.call(method, &path).await.expect_status(405);
                let mut allowed: Vec<_> = answer.header("allow").unwrap().split(',').map(str::trim).collect();
                allowed.sort_unstable();
                assert_eq!(allowed, expected, "{method} {path}");
                if method != "HEAD" {
                    assert_eq!(answer.problem_code(), "HYPERFLEET-NTF-000");
                }
            }
        }
    }
}

async fn every_operation_refuses_unknown_parameters(app: &App) {
    for (method, path) in operations(app).await {
        let needed = if path.ends_with("/leases") { "group=any&" } else { "" };
        let answer = app.call(&method, &format!("{path}?{needed}surprise=1")).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004", "{method} {path}");
        assert_eq!(answer.json()["errors"][0]["field"], "surprise");
    }
}

async fn a_misspelt_dry_run_is_refused(app: &App) {
    let cluster = app.create_cluster("kept").await;
    let body = json!({"kind": "Cluster", "name": "not-made", "spec": {}});
    for asked in [
        app.post("/clusters?dryrun=true").json(&body),
        app.post("/clusters?dry_run=true").json(&body),
        app.post("/clusters?dryRun=yes").json(&body),
        app.patch(&format!("{}?DryRun=true", href(&cluster))).json(&json!({"spec": {"a": 1}})),
        app.delete(&format!("{}?dryrun=true", href(&cluster))),
    ] {
        let answer = asked.await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004");
        assert!(text(&answer.json()["detail"]).contains("dryRun"), "{answer}");
    }
    assert_eq!(app.names("/clusters").await, ["kept"]);
    assert_eq!(app.read(&cluster).await, cluster);
}

async fn head_follows_get(app: &App) {
    let cluster = app.create_cluster("seen").await;
    for path in [
        href(&cluster),
        "/clusters",
        "/clusters/absent",
        "/clusters?page=0",
        "/nowhere",
        "/openapi",
        "/openapi.html",
        "/api/hyperfleet",
    ] {
        let (get, head) = (app.get(path).await, app.head(path).await);
        assert_eq!((head.status, head.body.len()), (get.status, 0), "{path}");
        for header in ["content-type", "etag", "vary", "cache-control"] {
            assert_eq!(head.header(header), get.header(header), "{header} of {path}");
        }
        // The id of the request makes the bodies of two problems differ, but not in length.
        assert_eq!(head.header("content-length"), Some(get.body.len().to_string().as_str()), "{path}");
    }
}

async fn one_trailing_slash_is_tolerated_and_two_are_not(app: &App) {
    let cluster = app.create_cluster("plain").await;
    assert_eq!(app.names("/clusters/").await, ["plain"]);
    assert_eq!(app.get(&format!("{}/", href(&cluster))).await.expect_status(200).json(), cluster);
    app.get(&format!("{}//", href(&cluster))).await.expect_status(404);
    app.get("/clusters//").await.expect_status(404);
    let made = app.create_named("/clusters/", "Cluster", "slashed").await;
    app.patch(&format!("{}/", href(&made))).json(&json!({"labels": {"a": "b"}})).await.expect_status(200);
    app.delete(&format!("{}/", href(&made))).await.expect_status(202);
    let gone = app.post(&format!("{}/force-delete/", href(&made))).json(&json!({"reason": "test"})).await;
    gone.expect_status(204);
}

async fn a_short_and_plain_request_id_is_returned(app: &App) {
    let longest = "x".repeat(128);
    for good in ["a", "req-1", "~!@#$%^&*()", &longest] {
        for path in ["/clusters", "/clusters/absent", "/nowhere", "/api/hyperfleet/v9/x", "/api/hyperfleet"] {
            let answer = app.get(path).header("x-request-id", good).await;
            assert_eq!(answer.header("x-request-id"), Some(good), "{path}");
        }
    }
    let long = "x".repeat(129);
    let mut seen = Vec::new();
    for bad in ["", "two words", "tab\there", "é", &long] {
        let answer = app.get("/clusters").header("x-request-id", bad).await.expect_status(200);
        let id = answer.header("x-request-id").unwrap().to_owned();
        assert!((1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic()), "{id}");
        assert!(id != bad && !seen.contains(&id), "{id}");
        seen.push(id);
    }
}

async fn a_problem_carries_the_request_id_or_else_the_trace(app: &App) {
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let of = |answer: Answer| text(&answer.json()["trace_id"]).to_owned();

    let both = app.get("/nowhere").header("x-request-id", "mine").header("traceparent", &parent).await;
    assert_eq!(of(both), "mine");
    let traced = app.get("/nowhere").header("traceparent", &parent).await;
    assert_eq!(traced.header("x-request-id").map(str::len), Some(32));
    assert_eq!(of(traced), trace);
    let odd = app.get("/nowhere").header("x-request-id", "not good").header("traceparent", &parent).await;
    assert_eq!(of(odd), trace);

    let zeros = "0".repeat(32);
    for broken in [
        "",
        "nonsense",
        "00-4bf92f35-00f067aa0ba902b7-01",
        &format!("00-{zeros}-00f067aa0ba902b7-01"),
        &format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()),
        &format!("00-{trace}"),
    ] {
        let id = of(app.get("/nowhere").header("traceparent", broken).await);
        assert!(id.len() == 32 && id != trace && id != zeros, "{broken}: {id}");
        assert!(id.bytes().all(|b| b.is_ascii_hexdigit()), "{broken}: {id}");
    }
}

async fn cross_site_writes_are_refused_where_no_token_is_required(app: &App) {
    let own = format!("http://{}", app.api().authority());
    for (header, value, status) in [
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("sec-fetch-site", "same-origin", 201),
        ("sec-fetch-site", "none", 201),
        ("origin", "https://attacker.example", 403),
        ("origin", "null", 403),
        ("origin", &own, 201),
    ] {
        let body = json!({"kind": "Cluster", "name": unique("page"), "spec": {}});
        let answer = app.post("/clusters").header(header, value).json(&body).await.expect_status(status);
        if status == 403 {
            assert_eq!(answer.problem_code(), "HYPERFLEET-AUZ-001", "{value}");
        }
        app.get("/clusters").header(header, value).await.expect_status(200);
    }
}

async fn every_answer_varies_by_credentials_and_encoding(app: &App) {
    let cluster = app.create_cluster("varied").await;
    let known = etag(&app.get(href(&cluster)).await);
    for asked in [
        app.get("/clusters"),
        app.get("/clusters").header("accept-encoding", "gzip"),
        app.get("/openapi").header("accept-encoding", "zstd"),
        app.get(href(&cluster)).header("if-none-match", &known),
        app.get("/clusters/absent"),
        app.get("/nowhere"),
        app.call("PUT", "/clusters"),
        app.get("/api/hyperfleet"),
        app.get("/openapi.html"),
        app.delete(href(&cluster)),
    ] {
        // The check against the document reads the body, which may be compressed here.
        let answer = asked.unchecked().await;
        let given: Vec<_> = answer.headers.get_all("vary").iter().map(|v| v.to_str().unwrap()).collect();
        let mut names: Vec<_> =
            given.iter().flat_map(|v| v.split(',')).map(|n| n.trim().to_ascii_lowercase()).collect();
        names.sort();
        assert_eq!(names, ["accept-encoding", "authorization"], "{answer}");
    }
}

async fn answers_are_compressed_as_the_caller_asks_and_keep_their_etag(app: &App) {
    let spec = json!({"text": "compressible ".repeat(200)});
    let cluster = app.create("/clusters", &json!({"kind": "Cluster", "name": "large", "spec": spec})).await;
    let plain = app.get(href(&cluster)).await.expect_status(200);
    assert_eq!(plain.header("content-encoding"), None);
    for (accept, encoding) in [
        ("gzip", Some("gzip")),
        ("zstd", Some("zstd")),
        ("gzip;q=0.5, zstd;q=1.0", Some("zstd")),
        ("gzip;q=1.0, zstd;q=0.5", Some("gzip")),
        ("br, gzip", Some("gzip")),
        ("br", None),
        ("identity", None),
        ("gzip;q=0", None),
        ("identity;q=0", None),
        ("br;q=1, *;q=0", None),
        ("gzip;q=0, identity;q=0", None),
        ("gzip;q=0.1234, identity;q=0", None),
        ("gzip;q=.5, identity;q=0", None),
        ("*, gzip;q=0, zstd;q=0, identity;q=0", None),
        ("", None),
    ] {
        let answer = app.get(href(&cluster)).header("accept-encoding", accept).unchecked().await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-encoding"), encoding, "{accept}");
        assert_eq!(answer.header("etag"), plain.header("etag"), "{accept}");
        assert_eq!(decoded(&answer), plain.body, "{accept}");
        assert!(encoding.is_none() || answer.body.len() < plain.body.len());
    }
    let again = app.get(href(&cluster)).header("accept-encoding", "gzip");
    let again = again.header("if-none-match", etag(&plain)).await.expect_status(304);
    assert!(again.body.is_empty() && again.header("content-encoding").is_none());

    let problem =
        app.get(&format!("/clusters?orderBy={}", "x,".repeat(50))).header("accept-encoding", "gzip");
    let problem = problem.unchecked().await.expect_status(400);
    assert_eq!(problem.header("content-encoding"), Some("gzip"));
    assert_eq!(problem.header("content-type"), Some("application/problem+json"));
    assert!(String::from_utf8(decoded(&problem)).unwrap().contains("HYPERFLEET-VAL-000"));
}

fn decoded(answer: &Answer) -> Vec<u8> {
    let body = answer.body.as_ref();
    match answer.header("content-encoding") {
        None => body.to_vec(),
        Some("zstd") => zstd::decode_all(body).unwrap(),
        Some(_) => {
            let mut text = Vec::new();
            flate2::read::GzDecoder::new(body).read_to_end(&mut text).unwrap();
            text
        }
    }
}

any_store!(
    the_service_describes_itself_to_anyone,
    the_health_endpoints_tell_whether_requests_are_served,
    a_misspelt_dry_run_is_refused,
    head_follows_get,
    one_trailing_slash_is_tolerated_and_two_are_not,
    a_short_and_plain_request_id_is_returned,
    cross_site_writes_are_refused_where_no_token_is_required,
    a_problem_carries_the_request_id_or_else_the_trace,
    every_answer_varies_by_credentials_and_encoding,
    answers_are_compressed_as_the_caller_asks_and_keep_their_etag,
);
any_store!(
    config = CATALOG;
    a_wrong_method_is_refused_with_the_allowed_ones,
    every_operation_refuses_unknown_parameters,
);
