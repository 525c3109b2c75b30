//! Which expressions are refused at compilation, with which messages.

use hyperfleet_expr::{Expression, MAX_SOURCE_BYTES};

fn refusal(source: &str) -> String {
    Expression::compile(source, &["statuses", "resource"]).expect_err(source)
}

#[test]
fn a_fault_of_the_grammar_says_where_it_is() {
    for (source, message) in [
        ("", "is empty"),
        (" \n ", "is empty"),
        ("true &&\n", "line 2, column 1: the expression ends too early"),
        ("resource.", "line 1, column 10: the expression ends too early"),
        ("resource ==", "line 1, column 12: the expression ends too early"),
        ("statuses[", "line 1, column 10: the expression ends too early"),
        ("resource resource", "line 1, column 10: unexpected 'resource'"),
        ("'é' == $", "line 1, column 8: unexpected '$'"),
        ("true &&\n  'open", "line 2, column 3: unexpected ''open'"),
        ("99999999999999999999", "line 1, column 1: invalid int literal"),
        ("package", "line 1, column 1: reserved identifier: package"),
    ] {
        assert_eq!(refusal(source), message, "{source}");
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest_known_one() {
    for (source, message) in [
        ("statuss.size() > 0", "line 1, column 1: unknown name 'statuss'; did you mean statuses?"),
        ("true ||\n resourse == 1", "line 2, column 2: unknown name 'resourse'; did you mean resource?"),
        ("statuses.exists(s, t == 1)", "line 1, column 20: unknown name 't'"),
        ("statuses.exists(s, true) && s == 1", "line 1, column 29: unknown name 's'"),
        (".resource", "line 1, column 2: unknown name '.resource'; did you mean resource?"),
        ("optional", "line 1, column 1: unknown name 'optional'"),
        ("'é' + unknown", "line 1, column 7: unknown name 'unknown'"),
    ] {
        assert_eq!(refusal(source), message, "{source}");
    }
}

#[test]
fn an_unknown_function_is_refused_with_the_nearest_known_one() {
    for (source, message) in [
        ("statuses.exist(s, true)", "line 1, column 10: unknown function 'exist'; did you mean exists?"),
        ("tojson(resource)", "line 1, column 1: unknown function 'tojson'; did you mean toJson?"),
        ("optional.off(1)", "line 1, column 1: unknown function 'optional.off'; did you mean optional.of?"),
        ("now()", "line 1, column 1: unknown function 'now'"),
        ("resource.now()", "line 1, column 10: unknown function 'now'"),
    ] {
        assert_eq!(refusal(source), message, "{source}");
    }
}

#[test]
fn a_call_in_the_wrong_way_is_refused() {
    for (source, message) in [
        ("size()", "line 1, column 1: size() takes 1 argument, not 0"),
        ("'a'.contains('b', 'c')", "line 1, column 5: contains() takes 1 argument, not 2"),
        ("dig(resource)", "line 1, column 1: dig() takes 2 arguments, not 1"),
        ("contains('a', 'b')", "line 1, column 1: contains() is called on a value, as in x.contains(…)"),
        ("resource.toJson()", "line 1, column 10: toJson() stands alone, as in toJson(…)"),
        ("has(resource)", "line 1, column 5: has() asks for a member, as in has(a.b)"),
        ("has(resource['a'])", "line 1, column 13: has() asks for a member, as in has(a.b)"),
        ("has(resource.a, 1)", "line 1, column 1: has() takes one argument"),
        ("statuses.map(1, 2)", "line 1, column 14: map() takes the name of a variable first"),
        ("statuses.map(s)", "line 1, column 10: map() takes a variable and an expression, as in x.map(v, …)"),
        ("resource.?a.orValue()", "line 1, column 13: orValue() does not take 0 arguments"),
        ("'a'.matches(resource.p)", "line 1, column 21: the pattern of matches() must be a literal text"),
        (
            "'a'.matches('(')",
            "line 1, column 13: the pattern of matches() is not a regular expression, or too large a one",
        ),
        ("Message{a: 1}", "line 1, column 8: messages are not supported"),
        ("b'bytes' == b''", "line 1, column 1: bytes are not supported"),
    ] {
        assert_eq!(refusal(source), message, "{source}");
    }
}

#[test]
fn variables_of_macros_are_known_inside_of_them_and_hide_what_is_outside() {
    for source in [
        "statuses.all(s, s.conditions.exists(c, c.type == s.adapter))",
        "statuses.map(s, s.a, s.b).filter(resource, resource > 0).exists_one(s, true)",
        "resource.?a.optMap(a, a + 1).optFlatMap(b, optional.of(b)).orValue(0)",
        "statuses.existsOne(optional, optional.of == 1)",
        "type(resource) == map && type(null) == null_type",
        "has(resource.a.b)",
    ] {
        assert!(Expression::compile(source, &["statuses", "resource"]).is_ok(), "{source}");
    }
}

#[test]
fn the_length_of_a_source_is_bounded() {
    let fits = format!("{:width$}", "true", width = MAX_SOURCE_BYTES);
    assert!(Expression::compile(&fits, &[]).is_ok());
    assert_eq!(refusal(&format!("{fits} ")), "is 4097 bytes long; at most 4096 are allowed");
}

#[test]
fn the_depth_of_a_source_is_bounded_however_it_is_nested() {
    let repeated: [fn(usize) -> String; 8] = [
        |n| format!("{}1{}", "(".repeat(n), ")".repeat(n)),
        |n| format!("{}1{}", "[".repeat(n), "]".repeat(n)),
        |n| format!("resource{}", ".a".repeat(n)),
        |n| format!("1{}", "+1".repeat(n)),
        |n| format!("resource{}", "[0]".repeat(n)),
        |n| format!("resource{}", ".a()".repeat(n)),
        |n| format!("{}1{}", "dyn(".repeat(n), ")".repeat(n)),
        |n| format!("true{}", "?1:2".repeat(n)),
    ];
    for (i, nested) in repeated.iter().enumerate() {
        for levels in [70, 800] {
            let message = refusal(&nested(levels));
            assert!(
                message.ends_with("nested deeper than 64 levels") || message.contains("unknown function 'a'"),
                "{i}: {message}"
            );
        }
    }
    assert!(Expression::compile(&format!("1{}", "+1".repeat(60)), &[]).is_ok());
    assert!(
        Expression::compile(&format!("true{}", " && true".repeat(500)), &[]).is_ok(),
        "chains are balanced"
    );
}

#[test]
fn no_message_is_longer_than_256_characters() {
    assert_eq!(refusal(&"n".repeat(4000)).chars().count(), 256);
    assert_eq!(refusal(&format!("{}(1)", "n".repeat(4000))).chars().count(), 256);
}

#[test]
fn expressions_are_equal_by_source_and_variables() {
    let compile = |source, variables: &[&str]| Expression::compile(source, variables).unwrap();
    assert_eq!(compile("1 == 1", &["a"]), compile("1 == 1", &["a"]).clone());
    assert_ne!(compile("1 == 1", &["a"]), compile("1 == 1", &["b"]));
    assert_ne!(compile("1 == 1", &["a"]), compile("1 ==  1", &["a"]));
    assert_eq!(format!("{:?}", compile("1 == 1", &[])), r#"Expression("1 == 1")"#);
}
