//! What expressions mean, one table for each part of the language.

use hyperfleet_expr::{Expression, Outcome, Scope};
use serde_json::json;

use crate::{evaluate, failure, text};

fn all_hold(sources: &[&str]) {
    for source in sources {
        let x = json!({
            "whole": 7, "large": 18446744073709551615_u64, "half": 0.5, "yes": true, "none": null,
            "name": "dns", "list": [1, 2, 3], "map": {"b": 2, "a": 1}, "deep": {"list": [{"name": "first"}]},
        });
        assert_eq!(evaluate(source, &x), Ok(Outcome::Bool(true)), "{source}");
    }
}

fn all_fail(sources: &[(&str, &str)]) {
    for (source, message) in sources {
        assert_eq!(
            evaluate(source, &json!({"a": 1, "s": "text", "l": [1], "o": null})),
            failure(message),
            "{source}"
        );
    }
}

#[test]
fn json_numbers_are_int_uint_or_double() {
    all_hold(&[
        "type(x.whole) == int",
        "type(x.large) == uint",
        "type(x.half) == double",
        "x.large == 18446744073709551615u",
        "x.whole + 1 == 8",
    ]);
    let huge = serde_json::from_str("[1e400, -1e400, 1.0, 36893488147419103232]").unwrap();
    for source in [
        "x[0] > 1.7e308 && x[1] < -1.7e308",
        "type(x[2]) == double && x[2] == 1",
        "x[3] == 36893488147419103232.0",
    ] {
        assert_eq!(evaluate(source, &huge), Ok(Outcome::Bool(true)), "{source}");
    }
}

#[test]
fn operators_calculate_and_compare() {
    all_hold(&[
        "1 + 2 * 3 - 4 / 2 == 5 && 7 % 3 == 1 && -x.whole == -7",
        "1u + 2u == 3u && 7u / 2u == 3u && 7u % 2u == 1u && 3u - 1u == 2u && 2u * 2u == 4u",
        "0.5 + 0.25 == 0.75 && 1.0 / 4.0 == 0.25 && -0.5 * 2.0 == -1.0",
        "'a' + 'b' == 'ab' && [1] + [2] == [1, 2] && x.list + [4] == [1, 2, 3, 4]",
        "1 == 1.0 && 1u == 1 && 1 != 2 && 1 != '1' && null == null && null != false",
        "1 < 2 && 2 <= 2.0 && 3u > 2 && 'b' >= 'a' && false < true",
        "x.map == {'a': 1.0, 'b': 2u} && x.list == [1, 2.0, 3u] && x.list != [1, 2] && x.map != {'a': 1}",
        "2 in x.list && !(4 in x.list) && 'a' in x.map && !('c' in x.map) && 1.0 in [1] && 1 in {1u: 'one'}",
        "(x.yes ? 1 : 2) == 1 && !false && (false || true)",
        "{1: 'a', true: 'b', 'c': 'd'}[1u] == 'a' && {1: 'a'}[1.0] == 'a' && {true: 'b'}[true] == 'b'",
        "x.list[0] == 1 && x.list[2u] == 3 && x.list[1.0] == 2 && x['map']['a'] == 1",
    ]);
}

#[test]
fn failed_calculations_do_not_repeat_the_input() {
    all_fail(&[
        ("x.a + 9223372036854775807", "a number is out of range"),
        ("-9223372036854775807 - 2", "a number is out of range"),
        ("9223372036854775807 * 2", "a number is out of range"),
        ("-9223372036854775808 / -1", "a number is out of range"),
        ("-9223372036854775808 % -1", "a number is out of range"),
        ("-(-9223372036854775808)", "a number is out of range"),
        ("1u - 2u", "a number is out of range"),
        ("1 / 0", "division by zero"),
        ("1u % 0u", "division by zero"),
        ("1.0 % 2.0", "no such operation: double % double"),
        ("x.s + 1", "no such operation: string + int"),
        ("x.l - x.s", "no such operation: list - string"),
        ("x.a < x.s", "no such operation: int < string"),
        ("-x.s", "no such operation: -string"),
        ("!x.s", "string is not a bool"),
        ("x.s ? 1 : 2", "string is not a bool"),
        ("x.a in x.s", "no such operation: int in string"),
        ("x.missing", "no such member: missing"),
        ("x.a.b", "int has no member b"),
        ("has(x.o.b)", "null_type has no member b"),
        ("x[x.s]", "no such key"),
        ("x.l[5]", "the list has 1 items; there is none at that index"),
        ("x.l[-1]", "the list has 1 items; there is none at that index"),
        ("x.l['0']", "a list is indexed by a whole number"),
        ("x.l[0.5]", "a list is indexed by a whole number"),
        ("x[x.l]", "a map is indexed by text, a whole number or a bool"),
        ("x.a[0]", "int cannot be indexed"),
        ("{x.l: 1}", "list is no key of a map"),
        ("{1.0: 1}", "double is no key of a map"),
        ("{'a': 1, 'a': 2}", "a key of a map is repeated"),
        ("{1: 1, 1u: 2}", "a key of a map is repeated"),
        ("x.a.map(y, y)", "int is neither a list nor a map"),
        ("x.l.filter(y, y)", "int is not a bool"),
        ("int(x.s)", "this string does not convert to int"),
        ("int(1e30)", "this double does not convert to int"),
        ("uint(-1)", "this int does not convert to uint"),
        ("bool('yes')", "this string does not convert to bool"),
        ("string(x.o)", "this null_type does not convert to string"),
        ("size(x.a)", "size() does not take int"),
        ("x.s.contains(x.a)", "contains() does not take string, int"),
        ("x.a.matches('a')", "matches() does not take int"),
        ("x.s.orValue(1)", "string is not optional"),
        ("optional.none().value()", "the optional is empty"),
        ("[?x.a]", "int is not optional"),
    ]);
}

