//! The trace of an execution, for people and as JSON with the member names of the Go adapter's dry run, ours beside them.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::engine::{Finished, Outcome};

/// A trace to print.
#[derive(Debug)]
pub struct Trace<'a> {
    /// Id of the event.
    pub event_id: &'a str,
    /// Type of the event.
    pub event_type: &'a str,
    /// The execution.
    pub finished: &'a Finished,
    /// What was asked of targets: the verb, the object, and what it did.
    pub operations: &'a [(&'static str, Value, &'static str)],
    /// Whether manifests and bodies are shown.
    pub verbose: bool,
}

fn word(failed: bool) -> &'static str {
    if failed { "failed" } else { "success" }
}

impl Trace<'_> {
    /// Whether the execution failed.
    pub fn is_failed(&self) -> bool {
        self.finished.outcome == Outcome::Error
    }

    fn error_of(&self, phase: &str) -> Option<&str> {
        let errors = &self.finished.journal.errors;
        errors.iter().find(|(of, _)| *of == phase).map(|(_, message)| message.as_str())
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let journal = &self.finished.journal;
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let preconditions = journal.preconditions.iter().map(|one| {
            slim(json!({"name": one.name, "status": word(one.error.is_some()), "matched": one.matched, "error": text(&one.error)}))
        });
        let resources = journal.resources.iter().map(|one| {
            slim(json!({"name": one.name, "kind": one.kind, "namespace": one.namespace, "resourceName": one.object,
                        "status": word(one.error.is_some()), "operation": one.operation, "reason": one.reason,
                        "error": text(&one.error)}))
        });
        let actions = journal.actions.iter().map(|one| {
            let status = if one.skipped.is_some() { "skipped" } else { word(one.error.is_some()) };
            let mut action = slim(json!({"name": one.name, "status": status, "error": text(&one.error)}));
            if one.skipped.is_some() {
                action["skipped"] = true.into();
            }
            action
        });
        let calls = journal.calls.iter().map(|one| {
            let (request, response) = match self.verbose {
                true => (text(&one.request), one.response.clone()),
                false => Default::default(),
            };
            slim(json!({"method": one.method, "url": one.path, "statusCode": one.status,
                        "requestBody": request, "responseBody": response}))
        });
        let operations = self.operations.iter().map(|(verb, object, result)| {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            slim(json!({"operation": verb, "kind": text("/kind"), "namespace": text("/metadata/namespace"),
                        "name": text("/metadata/name"), "result": result}))
        });
        let errors: Map<_, _> = journal
            .errors
            .iter()
            .map(|(phase, message)| ((*phase).to_owned(), message.clone().into()))
            .collect();
        json!({
            "event": {"id": self.event_id, "type": self.event_type},
            "status": word(self.is_failed()),
            "outcome": self.finished.outcome.name(),
            "params": journal.params,
            "preconditions": preconditions.collect::<Vec<_>>(),
            "resources": resources.collect::<Vec<_>>(),
            "discoveredResources": journal.objects,
            "postActions": actions.collect::<Vec<_>>(),
            "errors": errors,
            "apiRequests": calls.collect::<Vec<_>>(),
            "transportOperations": operations.collect::<Vec<_>>(),
            "report": journal.report,
            "corrected": journal.corrected,
            "warnings": journal.warnings,
        })
    }

    /// As text.
    pub fn to_text(&self) -> String {
        let journal = &self.finished.journal;
        let mut out = format!("Event: id={} type={}\n\n", self.event_id, self.event_type);
        let line = |out: &mut String, text: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{text}");
        };
        let phase = |name: &str, phase: &str, detail: &str| {
            let status = if self.error_of(phase).is_some() { "FAILED" } else { "SUCCESS" };
            format!("{name}: {status}{detail}")
        };
        line(&mut out, phase("Params", "param_extraction", ""));
        for (name, value) in &journal.params {
            line(&mut out, format!("  {name} = {value}"));
        }
        let met = if journal.skipped.is_some() { " (NOT MET)" } else { "" };
        line(&mut out, phase("Preconditions", "preconditions", met));
        for one in &journal.preconditions {
            let status = if one.error.is_some() {
                "FAIL"
            } else if one.matched {
                "PASS"
            } else {
                "NOT MET"
            };
            line(&mut out, format!("  {} {status}", one.name));
        }
        line(&mut out, phase("Resources", "resources", ""));
        for one in &journal.resources {
            let status = if one.error.is_some() { "FAILED".to_owned() } else { one.operation.to_uppercase() };
            let place = if one.namespace.is_empty() { String::new() } else { format!("{}/", one.namespace) };
            line(
                &mut out,
                format!("  {} {status} {} {place}{} ({})", one.name, one.kind, one.object, one.reason),
            );
            if let (true, Some(manifest)) = (self.verbose, &one.manifest) {
                line(&mut out, format!("    {manifest}"));
            }
        }
        line(&mut out, phase("Post actions", "post_actions", ""));
        for one in &journal.actions {
            let status = if one.skipped.is_some() {
                "SKIPPED"
            } else if one.error.is_some() {
                "FAILED"
            } else {
                "EXECUTED"
            };
            line(&mut out, format!("  {} {status}", one.name));
        }
        for one in &journal.calls {
            line(&mut out, format!("  {} {} -> {}", one.method, one.path, one.status));
        }
        for (phase, message) in &journal.errors {
            line(&mut out, format!("Error in {phase}: {message}"));
        }
        for warning in &journal.warnings {
            line(&mut out, format!("Warning: {warning}"));
        }
        if let Some(report) = &journal.report {
            let by = if journal.fallback.is_some() { "the framework's" } else { "the author's" };
            line(&mut out, format!("Report ({by}): {report}"));
        }
        for condition in &journal.corrected {
            line(&mut out, format!("Corrected: {condition}"));
        }
        line(
            &mut out,
            format!("\nResult: {} ({})", word(self.is_failed()).to_uppercase(), self.finished.outcome.name()),
        );
        out
    }
}

