//! No search leads out of its list: not to another kind, to another owner's children, or to finalizing resources,
//! unless it names `deleted_time`.

use super::*;

/// Searches that a caller hopes will find everything.
const GREEDY: [&str; 12] = [
    "name is not null",
    "name = 'x' or name is not null",
    "not name = 'x'",
    "kind != 'x' or kind = 'x'",
    "kind in ['Cluster', 'NodePool', 'Zone', 'Rack', 'Network', 'Service']",
    "owner_id is null or owner_id is not null",
    "not (kind = 'Cluster' and owner_id = 'x')",
    "id like '%'",
    "href like '/api/%'",
    "generation > 0",
    "created_time > '2000-01-01'",
    "deleted_by is null or deleted_by is not null",
];

async fn parentheses_and_quotes_do_not_open_the_scope(app: &App) {
    Fleet::built(app).await;
    for list in ["/clusters", "/nodepools", "/zones", "/resources"] {
        for search in [
            "name='a') or (name='b'",
            "name='a')) or ((name='b'",
            "name='a') or (kind='NodePool",
            ") or (1=1",
            "name = 'a' or 1=1",
            "name = 'a'' or ''1''=''1",
            "name = 'a'/**/or/**/name='b'",
            "name = 'a' or true",
            "name = 'a'); delete from resources; --",
            "name = 'a' limit 5",
            "name = 'a' order by name",
        ] {
            mistake(app, list, search).await;
        }
        // What stays inside a text is a text.
        for search in ["name = 'a'') or (name=''b'", r"name = 'a\') or (name=\'b'", "name = \"' or '1'='1\""]
        {
            assert_eq!(found(app, list, search).await, "", "{search}");
        }
    }
}

async fn a_list_of_one_kind_never_shows_another(app: &App) {
    let Fleet { alpha, .. } = Fleet::built(app).await;
    for (list, names) in [
        ("/clusters", "alpha beta delta gamma"),
        ("/nodepools", "pool-1 pool-2 pool-3"),
        ("/zones", "alpha"),
        ("/networks", ""),
        ("/resources?kind=Zone", "alpha"),
        ("/resources?kind=Rack", "rack"),
        ("/resources", "alpha alpha beta delta gamma pool-1 pool-2 pool-3 rack"),
    ] {
        all_find(app, list, names, &GREEDY).await;
    }
    finds(
        app,
        "/clusters",
        &[
            ("kind = 'NodePool'", ""),
            ("not kind = 'Cluster'", ""),
            ("kind = 'NodePool' or name = 'beta'", "beta"),
            ("kind in ['Zone', 'NodePool']", ""),
            (&format!("owner_id = '{}'", id(&alpha)), ""),
            ("labels.env = 'production'", "alpha"),
            ("name = 'alpha'", "alpha"),
        ],
    )
    .await;
    finds(
        app,
        "/resources",
        &[
            ("name = 'alpha'", "alpha alpha"),
            ("labels.env = 'production'", "alpha alpha pool-1"),
            ("labels.env in ['production', 'dev']", "alpha alpha delta pool-1 pool-3"),
            ("kind = 'NodePool'", "pool-1 pool-2 pool-3"),
            ("kind in ['Zone', 'Rack']", "alpha rack"),
            ("kind in ['Zone', 'Nothing']", "alpha"),
            ("kind != 'NodePool' and not kind = 'Cluster'", "alpha rack"),
            ("kind = 'NodePool' and kind = 'Zone'", ""),
            ("kind = 'Zone' or owner_kind = 'Zone'", "alpha rack"),
        ],
    )
    .await;
    finds(
        app,
        "/resources?kind=Zone",
        &[("kind = 'Cluster' or name = 'alpha'", "alpha"), ("kind = 'Cluster'", ""), ("name = 'beta'", "")],
    )
    .await;
}