#[test]
fn conversions_and_functions_on_text() {
    all_hold(&[
        "int('-7') == -7 && int(7.9) == 7 && int(-7.9) == -7 && int(7u) == 7 && int(x.whole) == 7",
        "uint('7') == 7u && uint(7.9) == 7u && uint(7) == 7u",
        "double('0.5') == 0.5 && double(1) == 1.0 && double(1u) == 1.0",
        "string(7) == '7' && string(7u) == '7' && string(0.5) == '0.5' && string(true) == 'true' && string('a') == 'a'",
        "bool('true') && bool('1') && !bool('False') && bool(true)",
        "size('héllo') == 5 && 'abc'.size() == 3 && size(x.list) == 3 && x.map.size() == 2 && size([]) == 0",
        "'cluster-a'.contains('ster') && 'cluster-a'.startsWith('clu') && 'cluster-a'.endsWith('-a')",
        "'cluster-12'.matches('^[a-z]+-[0-9]+$') && matches('abc', 'b') && !'abc'.matches('^b')",
        "'été'.matches('^\\\\w+$') && dyn(1) == 1",
        "type(x) == map && type(x.list) == list && type('') == string && type(true) == bool && type(type(1)) == type",
        "type(null) == null_type && type(optional.none()) == optional_type",
    ]);
}

#[test]
fn macros_go_over_lists_and_over_the_keys_of_maps_in_order() {
    all_hold(&[
        "x.list.all(i, i > 0) && x.list.exists(i, i == 2) && x.list.exists_one(i, i == 2)",
        "!x.list.exists_one(i, i > 1) && [].all(i, false) && ![].exists(i, true)",
        "x.list.map(i, i * 2) == [2, 4, 6] && x.list.filter(i, i != 2) == [1, 3]",
        "x.list.map(i, i > 1, i * 2) == [4, 6]",
        "x.map.map(k, k + string(x.map[k])) == ['a1', 'b2']",
        "{'b': 1, 'a': 2, 3: 0, true: 0}.map(k, k) == [true, 3, 'a', 'b']",
        "x.list.map(i, x.list.map(j, i * j)) == [[1, 2, 3], [2, 4, 6], [3, 6, 9]]",
        "x.list.map(x, x) == [1, 2, 3]",
    ]);
}

#[test]
fn a_failure_beside_a_decisive_answer_does_not_count() {
    all_hold(&[
        "x.missing || true",
        "true || x.missing",
        "!(x.missing && false)",
        "x.list.exists(i, i == 3 || x.missing)",
        "[0, 1].exists(i, 1 / i == 1)",
        "![0, 1].all(i, 1 / i == 2)",
    ]);
    all_fail(&[
        ("x.missing || false", "no such member: missing"),
        ("x.missing && true", "no such member: missing"),
        ("[0, 1].exists(i, 1 / i == 2)", "division by zero"),
        ("[0, 1].all(i, 1 / i == 1)", "division by zero"),
        ("[1, 0].exists_one(i, 1 / i == 1)", "division by zero"),
        ("[1, 0].map(i, 1 / i)", "division by zero"),
    ]);
}

