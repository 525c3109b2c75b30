//! Faulty queries: position and message of each fault.

use hyperfleet_core::search::{self, MAX_BYTES, MAX_LIST, MAX_NESTING, Options};
use hyperfleet_core::{Error, ErrorKind};

use super::parse;

/// The position and what is said about it.
fn mistake(query: &str) -> (usize, String) {
    let error = parse(query).expect_err(query);
    let message = &error.fault().message;
    let prefix = format!("search at position {}: ", error.position());
    let said =
        message.strip_prefix(&prefix).unwrap_or_else(|| panic!("{message} does not start with {prefix}"));
    (error.position(), said.to_owned())
}

fn check(expected: &[(&str, usize, &str)]) {
    for (query, position, said) in expected {
        assert_eq!(mistake(query), (*position, (*said).to_owned()), "{query}");
    }
}

fn check_positions(expected: &[(&str, usize)]) {
    for (query, position) in expected {
        assert_eq!(mistake(query).0, *position, "{query}: {}", mistake(query).1);
    }
}

#[test]
fn a_faulty_query_is_one_fault_of_the_parameter_with_a_caret() {
    let error = Error::from(parse("name = 'a' and\n nmae = 'b'").unwrap_err());
    assert_eq!((&error.kind, error.code()), (&ErrorKind::Invalid, "HYPERFLEET-VAL-004"));
    assert_eq!(
        error.detail,
        "search at position 17: `nmae` is not a field: did you mean name?\n  name = 'a' and  nmae = 'b'\n                  ^"
    );
    let [fault] = error.faults.as_slice() else { panic!("{error:?}") };
    assert_eq!((fault.field.as_str(), fault.constraint), ("search", Some("unknown")));
    assert_eq!(fault.message, "search at position 17: `nmae` is not a field: did you mean name?");
    assert!(fault.allowed_values.iter().any(|field| field == "created_time"));
}

#[test]
fn positions_count_characters_and_long_queries_are_cut_around_the_place() {
    assert_eq!(mistake("name = 'äöü😀' x").0, 15);
    let query = format!("name = '{}' or naem = 'x' or name = '{}'", "ä".repeat(300), "ö".repeat(300));
    let error = parse(&query).unwrap_err();
    assert_eq!(error.position(), 314);
    let shown = error.to_string();
    let [_, excerpt, caret] = shown.lines().collect::<Vec<_>>()[..] else { panic!("{shown}") };
    assert!(excerpt.starts_with("  …ä") && excerpt.ends_with("ö…"), "{excerpt}");
    let column = caret.chars().position(|c| c == '^').unwrap();
    assert!(excerpt.chars().skip(column).collect::<String>().starts_with("naem"), "{shown}");
}

#[test]
fn the_first_fault_is_reported() {
    check_positions(&[
        ("nmae = 'a' and 'b", 1),
        ("name = 'a' and 5 ~", 16),
        ("name ? nmae", 6),
        ("name and ~", 6),
        ("name = and ~", 8),
        ("name in x ~", 9),
    ]);
}

#[test]
fn an_unknown_field_gets_a_suggestion() {
    check(&[
        ("nmae = 'a'", 1, "`nmae` is not a field: did you mean name?"),
        ("Name = 'a'", 1, "`Name` is not a field: did you mean name?"),
        ("label.team = 'a'", 1, "`label` is not a field: did you mean labels?"),
        (
            "status.condition.Ready = 'True'",
            8,
            "`condition` is not a part of status: did you mean conditions?",
        ),
        (
            "status.conditions.Ready.reson = 'x'",
            25,
            "`reson` is not a part of a condition: did you mean reason?",
        ),
        (
            "status.conditions.Ready.created_time = 'x'",
            25,
            "`created_time` is not a part of a condition; known are status, reason, message, observed_generation, \
             last_updated_time, last_transition_time",
        ),
        (
            "zzzzzz = 1",
            1,
            "`zzzzzz` is not a field; known are id, name, kind, href, created_by, updated_by, deleted_by, owner_id, \
             owner_kind, generation, created_time, updated_time, deleted_time, labels, spec, status, tenancy",
        ),
    ]);
    let error = search::parse("tenancy.org = 'a'", Options { tenancy: false }).unwrap_err();
    assert_eq!(error.position(), 1);
    assert!(error.fault().message.contains("`tenancy` is not a field"), "{error}");
}

