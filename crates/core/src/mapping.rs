//! Mapped conditions: configuration derives conditions of a resource from adapters' reports by rules in CEL. Every rule
//! is compiled and checked at start. A rule that fails later leaves out its own condition only; it never refuses the
//! report.

use hyperfleet_expr::{Expression, Outcome, Scope};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Status;

/// Longest type of a condition in characters.
pub(crate) const MAX_TYPE_CHARS: usize = 100;

/// Longest reason in bytes; a longer one is no reason, and leaves the condition out.
const MAX_REASON_BYTES: usize = 256;

/// Longest message in bytes; a longer one is cut.
const MAX_MESSAGE_BYTES: usize = 2048;

/// What an expression can see.
const VARIABLES: [&str; 2] = ["statuses", "resource"];

/// The same without the reports.
const WITHOUT_REPORTS: [&str; 1] = ["resource"];

/// One entry of an entity's `conditions` as configuration writes it, not yet checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConditionDescriptor {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether there is such a condition.
    pub when: ExpressionDescriptor,
    /// The outputs of the condition.
    pub output: OutputDescriptor,
}

/// What a mapped condition says, not yet checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OutputDescriptor {
    /// Whether it holds.
    pub status: ExpressionDescriptor,
    /// Why, for machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<ExpressionDescriptor>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<ExpressionDescriptor>,
}

/// An expression, not yet checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExpressionDescriptor {
    /// Its source in CEL.
    pub expression: String,
}

/// A checked rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The type of the condition.
    pub kind: String,
    when: Expression,
    status: Expression,
    reason: Option<Expression>,
    message: Option<Expression>,
}

/// What the rules of a kind make of a resource.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// The conditions, in the order of the rules.
    pub(crate) conditions: Vec<MappedCondition>,
    /// The rules that failed, whose conditions are left out.
    pub(crate) failures: Vec<MappingFailure>,
}

/// A condition as a rule gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MappedCondition {
    /// Its type.
    pub(crate) kind: String,
    /// Whether it holds.
    pub(crate) status: Status,
    /// Why, for machines.
    pub(crate) reason: String,
    /// Why, for people.
    pub(crate) message: String,
}

/// A rule that gave no condition though it should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingFailure {
    /// The type of the condition that is left out.
    pub kind: String,
    /// Which expression failed and why, without any of its input.
    pub cause: String,
}

impl Mapping {
    /// Compiles a rule. The error lists every fault of its expressions, each after its path in the rule.
    pub(crate) fn compile(rule: &ConditionDescriptor) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let mut compile = |path: &str, given: &ExpressionDescriptor| {
            let compiled = if given.expression.trim().is_empty() {
                Err("required".to_owned())
            } else {
                Expression::compile(&given.expression, &VARIABLES)
            };
            compiled.map_err(|fault| faults.push(format!("{path}.expression: {fault}"))).ok()
        };
        let when = compile("when", &rule.when);
        let status = compile("output.status", &rule.output.status);
        let reason = rule.output.reason.as_ref().map(|given| compile("output.reason", given));
        let message = rule.output.message.as_ref().map(|given| compile("output.message", given));
        match (when, status) {
            (Some(when), Some(status)) if faults.is_empty() => {
                let kind = rule.kind.clone();
                Ok(Self { kind, when, status, reason: reason.flatten(), message: message.flatten() })
            }
            _ => Err(faults),
        }
    }

    /// The rule as a text that differs when any part of it does.
    pub fn source(&self) -> String {
        let source = |expression: &Option<Expression>| expression.as_ref().map(|e| e.source().to_owned());
        json!({
            "type": self.kind,
            "when": self.when.source(),
            "status": self.status.source(),
            "reason": source(&self.reason),
            "message": source(&self.message),
        })
        .to_string()
    }

    /// Whether any of its expressions reads reports.
    pub(crate) fn reads_reports(&self) -> bool {
        let expressions = [Some(&self.when), Some(&self.status), self.reason.as_ref(), self.message.as_ref()];
        expressions.into_iter().flatten().any(|expression| !expression.needs_only(&WITHOUT_REPORTS))
    }

    /// The condition, if there is one.
    fn condition(&self, scope: &Scope<'_>) -> Result<Option<MappedCondition>, String> {
        match evaluate_part("when", &self.when, scope)? {
            Outcome::Bool(true) => {}
            Outcome::Bool(false) => return Ok(None),
            Outcome::Text(_) => return Err("when: must be true or false, not string".to_owned()),
            Outcome::Other(kind) => return Err(format!("when: must be true or false, not {kind}")),
        }
        let status = match evaluate_part("output.status", &self.status, scope)? {
            Outcome::Bool(held) => Some(held),
            Outcome::Text(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Outcome::Text(text) if text.eq_ignore_ascii_case("false") => Some(false),
            Outcome::Text(_) | Outcome::Other(_) => None,
        };
        let Some(held) = status else {
            return Err("output.status: must be True or False".to_owned());
        };
        let reason = text("output.reason", self.reason.as_ref(), scope)?;
        if reason.len() > MAX_REASON_BYTES {
            return Err(format!("output.reason: longer than {MAX_REASON_BYTES} bytes ({})", reason.len()));
        }
        let mut message = text("output.message", self.message.as_ref(), scope)?;
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        let status = if held { Status::True } else { Status::False };
        Ok(Some(MappedCondition { kind: self.kind.clone(), status, reason, message }))
    }
}

