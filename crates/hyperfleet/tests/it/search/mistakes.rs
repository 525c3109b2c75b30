//! Errors of a malformed search: what was expected, where, and beside which other faults.

use insta::assert_snapshot;

use super::*;

async fn a_search_error_has_a_position_and_a_caret(app: &App) {
    let searches = [
        "nmae = 'a'",
        "label.team = 'core'",
        "status.condition.Ready = 'True'",
        "status.conditions.Ready.reson = 'x'",
        "zzzzzzzzz = 1",
        "spec = 1",
        "name",
        "name =",
        "name = 'a",
        "name='a') or (name='b'",
        "name in []",
        "name in ['a',]",
        "name ~= '^a'",
        "name ~! '^a'",
        "generation = '5'",
        "created_time > 'yesterday'",
        "labels['a b'] = 'c'",
        "tenancy.org = 'a'",
        "name = 'a' & name = 'b'",
        "näme = 'ä' and\n\tgrößer > 1",
    ];
    let mut told = Vec::new();
    for search in searches {
        told.push(mistake(app, "/clusters", search).await.detail);
    }
    assert_snapshot!(told.join("\n"), @r#"
    search at position 1: `nmae` is not a field: did you mean name?
      nmae = 'a'
      ^
    search at position 1: `label` is not a field: did you mean labels?
      label.team = 'core'
      ^
    search at position 8: `condition` is not a part of status: did you mean conditions?
      status.condition.Ready = 'True'
             ^
    search at position 25: `reson` is not a part of a condition: did you mean reason?
      status.conditions.Ready.reson = 'x'
                              ^
    search at position 1: `zzzzzzzzz` is not a field; known are id, name, kind, href, created_by, updated_by, deleted_by, owner_id, owner_kind, generation, created_time, updated_time, deleted_time, labels, spec, status
      zzzzzzzzz = 1
      ^
    search at position 5: expected more of the field, as in spec.region
      spec = 1
          ^
    search at position 5: expected an operator such as =, <, in, like, between or is, not the end of the query
      name
          ^
    search at position 7: expected a value such as 'text', 5 or true, not the end of the query
      name =
            ^
    search at position 8: expected a closing ' for the text that starts here
      name = 'a
             ^
    search at position 9: expected a `(` somewhere before this `)`, not `)`
      name='a') or (name='b'
              ^
    search at position 10: expected a value such as 'text', 5 or true, not `]`
      name in []
               ^
    search at position 14: expected a value such as 'text', 5 or true, not `]`
      name in ['a',]
                   ^
    search at position 6: expected another operator: there are no regular expressions, use `like` with % and _
      name ~= '^a'
           ^
    search at position 6: expected another operator: there are no regular expressions, use `like` with % and _
      name ~! '^a'
           ^
    search at position 14: expected a number without quotes: generation is an integer
      generation = '5'
                   ^
    search at position 16: expected a time such as '2026-01-31T12:00:00Z' or a date such as '2026-01-31': created_time is a time
      created_time > 'yesterday'
                     ^
    search at position 8: labels['a b']: the key's name must start and end with a letter or digit and hold only letters, digits, '.', '_' and '-'
      labels['a b'] = 'c'
             ^
    search at position 1: `tenancy` is not a field; known are id, name, kind, href, created_by, updated_by, deleted_by, owner_id, owner_kind, generation, created_time, updated_time, deleted_time, labels, spec, status
      tenancy.org = 'a'
      ^
    search at position 12: expected `and`
      name = 'a' & name = 'b'
                 ^
    search at position 1: `näme` is not a field: did you mean name?
      näme = 'ä' and  größer > 1
      ^
    "#);
    let answer = app.get(&searched("/clusters", "name = 'a' and nmae = 'b'")).await;
    assert_snapshot!(transcript(&answer), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Invalid Query Parameter",
      "status": 400,
      "detail": "search at position 16: `nmae` is not a field: did you mean name?\n  name = 'a' and nmae = 'b'\n                 ^",
      "instance": "/api/hyperfleet/v1/clusters",
      "code": "HYPERFLEET-VAL-004",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "search",
          "message": "search at position 16: `nmae` is not a field: did you mean name?",
          "value": "name = 'a' and nmae = 'b'",
          "constraint": "unknown",
          "allowed_values": [
            "id",
            "name",
            "kind",
            "href",
            "created_by",
            "updated_by",
            "deleted_by",
            "owner_id",
            "owner_kind",
            "generation",
            "created_time",
            "updated_time",
            "deleted_time",
            "labels",
            "spec",
            "status"
          ]
        }
      ]
    }
    "#);
}