#[test]
fn a_path_must_lead_to_a_field() {
    check(&[
        ("spec = 1", 5, "expected more of the field, as in spec.region"),
        ("labels is null", 7, "expected more of the field, as in labels.environment"),
        ("tenancy['$.org'] = 'a'", 9, "expected the name of a dimension: letters, digits, '.', '_' and '-'"),
        ("tenancy = 'a'", 8, "expected more of the field, as in tenancy.organization"),
        ("status = 'a'", 7, "expected more of the field, as in status.conditions.Reconciled"),
        ("status.conditions = 'a'", 18, "expected more of the field, as in status.conditions.Reconciled"),
        ("name.first = 'a'", 6, "name has no parts"),
        ("name['a'] = 'a'", 6, "name has no parts"),
        ("status.conditions.Ready.reason.x = 'a'", 32, "reason has no parts"),
        ("spec..a = 1", 6, "expected a name behind the dot"),
        ("spec.a. = 1", 8, "expected a name behind the dot"),
        ("spec.a.['b'] = 1", 8, "expected a name behind the dot"),
        ("spec[] = 1", 6, "expected a key in quotes or the number of an element"),
        ("spec[a] = 1", 6, "expected a key in quotes or the number of an element"),
        ("spec[-1] = 1", 6, "expected a key in quotes or the number of an element"),
        ("spec['a' = 1", 9, "expected a `]` behind the key"),
        ("spec[1 = 1", 7, "expected a `]` behind the key"),
        ("labels.a['b'] = 'x'", 10, "expected the whole key in one pair of brackets"),
        ("labels['a'].b = 'x'", 8, "expected the whole key in one pair of brackets"),
    ]);
}

#[test]
fn a_key_that_no_label_can_have_is_refused() {
    let said = "labels['a b']: the key's name must start and end with a letter or digit and hold only letters, \
                digits, '.', '_' and '-'";
    check(&[("name = 'x' or labels['a b'] = 'c'", 22, said)]);
    check_positions(&[
        ("labels.a/b/c = 'x'", 8),
        ("labels.-a = 'x'", 8),
        ("labels. = 'x'", 8),
        ("labels[''] = 'x'", 8),
        ("labels.Up.Case/a = 'x'", 8),
        ("labels.a. = 'x'", 8),
        (&format!("labels.{} = 'x'", "a".repeat(64)), 8),
    ]);
}

#[test]
fn a_field_stands_left_and_a_value_right() {
    check(&[
        ("", 1, "expected a field, `not` or `(`, not the end of the query"),
        ("  ", 3, "expected a field, `not` or `(`, not the end of the query"),
        ("'a' = name", 1, "expected a field: it stands left, and the value right, not `'a'`"),
        ("5 = generation", 1, "expected a field: it stands left, and the value right, not `5`"),
        ("true", 1, "expected a field, `not` or `(`, not `true`"),
        ("name = kind", 8, "expected a value: texts are quoted, as in 'text', not `kind`"),
        ("name = null", 8, "expected a value: ask for none with `is null` or `is not null`"),
        ("name =", 7, "expected a value such as 'text', 5 or true, not the end of the query"),
        ("name = = 'a'", 8, "expected a value such as 'text', 5 or true, not `=`"),
        ("and name = 'a'", 1, "expected a field, `not` or `(`, not `and`"),
    ]);
}

#[test]
fn operators_are_complete() {
    check(&[
        ("name", 5, "expected an operator such as =, <, in, like, between or is, not the end of the query"),
        ("name 'a'", 6, "expected an operator such as =, <, in, like, between or is, not `'a'`"),
        ("name not = 'a'", 10, "expected `in`, `like`, `ilike` or `between`, not `=`"),
        ("name not is null", 10, "expected `in`, `like`, `ilike` or `between`, not `is`"),
        ("name not null", 10, "expected `in`, `like`, `ilike` or `between`, not `null`"),
        ("name is 'a'", 9, "expected `null` or `not null`, not `'a'`"),
        ("name is not 'a'", 13, "expected `null`, not `'a'`"),
        ("generation between 1 or 2", 22, "expected `and` between the two bounds, not `or`"),
        ("generation between 1, 2", 21, "expected `and` between the two bounds, not `,`"),
        (
            "name ~= 'a'",
            6,
            "expected another operator: there are no regular expressions, use `like` with % and _",
        ),
        (
            "name ~! 'a'",
            6,
            "expected another operator: there are no regular expressions, use `like` with % and _",
        ),
        ("name = 'a' && kind = 'b'", 12, "expected `and`"),
        ("name = 'a' || kind = 'b'", 12, "expected `or`"),
        ("!name = 'a'", 1, "expected `!=` or `not`"),
        ("name = 'a' name = 'b'", 12, "expected `and`, `or` or the end of the query, not `name`"),
        ("name = 'a' and", 15, "expected a field, `not` or `(`, not the end of the query"),
        ("name = ‘a’", 8, "expected a straight quote: ', \" or `"),
        ("name = \u{7}", 8, "the character U+0007 means nothing here"),
        ("name; kind", 5, "`;` means nothing here: texts are quoted ('…'), and so are keys (spec['…'])"),
    ]);
}