async fn a_nested_list_never_shows_the_children_of_others(app: &App) {
    let Fleet { alpha, beta, gamma, .. } = Fleet::built(app).await;
    let below = |owner: &Value| format!("{}/nodepools", href(owner));
    for (owner, names) in [(&alpha, "pool-1 pool-2"), (&beta, "pool-3"), (&gamma, "")] {
        all_find(app, &below(owner), names, &GREEDY).await;
    }
    finds(
        app,
        &below(&alpha),
        &[
            (&format!("owner_id = '{}'", id(&beta)), ""),
            (&format!("owner_id = '{}' or name like 'pool%'", id(&beta)), "pool-1 pool-2"),
            (&format!("not owner_id = '{}'", id(&alpha)), ""),
            (&format!("owner_id != '{}'", id(&beta)), "pool-1 pool-2"),
            (&format!("owner_id in ['{}', '{}']", id(&alpha), id(&beta)), "pool-1 pool-2"),
            ("name = 'pool-3'", ""),
            ("labels.env in ['production', 'dev']", "pool-1"),
            ("labels.env = 'production'", "pool-1"),
            ("status.conditions.Reconciled = 'False'", "pool-2"),
            ("kind = 'Cluster'", ""),
        ],
    )
    .await;
    let mut racks = Vec::new();
    for name in ["one", "two"] {
        let zone = app.create_named("/zones", "Zone", name).await;
        let rack = app.create_named(&format!("{}/racks", href(&zone)), "Rack", &format!("rack-{name}")).await;
        let host = app.create_named(&format!("{}/hosts", href(&rack)), "Host", &format!("host-{name}")).await;
        app.merge(&host, &json!({"labels": {"of": "both"}})).await;
        racks.push((zone, rack));
    }
    for (list, names) in [
        ("/hosts".to_owned(), "host-one host-two"),
        (format!("{}/hosts", href(&racks[0].1)), "host-one"),
        (format!("{}/racks/{}/hosts", href(&racks[1].0), id(&racks[1].1)), "host-two"),
    ] {
        all_find(app, &list, names, &["labels.of = 'both'", "name like 'host-%'", "not labels.of = 'none'"])
            .await;
    }
    let crossed = format!("{}/racks/{}/hosts", href(&racks[0].0), id(&racks[1].1));
    app.get(&searched(&crossed, "labels.of = 'both'")).await.expect_status(404);
    app.get(&searched("/clusters/absent/nodepools", "name = 'x'")).await.expect_status(404);
}

async fn finalizing_resources_are_found_when_asked_for_or_named(app: &App) {
    let Fleet { going, .. } = Fleet::built(app).await;
    let (active, all) = ("alpha beta delta gamma", "alpha beta delta gamma going");
    all_find(app, "/clusters", active, &GREEDY).await;
    all_find(app, "/clusters?showDeleted=false", active, &GREEDY).await;
    all_find(app, "/clusters?showDeleted=true", all, &GREEDY).await;
    // To name it is to ask, wherever it stands.
    for list in ["/clusters", "/clusters?showDeleted=false", "/clusters?showDeleted=true"] {
        finds(
            app,
            list,
            &[
                ("deleted_time is not null", "going"),
                ("not deleted_time is null", "going"),
                ("deleted_time is null", active),
                ("not deleted_time is not null", active),
                ("deleted_time is null or name is not null", all),
                ("name is not null or deleted_time is null", all),
                ("name is not null and not (name = 'x' and (deleted_time > '2026-01-01'))", all),
                ("deleted_time is not null and labels.env = 'production'", "going"),
                (
                    "labels.env = 'production' and (deleted_time is null or deleted_time is not null)",
                    "alpha going",
                ),
                ("deleted_time > '2026-01-01' or name = 'alpha'", "alpha going"),
                ("not deleted_time > '2026-01-01'", active),
                ("status.conditions.Reconciled = 'False' and deleted_time is not null", "going"),
                ("deleted_time is not null and deleted_time is null", ""),
                ("deleted_time in ['2026-01-01']", ""),
                ("deleted_time not in ['2026-01-01']", "going"),
                ("deleted_time not between '2026-01-01' and '2026-01-02'", "going"),
            ],
        )
        .await;
    }
    // What only looks like it is not.
    finds(
        app,
        "/clusters",
        &[
            ("labels.deleted_time is null", "alpha beta gamma"),
            ("labels.deleted_time = 'label' or name is not null", active),
            ("spec.deleted_time is null", active),
            ("spec['deleted_time'] is null", active),
            ("name != 'deleted_time'", active),
            ("status.conditions.deleted_time is null", active),
            ("deleted_by is not null", ""),
            ("labels.env = 'production'", "alpha"),
        ],
    )
    .await;
    let below = format!("{}/nodepools", href(&going));
    finds(app, &below, &[("name is not null", ""), ("deleted_time is not null", "pool-4")]).await;
    finds(
        app,
        "/resources",
        &[
            ("deleted_time is not null", "going pool-4"),
            ("deleted_time is not null and kind = 'NodePool'", "pool-4"),
        ],
    )
    .await;
}

