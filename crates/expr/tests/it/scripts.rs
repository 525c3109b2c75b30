//! Named expressions that use each other, functions of the scope, and time.

use hyperfleet_expr::{Expression, Scope, Script};
use serde_json::{Value, json};

const VARIABLES: [&str; 3] = ["resource", "now", "condition()"];
/// 2026-01-31T12:00:00Z.
const NOON: i64 = 1_769_860_800_000_000;

fn script(params: &[(&str, &str)], result: &str) -> Result<Script, Vec<(Option<String>, String)>> {
    let params: Vec<_> =
        params.iter().map(|(name, source)| ((*name).to_owned(), (*source).to_owned())).collect();
    Script::compile(&params, result, &VARIABLES)
        .map_err(|faults| faults.into_iter().map(|fault| (fault.name, fault.message)).collect())
}

fn holds(params: &[(&str, &str)], result: &str) -> Result<bool, String> {
    let resource = json!({"generation": 2});
    let conditions = json!([
        {"type": "", "status": "", "last_updated_time": "", "observed_generation": 0},
        {"type": "Reconciled", "status": "True", "last_updated_time": "2026-01-31T11:29:00Z", "observed_generation": 1},
        {"type": "CertSuccessful", "status": "False", "last_updated_time": "2026-01-31T11:29:00Z"},
    ]);
    let scope =
        Scope::new().with("resource", &resource).with_time("now", NOON).with("condition()", &conditions);
    script(params, result).map_err(|faults| format!("{faults:?}"))?.holds(&scope)
}

#[test]
fn parameters_are_evaluated_in_the_order_they_need() {
    let params = [
        ("stale", "is_reconciled && has_time && now - timestamp(ref_time) > duration('30m')"),
        ("ref_time", "condition('Reconciled').last_updated_time"),
        ("has_time", "ref_time != ''"),
        ("is_reconciled", "condition('Reconciled').status == 'True'"),
        ("behind", "resource.generation > condition('Reconciled').observed_generation"),
    ];
    assert_eq!(holds(&params, "stale"), Ok(true));
    assert_eq!(holds(&params, "stale && !behind"), Ok(false));
    assert_eq!(holds(&[], "now - timestamp('2026-01-31T11:59:30+00:00') == duration('30s')"), Ok(true));
}

#[test]
fn a_function_of_the_scope_finds_by_type_and_else_gives_the_first() {
    assert_eq!(
        holds(&[], "condition('Missing').status == '' && condition('Missing').observed_generation == 0"),
        Ok(true)
    );
    assert_eq!(holds(&[], "condition('CertSuccessful').status == 'False'"), Ok(true), "a type is no secret");
    assert_eq!(holds(&[], "['Reconciled', 'Missing'].map(t, condition(t).status) == ['True', '']"), Ok(true));
}

#[test]
fn time_is_added_subtracted_and_compared() {
    for source in [
        "timestamp('2026-01-31T12:00:00Z') + duration('1h30m') == timestamp('2026-01-31T13:30:00Z')",
        "now - duration('-1.5s') > now && duration('90m') == duration('1h30m') && duration('0') < duration('1us')",
        "string(now) == '2026-01-31T12:00:00Z' && string(duration('90s')) == '90s' && int(now) == 1769860800",
        "type(now) == timestamp && type(duration('1s')) == duration && timestamp(1769860800) == now",
    ] {
        assert_eq!(holds(&[], source), Ok(true), "{source}");
    }
    for source in [
        "timestamp('noon') == now",
        "duration('5') == duration('5s')",
        "duration('') == duration('0')",
        "now + now == now",
        "now * 2 == now",
    ] {
        assert!(holds(&[], source).is_err(), "{source}");
    }
}

#[test]
fn every_fault_is_reported_with_its_name() {
    let faults = script(&[("a", "b"), ("b", "a"), ("now", "1")], "resorce.id == null").unwrap_err();
    let names: Vec<_> = faults.iter().map(|(name, _)| name.as_deref()).collect();
    assert_eq!(names, [Some("now"), Some("a"), Some("b"), None]);
    assert!(faults[1].1.contains("needs itself"), "{faults:?}");
    assert!(faults[3].1.contains("did you mean resource?"), "{faults:?}");
    let faults = script(&[("a", "b + 1"), ("b", "conditoin('x')")], "a").unwrap_err();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].1.contains("did you mean condition?"), "{faults:?}");
}

#[test]
fn a_result_that_is_no_truth_value_fails() {
    assert_eq!(holds(&[], "resource.generation"), Err("came to int instead of bool".to_owned()));
}

#[test]
fn an_expression_comes_to_any_json() {
    let resource =
        json!({"id": "a", "labels": {"region": "eu"}, "spec": {"token": "x", "n": 12345678901234567890_u64}});
    let value = |source: &str| {
        let scope = Scope::new().with("resource", &resource);
        Expression::compile(source, &["resource"]).unwrap().evaluate_json(&scope)
    };
    assert_eq!(
        value("{'id': resource.id, 'n': [resource.spec.n, 1.5, null]}"),
        Ok(json!({"id": "a", "n": [12345678901234567890_u64, 1.5, null]}))
    );
    assert_eq!(value("resource.spec.token"), Ok(Value::from("***REDACTED***")));
    assert_eq!(value("duration('90s')"), Ok(Value::from("90s")));
    assert!(value("resource.missing").is_err());
}
