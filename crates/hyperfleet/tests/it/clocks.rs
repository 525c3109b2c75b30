//! Processes whose clocks are wrong: nothing that is stored, expired or compared comes from the clock of a replica.

use std::sync::Arc;

use hyperfleet_core::Timestamp;
use hyperfleet_testkit::{Database, FakeClock, Launch, eventually};
use serde_json::{Value, json};

use crate::support::*;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// Longer than anything here takes.
const A_WHILE: i64 = 600;

/// The time that many seconds from now, by the clock of the machine.
fn in_seconds(seconds: i64) -> String {
    Timestamp::from_micros(Timestamp::now().micros() + seconds * 1_000_000).to_string()
}

/// Whether a time is that of the machine, that many seconds later.
#[track_caller]
fn assert_about(time: &Value, seconds: i64) {
    let between = in_seconds(seconds - A_WHILE)..in_seconds(seconds + A_WHILE);
    assert!(between.contains(&time.as_str().unwrap().to_owned()), "{time} is not in {between:?}");
}

fn with_clock(clock: &FakeClock) -> Launch {
    launch().config(CATALOG).clock(clock)
}

/// A replica with a right clock, and one with this clock, on one database.
async fn two_replicas(clock: &FakeClock) -> (App, App) {
    let database = Arc::new(database().await);
    let right = App::on_database(launch().config(CATALOG), database.clone()).await;
    (right, App::on_database(with_clock(clock), database).await)
}

/// The warning in the readiness of a server that is ready.
async fn warning(app: &App, about: &str) -> String {
    eventually("a warning", DEADLINE, async || {
        let ready = app.server.health().get("/readyz").await.expect_status(200).json();
        let reason = ready["checks"]["clock"]["reason"].as_str()?.to_owned();
        reason.contains(about).then_some(reason)
    })
    .await
}

async fn no_warning(app: &App) {
    eventually("no warning", DEADLINE, async || {
        let ready = app.server.health().get("/readyz").await.expect_status(200).json();
        (ready["checks"]["clock"] == json!({"status": "ok"})).then_some(())
    })
    .await;
}

/// The first upkeep of a server is over, whatever it did.
async fn upkeep_is_over(app: &App, operation: &str) {
    let count = format!("hyperfleet_db_query_duration_seconds_count{{operation=\"{operation}\"}}");
    eventually(operation, DEADLINE, async || app.metric(&count).await.filter(|count| *count > 0.0)).await;
}

/// Creates a cluster with an idempotency key that is its name.
async fn create_once(app: &App, name: &str) -> (Value, bool) {
    let body = json!({"kind": "Cluster", "name": name, "spec": {}});
    let answer = app.post("/clusters").header("Idempotency-Key", name).json(&body).await.expect_status(201);
    (answer.json(), answer.header("idempotency-replayed").is_some())
}

/// The timeline of a resource.
async fn timeline(app: &App, resource: &Value) -> Vec<Value> {
    let page = app.get(&format!("{}/timeline", href(resource))).await.expect_status(200).json();
    page["items"].as_array().unwrap().clone()
}

