//! The members that every resource has, and those of children and finalizing resources: texts, a number, times.

use super::*;

const ALL: &str = "alpha beta delta gamma";

async fn ids_and_hrefs_are_compared_as_texts(app: &App) {
    let Fleet { alpha, beta, gamma, .. } = Fleet::built(app).await;
    let (own, other) = (id(&alpha), id(&beta));
    finds(
        app,
        "/clusters",
        &[
            (&format!("id = '{own}'"), "alpha"),
            (&format!("id in ['{own}', '{other}', 'absent', '']"), "alpha beta"),
            (&format!("id not in ['{own}', 'absent']"), "beta delta gamma"),
            (&format!("id != '{own}'"), "beta delta gamma"),
            (&format!("id <= '{other}'"), "alpha beta"),
            (&format!("id between '{own}' and '{other}x'"), "alpha beta"),
            (
                &format!("id like '{}%'", &own[..30]),
                if own[..30] == other[..30] { "alpha beta" } else { "alpha" },
            ),
            (&format!("id like '%{}'", &own[20..]), "alpha"),
            (&format!("id ilike '{}'", own.to_uppercase()), "alpha"),
            // Another way to write a UUID is another text.
            (&format!("id = '{}'", own.to_uppercase()), ""),
            (&format!("id = '{}'", own.replace('-', "")), ""),
            (&format!("id = '{{{own}}}'"), ""),
            (&format!("id = 'urn:uuid:{own}'"), ""),
            (&format!("id = ' {own}'"), ""),
            (&format!("id != '{}'", own.to_uppercase()), ALL),
            ("id = 'absent'", ""),
            ("id != 'absent'", ALL),
            ("id < 'absent'", ALL),
            ("id > 'absent'", ""),
            ("id >= ''", ALL),
            ("id not like '%x%'", ALL),
            ("id between '0' and 'g'", ALL),
            (&format!("href = '{}'", href(&gamma)), "gamma"),
            (&format!("href in ['{}', '{}']", href(&gamma), href(&alpha)), "alpha gamma"),
            (&format!("href like '%/clusters/{own}'"), "alpha"),
            ("href like '/api/hyperfleet/v1/clusters/%'", ALL),
            ("href ilike '/API/%'", ALL),
            ("href not like '/api/hyperfleet/v1/clusters/%'", ""),
            ("href > '/api/hyperfleet/v1/clusters/'", ALL),
            ("href < '/api/hyperfleet/v1/clusters/'", ""),
            (&format!("href = '{}/'", href(&gamma)), ""),
            ("kind = 'Cluster'", ALL),
            ("kind != 'Cluster'", ""),
            ("kind like 'C%'", ALL),
            ("kind ilike 'cluster'", ALL),
            ("kind = 'cluster'", ""),
            ("kind not in ['NodePool']", ALL),
            ("created_by = 'system@hyperfleet.local'", ALL),
            ("updated_by like 'system@%'", ALL),
            ("created_by != 'system@hyperfleet.local'", ""),
            ("updated_by < 'a'", ""),
        ],
    )
    .await;
}

async fn children_are_found_by_their_owners(app: &App) {
    let Fleet { alpha, beta, .. } = Fleet::built(app).await;
    finds(
        app,
        "/nodepools",
        &[
            (&format!("owner_id = '{}'", id(&alpha)), "pool-1 pool-2"),
            (&format!("owner_id != '{}'", id(&alpha)), "pool-3"),
            (&format!("owner_id in ['{}', '{}', 'absent']", id(&alpha), id(&beta)), "pool-1 pool-2 pool-3"),
            (&format!("owner_id not in ['{}', 'absent']", id(&alpha)), "pool-3"),
            (&format!("owner_id = '{}'", id(&alpha).to_uppercase()), ""),
            (&format!("owner_id ilike '{}'", id(&alpha).to_uppercase()), "pool-1 pool-2"),
            (&format!("owner_id > '{}'", id(&alpha)), "pool-3"),
            (&format!("owner_id between '{}' and '{}'", id(&alpha), id(&alpha)), "pool-1 pool-2"),
            (&format!("owner_id = '{}' and name = 'pool-2'", id(&alpha)), "pool-2"),
            ("owner_id = 'absent'", ""),
            ("owner_id != 'absent'", "pool-1 pool-2 pool-3"),
            ("owner_id is null", ""),
            ("owner_id like '%-%'", "pool-1 pool-2 pool-3"),
            ("owner_kind = 'Cluster'", "pool-1 pool-2 pool-3"),
            ("owner_kind = 'Zone'", ""),
            ("owner_kind like '%u%'", "pool-1 pool-2 pool-3"),
        ],
    )
    .await;
    finds(
        app,
        "/resources",
        &[
            ("owner_kind = 'Zone'", "rack"),
            ("owner_kind != 'Zone'", "pool-1 pool-2 pool-3"),
            ("owner_kind is null and kind != 'Cluster'", "alpha"),
            (&format!("owner_id = '{}' or id = '{}'", id(&alpha), id(&alpha)), "alpha pool-1 pool-2"),
        ],
    )
    .await;
}