/// Without members that are empty texts.
fn slim(mut value: Value) -> Value {
    if let Some(members) = value.as_object_mut() {
        members.retain(|_, value| value.as_str() != Some(""));
    }
    value
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use hyperfleet_core::Timestamp;

    use super::super::World;
    use super::*;
    use crate::engine::Program;
    use crate::task::{Options, Task};

    const TASK: &str = r#"
params: [{name: id, source: event.id}]
preconditions:
  - name: fetch
    api_call: {url: "/clusters/{{ .id }}"}
    capture: [{name: clusterName, field: name}, {name: ready, expression: "status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')"}]
    conditions: [{field: ready, operator: equals, value: false}]
resources:
  - name: namespace
    manifest: {apiVersion: v1, kind: Namespace, metadata: {name: "{{ .id | lower }}", labels: {id: "{{ .id }}"}}}
    discovery: {by_selectors: {label_selector: {id: "{{ .id }}"}}}
post:
  payloads:
    - name: payload
      build:
        adapter: dns
        observed_generation: {expression: event.generation}
        conditions:
          - {type: Applied, status: {expression: "has(resources.namespace) ? 'True' : 'False'"}}
          - {type: Available, status: {expression: "resources.?namespace.?status.?phase.orValue('') == 'Active' ? 'True' : 'False'"}}
          - {type: Health, status: "True"}
  post_actions:
    - {name: report, api_call: {method: PUT, url: "/clusters/{{ .id }}/statuses", body: "{{ .payload }}"}}
"#;

    fn dry_run(responses: &str, discovery: &str) -> (Value, String) {
        let event = r#"{"specversion":"1.0","id":"e1","type":"t","source":"s","data":{"id":"ABC","kind":"Cluster","href":"/api/hyperfleet/v1/clusters/ABC","generation":5}}"#;
        let mut world = World::read(event, Some(responses), Some(discovery)).unwrap();
        let task = Task::parse(TASK, "task.yaml", Path::new("."), &Options::default()).task.unwrap();
        let program = Program {
            task,
            adapter: "dns".to_owned(),
            version: String::new(),
            config: json!({}),
            environment: Map::new(),
            base_url: "http://localhost:8000".to_owned(),
            api_version: "v1".to_owned(),
            guards_finalized: true,
        };
        let finished = world.execute(Arc::new(program), Timestamp::from_micros(0));
        let trace = Trace {
            event_id: &world.event_id,
            event_type: &world.event_type,
            finished: &finished,
            operations: &world.operations,
            verbose: false,
        };
        (trace.to_json(), trace.to_text())
    }

    fn responses(status: u16) -> String {
        json!({"responses": [{"match": {"method": "GET", "urlPattern": "/api/hyperfleet/v1/clusters/.*"},
            "responses": [{"statusCode": status, "body": {"id": "ABC", "name": "my", "generation": 5,
                "status": {"conditions": [{"type": "Ready", "status": "False"}]}}}]}]})
        .to_string()
    }

    #[test]
    fn the_three_files_of_the_go_adapter_give_its_trace() {
        let discovery = r#"{"abc":{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"abc","labels":{"id":"ABC"}},"status":{"phase":"Active"}}}"#;
        let (trace, text) = dry_run(&responses(200), discovery);
        assert_eq!(trace["status"], "success", "{trace:#}");
        assert_eq!(trace["params"]["clusterName"], "my");
        assert_eq!(trace["preconditions"], json!([{"name": "fetch", "status": "success", "matched": true}]));
        assert_eq!(trace["resources"][0]["operation"], "create");
        assert_eq!(
            trace["transportOperations"],
            json!([{"operation": "apply", "kind": "Namespace", "name": "abc", "result": "create"}])
        );
        assert_eq!(trace["discoveredResources"]["namespace"]["status"]["phase"], "Active");
        assert_eq!(trace["postActions"], json!([{"name": "report", "status": "success"}]));
        assert_eq!(trace["report"]["conditions"][1]["status"], "True");
        assert!(text.ends_with("Result: SUCCESS (done)\n"), "{text}");
    }

    #[test]
    fn a_resource_that_is_not_there_touches_nothing() {
        let (trace, _) = dry_run(&responses(404), "{}");
        assert_eq!((&trace["outcome"], &trace["transportOperations"]), (&json!("gone"), &json!([])));
    }

    #[test]
    fn input_files_that_cannot_be_used_say_why() {
        let event = r#"{"id":"e","data":{"id":"1"}}"#;
        for (event, responses, why) in [
            ("[", None, "the event is no JSON"),
            ("{}", None, "no object data"),
            (r#"{"data":{}}"#, None, "data.id is missing"),
            (event, Some("{}"), "no list responses"),
            (
                event,
                Some(r#"{"responses":[{"match":{"urlPattern":"("},"responses":[{}]}]}"#),
                "no regular expression",
            ),
            (event, Some(r#"{"responses":[{"match":{"urlPattern":"x"}}]}"#), "missing or empty"),
        ] {
            let error = World::read(event, responses, None).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
