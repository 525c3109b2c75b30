//! Secrets do not show, whichever way an expression takes.

use std::sync::LazyLock;

use hyperfleet_expr::{Expression, Outcome, REDACTED, Scope};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{cases, compile, evaluate};

#[test]
fn any_value_under_a_secret_key_reads_as_redacted() {
    let x = json!({
        "name": "db",
        "password": "hunter2",
        "Client-Secret": {"deep": ["hunter2"]},
        "list": [{"apiKey": 42, "user": "u"}],
        "auth": null,
    });
    for source in [
        "x.password == '***REDACTED***'",
        "x['Client-Secret'] == '***REDACTED***'",
        "x[?'password'].orValue('') == '***REDACTED***'",
        "x.?password.value() == '***REDACTED***'",
        "x.list[0].apiKey == '***REDACTED***'",
        "x.list.all(i, i.apiKey == '***REDACTED***' && i.user == 'u')",
        "x.map(k, x[k]).exists(v, v == '***REDACTED***')",
        "x.auth == '***REDACTED***'",
        "dig(x, 'password') == '***REDACTED***'",
        "dig(x, 'Client-Secret.deep.0') == null",
        "x == {'name': 'db', 'password': '***REDACTED***', 'Client-Secret': '***REDACTED***', 'auth': \
         '***REDACTED***', 'list': [{'apiKey': '***REDACTED***', 'user': 'u'}]}",
        "x.list[0] in [{'apiKey': '***REDACTED***', 'user': 'u'}]",
        "has(x.password) && 'password' in x && size(x) == 5",
        "!toJson(x).contains('hunter2') && !toJson(x).contains('42')",
        "toJson(x.list) == '[{\"apiKey\":\"***REDACTED***\",\"user\":\"u\"}]'",
    ] {
        assert_eq!(evaluate(source, &x), Ok(Outcome::Bool(true)), "{source}");
    }
}

#[test]
fn conditions_and_resources_have_no_member_that_is_masked() {
    let report = json!([{
        "adapter": "a", "observed_generation": 1, "data": {"region": "r"},
        "conditions": [{"type": "t", "status": "s", "reason": "r", "message": "m", "last_transition_time": "l"}],
    }, {
        "id": "i", "kind": "k", "href": "h", "name": "n", "generation": 1, "labels": {}, "spec": {},
        "created_time": "t", "created_by": "b", "updated_time": "t", "updated_by": "b", "deleted_time": "t",
        "deleted_by": "b", "owner_references": {}, "references": {}, "status": {"conditions": []},
    }]);
    let Ok(Outcome::Text(printed)) = evaluate("toJson(x)", &report) else { panic!("a text is expected") };
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), report);
    assert!(!printed.contains(REDACTED));
}

#[test]
fn a_failure_repeats_nothing_of_the_input() {
    let x = json!({"a": "hunter2", "list": ["hunter2"], "hunter2": 1});
    for source in [
        "x.a + 1",
        "x.a - 1",
        "x.a < 1",
        "x.list[x.a]",
        "x[x.a].b",
        "x.list[9]",
        "x.a[0]",
        "int(x.a)",
        "bool(x.a)",
        "{x.list: 1}",
        "{x.a: 1, x.a: 2}",
        "x.a.all(i, true)",
        "x.list.all(i, i)",
        "x[x.a + 'x']",
        "!x.a",
        "x.a.b",
        "size(x.a.b)",
        "x.a.orValue(1)",
        "dig(x.a, 1)",
    ] {
        let message = evaluate(source, &x).expect_err(source);
        assert!(!message.contains("hunter2") && message.chars().count() <= 256, "{source}: {message}");
    }
}

/// JSON in which the text `hunter2` stands under secret keys only.
fn with_secrets() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!("plain")), Just(json!(1)), Just(Value::Null)];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let key = prop_oneof![Just("a"), Just("b"), Just("name")];
        let secret = prop_oneof![Just("PASSWORD"), Just("my-token"), Just("tlsCert"), Just("x_private_y")];
        let hidden = prop_oneof![Just(json!("hunter2")), Just(json!({"a": ["hunter2"], "hunter2": 1}))];
        let member = prop_oneof![
            (key, inner.clone()).prop_map(|(key, value)| (key.to_owned(), value)),
            (secret, hidden).prop_map(|(key, value)| (key.to_owned(), value)),
        ];
        prop_oneof![
            prop::collection::vec(member, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
            prop::collection::vec(inner, 0..4).prop_map(Value::Array),
        ]
    })
}

static PRINTING: LazyLock<Vec<Expression>> = LazyLock::new(|| {
    [
        "toJson(x)",
        "toJson([x])",
        "toJson({'a': x})",
        "toJson(x.map(k, x[k]))",
        "toJson(x.filter(i, true))",
        "toJson([dig(x, 'PASSWORD.a.0'), dig(x, 'a.PASSWORD'), dig(x, '0.my-token')])",
        "toJson(x.?a.?PASSWORD.orValue(x))",
        "toJson(optional.of(x))",
        "toJson(x + x)",
    ]
    .map(compile)
    .into()
});

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn no_path_through_a_document_leads_to_a_secret(x in with_secrets()) {
        for expression in &*PRINTING {
            if let Ok(Outcome::Text(printed)) = expression.evaluate(&Scope::new().with("x", &x)) {
                prop_assert!(!printed.contains("hunter2"), "{expression:?}: {printed}");
            }
        }
    }
}
