//! Expressions of task files: their functions, and what they have beside rules.

use std::sync::LazyLock;

use hyperfleet_expr::{Expression, Fault, Outcome, REDACTED, Scope, unknown};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cases;

/// 2026-11-20T12:00:00.25Z.
const NOW: i64 = 1_795_176_000_250_000;

fn task(source: &str) -> Expression {
    Expression::task(source).unwrap_or_else(|fault| panic!("{source}: {fault}"))
}

fn evaluate(source: &str, x: &Value) -> Result<Value, String> {
    task(source).evaluate_json(&Scope::task(NOW).with("x", x))
}

fn all_hold(x: &Value, sources: &[&str]) {
    for source in sources {
        assert_eq!(evaluate(source, x), Ok(json!(true)), "{source}");
    }
}

fn all_fail(sources: &[(&str, &str)]) {
    let x = json!({"list": [1, 2], "text": "hunter2", "map": {}});
    for (source, message) in sources {
        assert_eq!(evaluate(source, &x), Err((*message).to_owned()), "{source}");
    }
}

fn fault(source: &str) -> Fault {
    Expression::task(source).expect_err(source)
}

#[test]
fn functions_on_texts_count_characters() {
    all_hold(
        &json!({"name": "Zoë"}),
        &[
            "'hello'.charAt(4) == 'o' && 'hello'.charAt(5) == '' && x.name.charAt(2) == 'ë'",
            "'hello mellow'.indexOf('') == 0 && 'hello mellow'.indexOf('ello') == 1 && 'hello mellow'.indexOf('jello') == -1",
            "'hello mellow'.indexOf('', 2) == 2 && 'hello mellow'.indexOf('ello', 2) == 7 && 'äöü'.indexOf('ü') == 2",
            "'hello mellow'.indexOf('', 12) == 12 && 'hello'.indexOf('o', 5) == -1 && 'hello'.indexOf('o', 6) == -1 && 'hello'.lastIndexOf('o', 5) == -1",
            "'hello mellow'.lastIndexOf('') == 12 && 'hello mellow'.lastIndexOf('ello') == 7 && ''.lastIndexOf('a') == -1",
            "'hello mellow'.lastIndexOf('ello', 6) == 1 && 'äöüäöü'.lastIndexOf('ö', 3) == 1 && 'aaa'.lastIndexOf('aa') == 1",
            "'TacoCat'.lowerAscii() == 'tacocat' && 'TacoCÆt Xii'.lowerAscii() == 'tacocÆt xii' && 'TacoCat'.upperAscii() == 'TACOCAT'",
            "'hello hello'.replace('he', 'we') == 'wello wello' && 'hello hello'.replace('he', 'we', 1) == 'wello hello'",
            "'hello hello'.replace('he', 'we', 0) == 'hello hello' && 'hello hello'.replace('he', 'we', -1) == 'wello wello'",
            "'hello'.replace('', '_') == '_h_e_l_l_o_' && 'hello'.replace('', '_', 2) == '_h_ello'",
            "'a b c'.split(' ') == ['a', 'b', 'c'] && 'a b c'.split(' ', 2) == ['a', 'b c'] && 'a b c'.split(' ', 0) == []",
            "'a b c'.split(' ', -1) == ['a', 'b', 'c'] && 'a b c'.split(' ', 1) == ['a b c'] && ''.split(',') == ['']",
            "'zoë'.split('') == ['z', 'o', 'ë'] && 'zoë'.split('', 2) == ['z', 'oë'] && ''.split('') == []",
            "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco' && 'äöü'.substring(1, 2) == 'ö'",
            "'abc'.substring(3) == '' && 'abc'.substring(1, 1) == ''",
            "'  \\ttrim\\n '.trim() == 'trim' && ''.trim() == ''",
            "['a', 'b'].join() == 'ab' && ['a', 'b'].join(', ') == 'a, b' && [].join('x') == '' && ['a'].join('x') == 'a'",
            "'gums'.reverse() == 'smug' && x.name.reverse() == 'ëoZ'",
            "strings.quote('say \"hi\"\\n') == '\"say \\\\\"hi\\\\\"\\\\n\"'",
        ],
    );
    all_fail(&[
        ("x.text.charAt(8)", "the text has 7 characters; that position is none"),
        ("x.text.charAt(-1)", "the text has 7 characters; that position is none"),
        ("x.text.indexOf('a', -1)", "the text has 7 characters; that position is none"),
        ("x.text.substring(-1)", "the text has 7 characters; that position is none"),
        ("x.text.substring(3, 2)", "the end lies before the start"),
        ("x.list.join(',')", "join() takes a list of texts; int is none"),
        ("x.text.split(1)", "split() does not take string, int"),
        ("x.list.trim()", "trim() does not take list"),
        ("x.text.replace('a', 1)", "replace() does not take string, string, int"),
    ]);
}

