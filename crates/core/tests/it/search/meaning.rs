//! The results of queries, by example.

use std::collections::BTreeMap;

use hyperfleet_core::search::Candidate;
use hyperfleet_core::{Resource, Tenant};
use serde_json::json;

use super::{catalog, cluster, parse, pool, view};

fn example() -> Resource {
    let spec = serde_json::from_str(
        r#"{"region": "eu-west-1", "count": 5, "ratio": 0.10, "big": 18446744073709551616, "huge": 1.5e400,
            "on": true, "off": false, "nothing": null, "list": [10, {"x": "y"}, null, [7]], "a b": {"c": "d"},
            "0": "member", "object": {}, "quoted": "5", "in": "keyword", "percent": "100%", "under": "a_b",
            "path": "C:\\dir", "lines": "a\nb\tc\rd", "it's": "it's", "größe": "XL", "emoji": "😀", "-1": "minus",
            "007": "bond", "empty": "", "date": "2026-01-01", "upper": "ÉCOLE"}"#,
    );
    let labels = json!({"environment": "production", "team.example.com/owner": "sre", "a..b": "dots", "blank": "", "0": "zero"});
    pool(&labels, &spec.unwrap())
}

fn finds(query: &str, resource: &Resource) -> bool {
    let catalog = catalog();
    let tenancy = BTreeMap::from([("org".to_owned(), "acme".to_owned())]);
    let filter = parse(query).unwrap_or_else(|error| panic!("{error}"));
    let resource = Resource { tenancy: Some(Tenant::new(&tenancy)), ..resource.clone() };
    filter.matches(&Candidate::new(view(&catalog), &resource)).unwrap()
}

/// Queries are separated by semicolons, which mean nothing in the language.
fn check(found: &str, missed: &str) {
    for (queries, expected) in [(found, true), (missed, false)] {
        for query in queries.split(';').filter(|query| !query.trim().is_empty()) {
            assert_eq!(finds(query, &example()), expected, "{}", query.trim());
        }
    }
}

#[test]
fn comparisons_are_by_order_and_both_spellings_of_equal_and_unequal_work() {
    check(
        r#"
            generation = 3; generation == 3; generation != 2; generation <> 2; generation < 4;
            generation <= 3; generation > 2; generation >= 3; generation=3; generation>-1
        "#,
        r#"
            generation = 2; generation == 2; generation != 3; generation <> 3; generation < 3;
            generation <= 2; generation > 3; generation >= 4
        "#,
    );
}

#[test]
fn lists_stand_in_brackets_or_parentheses() {
    check(
        r#"
            name in ['x', 'pool-1']; name in ('pool-1'); name in['pool-1']; name not in ('x', 'y');
            generation in [1, 3]; generation in (3.0); created_time in ['2026-01-01T12:00:00.000001Z'];
            spec.count in [true, 'x', 5]; spec.on in [true]; spec.count not in ['5', 6]
        "#,
        r#"
            name in ['x']; name not in ['x', 'pool-1']; generation not in [3]; spec.count in ['5'];
            spec.count not in ['x', true]; spec.absent not in [1]; labels.absent not in ['x']
        "#,
    );
}

#[test]
fn patterns_take_the_whole_text_and_ilike_does_not_look_at_the_case_of_ascii_letters() {
    check(
        r#"
            name like 'pool-%'; name like 'pool-_'; name ilike 'POOL%'; name not like 'x%';
            name not ilike 'X%'; name like '%'; spec.percent like '100\%'; spec.percent like '%\%';
            spec.under like 'a\_b'; spec.path like 'C:\dir'; spec.emoji like '_'; spec.region like '%west%';
            status.conditions.Reconciled.message ilike 'all IS%'; spec.upper ilike 'École'
        "#,
        r#"
            name like 'pool'; name like 'POOL%'; name not like 'pool%'; name not ilike 'POOL%';
            spec.percent like '\%'; spec.region like 'a\_b'; spec.count like '%'; spec.count not like 'x';
            spec.absent like '%'; spec.absent not like '%'; labels.absent not ilike 'x'
        "#,
    );
}

#[test]
fn bounds_are_included() {
    check(
        r#"
            generation between 3 and 3; generation between 1 and 5 and name = 'pool-1';
            generation not between 4 and 9; name between 'pool' and 'pool-2'; spec.ratio between 0.1 and 0.1;
            created_time between '2026-01-01' and '2026-01-02'; spec.count not between 6 and 4
        "#,
        r#"
            generation between 4 and 9; generation between 5 and 1; generation not between 1 and 5;
            spec.region between 1 and 9; spec.region not between 1 and 9; spec.absent not between 1 and 2
        "#,
    );
}

