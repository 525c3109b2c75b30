//! Conditions that configuration lifts out of reports: what they look at, where they stand, their times, and what
//! a rule that fails costs.

use hyperfleet_core::{EntityDescriptor, ResourceId};
use serde_json::{Value, json};

use super::condition;
use super::fixture::{Fixture, at, kind, rulebook};
use super::test_report::test_report;

/// A kind of one required adapter with these rules: type, `when`, status, reason, message.
fn mapping(rules: &[[&str; 5]]) -> EntityDescriptor {
    let expression = |text: &str| json!({"expression": text});
    let rules = rules.iter().map(|[kind, when, status, reason, message]| {
        json!({
            "type": kind,
            "when": expression(when),
            "output": {
                "status": expression(status),
                "reason": expression(reason),
                "message": expression(message),
            },
        })
    });
    let conditions = serde_json::from_value(rules.collect()).unwrap();
    EntityDescriptor { conditions, ..kind("Cluster", &["dns"]) }
}

/// Whether some adapter says that it is warm.
const WARM: [&str; 5] = [
    "Warm",
    "statuses.exists(s, s.conditions.exists(c, c.type == 'Warm'))",
    "statuses.exists(s, s.conditions.exists(c, c.type == 'Warm' && c.status == 'True')) ? 'True' : 'False'",
    "'Told'",
    "'by adapters'",
];

fn prepared(rules: &[[&str; 5]]) -> (Fixture, ResourceId) {
    let mut fixture = Fixture::new(&[mapping(rules)]);
    let id = fixture.create("Cluster", None, 0);
    (fixture, id)
}

fn warm(status: &str, generation: i64, times: [i64; 3]) -> Value {
    condition("Warm", status, ("Told", "by adapters"), generation, times)
}

#[test]
fn a_mapped_condition_exists_while_its_rule_holds_and_its_times_follow_their_causes() {
    let (mut fixture, id) = prepared(&[WARM]);
    let now = |fixture: &Fixture| fixture.condition(id, "Warm");
    assert_eq!(now(&fixture), Value::Null, "no report has it");
    fixture.label(id, 5);
    fixture.tell(id, test_report("audit", 1, 10).with("Warm", "False"));
    assert_eq!(now(&fixture), warm("False", 1, [5, 10, 5]), "new: by the resource, fresh: by the report");
    fixture.tell(id, test_report("dns", 1, 20));
    assert_eq!(now(&fixture), warm("False", 1, [5, 20, 5]), "any report confirms it");
    fixture.tell(id, test_report("audit", 1, 30).with("Warm", "True"));
    assert_eq!(now(&fixture), warm("True", 1, [5, 30, 30]), "a flip by a report");
    fixture.change(id, 40);
    assert_eq!(now(&fixture), warm("True", 2, [5, 40, 30]), "reports of any generation are seen");
    fixture.tell(id, test_report("audit", 2, 50));
    assert_eq!(now(&fixture), Value::Null, "no report has it any more");
}

#[test]
fn mapped_conditions_come_last_by_type() {
    let rule = |kind| [kind, "true", "'true'", "''", "''"];
    let (mut fixture, id) = prepared(&[rule("Zeta"), rule("Alpha")]);
    fixture.tell(id, test_report("dns", 1, 10));
    let types = ["Reconciled", "LastKnownReconciled", "DnsSuccessful", "Alpha", "Zeta"];
    assert_eq!(fixture.types(id), types);
    assert_eq!(fixture.condition(id, "Alpha")["status"], "True", "in any case");
}

#[test]
fn reports_with_available_unknown_are_hidden_from_rules() {
    let (mut fixture, id) = prepared(&[WARM]);
    fixture.tell(id, test_report("audit", 1, 10).with("Warm", "True").with("Cold", "Unknown"));
    assert_eq!(fixture.condition(id, "Warm"), Value::Null);
}