async fn a_long_query_is_cut_around_the_place(app: &App) {
    let long = format!("name = '{}' or naem = 'x' or name = '{}'", "ä".repeat(300), "ö".repeat(300));
    let mistake = mistake(app, "/clusters", &long).await;
    assert_eq!(mistake.position, 314);
    assert!(mistake.detail.chars().count() < 300 && mistake.detail.contains("naem"), "{}", mistake.detail);
    // An echo is cut and holds no control characters.
    let noise = format!("{}\u{1b}[2J\u{7} = 1", "x".repeat(2000));
    let mistake = super::mistake(app, "/clusters", &noise).await;
    assert!(mistake.detail.chars().count() < 1000, "{}", mistake.detail);
    assert!(!mistake.detail.chars().any(|c| c.is_control() && c != '\n'), "{:?}", mistake.detail);
    let answer = app.get(&searched("/clusters", &noise)).await.expect_status(400).json();
    let value = text(&answer["errors"][0]["value"]);
    assert!(value.chars().count() <= 257 && !value.contains(char::is_control), "{value:?}");
}

async fn every_form_has_its_mistakes(app: &App) {
    refuses(
        app,
        "/clusters",
        &[
            ("name 'a'", 6, "operator"),
            ("name not = 'a'", 10, ""),
            ("name not null", 10, ""),
            ("name is 'a'", 9, "null"),
            ("name is not 'a'", 13, "null"),
            ("name isnull", 6, ""),
            ("generation between 1 or 2", 22, "and"),
            ("generation between 1", 21, "and"),
            ("generation between 1, 2", 21, "and"),
            ("generation between 1 and", 25, ""),
            ("name in 'a'", 9, "list"),
            ("name in a", 9, "list"),
            ("name in ()", 10, ""),
            ("name in ['a' 'b']", 14, ","),
            ("name in ['a')", 13, "]"),
            ("name in ('a']", 13, ")"),
            ("name in ('a'", 13, ")"),
            ("name in [['a']]", 10, ""),
            ("name not in []", 14, ""),
            ("name in [,'a']", 10, ""),
            ("(name = 'a'", 12, ")"),
            ("()", 2, ""),
            ("not", 4, ""),
            ("not ()", 6, ""),
            ("and name = 'a'", 1, ""),
            ("name = 'a' and", 15, ""),
            ("name = 'a' or or name = 'b'", 15, ""),
            ("name = 'a' name = 'b'", 12, "and"),
            ("name = 'a', name = 'b'", 11, ""),
            ("name = \"a'", 8, "\""),
            (r"name = 'a\'", 8, "'"),
            ("name = 'a''", 8, "'"),
            ("name = ‘a’", 8, "quote"),
            ("name === 'a'", 8, ""),
            ("name => 'a'", 7, ""),
            ("name =! 'a'", 7, ""),
            ("!name = 'a'", 1, "not"),
            ("name = 'a' && kind = 'b'", 12, "and"),
            ("name = 'a' || kind = 'b'", 12, "or"),
            ("name = 'a'; drop table resources", 11, ""),
            ("name = 'a' -- comment", 12, ""),
            ("name = 'a' /* comment */", 12, ""),
            ("name = 'a' union select 1", 12, ""),
            ("lower(name) = 'a'", 1, "lower"),
            ("name regexp 'a'", 6, ""),
            ("name ~ 'a'", 6, ""),
            ("name !~ 'a'", 6, ""),
            ("name.first = 'a'", 6, ""),
            ("name['a'] = 'a'", 6, ""),
            ("spec..a = 1", 6, ""),
            ("spec.a. = 1", 8, ""),
            (".name = 'a'", 1, ""),
            ("spec[] = 1", 6, ""),
            ("spec[a] = 1", 6, ""),
            ("spec[-1] = 1", 6, ""),
            ("spec['a' = 1", 9, "]"),
            ("status = 'a'", 7, ""),
            ("status.conditions = 'a'", 18, ""),
            ("status.conditions.A.reason.x = 'a'", 28, ""),
            ("status.conditions.A.created_time = 'x'", 21, ""),
            ("status.conditions.A.type = 'x'", 21, ""),
            ("references.a = 'x'", 1, ""),
            ("owner_references.id = 'x'", 1, ""),
            ("version = 1", 1, ""),
            ("* = 'a'", 1, ""),
            ("?", 1, ""),
            ("name = ?", 8, ""),
            ("name = $1", 8, ""),
            ("name = :name", 8, ""),
        ],
    )
    .await;
}

async fn the_nearest_field_is_offered(app: &App) {
    for (search, offered) in [
        ("nam = 'a'", "name"),
        ("Name = 'a'", "name"),
        ("generaton = 1", "generation"),
        ("created_at > '2026-01-01'", "created_"),
        ("createdtime > '2026-01-01'", "created_time"),
        ("delete_time is null", "deleted_time"),
        ("ownerid = 'x'", "owner_id"),
        ("lables.a = 'x'", "labels"),
        ("specs.a = 1", "spec"),
        ("stats.conditions.A = 'x'", "status"),
        ("status.conditons.A = 'x'", "conditions"),
        ("status.conditions.A.mesage = 'x'", "message"),
        ("status.conditions.A.last_update_time > '2026-01-01'", "last_updated_time"),
        ("status.conditions.A.observedGeneration = 1", "observed_generation"),
    ] {
        let mistake = mistake(app, "/clusters", search).await;
        let (_, hint) = mistake.said.split_once("did you mean ").unwrap_or_default();
        assert!(hint.starts_with(offered), "{search}: {}", mistake.said);
    }
}

