//! `dryRun=true` on a report: the answer of the real one, and nothing stored.

use serde_json::{Value, json};

use super::*;
use crate::support::*;

both_stores!(
    a_dry_report_answers_like_a_real_one_and_stores_nothing,
    a_dry_report_makes_every_check,
    a_dry_report_removes_nothing,
    a_dry_report_is_not_counted,
);

/// All there is, the counter that every write moves, and the reports on one resource.
async fn world(app: &App, resource: &Value) -> [Value; 2] {
    let statuses = app.get(&format!("{}/statuses", href(resource))).await.expect_status(200).json();
    [app.get("/resources?showDeleted=true").await.expect_status(200).json(), statuses]
}

async fn a_dry_report_answers_like_a_real_one_and_stores_nothing(app: &App) {
    let cluster = app.create_cluster("dry").await;
    for (method, available, second) in [("PUT", "True", 1), ("POST", "False", 2), ("PUT", "False", 3)] {
        let before = world(app, &cluster).await;
        let sent = with_members(report("validator", 1, available, &at(second)), &json!({"data": {"a": 1}}));
        let path = format!("{}/statuses", href(&cluster));
        let dry = app.call(method, &format!("{path}?dryRun=true")).json(&sent).await.expect_status(201);
        assert_eq!(world(app, &cluster).await, before);
        let real = app.call(method, &format!("{path}?dryRun=false")).json(&sent).await.expect_status(201);
        assert_eq!(dry.json(), real.json());
    }
}

async fn a_dry_report_makes_every_check(app: &App) {
    let cluster = app.create_cluster("checks").await;
    app.report(&cluster, &report("validator", 1, "True", &at(5))).await.expect_status(201);
    let before = world(app, &cluster).await;
    let path = format!("{}/statuses?dryRun=true", href(&cluster));
    for (sent, status) in [
        (json!({}), 400),
        (with_members(report("validator", 1, "True", &at(6)), &json!({"conditions": []})), 400),
        (report("validator", 2, "True", &at(6)), 204),
        (report("validator", 1, "True", &at(4)), 204),
        (report("validator", 1, "Unknown", &at(6)), 204),
        (report("validator", 1, "False", &at(6)), 201),
    ] {
        app.put(&path).json(&sent).await.expect_status(status);
    }
    let sent = report("validator", 1, "True", &at(6));
    app.put("/clusters/absent/statuses?dryRun=true").json(&sent).await.expect_status(404);
    assert_eq!(world(app, &cluster).await, before);
}

async fn a_dry_report_removes_nothing(app: &App) {
    let cluster = app.create_cluster("stays").await;
    app.remove(&cluster).await;
    let before = world(app, &cluster).await;
    let path = format!("{}/statuses?dryRun=true", href(&cluster));
    app.put(&path).json(&finalized("validator", 2, &at(1))).await.expect_status(201);
    assert_eq!(world(app, &cluster).await, before);
    app.report(&cluster, &finalized("validator", 2, &at(1))).await.expect_status(201);
    app.get(href(&cluster)).await.expect_status(404);
}

async fn a_dry_report_is_not_counted(app: &App) {
    let cluster = app.create_cluster("uncounted").await;
    let path = format!("{}/statuses?dryRun=true", href(&cluster));
    app.put(&path).json(&report("validator", 1, "True", &at(1))).await.expect_status(201);
    app.put(&path).json(&report("validator", 2, "True", &at(1))).await.expect_status(204);
    for outcome in ["stored", "future_generation"] {
        let series = format!("hyperfleet_api_reports_total{{outcome=\"{outcome}\"}}");
        assert_eq!(app.metric(&series).await, Some(0.0));
    }
}