async fn rows(database: &Database, query: &str) -> i64 {
    let (client, connection) = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
    let _connection = tokio::spawn(connection);
    client.query_one(query, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_replica_ahead_of_the_database_says_so_and_deletes_nothing() {
    let clock = FakeClock::ahead_by(32 * DAY).unwrap();
    let database = Arc::new(database().await);
    let right = App::on_database(launch().config(CATALOG), database.clone()).await;
    for number in 0..10 {
        create_once(&right, &format!("kept-{number}")).await;
    }
    let app = App::on_database(with_clock(&clock), database.clone()).await;
    upkeep_is_over(&app, "pending").await;
    upkeep_is_over(&right, "prune_leases").await;
    assert_eq!(rows(&database, "select count(*) from changes").await, 10);
    assert_eq!(rows(&database, "select count(*) from idempotency_records").await, 10);
    assert_eq!(
        warning(&app, "ahead").await,
        "the clock of this process is 2764800 s ahead of the database's, so it prunes nothing"
    );
    let skew = app.metric("hyperfleet_db_clock_skew_seconds").await.unwrap();
    assert!((skew - 32.0 * 86_400.0).abs() < 60.0, "{skew}");
    let warned = |line: &&Value| line["message"] == "health check warns" && line["check"] == "clock";
    assert_eq!(app.server.logs().iter().filter(warned).count(), 1);

    for number in 0..10 {
        let (cluster, replayed) = create_once(&app, &format!("kept-{number}")).await;
        assert!(replayed, "{number}");
        assert_eq!(timeline(&app, &cluster).await.len(), 1);
    }

    // What it stores and sends has the time of the database.
    let cluster = app.create_cluster("of-the-database").await;
    assert_about(&cluster["created_time"], 0);
    assert_about(&timeline(&app, &cluster).await[0]["time"], 0);
    let answer = app.get(href(&cluster)).await;
    let date = chrono::DateTime::parse_from_rfc2822(answer.header("date").unwrap()).unwrap();
    assert_about(&Timestamp::from(date.to_utc()).to_string().into(), 0);

    clock.set_ahead(0).unwrap();
    no_warning(&app).await;
}

#[tokio::test]
async fn reports_are_judged_by_the_clock_of_the_database() {
    for (ahead, contract) in [(-HOUR, "documented"), (HOUR, "go-0.2")] {
        let clock = FakeClock::ahead_by(ahead).unwrap();
        let config = format!("{CATALOG}\ncompatibility: {{contract: {contract}}}\n");
        let database = Arc::new(database().await);
        let app = App::on_database(launch().config(config).clock(&clock), database).await;
        warning(&app, if ahead > 0 { "ahead of" } else { "behind" }).await;
        let cluster = app.create_cluster("reported-on").await;
        let kept = app.report(&cluster, &report("dns", 1, "True", &in_seconds(0))).await.expect_status(201);
        assert_about(&kept.json()["last_report_time"], 0);
        app.report(&cluster, &report("dns", 1, "True", &in_seconds(360))).await.expect_status(400);
    }
}

/// The status of `Reconciled`.
async fn reconciled(app: &App, cluster: &Value) -> String {
    let conditions = app.read(cluster).await["status"]["conditions"].clone();
    text(&conditions[0]["status"]).to_owned()
}

/// Both adapters of a cluster report that all is well, at this time or when they arrive.
async fn all_well(app: &App, cluster: &Value, time: Option<&str>) -> Value {
    let mut kept = Value::Null;
    for adapter in ["validator", "dns"] {
        let sent =
            time.map_or_else(|| report_now(adapter, 1, "True"), |time| report(adapter, 1, "True", time));
        kept = app.report(cluster, &sent).await.expect_status(201).json();
    }
    assert_eq!(reconciled(app, cluster).await, "True");
    kept
}

/// An adapter with a right clock reports a failure.
async fn failure_counts(app: &App, cluster: &Value) {
    let failure = report("dns", 1, "False", &in_seconds(0));
    app.report(cluster, &failure).await.expect_status(201);
    assert_eq!(reconciled(app, cluster).await, "False");
}

#[tokio::test]
async fn a_failure_counts_after_reports_through_a_replica_ahead_of_time() {
    let clock = FakeClock::ahead_by(HOUR).unwrap();
    let (right, ahead) = two_replicas(&clock).await;
    let cluster = right.create_cluster("cluster").await;
    assert_about(&all_well(&ahead, &cluster, None).await["last_report_time"], 0);
    failure_counts(&right, &cluster).await;
}

#[tokio::test]
async fn a_failure_counts_after_reports_to_sqlite_with_a_clock_ahead_of_time() {
    let clock = FakeClock::ahead_by(HOUR).unwrap();
    let mut app = App::launched(with_clock(&clock), None).await;
    let cluster = app.create_cluster("cluster").await;
    // Nothing but the clock tells the time here.
    assert_about(&all_well(&app, &cluster, None).await["last_report_time"], HOUR);
    clock.set_ahead(0).unwrap();
    app.restart().await;
    failure_counts(&app, &cluster).await;
    // Times of changes do not go back.
    let items = timeline(&app, &cluster).await;
    let times: Vec<&str> = items.iter().map(|entry| text(&entry["time"])).collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "newest first: {times:?}");
    assert!(text(&app.create_cluster("later").await["created_time"]) >= times[0]);
}

both_stores!(config = CATALOG; a_failure_counts_after_reports_of_an_adapter_ahead_of_time);

async fn a_failure_counts_after_reports_of_an_adapter_ahead_of_time(app: &App) {
    let cluster = app.create_cluster("cluster").await;
    let sent = in_seconds(240);
    let kept = all_well(app, &cluster, Some(&sent)).await;
    assert!(text(&kept["last_report_time"]) < &*in_seconds(0), "{kept}");
    failure_counts(app, &cluster).await;
}

#[tokio::test]
async fn a_jump_of_the_clock_changes_nothing_on_sqlite() {
    let clock = FakeClock::ahead_by(0).unwrap();
    let mut app = App::launched(with_clock(&clock), None).await;
    let (kept, _) = create_once(&app, "kept").await;
    let check = async |app: &App| {
        assert!(create_once(app, "kept").await.1, "the answer is kept");
        assert_eq!(timeline(app, &kept).await.len(), 1);
    };
    for (jump, direction) in [(32 * DAY, "ahead of"), (-HOUR, "behind")] {
        clock.set_ahead(jump).unwrap();
        warning(&app, direction).await;
        assert_about(&app.create_cluster(&unique("after")).await["created_time"], 0);
        check(&app).await;
        clock.set_ahead(0).unwrap();
        no_warning(&app).await;
    }
    // A start with such a clock takes it for right, and still deletes nothing at once, nor the next one.
    clock.set_ahead(32 * DAY).unwrap();
    app.restart().await;
    upkeep_is_over(&app, "prune_leases").await;
    check(&app).await;
    assert_about(&app.create_cluster("in-a-month").await["created_time"], 32 * DAY);
    check(&app).await;
    clock.set_ahead(0).unwrap();
    app.restart().await;
    upkeep_is_over(&app, "prune_leases").await;
    check(&app).await;
}