async fn a_reference_filter_narrows_what_a_search_finds(app: &App) {
    let one = app.create_named("/networks", "Network", "one").await;
    let two = app.create_named("/networks", "Network", "two").await;
    for (name, networks, env) in
        [("first", vec![&one], "dev"), ("both", vec![&one, &two], "dev"), ("second", vec![&two], "prod")]
    {
        let entries: Vec<_> = networks.iter().map(|network| json!({"id": network["id"]})).collect();
        let body = json!({
            "kind": "Service", "name": name, "spec": {"n": name.len()}, "labels": {"env": env},
            "references": {"networks": entries},
        });
        app.create("/services", &body).await;
    }
    for list in ["/services", "/resources"] {
        let referring = |network: &Value| format!("{list}?ref_type=networks&ref_target_id={}", id(network));
        finds(
            app,
            &referring(&one),
            &[
                ("name is not null", "both first"),
                ("labels.env = 'dev'", "both first"),
                ("name = 'second'", ""),
                ("not name = 'first'", "both"),
                ("labels.env = 'prod' or name = 'both'", "both"),
                ("spec.n = 5", "first"),
                ("status.conditions.Reconciled = 'True'", "both first"),
            ],
        )
        .await;
        finds(
            app,
            &referring(&two),
            &[("labels.env = 'dev'", "both"), ("labels.env in ['dev','prod']", "both second")],
        )
        .await;
        finds(app, &format!("{list}?ref_type=networks&ref_target_id=absent"), &[("name is not null", "")])
            .await;
    }
    let cut = format!("/services?ref_type=networks&ref_target_id={}&search=nmae", id(&one));
    app.get(&cut).await.expect_status(400);
}

/// Resources of a kind that was taken out of the configuration are invisible until it is back.
async fn a_kind_removed_from_the_configuration_is_not_found(app: &mut App) {
    Fleet::built(app).await;
    app.restart_with(DEFAULT).await;
    let rest = "alpha beta delta gamma pool-1 pool-2 pool-3";
    all_find(app, "/resources", rest, &GREEDY).await;
    finds(
        app,
        "/resources",
        &[
            ("kind = 'Zone'", ""),
            ("name = 'alpha'", "alpha"),
            ("labels.env = 'production'", "alpha pool-1"),
            ("owner_kind = 'Zone'", ""),
            ("not kind in ['Cluster', 'NodePool']", ""),
        ],
    )
    .await;
    app.restart_with(CATALOG).await;
    finds(app, "/resources", &[("kind = 'Zone'", "alpha"), ("owner_kind = 'Zone'", "rack")]).await;
}

both_stores!(
    config = CATALOG;
    parentheses_and_quotes_do_not_open_the_scope,
    a_list_of_one_kind_never_shows_another,
    a_nested_list_never_shows_the_children_of_others,
    finalizing_resources_are_found_when_asked_for_or_named,
    a_reference_filter_narrows_what_a_search_finds,
);
both_stores!(config = CATALOG; a_kind_removed_from_the_configuration_is_not_found);
