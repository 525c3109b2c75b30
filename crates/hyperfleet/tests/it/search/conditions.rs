//! `status.conditions.<Type>` and its parts, as reports move them.

use super::*;

async fn a_condition_is_its_status_and_has_parts(app: &App) {
    Fleet::built(app).await;
    let all = "alpha beta delta gamma";
    finds(
        app,
        "/clusters",
        &[
            ("status.conditions.Reconciled = 'True'", "alpha"),
            ("status.conditions.Reconciled.status = 'True'", "alpha"),
            ("status.conditions['Reconciled'] = 'True'", "alpha"),
            ("status.conditions['Reconciled']['status'] = 'True'", "alpha"),
            ("status.conditions.Reconciled = 'False'", "beta delta gamma"),
            ("status.conditions.Reconciled != 'True'", "beta delta gamma"),
            ("status.conditions.Reconciled in ['True', 'False']", all),
            ("status.conditions.Reconciled like 'T%'", "alpha"),
            ("status.conditions.Reconciled ilike 'true'", "alpha"),
            ("status.conditions.Reconciled = 'true'", ""),
            ("status.conditions.Reconciled > 'False'", "alpha"),
            ("status.conditions.Reconciled = 'Maybe'", ""),
            ("status.conditions.Reconciled != 'Maybe'", all),
            ("not status.conditions.Reconciled = 'Maybe'", all),
            ("status.conditions.Reconciled = ''", ""),
            ("status.conditions.LastKnownReconciled = 'True'", "alpha"),
            ("status.conditions.ValidatorSuccessful = 'True'", "alpha delta"),
            ("status.conditions.ValidatorSuccessful = 'False'", "beta"),
            ("status.conditions.ValidatorSuccessful is null", "gamma"),
            ("status.conditions.DnsSuccessful = 'True' and status.conditions.Reconciled = 'False'", "beta"),
            ("status.conditions.Nothing is null", all),
            ("status.conditions.Nothing = 'True' or status.conditions.Nothing != 'True'", ""),
            ("status.conditions['no such condition'] is null", all),
            ("status.conditions.Reconciled.reason = 'ReconciledAll'", "alpha"),
            ("status.conditions.Reconciled.reason like 'Reconciled%' ", all),
            ("status.conditions.Reconciled.reason in ['ReconciledMissingAdapters']", "beta delta gamma"),
            ("status.conditions.ValidatorSuccessful.reason = 'Broken'", "beta"),
            ("status.conditions.ValidatorSuccessful.reason = ''", "alpha delta"),
            ("status.conditions.ValidatorSuccessful.reason is null", "gamma"),
            ("status.conditions.ValidatorSuccessful.reason is not null", "alpha beta delta"),
            ("status.conditions.ValidatorSuccessful.reason != 'Broken'", "alpha delta"),
            ("status.conditions.ValidatorSuccessful.message = 'it''s 100% a_b'", "beta"),
            (r"status.conditions.ValidatorSuccessful.message like '%100\% a\_b'", "beta"),
            ("status.conditions.ValidatorSuccessful.message ilike 'IT''S%'", "beta"),
            ("status.conditions.ValidatorSuccessful.message = ''", "alpha delta"),
            ("status.conditions.DnsSuccessful.message = 'all of it'", "alpha"),
            ("status.conditions.Reconciled.observed_generation = 2", "beta"),
            ("status.conditions.DnsSuccessful.observed_generation = 1", "alpha beta"),
            ("status.conditions.DnsSuccessful.observed_generation < 2", "alpha beta"),
            ("status.conditions.DnsSuccessful.observed_generation not in [1]", ""),
        ],
    )
    .await;
    finds(
        app,
        "/nodepools",
        &[
            ("status.conditions.Reconciled = 'True'", "pool-1"),
            ("status.conditions.Reconciled != 'True'", "pool-2 pool-3"),
            ("status.conditions.ValidatorSuccessful is null", "pool-2 pool-3"),
        ],
    )
    .await;
    finds(app, "/zones", &[("status.conditions.Reconciled.reason = 'NoRequiredAdapters'", "alpha")]).await;
    finds(
        app,
        "/resources",
        &[
            ("status.conditions.Reconciled = 'True'", "alpha alpha pool-1 rack"),
            ("status.conditions.ValidatorSuccessful = 'True'", "alpha delta pool-1"),
        ],
    )
    .await;
}