#[test]
fn format_puts_values_into_a_text() {
    for (source, expected) in [
        ("'%s is %d years'.format(['Zoë', 7])", "Zoë is 7 years"),
        ("'%d%%'.format([50])", "50%"),
        ("'%s %s %s %s'.format([true, null, 1.5, 2u])", "true null 1.5 2"),
        ("'%s'.format([['a', 1, null, {'k': 'v', 1: [true]}]])", "[a, 1, null, {1: [true], k: v}]"),
        ("'%s %s'.format([timestamp('2026-01-02T03:04:05Z'), duration('90s')])", "2026-01-02T03:04:05Z 90s"),
        ("'%f %.2f %.0f'.format([1.5, 3.14159, 2])", "1.500000 3.14 2"),
        ("'%e %.1e'.format([1234.5678, 0.00012])", "1.234568e+03 1.2e-04"),
        ("'%b %b %o %x %X %x'.format([5, true, 8, 255, 255, -1])", "101 1 10 ff FF -1"),
        ("'%x'.format(['hi'])", "6869"),
        ("'%f %d'.format([1.0 / 0.0, 0.0 / 0.0])", "Infinity NaN"),
        ("'none'.format([])", "none"),
    ] {
        assert_eq!(evaluate(source, &json!({})), Ok(json!(expected)), "{source}");
    }
    all_fail(&[
        ("'%d'.format([x.text])", "%d does not take string"),
        ("'%z'.format([1])", "format() knows no verb %z"),
        ("'%'.format([1])", "format() lacks a verb after its last %"),
        ("'%s %s'.format([1])", "format() has more verbs than its 1 values"),
        ("'%.999f'.format([1.0])", "format() writes at most 100 digits behind the point"),
        ("'%s'.format('a')", "format() does not take string, string"),
    ]);
}

#[test]
fn functions_on_lists() {
    all_hold(
        &json!({"list": [3, 1, 2, 1], "pools": [{"n": "b", "r": 2}, {"n": "a", "r": 1}, {"n": "c", "r": 1}]}),
        &[
            "x.list.distinct() == [3, 1, 2] && [1, 1.0, 1u].distinct() == [1] && [{'a': 1}, {'a': 1.0}, [1], [1]].distinct() == [{'a': 1}, [1]]",
            "[1.5, 1.5, 'a', 'a', null, null].distinct() == [1.5, 'a', null] && [].distinct() == []",
            "x.list.sort() == [1, 1, 2, 3] && ['b', 'a'].sort() == ['a', 'b'] && [true, false].sort() == [false, true]",
            "[2, 1.5, 1u].sort() == [1, 1.5, 2] && [].sort() == [] && [duration('2s'), duration('1s')].sort()[0] == duration('1s')",
            "x.pools.sortBy(p, p.r).map(p, p.n) == ['a', 'c', 'b'] && x.pools.sortBy(p, p.n)[0].r == 1 && [].sortBy(p, p.n) == []",
            "x.list.slice(1, 3) == [1, 2] && x.list.slice(0, 0) == [] && x.list.slice(4, 4) == []",
            "[1, [2, [3, 4]]].flatten() == [1, 2, [3, 4]] && [1, [2, [3, [4]]]].flatten(2) == [1, 2, 3, [4]] && [[1]].flatten(0) == [[1]]",
            "[[], [[]]].flatten() == [[]] && x.pools.map(p, [p.n, p.r]).flatten() == ['b', 2, 'a', 1, 'c', 1]",
            "lists.range(3) == [0, 1, 2] && lists.range(0) == [] && lists.range(-1) == []",
            "x.list.first().value() == 3 && x.list.last().value() == 1 && ![].first().hasValue() && [].last().orValue(0) == 0",
            "x.list.reverse() == [1, 2, 1, 3] && [].reverse() == []",
        ],
    );
    all_fail(&[
        ("[1, 'a'].sort()", "sort() compares texts, numbers or times with each other, not string"),
        ("[x.map].sort()", "sort() compares texts, numbers or times with each other, not map"),
        (
            "[1, 2].sortBy(i, null)",
            "sortBy() compares texts, numbers or times with each other, not null_type",
        ),
        ("x.list.slice(1, 3)", "the list has 2 items; that is no part of it"),
        ("x.list.slice(2, 1)", "the list has 2 items; that is no part of it"),
        ("x.list.slice(-1, 1)", "the list has 2 items; that is no part of it"),
        ("x.list.flatten(-1)", "flatten() takes no negative depth"),
        ("x.text.distinct()", "distinct() does not take string"),
        ("lists.range('a')", "lists.range() does not take string"),
    ]);
    let numbers = json!([1.0, 2.0]);
    assert_eq!(evaluate("(x + [0.0 / 0.0]).sort().slice(1, 3)", &numbers), Ok(numbers), "NaN comes first");
}