#[test]
fn a_rule_sees_the_resource_as_the_api_shows_it_and_the_data_of_reports() {
    let seen = [
        "Seen",
        "true",
        "'True'",
        "resource.kind + resource.labels.tier + resource.spec.zone",
        "resource.status.conditions[0].type + statuses[0].data.where + statuses[0].adapter",
    ];
    let (mut fixture, id) = prepared(&[seen]);
    fixture.tell(id, test_report("dns", 1, 10).data(&json!({"where": "here"})));
    let now = fixture.condition(id, "Seen");
    assert_eq!((&now["reason"], &now["message"]), (&json!("Clustergolda"), &json!("Reconciledheredns")));
    fixture.tell(id, test_report("audit", 1, 20).data(&json!({"where": "there"})));
    assert_eq!(
        fixture.condition(id, "Seen")["message"],
        "Reconciledthereaudit",
        "statuses are ordered by adapter"
    );
}

#[test]
fn a_rule_that_fails_costs_its_own_condition_and_nothing_else() {
    let broken = ["Broken", "true", "statuses[0].data.missing", "''", "''"];
    let (mut fixture, id) = prepared(&[WARM, broken]);
    fixture.tell(id, test_report("dns", 1, 10).with("Warm", "True").data(&json!({"token": "hush"})));
    let types = ["Reconciled", "LastKnownReconciled", "DnsSuccessful", "Warm"];
    assert_eq!(fixture.types(id), types);
    assert_eq!(fixture.stored(id, "dns")["last_report_time"], json!(at(10)));
    let [skipped_conditions] = fixture.database.skipped_conditions.as_slice() else {
        panic!("{:?}", fixture.database.skipped_conditions)
    };
    assert_eq!((skipped_conditions.subject.id, skipped_conditions.failure.kind.as_str()), (id, "Broken"));
    assert!(!skipped_conditions.failure.cause.contains("hush"));
}

#[test]
fn a_status_that_is_neither_true_nor_false_is_a_failure() {
    let (mut fixture, id) = prepared(&[["Odd", "true", "'Unknown'", "''", "''"]]);
    fixture.tell(id, test_report("dns", 1, 10));
    assert_eq!(fixture.condition(id, "Odd"), Value::Null);
    assert_eq!(fixture.database.skipped_conditions.len(), 1);
}

#[test]
fn a_repeated_report_confirms_a_mapped_condition_too_and_takes_no_version() {
    let (mut fixture, id) = prepared(&[WARM]);
    fixture.tell(id, test_report("dns", 1, 10).with("Warm", "True"));
    let version = fixture.row(id).version;
    fixture.report(id, test_report("dns", 1, 20).with("Warm", "True")).unwrap();
    assert_eq!(fixture.condition(id, "Warm"), warm("True", 1, [0, 20, 0]));
    assert_eq!(fixture.row(id).version, version);
}

#[test]
fn a_recomputation_without_changes_gives_the_same_condition() {
    let (mut fixture, id) = prepared(&[WARM]);
    fixture.tell(id, test_report("dns", 1, 10).with("Warm", "True"));
    let contents = fixture.contents();
    fixture.recompute(&[id], 20);
    assert_eq!(fixture.contents(), contents);
}

#[test]
fn another_rule_is_obeyed_once_conditions_are_computed_anew() {
    let (mut fixture, id) = prepared(&[WARM]);
    fixture.tell(id, test_report("dns", 1, 10).with("Warm", "True"));
    fixture.label(id, 20);
    fixture.reconfigure(rulebook(&[mapping(&[["Warm", "true", "'False'", "'Told'", "'by adapters'"]])]));
    fixture.recompute(&[id], 30);
    assert_eq!(fixture.condition(id, "Warm"), warm("False", 1, [0, 20, 20]));
    fixture.reconfigure(rulebook(&[kind("Cluster", &["dns"])]));
    fixture.recompute(&[id], 40);
    assert_eq!(fixture.condition(id, "Warm"), Value::Null);
}