async fn times_of_a_condition_are_those_of_the_last_report(app: &App) {
    Fleet::built(app).await;
    let validator = |part: &str, rest: &str| format!("status.conditions.ValidatorSuccessful.{part} {rest}");
    // delta's validator said at 70 what it had said at 50: only its time moved.
    for (part, rest, names) in [
        ("last_updated_time", "= '2026-01-01T10:00:10Z'", "alpha"),
        ("last_updated_time", "= '2026-01-01T10:01:10Z'", "delta"),
        ("last_updated_time", "= '2026-01-01T12:01:10+02:00'", "delta"),
        ("last_updated_time", "< '2026-01-01T10:01:10Z'", "alpha beta"),
        ("last_updated_time", "<= '2026-01-01T10:01:10Z'", "alpha beta delta"),
        ("last_updated_time", "< '2026-01-01T10:01:10.000001Z'", "alpha beta delta"),
        ("last_updated_time", "> '2026-01-01T10:00:50Z'", "delta"),
        ("last_updated_time", ">= '2026-01-01T10:00:30Z'", "beta delta"),
        ("last_updated_time", "!= '2026-01-01T10:00:30Z'", "alpha delta"),
        ("last_updated_time", "between '2026-01-01T10:00:10Z' and '2026-01-01T10:00:30Z'", "alpha beta"),
        ("last_updated_time", "in ['2026-01-01T10:00:10Z', '2026-01-01']", "alpha"),
        ("last_updated_time", "< '2026-01-01'", ""),
        ("last_updated_time", "> '2026-01-01'", "alpha beta delta"),
        ("last_updated_time", "< '2026-01-02'", "alpha beta delta"),
        ("last_transition_time", "= '2026-01-01T10:00:50Z'", "delta"),
        ("last_transition_time", "<= '2026-01-01T10:00:30Z'", "alpha beta"),
    ] {
        finds(app, "/clusters", &[(&validator(part, rest), names)]).await;
    }
    // What the Sentinel asks all day.
    let stale = "status.conditions.Reconciled='False' and status.conditions.Reconciled.last_updated_time<'2026-01-01T10:01:00Z'";
    finds(app, "/clusters", &[(stale, "beta"), (&stale.replace("False", "True"), "alpha")]).await;
}

/// Forward by a step, over a minute, over many; not at all; and back, where a new generation was seen earlier.
async fn a_report_is_searchable_at_once(app: &App) {
    let cluster = app.create_cluster("moving").await;
    let mut generation = 1;
    for (adapter, second, status) in [
        ("validator", 100, "True"),
        ("validator", 101, "True"),
        ("validator", 161, "True"),
        ("dns", 50, "True"),
        ("dns", 1000, "True"),
        ("validator", 3000, "True"),
        ("validator", 3000, "True"),
        ("patch", 0, ""),
        ("validator", 10, "True"),
        ("dns", 12, "True"),
        ("dns", 75, "False"),
        ("validator", 70, "True"),
        ("dns", 3500, "True"),
        ("validator", 3400, "True"),
    ] {
        if adapter == "patch" {
            generation += 1;
            app.merge(&cluster, &json!({"spec": {"generation": generation}})).await;
        } else {
            let sent = report(adapter, generation, second, &json!({"status": status}));
            app.report(&cluster, &sent).await.expect_status(201);
        }
        for condition in app.read(&cluster).await["status"]["conditions"].as_array().unwrap() {
            let kind = format!("status.conditions.{}", text(&condition["type"]));
            let is = format!("{kind} = '{}'", text(&condition["status"]));
            let (field, now) = (format!("{kind}.last_updated_time"), text(&condition["last_updated_time"]));
            finds(
                app,
                "/clusters",
                &[
                    (&is, "moving"),
                    (&format!("{field} = '{now}'"), "moving"),
                    (&format!("{field} <= '{now}'"), "moving"),
                    (&format!("{field} < '{now}'"), ""),
                    (&format!("{field} > '{now}'"), ""),
                    (&format!("{is} and {field} < '{now}'"), ""),
                    (&format!("{is} and {field} <= '{now}'"), "moving"),
                    (
                        &format!(
                            "{kind}.last_transition_time = '{}'",
                            text(&condition["last_transition_time"])
                        ),
                        "moving",
                    ),
                ],
            )
            .await;
        }
    }
}