#[test]
fn times_and_durations_are_taken_apart() {
    all_hold(
        &json!({"at": "2026-11-20T23:59:58.125Z"}),
        &[
            "timestamp(x.at).getFullYear() == 2026 && timestamp(x.at).getMonth() == 10 && timestamp(x.at).getDate() == 20",
            "timestamp(x.at).getDayOfMonth() == 19 && timestamp(x.at).getDayOfYear() == 323 && timestamp(x.at).getDayOfWeek() == 5",
            "timestamp(x.at).getHours() == 23 && timestamp(x.at).getMinutes() == 59 && timestamp(x.at).getSeconds() == 58",
            "timestamp(x.at).getMilliseconds() == 125 && timestamp(x.at).getHours('UTC') == 23",
            "timestamp(x.at).getHours('+02:00') == 1 && timestamp(x.at).getDate('02:00') == 21 && timestamp(x.at).getMinutes('-00:30') == 29",
            "duration('1h2m3.5s').getHours() == 1 && duration('1h2m3.5s').getMinutes() == 62 && duration('1h2m3.5s').getSeconds() == 3723",
            "duration('1.5s').getMilliseconds() == 1500 && duration('-90s').getMinutes() == -1",
            "now() == '2026-11-20T12:00:00Z' && (timestamp(now()) - timestamp('2026-11-20T11:55:00Z')).getSeconds() == 300",
            "timestamp('1969-12-31T23:59:59.5Z').getMilliseconds() == 500 && timestamp('1969-12-31T23:59:59Z').getSeconds() == 59",
        ],
    );
    all_fail(&[
        ("timestamp(now()).getHours('Europe/Berlin')", "a time zone is UTC or an offset, as in '+02:00'"),
        ("timestamp(now()).getHours('+1:00')", "a time zone is UTC or an offset, as in '+02:00'"),
        ("timestamp(now()).getHours('é')", "a time zone is UTC or an offset, as in '+02:00'"),
        ("duration('1s').getDate()", "getDate() does not take duration"),
        ("x.text.getSeconds()", "getSeconds() does not take string"),
    ]);
}