#[test]
fn null_asks_whether_the_resource_has_the_field() {
    check(
        r#"
            deleted_time is null; deleted_by is null; labels.team is null; labels.environment is not null;
            labels.blank is not null; spec.nothing is null; spec.absent is null; spec.object is not null;
            spec.list is not null; spec.off is not null; spec.empty is not null; spec.region.deeper is null;
            spec.list[2] is null; spec.list[9] is null; status.conditions.Nope is null; name is not null;
            status.conditions.Reconciled.reason is not null; owner_id is not null; tenancy.other is null
        "#,
        r#"
            deleted_time is not null; name is null; spec.nothing is not null; spec.region is null
        "#,
    );
    for query in [
        "deleted_time is not null",
        "deleted_by = 'cid@example.com'",
        "owner_id is null",
        "owner_kind is null",
    ] {
        assert!(finds(query, &cluster()), "{query}");
    }
}

#[test]
fn or_binds_less_than_and_and_that_less_than_not() {
    check(
        r#"
            name='pool-1' or name='x' and name='y'; not name='x' and name='pool-1';
            not (name='x' or name='y'); not not name='pool-1'; name='x' or name='y' or name='pool-1';
            (((name='pool-1'))); not name='pool-1' or generation=3;
            NOT name='x' AND (name LIKE 'p%' Or name Is Null)
        "#,
        r#"
            (name='pool-1' or name='x') and name='y'; not (name='x' or name='pool-1');
            not name='x' and not name='pool-1'
        "#,
    );
}

#[test]
fn a_comparison_with_a_field_that_is_not_there_is_false_and_not_of_it_is_true() {
    check(
        r#"
            not labels.team='sre'; not labels.team!='sre'; not spec.nothing=1; not spec.nothing!=1;
            not deleted_time > '2020-01-01'
        "#,
        r#"
            labels.team='sre'; labels.team!='sre'; spec.nothing=1; spec.nothing!=1; spec.absent<5;
            deleted_by != 'x'
        "#,
    );
}

#[test]
fn every_field_of_the_contract_can_be_asked() {
    check(
        r#"
            id = '0192a000-0000-7000-8000-000000000002'; name = 'pool-1'; kind = 'NodePool';
            href = '/api/hyperfleet/v1/nodepools/0192a000-0000-7000-8000-000000000002';
            created_by = 'ann@example.com'; updated_by like 'bob@%';
            owner_id = '0192a000-0000-7000-8000-000000000001'; owner_kind = 'Cluster'; generation = 3;
            created_time < '2026-01-02'; updated_time = '2026-01-02T13:00:00+01:00';
            labels.environment = 'production'; tenancy.org = 'acme'; tenancy['org'] = 'acme';
            status.conditions.Reconciled = 'True'; status.conditions.Reconciled.status = 'True';
            status.conditions['My.Type'] = 'False'; status.conditions['My.Type'].reason = 'Broken';
            status.conditions.Reconciled.reason = ''; status.conditions.Reconciled.message like 'All%';
            status.conditions.Reconciled.observed_generation < 3;
            status.conditions.Reconciled.last_updated_time < '2026-01-04T00:00:00Z';
            status.conditions.Reconciled.last_transition_time = '2026-01-02'
        "#,
        r#"
            status.conditions.Reconciled = 'Maybe'; status.conditions.Reconciled = 'true'; kind = 'nodepool';
            status.conditions.Nope != 'True'
        "#,
    );
}

#[test]
fn a_label_is_named_by_its_whole_key() {
    check(
        r#"
            labels.team.example.com/owner = 'sre'; labels['team.example.com/owner'] = 'sre';
            labels["team.example.com/owner"] = 'sre'; labels.a..b = 'dots'; labels.blank = '';
            labels[0] = 'zero'
        "#,
        r#"
            labels.team = 'sre'; labels['team.example.com'] is not null
        "#,
    );
}

#[test]
fn a_path_leads_into_the_spec_through_any_key_and_element() {
    check(
        r#"
            spec.list[0] = 10; spec.list.0 = 10; spec.list['0'] = 10; spec.list[1].x = 'y';
            spec.list.1.x = 'y'; spec.list[3][0] = 7; spec['a b'].c = 'd'; spec[`a b`]["c"] = 'd';
            spec.in = 'keyword'; spec.0 = 'member'; spec[0] = 'member'; spec['it''s'] = 'it\'s';
            spec.größe = 'XL'; spec.-1 = 'minus'; spec.007 = 'bond'
        "#,
        r#"
            spec.list.00 = 10; spec.list[4] = 1; spec.list.-1 = 7; spec.list.x = 'y';
            spec.list.99999999999999999999 = 1
        "#,
    );
}