/// Evaluates every rule on its own. `statuses` are the reports as the rules see them, `resource` the
/// resource as the API returns it.
pub(crate) fn evaluate(mappings: &[&Mapping], statuses: &Value, resource: &Value) -> Mapped {
    let scope = Scope::new().with("statuses", statuses).with("resource", resource);
    let mut mapped = Mapped::default();
    for mapping in mappings {
        match mapping.condition(&scope) {
            Ok(condition) => mapped.conditions.extend(condition),
            Err(cause) => mapped.failures.push(MappingFailure { kind: mapping.kind.clone(), cause }),
        }
    }
    mapped
}

fn evaluate_part(part: &str, expression: &Expression, scope: &Scope<'_>) -> Result<Outcome, String> {
    expression.evaluate(scope).map_err(|cause| format!("{part}: {cause}"))
}

/// A reason or message. Null is what a source without one gives.
fn text(part: &str, expression: Option<&Expression>, scope: &Scope<'_>) -> Result<String, String> {
    let Some(expression) = expression else { return Ok(String::new()) };
    match evaluate_part(part, expression, scope)? {
        // PostgreSQL cannot keep U+0000.
        Outcome::Text(text) if text.contains('\0') => Ok(text.replace('\0', "")),
        Outcome::Text(text) => Ok(text),
        Outcome::Other("null_type") => Ok(String::new()),
        Outcome::Other(kind) => Err(format!("{part}: must be text, not {kind}")),
        Outcome::Bool(_) => Err(format!("{part}: must be text, not bool")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(source: &str) -> ExpressionDescriptor {
        ExpressionDescriptor { expression: source.to_owned() }
    }

    fn rule(when: &str, status: &str, reason: &str, message: &str) -> ConditionDescriptor {
        ConditionDescriptor {
            kind: "DnsReady".into(),
            when: expression(when),
            output: OutputDescriptor {
                status: expression(status),
                reason: Some(expression(reason)),
                message: Some(expression(message)),
            },
        }
    }

    fn statuses() -> Value {
        json!([
            {
                "adapter": "validator", "observed_generation": 1, "data": {},
                "conditions": [{"type": "Available", "status": "False", "reason": "Waiting", "message": "not yet"}],
            },
            {
                "adapter": "dns", "observed_generation": 3,
                "data": {"zones": [{"name": "a.example"}, {"name": "b.example"}], "admin_password": "hunter2"},
                "conditions": [
                    {"type": "Available", "status": "True", "reason": "Ok", "message": "fine"},
                    {"type": "ZonesReady", "status": "True", "reason": "AllZones", "message": "2 zones"},
                ],
            },
        ])
    }

    fn resource() -> Value {
        json!({"kind": "Cluster", "name": "fleet-1", "generation": 4, "spec": {"region": "eu", "pull_secret": "hunter2"}})
    }

    fn map(rules: &[ConditionDescriptor]) -> Mapped {
        let mappings: Vec<_> = rules.iter().map(|rule| Mapping::compile(rule).unwrap()).collect();
        evaluate(&mappings.iter().collect::<Vec<_>>(), &statuses(), &resource())
    }

    fn condition(when: &str, status: &str, reason: &str, message: &str) -> (Status, String, String) {
        let mapped = map(&[rule(when, status, reason, message)]);
        assert_eq!(mapped.failures, []);
        let [condition] = &*mapped.conditions else { panic!("one condition is expected") };
        assert_eq!(condition.kind, "DnsReady");
        (condition.status, condition.reason.clone(), condition.message.clone())
    }

    fn cause(when: &str, status: &str, reason: &str, message: &str) -> String {
        let mapped = map(&[rule(when, status, reason, message)]);
        assert_eq!(mapped.conditions, []);
        let [failure] = &*mapped.failures else { panic!("one failure is expected") };
        assert_eq!(failure.kind, "DnsReady");
        failure.cause.clone()
    }

    #[test]
    fn a_finding_of_an_adapter_is_lifted_as_it_is() {
        let dns = "statuses.filter(s, s.adapter == 'dns')[0].conditions.filter(c, c.type == 'ZonesReady')[0]";
        assert_eq!(
            condition(
                "statuses.exists(s, s.adapter == 'dns' && s.conditions.exists(c, c.type == 'ZonesReady'))",
                &format!("{dns}.status"),
                &format!("{dns}.reason"),
                &format!("resource.name + ': ' + {dns}.message"),
            ),
            (Status::True, "AllZones".into(), "fleet-1: 2 zones".into())
        );
    }

    #[test]
    fn functions_reach_into_data_and_secrets_stay_hidden() {
        let (_, reason, message) = condition(
            "dig(statuses, '1.data.zones.1.name') == 'b.example' && dig(resource, 'spec.missing') == null",
            "true",
            "statuses[1].data.?zone.orValue('NoZone')",
            "toJson(statuses[1].data) + toJson(resource.spec)",
        );
        assert_eq!(reason, "NoZone");
        assert_eq!(
            message,
            r#"{"admin_password":"***REDACTED***","zones":[{"name":"a.example"},{"name":"b.example"}]}{"pull_secret":"***REDACTED***","region":"eu"}"#
        );
    }

    #[test]
    fn there_is_no_condition_when_when_is_false() {
        assert_eq!(map(&[rule("resource.generation > 4", "1 / 0 == 1", "''", "''")]), Mapped::default());
    }

    #[test]
    fn a_when_that_is_not_a_bool_is_a_failure() {
        assert_eq!(cause("'true'", "true", "''", "''"), "when: must be true or false, not string");
        assert_eq!(cause("1", "true", "''", "''"), "when: must be true or false, not int");
        assert_eq!(
            cause("resource.?spec", "true", "''", "''"),
            "when: must be true or false, not optional_type"
        );
    }

    #[test]
    fn a_status_is_true_or_false_in_any_case_and_anything_else_a_failure() {
        for (status, held) in [
            ("true", Status::True),
            ("1 > 2", Status::False),
            ("'True'", Status::True),
            ("'FALSE'", Status::False),
            ("'tRuE'", Status::True),
        ] {
            assert_eq!(condition("true", status, "''", "''").0, held, "{status}");
        }
        for status in ["'Unknown'", "''", "' True'", "1", "null", "resource"] {
            assert_eq!(cause("true", status, "''", "''"), "output.status: must be True or False", "{status}");
        }
    }

    #[test]
    fn a_reason_over_256_bytes_leaves_the_condition_out() {
        let (_, reason, _) = condition("true", "true", &format!("'{}'", "é".repeat(128)), "''");
        assert_eq!(reason.len(), 256);
        assert_eq!(
            cause("true", "true", &format!("'{}x'", "é".repeat(128)), "''"),
            "output.reason: longer than 256 bytes (257)"
        );
    }

    #[test]
    fn a_message_over_2048_bytes_is_cut_at_a_character() {
        let (_, _, message) = condition("true", "true", "''", &format!("'x{}'", "é".repeat(1_024)));
        assert_eq!(message, format!("x{}", "é".repeat(1_023)));
        let (_, _, message) = condition("true", "true", "''", &format!("'{}'", "é".repeat(1_024)));
        assert_eq!(message.len(), 2_048);
    }

    #[test]
    fn reason_and_message_are_text_without_nul_and_empty_where_the_source_gives_none() {
        assert_eq!(condition("true", "true", "null", "null"), (Status::True, String::new(), String::new()));
        assert_eq!(
            condition("true", "true", r"'a\u0000b'", r"'\u0000'"),
            (Status::True, "ab".into(), String::new())
        );
        assert_eq!(cause("true", "true", "1", "''"), "output.reason: must be text, not int");
        assert_eq!(cause("true", "true", "''", "true"), "output.message: must be text, not bool");
        let mut bare = rule("true", "true", "''", "''");
        (bare.output.reason, bare.output.message) = (None, None);
        let bare = &map(&[bare]).conditions[0];
        assert_eq!((&*bare.reason, &*bare.message), ("", ""));
    }

    #[test]
    fn a_rule_that_fails_leaves_only_its_own_condition_out() {
        let named = |kind: &str, when: &str| ConditionDescriptor {
            kind: kind.into(),
            ..rule(when, "true", "''", "''")
        };
        let mapped = map(&[
            named("A", "true"),
            named("B", "resource.missing"),
            named("C", "[0, 1].all(i, 1 / i == 1)"),
            named("D", "statuses.size() == 2"),
        ]);
        let kinds: Vec<_> = mapped.conditions.iter().map(|c| c.kind.as_str()).collect();
        assert_eq!(kinds, ["A", "D"]);
        let causes: Vec<_> = mapped.failures.iter().map(|f| (f.kind.as_str(), f.cause.as_str())).collect();
        assert_eq!(causes, [("B", "when: no such member: missing"), ("C", "when: division by zero")]);
    }

    #[test]
    fn an_evaluation_is_bounded() {
        let list = json!((0..1_000).collect::<Vec<_>>());
        let endless =
            rule("statuses.all(a, statuses.all(b, statuses.all(c, a + b + c >= 0)))", "true", "''", "''");
        let mapped = evaluate(&[&Mapping::compile(&endless).unwrap()], &list, &Value::Null);
        assert_eq!(mapped.failures[0].cause, "when: takes more than 50000 steps");
    }

    #[test]
    fn every_faulty_expression_of_a_rule_is_named() {
        let mut rule = rule("status.exists(s, true)", "statuses[", "resource.name.lenght()", "");
        let faults = Mapping::compile(&rule).unwrap_err();
        assert_eq!(
            faults,
            [
                "when.expression: line 1, column 1: unknown name 'status'; did you mean statuses?",
                "output.status.expression: line 1, column 10: the expression ends too early",
                "output.reason.expression: line 1, column 15: unknown function 'lenght'",
                "output.message.expression: required",
            ]
        );
        rule = ConditionDescriptor { kind: "Empty".into(), ..ConditionDescriptor::default() };
        assert_eq!(
            Mapping::compile(&rule).unwrap_err(),
            ["when.expression: required", "output.status.expression: required"]
        );
    }

    #[test]
    fn a_rule_that_uses_no_report_is_known_by_all_of_its_expressions() {
        let reads = |rule: ConditionDescriptor| Mapping::compile(&rule).unwrap().reads_reports();
        assert!(!reads(rule("resource.generation > 1", "true", "resource.name", "'statuses'")));
        assert!(!reads(rule("[1].all(statuses, statuses > 0)", "true", "''", "''")));
        for at in 0..4 {
            let mut expressions = ["true", "true", "''", "''"];
            expressions[at] = if at < 2 { "statuses.size() > 0" } else { "statuses[0].adapter" };
            let [when, status, reason, message] = expressions;
            assert!(reads(rule(when, status, reason, message)), "{expressions:?}");
        }
    }

    #[test]
    fn rules_are_compared_by_their_source() {
        let compile = |message| Mapping::compile(&rule("true", "true", "''", message)).unwrap();
        assert_eq!(compile("'a'"), compile("'a'"));
        assert_eq!(compile("'a'").source(), compile("'a'").source());
        assert_ne!(compile("'a'"), compile("'b'"));
        assert_ne!(compile("'a'").source(), compile("'b'").source());
    }
}