#[test]
fn conditions_are_found_by_type() {
    let x = json!({
        "conditions": [
            {"type": "Ready", "status": "True", "last_transition_time": "2026-11-20T11:55:00Z"},
            {"type": "Ready", "status": "False"},
            {"type": "Failed", "status": "False", "lastTransitionTime": "2026-11-20T11:59:59.900Z"},
            {"type": "Odd", "status": 1, "last_transition_time": "yesterday"},
            {"type": "Coming", "status": "True", "last_transition_time": "2027-01-01T00:00:00Z"},
            "no object",
        ],
        "none": null,
    });
    all_hold(
        &x,
        &[
            "conditionStatus(x.conditions, 'Ready') == 'True' && conditionStatus(x.conditions, 'Failed') == 'False'",
            "conditionStatus(x.conditions, 'Missing') == 'Unknown' && conditionStatus(x.conditions, 'Odd') == 'Unknown'",
            "conditionStatus(x.none, 'Ready') == 'Unknown' && conditionStatus([], 'Ready') == 'Unknown' && conditionStatus(x, 'Ready') == 'Unknown'",
            "conditionStatus(x.conditions.filter(c, c != 'no object' && c.status == 'False'), 'Ready') == 'False'",
            "conditionStatus(x.?conditions, 'Ready') == 'True' && conditionStatus(x.?missing, 'Ready') == 'Unknown'",
            "conditionAge(x.conditions, 'Ready') == 300 && conditionAge(x.conditions, 'Failed') == 0",
            "conditionAge(x.conditions, 'Missing') == -1 && conditionAge(x.conditions, 'Odd') == -1 && conditionAge(x.none, 'Ready') == -1",
            "conditionAge(x.conditions, 'Coming') == 0",
            "stableFor(x.conditions, 'Ready', 300) && stableFor(x.conditions, 'Ready', 299.5) && stableFor(x.conditions, 'Ready', duration('5m'))",
            "!stableFor(x.conditions, 'Ready', 301) && !stableFor(x.conditions, 'Failed', 0) && !stableFor(x.conditions, 'Missing', 0)",
            "stableFor(x.conditions, 'Coming', 0) && !stableFor(x.none, 'Ready', 0)",
            "triState(true, false) == 'True' && triState(true, true) == 'True' && triState(false, true) == 'False' && triState(false, false) == 'Unknown'",
        ],
    );
    let feedback = json!({"values": [
        {"name": "phase", "fieldValue": {"type": "String", "string": "Active"}},
        {"name": "count", "fieldValue": {"type": "Integer", "integer": 3}},
    ]});
    all_hold(
        &feedback,
        &[
            "statusFeedbackValue(x, 'phase') == 'Active' && statusFeedbackValue(x, 'missing') == ''",
            "statusFeedbackValue(x, 'count') == '' && statusFeedbackValue(null, 'phase') == ''",
            "statusFeedbackValue(x.values.filter(v, v.name == 'phase'), 'phase') == 'Active'",
        ],
    );
    all_fail(&[
        ("conditionStatus(x.list, 1)", "conditionStatus() does not take list, int"),
        ("stableFor(x.list, 'a', 'b')", "stableFor() does not take list, string, string"),
        ("triState(x.text, true)", "triState() does not take string, bool"),
    ]);
}

#[test]
fn patterns_may_be_chosen_by_the_document_within_bounds() {
    let x = json!({"name": "prod-1", "pattern": "^prod-[0-9]+$", "bad": "(", "huge": "(\\w{1,100}){1,100}"});
    all_hold(
        &x,
        &[
            "x.name.matches(x.pattern)",
            "matches(x.name, '^' + 'prod')",
            "!x.name.matches('^' + x.pattern + 'x')",
        ],
    );
    for source in ["x.name.matches(x.bad)", "x.name.matches(x.huge)"] {
        assert_eq!(
            evaluate(source, &x),
            Err("the pattern of matches() is not a regular expression, or too large a one".to_owned()),
            "{source}"
        );
    }
    assert_eq!(evaluate("x.name.matches(x)", &x), Err("a pattern is text, not map".to_owned()));
    let many = json!({"list": (0..1_000).collect::<Vec<_>>()});
    assert_eq!(
        evaluate("x.list.all(i, string(i).matches('^' + '[0-9]+$'))", &many),
        Ok(json!(true)),
        "compiled once"
    );
    assert_eq!(
        evaluate("x.list.all(i, string(i).matches('^' + string(i) + '$'))", &many),
        Err("takes more than 1000000 steps".to_owned())
    );
}

#[test]
fn whole_numbers_beside_real_ones_are_real() {
    let x = json!({"ready": 3, "large": u64::MAX, "half": 0.5});
    all_hold(
        &x,
        &[
            "x.ready * 1.5 == 4.5 && 0.5 + x.ready == 3.5 && x.half - 1 == -0.5 && x.large / 2.0 > 9.0e18 && 7 / 2 == 3",
        ],
    );
    assert_eq!(evaluate("1.5 % 2", &x), Err("no such operation: double % double".to_owned()));
    let rule = Expression::compile("x.ready * 1.5 == 4.5", &["x"]).unwrap();
    assert_eq!(rule.evaluate(&Scope::new().with("x", &x)), Err("no such operation: int * double".to_owned()));
}

#[test]
fn rules_do_not_know_the_time() {
    for (source, message) in [
        ("now()", "line 1, column 1: unknown function 'now'"),
        ("conditionAge(x, 'a')", "line 1, column 1: unknown function 'conditionAge'"),
        ("stableFor(x, 'a', 1)", "line 1, column 1: unknown function 'stableFor'"),
    ] {
        assert!(Expression::compile(source, &["x"]).expect_err(source).starts_with(message), "{source}");
    }
    let rule =
        Expression::compile("conditionStatus(x, 'a') == 'Unknown' && ['b', 'a'].sort()[0] == 'a'", &["x"]);
    assert_eq!(rule.unwrap().evaluate(&Scope::new().with("x", &json!([]))), Ok(Outcome::Bool(true)));
    assert_eq!(
        task("now()").evaluate(&Scope::new()),
        Err("the time is not known here".to_owned()),
        "a scope of rules has none"
    );
}