async fn times_are_compared_as_instants_and_a_date_is_its_midnight(app: &App) {
    let Fleet { alpha, beta, .. } = Fleet::built(app).await;
    let created = text(&alpha["created_time"]).to_owned();
    let updated = text(&app.read(&beta).await["updated_time"]).to_owned();
    let day = &created[..10];
    // The same time where the clock is two hours ahead, and with any number of zeros.
    let hour: u32 = created[11..13].parse().unwrap();
    let elsewhere = (hour < 22).then(|| format!("{}T{:02}{}+02:00", day, hour + 2, &created[13..26]));
    let padded = created.replace('Z', "000Z");
    for time in [Some(created.clone()), elsewhere, Some(padded), Some(created.replace('Z', "-00:00"))]
        .iter()
        .flatten()
    {
        finds(
            app,
            "/clusters",
            &[
                (&format!("created_time = '{time}'"), "alpha"),
                (&format!("created_time in ['{time}']"), "alpha"),
                (&format!("created_time <= '{time}'"), "alpha"),
                (&format!("created_time < '{time}'"), ""),
                (&format!("created_time > '{time}'"), "beta delta gamma"),
                (&format!("created_time >= '{time}'"), ALL),
                (&format!("created_time != '{time}'"), "beta delta gamma"),
                (&format!("created_time between '{time}' and '{time}'"), "alpha"),
            ],
        )
        .await;
    }
    finds(
        app,
        "/clusters",
        &[
            (&format!("updated_time = '{updated}'"), "beta"),
            (&format!("updated_time < '{updated}'"), "alpha delta gamma"),
            (&format!("created_time >= '{day}'"), ALL),
            (&format!("created_time >= '{day}T00:00:00Z'"), ALL),
            (&format!("created_time < '{day}'"), ""),
            ("created_time > '2026-01-01' and created_time < '9999-12-31'", ALL),
            ("created_time > '0001-01-01T00:00:00Z'", ALL),
            ("created_time < '9999-12-31T23:59:59.999999Z'", ALL),
            ("created_time = '2026-01-01'", ""),
            ("created_time < '2026-01-01T00:00:00+23:59'", ""),
        ],
    )
    .await;
    for edge in
        ["0000-01-01", "0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2024-02-29T23:59:60Z"]
    {
        for field in ["created_time", "status.conditions.Reconciled.last_updated_time"] {
            let answer = app.get(&searched("/clusters", &format!("{field} > '{edge}'"))).await;
            assert!([200, 400].contains(&answer.status), "{edge}: {answer}");
        }
    }
}

async fn deletion_fields_match_finalizing_resources(app: &App) {
    let Fleet { going, .. } = Fleet::built(app).await;
    let deleted = text(&app.read(&going).await["deleted_time"]).to_owned();
    let all = "/resources?showDeleted=true";
    finds(
        app,
        all,
        &[
            ("deleted_by is not null", "going pool-4"),
            ("deleted_by = 'system@hyperfleet.local'", "going pool-4"),
            ("deleted_by != 'x'", "going pool-4"),
            ("deleted_by is null", "alpha alpha beta delta gamma pool-1 pool-2 pool-3 rack"),
            (&format!("deleted_time = '{deleted}'"), "going pool-4"),
            (&format!("deleted_time >= '{deleted}' and kind = 'Cluster'"), "going"),
            (&format!("deleted_time > '{deleted}'"), ""),
            ("deleted_time > '2026-01-01'", "going pool-4"),
            ("deleted_time is null", "alpha alpha beta delta gamma pool-1 pool-2 pool-3 rack"),
            ("generation = 2", "beta going pool-4"),
        ],
    )
    .await;
}

both_stores!(
    config = CATALOG;
    ids_and_hrefs_are_compared_as_texts,
    children_are_found_by_their_owners,
    times_are_compared_as_instants_and_a_date_is_its_midnight,
    deletion_fields_match_finalizing_resources,
);
