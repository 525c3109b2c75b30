//! Conditions that configuration lifts out of reports: what they look at, where they stand, their times, and what
//! a rule that fails costs.

use hyperfleet_core::{EntityDescriptor, ResourceId};
use serde_json::{Value, json};

use super::condition;
use super::said::said;
use super::stage::{Stage, at, kind, rulebook};

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

fn scene(rules: &[[&str; 5]]) -> (Stage, ResourceId) {
    let mut stage = Stage::new(&[mapping(rules)]);
    let id = stage.create("Cluster", None, 0);
    (stage, id)
}

fn warm(status: &str, generation: i64, times: [i64; 3]) -> Value {
    condition("Warm", status, ("Told", "by adapters"), generation, times)
}

#[test]
fn it_is_there_while_its_rule_says_so_and_its_times_follow_their_causes() {
    let (mut stage, id) = scene(&[WARM]);
    let now = |stage: &Stage| stage.condition(id, "Warm");
    assert_eq!(now(&stage), Value::Null, "nobody told");
    stage.label(id, 5);
    stage.tell(id, said("audit", 1, 10).with("Warm", "False"));
    assert_eq!(now(&stage), warm("False", 1, [5, 10, 5]), "new: by the resource, fresh: by the report");
    stage.tell(id, said("dns", 1, 20));
    assert_eq!(now(&stage), warm("False", 1, [5, 20, 5]), "any report confirms it");
    stage.tell(id, said("audit", 1, 30).with("Warm", "True"));
    assert_eq!(now(&stage), warm("True", 1, [5, 30, 30]), "a flip by a report");
    stage.change(id, 40);
    assert_eq!(now(&stage), warm("True", 2, [5, 40, 30]), "reports of any generation are seen");
    stage.tell(id, said("audit", 2, 50));
    assert_eq!(now(&stage), Value::Null, "nobody tells any more");
}

#[test]
fn mapped_conditions_come_last_by_type() {
    let rule = |kind| [kind, "true", "'true'", "''", "''"];
    let (mut stage, id) = scene(&[rule("Zeta"), rule("Alpha")]);
    stage.tell(id, said("dns", 1, 10));
    let types = ["Reconciled", "LastKnownReconciled", "DnsSuccessful", "Alpha", "Zeta"];
    assert_eq!(stage.types(id), types);
    assert_eq!(stage.condition(id, "Alpha")["status"], "True", "in any case");
}

#[test]
fn an_adapter_that_cannot_tell_about_something_is_not_seen() {
    let (mut stage, id) = scene(&[WARM]);
    stage.tell(id, said("audit", 1, 10).with("Warm", "True").with("Cold", "Unknown"));
    assert_eq!(stage.condition(id, "Warm"), Value::Null);
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
    let (mut stage, id) = scene(&[seen]);
    stage.tell(id, said("dns", 1, 10).data(&json!({"where": "here"})));
    let now = stage.condition(id, "Seen");
    assert_eq!((&now["reason"], &now["message"]), (&json!("Clustergolda"), &json!("Reconciledheredns")));
    stage.tell(id, said("audit", 1, 20).data(&json!({"where": "there"})));
    assert_eq!(
        stage.condition(id, "Seen")["message"],
        "Reconciledthereaudit",
        "statuses are ordered by adapter"
    );
}

#[test]
fn a_rule_that_fails_costs_its_own_condition_and_nothing_else() {
    let broken = ["Broken", "true", "statuses[0].data.missing", "''", "''"];
    let (mut stage, id) = scene(&[WARM, broken]);
    stage.tell(id, said("dns", 1, 10).with("Warm", "True").data(&json!({"token": "hush"})));
    let types = ["Reconciled", "LastKnownReconciled", "DnsSuccessful", "Warm"];
    assert_eq!(stage.types(id), types);
    assert_eq!(stage.stored(id, "dns")["last_report_time"], json!(at(10)));
    let [left_out] = stage.database.left_out.as_slice() else { panic!("{:?}", stage.database.left_out) };
    assert_eq!((left_out.subject.id, left_out.failure.kind.as_str()), (id, "Broken"));
    assert!(!left_out.failure.cause.contains("hush"));
}

#[test]
fn a_status_that_is_neither_true_nor_false_is_a_failure() {
    let (mut stage, id) = scene(&[["Odd", "true", "'Unknown'", "''", "''"]]);
    stage.tell(id, said("dns", 1, 10));
    assert_eq!(stage.condition(id, "Odd"), Value::Null);
    assert_eq!(stage.database.left_out.len(), 1);
}

#[test]
fn a_repeated_report_confirms_a_mapped_condition_too_and_takes_no_version() {
    let (mut stage, id) = scene(&[WARM]);
    stage.tell(id, said("dns", 1, 10).with("Warm", "True"));
    let version = stage.row(id).version;
    stage.report(id, said("dns", 1, 20).with("Warm", "True")).unwrap();
    assert_eq!(stage.condition(id, "Warm"), warm("True", 1, [0, 20, 0]));
    assert_eq!(stage.row(id).version, version);
}

#[test]
fn computed_anew_it_comes_out_the_same() {
    let (mut stage, id) = scene(&[WARM]);
    stage.tell(id, said("dns", 1, 10).with("Warm", "True"));
    let contents = stage.contents();
    stage.recompute(&[id], 20);
    assert_eq!(stage.contents(), contents);
}

#[test]
fn another_rule_is_obeyed_once_conditions_are_computed_anew() {
    let (mut stage, id) = scene(&[WARM]);
    stage.tell(id, said("dns", 1, 10).with("Warm", "True"));
    stage.label(id, 20);
    stage.reconfigure(rulebook(&[mapping(&[["Warm", "true", "'False'", "'Told'", "'by adapters'"]])]));
    stage.recompute(&[id], 30);
    assert_eq!(stage.condition(id, "Warm"), warm("False", 1, [0, 20, 20]));
    stage.reconfigure(rulebook(&[kind("Cluster", &["dns"])]));
    stage.recompute(&[id], 40);
    assert_eq!(stage.condition(id, "Warm"), Value::Null);
}