#[test]
fn or_value_passes_by_what_is_not_optional() {
    all_hold(
        &json!({"a": 1, "n": null}),
        &["x.a.orValue(2) == 1 && x.n.orValue(2) == null && x.?b.orValue(2) == 2"],
    );
    assert_eq!(evaluate("x.a.or(x.?b)", &json!({"a": 1})), Err("int is not optional".to_owned()));
    let rule = Expression::compile("x.a.orValue(2) == 1", &["x"]).unwrap();
    let outcome = rule.evaluate(&Scope::new().with("x", &json!({"a": 1})));
    assert_eq!(outcome, Err("int is not optional".to_owned()));
}

#[test]
fn a_variable_that_is_missing_fails_only_what_reads_it() {
    let x = json!({"a": 1});
    all_hold(&x, &["x.a == 1 || missing.b", "true ? true : missing", "[1, 2].exists(i, i == 2 || missing)"]);
    assert_eq!(evaluate("missing.b", &x), Err("nothing is known as missing".to_owned()));
    assert_eq!(evaluate("missing.?b.orValue(1)", &x), Err("nothing is known as missing".to_owned()));
}

#[test]
fn what_an_expression_reads_is_told_with_its_place() {
    let names = |source: &str| -> Vec<(String, usize, usize)> {
        task(source).names().iter().map(|name| (name.path.join("."), name.line, name.column)).collect()
    };
    let one = |path: &str| vec![(path.to_owned(), 1, 1)];
    for (source, path) in [
        ("a", "a"),
        ("a.b.c", "a.b.c"),
        ("a['b'].c", "a.b.c"),
        ("a.?b.c", "a"),
        ("a.b[?'c'].d", "a.b"),
        ("a.b[0].c", "a.b"),
        ("a.b.exists(c, c.d == 1)", "a.b"),
        ("a.b.sortBy(c, c.d)", "a.b"),
        ("a.?b.optMap(c, c.d + 1).orValue(0)", "a"),
        ("a.trim().size()", "a"),
    ] {
        assert_eq!(names(source), one(path), "{source}");
    }
    assert_eq!(names("has(a.b.c)"), [("a.b".to_owned(), 1, 5)], "the last member may be missing");
    assert_eq!(
        names("[x, {'k': y.z}].map(x, x) == lists.range(n)\n || type(w) == string"),
        [("x".to_owned(), 1, 2), ("y.z".to_owned(), 1, 11), ("n".to_owned(), 1, 42), ("w".to_owned(), 2, 10)]
    );
    assert_eq!(names("optional.of(1).hasValue() && strings.quote('a') == ''"), []);
    let scope = json!({"a": 1, "b": {"c": 2}});
    let both = task("a + b.c").evaluate_json(&Scope::task(NOW).with_all(scope.as_object().unwrap()));
    assert_eq!(both, Ok(json!(3)));
    assert_eq!(names("optional.a == 1"), [("optional.a".to_owned(), 1, 1)]);
}

#[test]
fn unknown_names_are_found_before_an_expression_runs() {
    let expression = task("clusterStat.phase == 'x' ||\n  resources.a.b && [1].exists(i, i == j)");
    let faults = unknown(expression.names(), &["clusterStatus", "resources", "i"]);
    let said: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "line 1, column 1: unknown name 'clusterStat'; did you mean clusterStatus?",
            "line 2, column 39: unknown name 'j'"
        ]
    );
}

#[test]
fn a_fault_has_a_line_and_a_column() {
    for (source, line, column, message) in [
        ("true &&\n  tojson(a)", 2, 3, "unknown function 'tojson'; did you mean toJson?"),
        ("a.conditionStatus('b')", 1, 3, "conditionStatus() stands alone, as in conditionStatus(…)"),
        ("a.substring()", 1, 3, "substring() takes 1 or 2 arguments, not 0"),
        ("a.sortBy(1, 2)", 1, 10, "sortBy() takes the name of a variable first"),
        ("conditionStatu(a, 'b')", 1, 1, "unknown function 'conditionStatu'; did you mean conditionStatus?"),
        ("lists.rang(1)", 1, 1, "unknown function 'lists.rang'; did you mean lists.range?"),
        ("a ==", 1, 5, "the expression ends too early"),
        ("", 1, 1, "is empty"),
    ] {
        let fault = fault(source);
        assert_eq!((fault.line, fault.column, fault.message.as_str()), (line, column, message), "{source}");
    }
}