async fn a_nul_character_is_refused_everywhere(app: &App) {
    for (search, position) in [
        ("name = 'a\0b'", 10),
        ("\0", 1),
        ("name\0 = 'a'", 5),
        ("spec['\0'] = 1", 7),
        ("name = 'alpha'\0", 15),
        ("name like '\0%'", 12),
        ("name in ['a', '\0']", 16),
    ] {
        for list in ["/clusters", "/resources"] {
            assert_eq!(mistake(app, list, search).await.position, position, "{search:?}");
        }
    }
}

async fn a_search_error_is_reported_beside_other_faults(app: &App) {
    let query = format!(
        "page=0&pageSize=501&orderBy=nmae&fields=nmae&showDeleted=yes&total=some&ref_type=wif&kind=Nope\
         &pageToken=nonsense&colour=red&search={}",
        encoded("nmae = 'a'")
    );
    let answer = app.get(&format!("/resources?{query}")).await.expect_status(400);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-000");
    let mut fields: Vec<_> = answer.json()["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fault| text(&fault["field"]).to_owned())
        .collect();
    fields.sort();
    let mut expected = [
        "page",
        "pageSize",
        "orderBy",
        "fields",
        "showDeleted",
        "total",
        "ref_target_id",
        "kind",
        "pageToken",
        "colour",
        "search",
    ];
    expected.sort_unstable();
    assert_eq!(fields, expected);
    let told = faults(&answer);
    assert!(
        told.contains("search: search at position 1: `nmae` is not a field: did you mean name?"),
        "{told}"
    );
    let two =
        app.get(&format!("/clusters?pageSize=501&search={}", encoded("name =="))).await.expect_status(400);
    assert_eq!(two.problem_code(), "HYPERFLEET-VAL-000");
    assert_eq!(two.json()["errors"].as_array().unwrap().len(), 2, "{two}");
}

async fn a_repeated_search_parameter_is_refused(app: &App) {
    app.create_cluster("alone").await;
    let good = encoded("name = 'alone'");
    for query in [
        format!("search={good}&search={good}"),
        format!("search={good}&search={}", encoded("name = 'x'")),
        format!("search={good}&%73earch={good}"),
    ] {
        let answer = app.get(&format!("/clusters?{query}")).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004", "{query}");
        assert_eq!(answer.json()["errors"][0]["field"], "search", "{query}");
    }
    let mixed = app.get(&format!("/clusters?search={good}&search=nmae")).await.expect_status(400);
    for fault in mixed.json()["errors"].as_array().unwrap() {
        assert_eq!(fault["field"], "search", "{mixed}");
    }
    // The name of a parameter has its case.
    let other = app.get(&format!("/clusters?Search={good}")).await.expect_status(400);
    assert!(faults(&other).contains("did you mean search?"), "{other}");
}

async fn only_lists_of_resources_take_a_search(app: &App) {
    let cluster = app.create_cluster("alone").await;
    for path in [
        format!("{}/statuses", href(&cluster)),
        href(&cluster).to_owned(),
        format!("/resources/{}", id(&cluster)),
    ] {
        for search in ["name = 'alone'", "adapter = 'validator'", "nmae"] {
            let answer = app.get(&searched(&path, search)).await.expect_status(400);
            assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004", "{path}");
            assert_eq!(answer.json()["errors"][0]["field"], "search", "{path}");
        }
    }
    for list in ["/clusters", "/nodepools", "/resources", &format!("{}/nodepools", href(&cluster))] {
        assert_eq!(mistake(app, list, "name = 'a' nmae").await.position, 12);
        let search = encoded("name = 'x'");
        app.head(&format!("{list}?search={search}")).await.expect_status(200);
        app.get(&format!("{list}/?search={search}")).await.expect_status(200);
        app.head(&format!("{list}?search=nmae")).await.expect_status(400);
    }
    let write = app.post(&searched("/clusters", "name = 'x'"));
    write.json(&json!({"kind": "Cluster", "name": "never", "spec": {}})).await.expect_status(400);
}

both_stores!(a_search_error_has_a_position_and_a_caret, a_nul_character_is_refused_everywhere,);
any_store!(
    a_long_query_is_cut_around_the_place,
    every_form_has_its_mistakes,
    the_nearest_field_is_offered,
    a_search_error_is_reported_beside_other_faults,
    a_repeated_search_parameter_is_refused,
    only_lists_of_resources_take_a_search,
);