#[test]
fn parentheses_and_quotes_are_closed() {
    check(&[
        ("(name = 'a'", 12, "expected `and`, `or` or `)`, not the end of the query"),
        ("name = 'a')", 11, "expected a `(` somewhere before this `)`, not `)`"),
        ("name='a') or (name='b'", 9, "expected a `(` somewhere before this `)`, not `)`"),
        ("()", 2, "expected a field, `not` or `(`, not `)`"),
        ("name = 'a", 8, "expected a closing ' for the text that starts here"),
        ("name = \"a'", 8, "expected a closing \" for the text that starts here"),
        ("name = 'a\\'", 8, "expected a closing ' for the text that starts here"),
        ("name = 'a''", 8, "expected a closing ' for the text that starts here"),
    ]);
}

#[test]
fn lists_have_values_and_no_comma_to_spare() {
    check(&[
        ("name in 'a'", 9, "expected a list such as ['a', 'b'], not `'a'`"),
        ("name in []", 10, "expected a value such as 'text', 5 or true, not `]`"),
        ("name in ()", 10, "expected a value such as 'text', 5 or true, not `)`"),
        ("name in ['a',]", 14, "expected a value such as 'text', 5 or true, not `]`"),
        ("name in ['a' 'b']", 14, "expected `,` or `]`, not `'b'`"),
        ("name in ['a')", 13, "expected `,` or `]`, not `)`"),
        ("name in ('a'", 13, "expected `,` or `)`, not the end of the query"),
        ("name in [['a']]", 10, "expected a value such as 'text', 5 or true, not `[`"),
    ]);
}

#[test]
fn numbers_are_written_in_full() {
    let said = "expected a number such as 5, -0.5, 1e3 or 4Gi; texts and times are quoted";
    for number in
        ["5.", "1e", "1e+", "1.e5", "5m", "5kk", "5kib", "5i", "1.2.3", "2026-01-01", "1E", "0x10", "5a"]
    {
        check(&[(&format!("generation = {number}"), 14, said)]);
    }
    check(&[
        ("generation = .5", 14, "expected a digit before the point, as in 0.5"),
        ("generation = +5", 14, "expected a number without a plus"),
        (
            "generation = --5",
            14,
            "`-` means nothing here: texts are quoted ('…'), and so are keys (spec['…'])",
        ),
        (&format!("generation = 1e{}", "9".repeat(50)), 14, "expected a number with a smaller exponent"),
    ]);
}

#[test]
fn values_have_the_type_of_their_field() {
    check(&[
        ("name = 5", 8, "expected a text in quotes: name is a text"),
        ("name = true", 8, "expected a text in quotes: name is a text"),
        ("labels.a in ['x', 5]", 19, "expected a text in quotes: labels.a is a text"),
        (
            "status.conditions.Ready = true",
            27,
            "expected a text in quotes: status.conditions.Ready is a text",
        ),
        ("tenancy.org < 1", 15, "expected a text in quotes: tenancy.org is a text"),
        ("generation = '5'", 14, "expected a number without quotes: generation is an integer"),
        ("generation = true", 14, "expected a number without quotes: generation is an integer"),
        ("generation between 1 and '2'", 26, "expected a number without quotes: generation is an integer"),
        (
            "status.conditions.A.observed_generation = '1'",
            43,
            "expected a number without quotes: status.conditions.A.observed_generation is an integer",
        ),
        (
            "created_time > 5",
            16,
            "expected a time in quotes, such as '2026-01-31T12:00:00Z': created_time is a time",
        ),
        ("name like 5", 11, "expected a pattern in quotes, as in 'prod-%'"),
        ("spec.a like true", 13, "expected a pattern in quotes, as in 'prod-%'"),
        (
            "generation like '1%'",
            12,
            "expected another operator: generation is an integer, and `like` is for texts",
        ),
        (
            "created_time not ilike 'x'",
            18,
            "expected another operator: created_time is a time, and `like` is for texts",
        ),
        ("spec.a between 1 and 'b'", 22, "expected a number, as the lower bound is"),
        ("spec.a between 'a' and 2", 24, "expected a text, as the lower bound is"),
        ("spec.a between 1 and true", 22, "expected a number, as the lower bound is"),
        (
            "spec.a between false and true",
            16,
            "expected a number or a text: booleans go with =, != and in only",
        ),
        ("spec.a < true", 10, "expected a number or a text: booleans go with =, != and in only"),
        ("spec.a >= false", 11, "expected a number or a text: booleans go with =, != and in only"),
    ]);
}