#[test]
fn the_limits_of_a_task_are_larger() {
    let long = format!("true{}", " ".repeat((16 << 10) - 4));
    assert!(Expression::task(&long).is_ok());
    assert_eq!(fault(&format!("{long} ")).to_string(), "is 16385 bytes long; at most 16384 are allowed");
    let x = json!((0..400).collect::<Vec<_>>());
    assert_eq!(
        evaluate("x.all(a, x.exists(b, b == 100))", &x),
        Ok(json!(true)),
        "more than the steps of a rule"
    );
    assert_eq!(
        evaluate("x.all(a, x.all(b, x.all(c, true)))", &x),
        Err("takes more than 1000000 steps".to_owned())
    );
    let doubled = |links: usize| format!("['0123456789abcdef']{}[0]", ".map(y,y+y)".repeat(links));
    assert_eq!(evaluate(&doubled(15), &x).unwrap().as_str().map(str::len), Some(1 << 19));
    assert!(task(&doubled(16)).evaluate(&Scope::task(NOW)).is_ok(), "1 MiB");
    let message = "the result is longer than 1048576 bytes".to_owned();
    for source in
        [doubled(16), format!("[{0}, {0}]", doubled(15)), format!("{{'a': {0}, 'b': {0}}}", doubled(15))]
    {
        assert_eq!(evaluate(&source, &x), Err(message.clone()), "{source}");
    }
    assert_eq!(task(&doubled(17)).evaluate(&Scope::task(NOW)), Err(message));
    for nested in
        [format!("1{}", "+1".repeat(8_000)), "a".to_owned() + &".a".repeat(8_000), "(".repeat(16_000)]
    {
        let message = fault(&nested).message;
        assert!(message.ends_with("nested deeper than 64 levels"), "{message}");
    }
}

#[test]
fn work_in_proportion_to_large_values_is_counted() {
    let x = json!({
        "list": (0..2_000).collect::<Vec<_>>(),
        "text": "x".repeat(1 << 20),
        "maps": (0..2_000).map(|i| json!({"a": i})).collect::<Vec<_>>(),
    });
    for source in [
        "x.list.all(i, x.text.indexOf('y') == -1)",
        "x.list.all(i, x.text.replace('x', 'yy').size() > 0)",
        "x.list.all(i, x.text.split('').size() > 0)",
        "x.list.all(i, x.text.reverse() != '')",
        "x.list.all(i, x.text.substring(i) != '')",
        "x.list.all(i, [x.text, x.text].join(x.text) != '')",
        "x.list.all(i, '%s'.format([x.text]) != '')",
        "x.list.all(i, strings.quote(x.text) != '')",
        "x.list.all(i, x.list.sort().size() > 0)",
        "x.list.all(i, x.list.reverse().size() > 0)",
        "x.list.all(i, x.list.distinct().size() > 0)",
        "x.list.all(i, [x.list].flatten().size() > 0)",
        "x.list.all(i, x.list.slice(0, 2000).size() > 0)",
        "x.list.all(i, lists.range(2000).size() > 0)",
        "x.maps.distinct().size() > 0",
        "x.list.all(i, conditionStatus(x.maps, 'a') == '')  || x.list.all(i, conditionStatus(x.maps, 'a') == 'Unknown')",
        "lists.range(9223372036854775807).size() > 0",
        "lists.range(-9223372036854775807 - 1).size() > 0",
        "x.text.replace('', x.text).size() > 0",
    ] {
        assert_eq!(evaluate(source, &x), Err("takes more than 1000000 steps".to_owned()), "{source}");
    }
}