#[test]
fn a_spec_value_of_another_type_does_not_match() {
    check(
        r#"
            spec.count = 5; spec.count = 5.0; spec.quoted = '5'; spec.on = true; spec.on != false;
            spec.off = FALSE; spec.date < '2026-01-02'; spec.count != 6; not spec.quoted = 5;
            spec.empty = ''
        "#,
        r#"
            spec.quoted = 5; spec.quoted != 5; spec.count = '5'; spec.count != '5'; spec.on = 'true';
            spec.on = 1; spec.object = ''; spec.object != ''; spec.list = 10; spec.list != 10;
            spec.count < 'z'
        "#,
    );
}

#[test]
fn numbers_are_exact_and_have_suffixes() {
    check(
        r#"
            spec.big = 18446744073709551616; spec.big > 18446744073709551615; spec.ratio = 0.1;
            spec.ratio = 1e-1; spec.ratio < 0.10000000000000000001; spec.huge = 15e399; spec.huge < 1e401;
            spec.huge > -1e999999999; spec.huge < 1e999999999999999999; spec.count < 1k; generation > 2.5;
            generation = 3.0; generation < 1e400; spec.big = 16384Pi; spec.big > 18P; spec.count > -1k;
            spec.count = 0.005k; spec.count = 005
        "#,
        r#"
            spec.big = 18446744073709551615; spec.ratio = 0.1000000000000000055; generation = 3.5;
            generation > 1e400
        "#,
    );
    for (suffixed, plain) in [
        ("1k", "1000"),
        ("1K", "1000"),
        ("2ki", "2048"),
        ("2Ki", "2048"),
        ("1.5M", "1500000"),
        ("1Mi", "1048576"),
        ("1G", "1e9"),
        ("4Gi", "4294967296"),
        ("1T", "1e12"),
        ("1Ti", "1099511627776"),
        ("-1P", "-1e15"),
        ("1Pi", "1125899906842624"),
        ("0.1Ki", "102.4"),
        ("1e3k", "1e6"),
        ("1E3", "1000"),
        ("-0.0", "0"),
    ] {
        assert_eq!(parse(&format!("spec.n = {suffixed}")), parse(&format!("spec.n = {plain}")), "{suffixed}");
    }
}

#[test]
fn texts_have_three_quotes_and_few_escapes() {
    check(
        r#"
            spec['it\'s'] = "it's"; spec["it's"] = `it's`; spec.lines = 'a\nb\tc\rd'; spec.path = 'C:\dir';
            spec.path = 'C:\\dir'
        "#,
        r#"
            spec.path = 'C:\\\dir'; spec.lines = 'a\\nb\tc\rd'
        "#,
    );
    check("spec.lines = 'a\nb\tc\rd'", "");
    for (one, other) in [
        ("'a''b'", "\"a'b\""),
        ("\"a\"\"b\"", "'a\"b'"),
        ("`a``b`", "'a`b'"),
        ("'\\\"'", "'\"'"),
        ("'\\`'", "'`'"),
        ("''''", "\"'\""),
        ("'\\x'", "'\\\\x'"),
        ("'\\0'", "'\\\\0'"),
    ] {
        assert_eq!(parse(&format!("name = {one}")), parse(&format!("name = {other}")), "{one}");
    }
}

#[test]
fn texts_are_compared_by_code_point() {
    check(
        r#"
            spec.region < 'eu-west-10'; spec.größe < 'é'; spec.upper > 'Z'; name > 'Pool-1'
        "#,
        r#"
            spec.region = 'EU-WEST-1'
        "#,
    );
    check("spec.emoji > '\u{e000}'", "spec.emoji < '\u{ffff}'");
}

#[test]
fn times_are_moments_and_a_date_is_its_midnight() {
    check(
        r#"
            created_time = '2026-01-01T12:00:00.000001Z'; created_time = '2026-01-01T11:00:00.000001-01:00';
            created_time = '2026-01-01t12:00:00.0000019z'; created_time > '2026-01-01T12:00:00Z';
            created_time > '2026-01-01'; created_time < '2026-01-02'
        "#,
        r#"
            created_time = '2026-01-01'; created_time > '2026-01-01T12:00:00.000001Z'
        "#,
    );
}

#[test]
fn a_search_that_names_deleted_time_says_so() {
    for query in ["deleted_time is null", "name='a' or not (deleted_time > '2026-01-01' and kind='x')"] {
        assert!(parse(query).unwrap().names_deleted_time(), "{query}");
    }
    for query in ["deleted_by is null", "spec.deleted_time = 1", "labels.deleted_time = 'deleted_time'"] {
        assert!(!parse(query).unwrap().names_deleted_time(), "{query}");
    }
}

#[test]
fn no_query_opens_the_parentheses_around_it() {
    assert!(parse("name='a') or (name='b'").is_err());
    assert!(parse("name='a' -- ").is_err());
    assert!(parse("name='a'; drop table resources").is_err());
    check(
        "",
        r#"
            name = 'pool-1'' or ''1''=''1'; name = 'x\' or name=\'pool-1'
        "#,
    );
}