#[test]
fn optionals_stand_for_what_may_be_missing() {
    all_hold(&[
        "x.?name.orValue('') == 'dns' && x.?missing.orValue('none') == 'none'",
        "x.?deep.?list[?0].?name.orValue('') == 'first'",
        "x.?deep.list[0].name.orValue('') == 'first' && x.?missing.list[0].name.orValue('gone') == 'gone'",
        "x.list[?7].orValue(0) == 0 && x[?'name'].value() == 'dns'",
        "x.?name.hasValue() && !x.?missing.hasValue() && !x.name.?member.hasValue()",
        "x.?missing.or(x.?name).orValue('') == 'dns' && x.?name.or(x.missing).hasValue()",
        "x.?name.orValue(x.missing) == 'dns'",
        "x.?whole.optMap(w, w + 1).orValue(0) == 8 && x.?missing.optMap(w, w + 1).orValue(0) == 0",
        "x.?deep.optFlatMap(d, d.?list).hasValue()",
        "has(x.name) && !has(x.missing) && has(x.?deep.list) && !has(x.?missing.list)",
        "[1, ?x.?missing, ?x.?whole] == [1, 7] && {'a': 1, ?'b': x.?missing} == {'a': 1}",
        "optional.of(1) == optional.of(1.0) && optional.none() == optional.none() && optional.of(1) != optional.none()",
        "!optional.ofNonZeroValue('').hasValue() && optional.ofNonZeroValue([1]).hasValue()",
        "x.?none.hasValue() && x.?none.orValue(1) == null",
    ]);
}

#[test]
fn dig_follows_a_path_and_is_null_where_it_leads_nowhere() {
    all_hold(&[
        "dig(x, 'deep.list.0.name') == 'first' && dig(x, 'name') == 'dns' && dig(x.list, '1') == 2",
        "dig(x, 'deep.list.1.name') == null && dig(x, 'missing.name') == null && dig(x, 'name.more') == null",
        "dig(x.list, '-1') == null && dig(x.list, 'a') == null && dig(x.list, '9') == null",
        "dig(x.list, '') == x.list && dig(x, ' deep..list. 0 .name.') == 'first'",
        "dig(1, 'a') == null && dig(null, 'a') == null && dig(x.?deep, 'list.0.name') == 'first'",
        "dig({'a': [1]}, 'a.0') == 1 && dig(x.?missing, 'a') == null",
    ]);
    all_fail(&[("dig(x, 1)", "dig() does not take map, int")]);
}

#[test]
fn to_json_prints_members_in_the_order_of_their_names() {
    let x = json!({"b": [1, 2.5, null, true], "a": {"quote\"": "line\nend", "é": "ü"}, "c": {}, "d": []});
    let printed = r#"{"a":{"quote\"":"line\nend","é":"ü"},"b":[1,2.5,null,true],"c":{},"d":[]}"#;
    assert_eq!(evaluate("toJson(x)", &x), text(printed));
    for (source, printed) in [
        ("toJson('a')", r#""a""#),
        ("toJson(18446744073709551615u)", "18446744073709551615"),
        ("toJson({2: 'b', 'a': optional.of(1), true: optional.none()})", r#"{"true":null,"2":"b","a":1}"#),
        ("toJson([type(1), 1.0, 1.0 / 0.0])", r#"["int",1.0,null]"#),
    ] {
        assert_eq!(evaluate(source, &json!(null)), text(printed), "{source}");
    }
}

#[test]
fn the_order_in_which_a_document_is_written_changes_nothing() {
    let one = serde_json::from_str(r#"{"a": 1, "b": {"c": 2, "d": 3}}"#).unwrap();
    let other = serde_json::from_str(r#"{"b": {"d": 3, "c": 2}, "a": 1}"#).unwrap();
    for source in ["toJson(x)", "toJson(x.map(k, k))", "toJson(x.b.filter(k, true))"] {
        assert_eq!(evaluate(source, &one), evaluate(source, &other), "{source}");
    }
}

#[test]
fn an_outcome_is_a_bool_a_text_or_the_name_of_another_type() {
    for (source, outcome) in [
        ("true", Outcome::Bool(true)),
        ("'text'", Outcome::Text("text".into())),
        ("1", Outcome::Other("int")),
        ("null", Outcome::Other("null_type")),
        ("x", Outcome::Other("map")),
        ("x.?a", Outcome::Other("optional_type")),
    ] {
        assert_eq!(evaluate(source, &json!({})), Ok(outcome), "{source}");
    }
}

#[test]
fn a_variable_that_the_scope_lacks_is_a_failure() {
    let expression = Expression::compile("x == 1", &["x"]).unwrap();
    assert_eq!(expression.evaluate(&Scope::new()), failure("nothing is known as x"));
}
