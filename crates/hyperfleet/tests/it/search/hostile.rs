//! Random texts and damaged queries. Each is a filter or an error with a position, on both stores the same. A filter
//! finds the same resources on both stores, and `not` of it all others.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::*;

const GOOD: [&str; 30] = [
    "name = 'alpha' or name = 'beta' and generation > 1",
    "labels.env in ['dev', 'staging'] and not labels.tier is null",
    "labels['team.example.com/owner'] = 'core'",
    "labels.env != 'production' and labels.rank >= 'B'",
    "name like 'a%' or name not ilike '%TA'",
    "name between 'b' and 'd' or kind not in ('Cluster')",
    "created_time between '2026-01-01T00:00:00Z' and '2026-02-01T00:00:00+01:00'",
    "deleted_time is null and deleted_by is null",
    "deleted_time is not null or updated_time > '2026-01-01'",
    "spec.size = 3 or spec.size = '3' or spec.size in [10, 1e1]",
    "spec.on = true or spec.on != false",
    "spec.ratio < 0.25 and spec.ratio > -1.5e-3",
    "spec.list[2].b[0][0] = true or spec.list.0 between 1 and 1Ki",
    "spec['odd key']['it''s'] = \"quoted\"",
    "spec.net.a.b.c.d.e = `deep`",
    "status.conditions.Reconciled = 'True' and status.conditions.DnsSuccessful.reason = 'Fine'",
    "status.conditions.Reconciled='False' and status.conditions.Reconciled.last_updated_time<'2026-01-01T10:01:00Z'",
    "status.conditions.ValidatorSuccessful.observed_generation >= 2 or status.conditions.Nope is null",
    r"status.conditions.ValidatorSuccessful.message like '%100\% a\_b'",
    "status.conditions.ValidatorSuccessful.last_transition_time not between '2026-01-01' and '2026-01-01T10:00:30Z'",
    "owner_kind = 'Cluster' and owner_id != 'x'",
    "owner_id is null and href like '%/clusters/%'",
    "id > '0' and id not in ['x', 'y']",
    "generation not in [1, 2.0] or generation < 1.5",
    "not (not (name = 'alpha') and (labels.env = 'dev' or not generation = 1))",
    "kind = 'NodePool' and labels.env = 'production'",
    "created_by = 'system@hyperfleet.local' and updated_by like 'system%'",
    "labels.env = 'production' and labels.env = 'production' and name > ''",
    "spec.text ilike 'FINE' and spec.text not like 'f%'",
    "NOT labels.env IS NULL AND labels.env BETWEEN 'a' AND 'q'",
];

/// What queries are made of, and what they are attacked with.
const WORDS: [&str; 64] = [
    "name",
    "labels.env",
    "labels['a.b/c']",
    "spec.size",
    "spec.list[0]",
    "spec['",
    "status.conditions.Reconciled",
    "status.conditions.",
    "generation",
    "created_time",
    "deleted_time",
    "owner_id",
    "id",
    "href",
    "kind",
    "tenancy.org",
    "=",
    "==",
    "!=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "~=",
    "~!",
    "and",
    "or",
    "not",
    "in",
    "like",
    "ilike",
    "between",
    "is",
    "null",
    "true",
    "false",
    "(",
    ")",
    "[",
    "]",
    ",",
    ".",
    "'alpha'",
    "'production'",
    "\"",
    "'",
    "`",
    "\\",
    "''",
    "%",
    "_",
    "1",
    "-1.5e3",
    "4Gi",
    "1e999999",
    "0.",
    "'2026-01-01'",
    "'2026-01-01T00:00:00Z'",
    "\0",
    "\u{1f600}",
    "é",
    "--",
    "; drop table resources",
];

fn cases(count: u32) -> Config {
    let given = Config::default();
    let cases = u64::from(count) * u64::from(given.cases);
    Config {
        cases: u32::try_from(cases.div_ceil(256)).unwrap(),
        failure_persistence: None,
        rng_seed: match given.rng_seed {
            RngSeed::Random => RngSeed::Fixed(20_261_115),
            chosen @ RngSeed::Fixed(_) => chosen,
        },
        ..given
    }
}

/// One piece of damage: where, how long, which, and with what.
type Damage = (Index, Index, u8, Index);