#[test]
fn times_are_strict() {
    let said = "expected a time such as '2026-01-31T12:00:00Z' or a date such as '2026-01-31': created_time is a time";
    for time in [
        "",
        "now",
        "2026",
        "2026-01",
        "2026-1-1",
        "2026-02-30",
        "2026-01-01T",
        "2026-01-01T12:00",
        "2026-01-01T12:00:00",
        "2026-01-01 12:00:00Z",
        "2026-01-01T12:00:00 Z",
        "2026-01-01T12:00:00+0100",
        "2026-01-01T12:00:00+01",
        "2026-01-01T12:00:00\u{2212}01:00",
        "2026-01-01T24:00:00Z",
        "2026-01-01T12:00:00.Z",
        " 2026-01-01",
        "2026-01-01 ",
        "2026-01-01T12:00:00+24:00",
        "12026-01-01",
        "-026-01-01",
        "2026-01-01T12:00:00Zulu",
        "2026–01–01",
        "1767225600",
    ] {
        check(&[(&format!("created_time > '{time}'"), 16, said)]);
    }
}

#[test]
fn a_nul_is_refused_wherever_it_stands() {
    check_positions(&[
        ("name = 'a\0b'", 10),
        ("\0", 1),
        ("name\0 = 'a'", 5),
        ("spec['\0'] = 1", 7),
        ("nmae = '\0'", 9),
    ]);
}

#[test]
fn nesting_counts_parentheses_and_not_but_not_the_length_of_a_chain() {
    let nested = |levels: usize| format!("{}name='a'{}", "(".repeat(levels), ")".repeat(levels));
    let negated = |levels: usize| format!("{}name='a'", "not ".repeat(levels));
    let mixed = |levels: usize| format!("{}name='a'{}", "not(".repeat(levels), ")".repeat(levels));
    assert!(parse(&nested(MAX_NESTING)).is_ok());
    assert!(parse(&negated(MAX_NESTING)).is_ok());
    assert!(parse(&mixed(MAX_NESTING / 2)).is_ok());
    assert!(parse(&vec!["(not name='a')"; 200].join(" and ")).is_ok());
    assert!(parse(&vec!["name='a'"; 300].join(" or ")).is_ok());
    let said = "expected at most 64 levels of parentheses and `not`";
    check(&[
        (&nested(MAX_NESTING + 1), 65, said),
        (&negated(MAX_NESTING + 1), 257, said),
        (&mixed(MAX_NESTING / 2 + 1), 129, said),
    ]);
}

#[test]
fn lists_and_queries_have_a_greatest_length() {
    let list = |length: usize| format!("generation in [{}]", vec!["1"; length].join(","));
    assert!(parse(&list(MAX_LIST)).is_ok());
    check(&[(&list(MAX_LIST + 1), 16 + 2 * MAX_LIST, "expected at most 1000 values in a list")]);
    let query = |bytes: usize| format!("name = '{}'", "ä".repeat((bytes - 9) / 2));
    assert_eq!(query(MAX_BYTES - 1).len(), MAX_BYTES - 1);
    assert!(parse(&query(MAX_BYTES - 1)).is_ok());
    assert_eq!(query(MAX_BYTES + 1).len(), MAX_BYTES + 1);
    check(&[(&query(MAX_BYTES + 1), 2053, "expected at most 4096 bytes, not 4097")]);
    let fault = parse(&query(MAX_BYTES + 1)).unwrap_err().fault().clone();
    assert_eq!((fault.constraint, fault.max_value), (Some("max"), Some(MAX_BYTES.into())));
    assert_eq!(fault.value.unwrap().as_str().unwrap().chars().count(), 256);
}