#[test]
fn texts_under_secret_keys_are_masked_and_what_stands_around_them_is_not() {
    let x = json!({
        "password": "hunter2", "apiToken": "hunter2", "certificate": {"status": {"ready": true}, "key": "k"},
        "secretName": "pull", "tokenSecretRef": "r", "authStatus": "Ready", "privateCount": 3, "hasSecret": false,
        "secrets": [{"name": "n", "token": "hunter2"}],
    });
    all_hold(
        &x,
        &[
            "x.password == '***REDACTED***' && x['apiToken'] == '***REDACTED***' && dig(x, 'password') == '***REDACTED***'",
            "x.certificate.status.ready && x.privateCount == 3 && !x.hasSecret && x.secrets[0].name == 'n'",
            "x.secretName == 'pull' && x.tokenSecretRef == 'r' && x.authStatus == 'Ready'",
            "x.secrets.all(s, s.token == '***REDACTED***') && x.map(k, x[k]).exists(v, v == '***REDACTED***')",
        ],
    );
    let shown = evaluate("x", &x).unwrap().to_string();
    assert!(!shown.contains("hunter2") && shown.contains(REDACTED), "{shown}");
}

/// Calls of every function on members of any document.
static CALLS: LazyLock<Vec<Expression>> = LazyLock::new(|| {
    let member = [
        "charAt(y)",
        "indexOf(y)",
        "indexOf(y, z)",
        "lastIndexOf(y)",
        "lastIndexOf(y, z)",
        "lowerAscii()",
        "upperAscii()",
        "trim()",
        "reverse()",
        "replace(y, z)",
        "replace(y, z, y)",
        "split(y)",
        "split(y, z)",
        "substring(y)",
        "substring(y, z)",
        "join()",
        "join(y)",
        "format(y)",
        "distinct()",
        "sort()",
        "sortBy(i, i)",
        "sortBy(i, i.a)",
        "slice(y, z)",
        "flatten()",
        "flatten(y)",
        "matches(y)",
        "getSeconds()",
        "getHours(y)",
    ];
    let global = [
        "conditionStatus(x, y)",
        "conditionAge(x, y)",
        "stableFor(x, y, z)",
        "statusFeedbackValue(x, y)",
        "triState(x, y)",
        "lists.range(x)",
        "strings.quote(x)",
        "x + y",
        "x * y",
        "timestamp(x).getDate(y)",
        "duration(x).getMinutes()",
        "[x, y, z].format([x])",
        "[x, y].sort()",
        "[x, y, z].distinct()",
    ];
    let members = member.iter().map(|call| format!("x.{call}"));
    let bound = |call: String| {
        task(&format!("[d.?a.orValue(0)].map(x, [d.?b.orValue(0)].map(y, [d.?c.orValue(0)].map(z, {call})))"))
    };
    members.chain(global.iter().map(ToString::to_string)).map(bound).collect()
});

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-3_i64..9).prop_map(|n| json!(n)),
        any::<i64>().prop_map(|n| json!(n)),
        any::<f64>().prop_map(|n| json!(n)),
        prop_oneof![".*", "[abé%sd.9]{0,6}"].prop_map(Value::String),
        prop::sample::select(vec!["2026-11-20T12:00:00Z", "True", "90s", "+01:00", "Ready", "a|b", "%s %d"])
            .prop_map(|text| json!(text)),
    ];
    let value = leaf.prop_recursive(3, 24, 4, |inner| {
        let key =
            prop::sample::select(vec!["a", "b", "type", "status", "values", "name", "last_transition_time"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map(key, inner, 0..4).prop_map(|members| json!(members)),
        ]
    });
    (value.clone(), value.clone(), value).prop_map(|(a, b, c)| json!({"a": a, "b": b, "c": c}))
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn no_document_makes_a_function_panic_and_equal_ones_give_equal_results(d in document()) {
        let again: Value = serde_json::from_str(&d.to_string()).unwrap();
        for expression in &*CALLS {
            let evaluate = |d| expression.evaluate_json(&Scope::task(NOW).with("d", d));
            let outcome = evaluate(&d);
            if let Err(message) = &outcome {
                prop_assert!(message.chars().count() <= 256 && !message.contains(char::is_control), "{message}");
            }
            prop_assert_eq!(outcome, evaluate(&again), "{:?}", expression);
        }
    }

    #[test]
    fn any_text_is_compiled_or_refused(source in prop_oneof![".*", "[a-c.?()\\[\\]{}'\"+<&|!0-9 \n:,]{0,40}"]) {
        match Expression::task(&source) {
            Ok(expression) => _ = expression.evaluate_json(&Scope::task(NOW).with("a", &json!({"b": [1]}))),
            Err(fault) => prop_assert!(fault.line > 0 && fault.column > 0 && !fault.message.is_empty()),
        }
    }
}