fn damaged(query: &str, damages: &[Damage]) -> String {
    let mut query: Vec<char> = query.chars().collect();
    for (at, length, way, word) in damages {
        let at = at.index(query.len() + 1);
        let length = length.index(6).min(query.len() - at);
        let word = WORDS[word.index(WORDS.len())];
        match way {
            0 => drop(query.drain(at..at + length)),
            1 => drop(query.splice(at..at, word.chars())),
            2 => drop(query.splice(at..at + length, word.chars())),
            3 => drop(query.splice(at..at, query[at..at + length].to_vec())),
            4 => query[at..at + length].reverse(),
            _ => drop(query.splice(at..at, format!(" {word} ").chars())),
        }
    }
    query.into_iter().collect()
}

fn query() -> impl Strategy<Value = String> {
    let good = || prop::sample::select(&GOOD[..]).prop_map(str::to_owned);
    let word = prop::sample::select(&WORDS[..]);
    let damages = prop::collection::vec((any::<Index>(), any::<Index>(), 0..6_u8, any::<Index>()), 1..4);
    prop_oneof![
        1 => any::<String>(),
        1 => prop::collection::vec(word, 1..12).prop_map(|words| words.join(" ")),
        2 => (good(), good(), any::<bool>(), any::<bool>()).prop_map(|(one, other, and, not)| {
            format!("({one}) {} {}({other})", if and { "and" } else { "or" }, if not { "not " } else { "" })
        }),
        4 => (good(), damages).prop_map(|(query, damages)| damaged(&query, &damages)),
    ]
}

/// What a list answers to a search: kind and name of what it finds, or the mistake.
async fn answered(app: &App, search: &str) -> Result<BTreeSet<String>, String> {
    let path =
        format!("/resources?showDeleted=true&pageSize=500&fields=kind,name&search={}", encoded(search));
    let answer = app.get(&path).await;
    assert!([200, 400].contains(&answer.status), "{search:?}: {answer}");
    if answer.status == 400 {
        return Err(mistake(app, "/resources", search).await.detail);
    }
    let list = answer.json();
    let items = list["items"].as_array().unwrap();
    assert_eq!(list["total"], items.len(), "{search:?}");
    Ok(items.iter().map(|item| format!("{} {}", text(&item["kind"]), text(&item["name"]))).collect())
}

#[test]
fn both_stores_answer_random_searches_alike() {
    run(async {
        let stores = [App::sqlite(CATALOG).await, App::postgres(CATALOG).await];
        for app in &stores {
            Fleet::built(app).await;
        }
        let all = answered(&stores[0], "").await.unwrap();
        assert_eq!(all.len(), 11);
        for query in GOOD {
            assert!(answered(&stores[0], query).await.is_ok(), "{query}");
        }
        let config = cases(400);
        let count = config.cases;
        let mut runner = TestRunner::new(config);
        let mut filters = 0;
        for _ in 0..count {
            let query = query().new_tree(&mut runner).unwrap().current();
            let [one, other] = [answered(&stores[0], &query).await, answered(&stores[1], &query).await];
            assert_eq!(one, other, "{query:?}");
            let Ok(found) = one else { continue };
            if query.trim().is_empty() {
                continue;
            }
            filters += 1;
            for app in &stores {
                let rest = answered(app, &format!("not ({query})")).await;
                assert_eq!(rest.as_ref(), Ok(&all.difference(&found).cloned().collect()), "{query:?}");
            }
        }
        assert!(filters > count / 4, "only {filters} of {count} were filters");
        for app in &stores {
            for line in app.server.logs() {
                let failed = line["level"] == "error" && line["request_context"]["path"] != "/readyz";
                assert!(!failed && !line.to_string().contains("panicked"), "{line}");
            }
        }
    });
}

async fn malformed_search_encodings_are_harmless(app: &App) {
    app.create_cluster("alone").await;
    for raw in [
        "%ff",
        "name%3D'%ff'",
        "name%3D'%c0%80'",
        "name%3D'%ed%a0%80'",
        "%",
        "%zz",
        "name='alone'%",
        "name='%2",
        "%00",
        "+",
    ] {
        for list in ["clusters", "resources"] {
            let answer = app.api().get(&format!("{BASE}/{list}?search={raw}")).await;
            assert!([200, 400].contains(&answer.status), "{raw}: {answer}");
        }
    }
    assert_eq!(app.names("/clusters?search=name%3D'alone'").await, ["alone"]);
}

both_stores!(malformed_search_encodings_are_harmless);