/// A clock that was never set is no reason to fail.
async fn a_report_may_be_as_old_as_a_time_can_be(app: &App) {
    for (name, time) in [
        ("year-0", "0000-01-01T00:00:00Z"),
        ("year-1", "0001-01-01T00:00:00Z"),
        ("epoch", "1970-01-01T00:00:00Z"),
    ] {
        let cluster = app.create_cluster(name).await;
        let mut sent = report("validator", 1, 1, &json!({"status": "True"}));
        sent["observed_time"] = time.into();
        app.report(&cluster, &sent).await.expect_status(201);
    }
    let field = "status.conditions.ValidatorSuccessful.last_updated_time";
    finds(
        app,
        "/clusters",
        &[
            (&format!("{field} = '0000-01-01'"), "year-0"),
            (&format!("{field} < '0001-01-01'"), "year-0"),
            (&format!("{field} > '0000-01-01'"), "epoch year-1"),
            (&format!("{field} between '0001-01-01' and '1969-12-31'"), "year-1"),
            (&format!("{field} <= '1970-01-01'"), "epoch year-0 year-1"),
            ("status.conditions.ValidatorSuccessful.last_transition_time < '1000-01-01'", "year-0 year-1"),
        ],
    )
    .await;
}

async fn a_changed_status_is_found_by_its_new_value(app: &App) {
    let cluster = app.create_cluster("turning").await;
    let (yes, no) = ("status.conditions.Reconciled='True'", "status.conditions.Reconciled='False'");
    finds(app, "/clusters", &[(yes, ""), (no, "turning")]).await;
    for (second, status) in [(1, "True"), (2, "False"), (3, "True"), (4, "True"), (5, "False")] {
        for adapter in ["validator", "dns"] {
            let available = json!({"status": status, "reason": format!("Reason{second}")});
            app.report(&cluster, &report(adapter, 1, second, &available)).await.expect_status(201);
        }
        let (up, down) = if status == "True" { ("turning", "") } else { ("", "turning") };
        let reason = format!("status.conditions.DnsSuccessful.reason='Reason{second}'");
        finds(app, "/clusters", &[(yes, up), (no, down), (&reason, "turning")]).await;
    }
    // A new generation without a report.
    app.report(&cluster, &report("validator", 1, 6, &json!({"status": "True"}))).await.expect_status(201);
    app.report(&cluster, &report("dns", 1, 6, &json!({"status": "True"}))).await.expect_status(201);
    finds(app, "/clusters", &[(yes, "turning")]).await;
    app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    finds(app, "/clusters", &[(yes, ""), (no, "turning")]).await;
}

both_stores!(
    config = CATALOG;
    a_condition_is_its_status_and_has_parts,
    times_of_a_condition_are_those_of_the_last_report,
    a_report_is_searchable_at_once,
    a_report_may_be_as_old_as_a_time_can_be,
    a_changed_status_is_found_by_its_new_value,
);
