//! `fields` beside a search: matched members need not be shown, and shown members need not be matched.

use super::*;

async fn a_search_matches_fields_outside_the_projection(app: &App) {
    Fleet::built(app).await;
    for (fields, members) in [
        ("name", vec!["id", "name"]),
        ("id", vec!["id"]),
        ("spec.size", vec!["id", "spec"]),
        ("labels.rank,name", vec!["id", "labels", "name"]),
        ("status.conditions.type", vec!["id", "status"]),
    ] {
        for search in [
            "name = 'alpha'",
            "labels.env = 'production'",
            "spec.net.cidr = '10.0.0.0/8'",
            "status.conditions.Reconciled.reason = 'ReconciledAll'",
            "generation = 1 and status.conditions.DnsSuccessful.message like 'all%'",
        ] {
            let list = app.get(&format!("{}&fields={fields}", searched("/clusters", search))).await;
            let list = list.expect_status(200).json();
            assert_eq!((&list["total"], &list["size"]), (&json!(1), &json!(1)), "{fields}: {search}");
            let mut shown: Vec<_> = list["items"][0].as_object().unwrap().keys().cloned().collect();
            shown.sort();
            assert_eq!(shown, members, "{fields}: {search}");
        }
    }
    let whole = app.get(&searched("/clusters", "name = 'alpha'")).await.expect_status(200).json();
    let part =
        app.get(&format!("{}&fields=status,spec.list,name", searched("/clusters", "name = 'alpha'"))).await;
    let part = part.expect_status(200).json();
    for path in ["/items/0/status", "/items/0/spec/list", "/items/0/name", "/items/0/id"] {
        assert_eq!(part.pointer(path), whole.pointer(path), "{path}");
    }
}

async fn an_unknown_path_is_refused_even_where_nothing_is_found(app: &App) {
    let nothing = encoded("name = 'absent'");
    for (fields, hint) in
        [("nmae", "did you mean name?"), ("status.conditions.reson", "did you mean reason?")]
    {
        let answer = app.get(&format!("/clusters?search={nothing}&fields={fields}")).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004");
        assert_eq!(answer.json()["errors"][0]["field"], "fields");
        assert!(text(&answer.json()["detail"]).contains(hint), "{answer}");
    }
    let both = app.get("/clusters?search=nmae&fields=nmae").await.expect_status(400);
    assert_eq!(both.problem_code(), "HYPERFLEET-VAL-000");
    let empty =
        app.get(&format!("/clusters?search={nothing}&fields=name,spec.a")).await.expect_status(200).json();
    assert_eq!((&empty["items"], &empty["total"]), (&json!([]), &json!(0)));
}

both_stores!(
    config = CATALOG;
    a_search_matches_fields_outside_the_projection,
    an_unknown_path_is_refused_even_where_nothing_is_found,
);
