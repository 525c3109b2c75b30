//! Single executions, step by step.

use std::path::Path;
use std::sync::Arc;

use hyperfleet_core::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::targets::{ErrorClass, Observation, Operation, TargetError};
use crate::task::Options;

/// Answers of the world by the name of the effect; what is not named gets a good answer.
type World<'w> = &'w mut dyn FnMut(&Effect) -> Option<Answer>;

fn program(task: &str) -> Arc<Program> {
    let loaded = Task::parse(task, "task.yaml", Path::new("."), &Options::default());
    Arc::new(Program {
        task: loaded.task.unwrap_or_else(|| panic!("{:?}", loaded.findings)),
        adapter: "dns".to_owned(),
        version: "1".to_owned(),
        config: json!({"adapter": {"name": "dns"}}),
        environment: json!({"REGION": "eu"}).as_object().unwrap().clone(),
        base_url: "http://localhost:8000".to_owned(),
        api_version: "v1".to_owned(),
        guards_finalized: true,
    })
}

fn cluster(generation: i64, deleting: bool) -> Value {
    let mut cluster = json!({"id": "1", "kind": "Cluster", "name": "c", "generation": generation, "spec": {"n": 1_000_000},
                             "href": "/api/hyperfleet/v1/clusters/1"});
    if deleting {
        cluster["deleted_time"] = json!("2026-01-01T00:00:00Z");
    }
    cluster
}

fn input(attempt: u32) -> Input {
    let event = json!({"id": "1", "kind": "Cluster", "generation": 1});
    Input {
        event: event.as_object().unwrap().clone(),
        id: "1".into(),
        attempt,
        attempts: 3,
        ..Input::default()
    }
}

/// Runs to the end; the effects that were asked for, by name.
fn run(
    program: Arc<Program>,
    input: Input,
    resource: &Value,
    world: World<'_>,
) -> (Finished, Vec<&'static str>) {
    let mut execution = Execution::new(program, input);
    let (mut answer, mut asked) = (None, Vec::new());
    loop {
        match execution.resume(answer.take(), Timestamp::from_micros(1_000_000)) {
            Step::Done(finished) => return (*finished, asked),
            Step::Ask(effect) => {
                asked.push(name(&effect));
                answer = Some(world(&effect).unwrap_or_else(|| good(&effect, resource)));
            }
        }
    }
}

fn name(effect: &Effect) -> &'static str {
    match effect {
        Effect::Read { .. } => "read",
        Effect::LastReport => "last report",
        Effect::Call(_) => "call",
        Effect::File { .. } => "file",
        Effect::Observe(_) => "observe",
        Effect::Owned => "owned",
        Effect::Apply(_) => "apply",
        Effect::Delete(_) => "delete",
        Effect::Report(_) => "report",
    }
}

fn good(effect: &Effect, resource: &Value) -> Answer {
    match effect {
        Effect::Read { .. } => Answer::Read(Ok(Some(resource.clone()))),
        Effect::LastReport => Answer::LastReport(Ok(None)),
        Effect::Call(_) => Answer::Called(Ok(Reply { status: 200, body: "{}".into() })),
        Effect::File { .. } => Answer::File(Ok(" text \n".into())),
        Effect::Observe(lookups) => Answer::Observed(lookups.iter().map(|_| Observation::Absent).collect()),
        Effect::Owned => Answer::Observed(vec![Observation::Absent]),
        Effect::Apply(apply) => Answer::Applied(Ok((Operation::Created, apply.manifest.clone()))),
        Effect::Delete(_) => Answer::Deleted(Ok(())),
        Effect::Report(_) => Answer::Reported(Ok(Stored::Stored)),
    }
}

const JOB: &str = r#"
params:
  - {name: id, source: event.id}
  - {name: region, source: env.REGION}
  - {name: missing, source: env.NOTHING, default: fallback}
  - {name: owner, source: config.adapter.name}
  - {name: generation, source: event.generation, type: string}
  - {name: cluster, source: {api_call: {url: "/clusters/{{ .id }}"}}}
  - {name: n, source: cluster.spec.n}
  - {name: deleting, source: {expression: "has(params.cluster.deleted_time)"}}
resources:
  - name: job
    manifest:
      apiVersion: batch/v1
      kind: Job
      metadata: {name: "j-{{ .id }}-{{ .n }}"}
      spec: {region: "{{ .region }}", missing: "{{ .missing }}", owner: "{{ .owner }}", parallelism: 2}
    discovery: {by_name: "j-{{ .id }}-{{ .n }}"}
    lifecycle: {delete: {when: {expression: deleting}}}
status:
  available: resources.?job.?status.?succeeded.orValue(0) > 0
  failed: resources.?job.?status.?failed.orValue(0) > 3
  data: {job: {expression: resources.job.metadata.name, default: none}}
"#;

fn conditions(report: &Value) -> String {
    let conditions = report["conditions"].as_array().unwrap().iter();
    let one = |c: &Value| {
        format!(
            "{}={} {}",
            c["type"].as_str().unwrap(),
            c["status"].as_str().unwrap(),
            c["reason"].as_str().unwrap_or("-")
        )
    };
    conditions.map(one).collect::<Vec<_>>().join(", ")
}

#[test]
fn one_read_serves_the_framework_and_the_task_and_integers_stay_integers() {
    let mut manifest = Value::Null;
    let (finished, asked) = run(program(JOB), input(1), &cluster(1, false), &mut |effect| {
        if let Effect::Apply(apply) = effect {
            manifest = apply.manifest.clone();
        }
        None
    });
    assert_eq!(asked, ["read", "observe", "apply", "observe", "report"]);
    assert_eq!(manifest["metadata"]["name"], "j-1-1000000");
    assert_eq!(
        manifest["spec"],
        json!({"region": "eu", "missing": "fallback", "owner": "dns", "parallelism": 2})
    );
    assert_eq!(finished.journal.params["generation"], "1");
    assert_eq!((finished.outcome, finished.settle), (Outcome::Working, Settle::Acknowledge));
    let report = finished.journal.report.unwrap();
    assert_eq!(
        conditions(&report),
        "Applied=False InProgress, Available=False InProgress, Health=True Healthy"
    );
}

fn present(status: &Value) -> Answer {
    let job = json!({"kind": "Job", "metadata": {"name": "j-1-1000000", "uid": "u", "managedFields": [1]}, "status": status});
    Answer::Observed(vec![Observation::Present(vec![job])])
}

#[test]
fn the_short_form_tells_done_failed_and_gone() {
    for (status, expected, outcome) in [
        (
            json!({"succeeded": 1}),
            "Applied=True Applied, Available=True Ready, Health=True Healthy",
            Outcome::Done,
        ),
        (
            json!({"failed": 4}),
            "Applied=True Applied, Available=False Failed, Health=True Healthy",
            Outcome::Working,
        ),
    ] {
        let (finished, asked) = run(program(JOB), input(1), &cluster(1, false), &mut |effect| match effect {
            Effect::Observe(_) => Some(present(&status)),
            Effect::Apply(apply) => Some(Answer::Applied(Ok((Operation::Unchanged, {
                let mut object = apply.manifest.clone();
                object["status"] = status.clone();
                object
            })))),
            _ => None,
        });
        assert_eq!(
            asked,
            ["read", "observe", "apply", "report"],
            "what did not change is not looked at again"
        );
        let report = finished.journal.report.unwrap();
        assert_eq!(conditions(&report), expected);
        assert_eq!(report["data"], json!({"job": "j-1-1000000"}));
        assert_eq!(finished.outcome, outcome);
    }
    let (finished, asked) = run(program(JOB), input(1), &cluster(2, true), &mut |_| None);
    assert_eq!(asked, ["read", "observe", "owned", "owned", "report"]);
    assert_eq!(
        conditions(&finished.journal.report.unwrap()),
        "Applied=False CleanupConfirmed, Available=False CleanupConfirmed, Health=True Healthy, Finalized=True CleanupConfirmed"
    );
}

#[test]
fn while_deleting_every_match_is_deleted_and_nothing_is_applied() {
    let mut seen = 0;
    let (finished, asked) = run(program(JOB), input(1), &cluster(2, true), &mut |effect| match effect {
        Effect::Observe(_) => {
            seen += 1;
            Some(present(&json!({})))
        }
        _ => None,
    });
    assert_eq!(asked, ["read", "observe", "delete", "observe", "owned", "report"]);
    let report = finished.journal.report.unwrap();
    assert!(conditions(&report).ends_with("Finalized=False CleanupInProgress"), "{report}");
    assert_eq!(seen, 2);
}

#[test]
fn an_unknown_name_in_a_delete_condition_keeps_everything_as_it_is() {
    let task = JOB.replace("when: {expression: deleting}", "when: {expression: deletin}");
    let (finished, asked) = run(program(&task), input(1), &cluster(2, true), &mut |_| None);
    assert_eq!(asked, ["read", "observe", "last report", "report"], "nothing is applied, nothing deleted");
    assert_eq!((finished.outcome, finished.settle), (Outcome::Error, Settle::Acknowledge));
    let report = finished.journal.report.unwrap();
    assert!(conditions(&report).contains("Health=False ExecutionFailed:resources"), "{report}");
}

#[test]
fn a_resource_that_is_not_there_touches_nothing() {
    let (finished, asked) = run(program(JOB), input(1), &cluster(1, false), &mut |effect| match effect {
        Effect::Read { .. } => Some(Answer::Read(Ok(None))),
        _ => None,
    });
    assert_eq!(asked, ["read"]);
    assert_eq!((finished.outcome, finished.settle), (Outcome::Gone, Settle::Acknowledge));
}

fn error(class: ErrorClass) -> TargetError {
    TargetError { class, reason: "Why".into(), message: "because".into() }
}

#[test]
fn what_may_pass_is_reported_from_the_second_time_and_given_up_at_the_last() {
    let health = |attempt: u32, class: ErrorClass| {
        let (finished, asked) =
            run(program(JOB), input(attempt), &cluster(1, false), &mut |effect| match effect {
                Effect::Apply(_) => Some(Answer::Applied(Err(error(class)))),
                _ => None,
            });
        let report = finished.journal.report.map(|report| conditions(&report)).unwrap_or_default();
        (report.rsplit("Health=").next().unwrap_or_default().to_owned(), finished.settle, asked.len())
    };
    let transient = ErrorClass::Transient;
    assert_eq!(health(1, transient), (String::new(), Settle::Retry("Why: because".into()), 3));
    assert_eq!(health(2, transient).0, "False Retrying");
    assert_eq!(health(3, transient).0, "False GaveUp");
    assert_eq!(health(3, transient).1, Settle::Retry("Why: because".into()));
    let (report, settle, _) = health(1, ErrorClass::Outage { retry_after: None });
    assert_eq!(report, "False TargetUnavailable");
    assert_eq!(settle, Settle::Outage { reason: "Why: because".into(), retry_after: None });
    assert_eq!(health(1, ErrorClass::Terminal).1, Settle::Acknowledge);
    assert_eq!(health(1, ErrorClass::Business).0, "True Healthy");
}

#[test]
fn a_stale_replica_is_asked_once_more_and_then_not_believed() {
    let stale = Input { reported_generation: 2, ..input(1) };
    let (finished, asked) = run(program(JOB), stale, &cluster(1, false), &mut |_| None);
    assert_eq!(asked, ["read", "read"]);
    assert!(matches!(finished.settle, Settle::Retry(_)));
}

#[test]
fn an_unmet_precondition_gates_changes_but_not_observation() {
    let task = JOB.replace("resources:\n  - name", "preconditions:\n  - {name: p, conditions: [{field: n, operator: lessThan, value: 5}]}\nresources:\n  - name");
    let (finished, asked) = run(program(&task), input(1), &cluster(1, false), &mut |effect| match effect {
        Effect::Observe(_) => Some(present(&json!({"succeeded": 1}))),
        _ => None,
    });
    assert_eq!(asked, ["read", "observe", "report"]);
    assert_eq!(finished.outcome, Outcome::Skipped);
    assert_eq!(
        finished.journal.skipped.as_deref(),
        Some("precondition 'p' not met: n lessThan 5 (actual: 1000000)")
    );
    let report = finished.journal.report.unwrap();
    assert_eq!(
        conditions(&report),
        "Applied=True Applied, Available=False PreconditionNotMet, Health=True Healthy"
    );
}

#[test]
fn the_short_form_keeps_what_was_known_when_the_adapter_fails() {
    let before = json!({"adapter": "dns", "observed_generation": 1, "conditions": [
        {"type": "Applied", "status": "True", "reason": "Applied"}, {"type": "Available", "status": "True", "reason": "Ready"}]});
    let (finished, _) = run(program(JOB), input(1), &cluster(1, false), &mut |effect| match effect {
        Effect::Apply(_) => Some(Answer::Applied(Err(error(ErrorClass::Terminal)))),
        Effect::LastReport => Some(Answer::LastReport(Ok(Some(before.clone())))),
        _ => None,
    });
    let report = finished.journal.report.unwrap();
    assert_eq!(
        conditions(&report),
        "Applied=True Applied, Available=True Ready, Health=False ExecutionFailed:resources"
    );
}

#[test]
fn no_report_leaves_past_the_guard() {
    let body = r#"{"adapter":"dns","observed_generation":1,"observed_time":"2026-01-01T00:00:00Z","conditions":[{"type":"Applied","status":"True","reason":"A"},{"type":"Available","status":"True","reason":"A"},{"type":"Health","status":"True","reason":"A"},{"type":"Finalized","status":"True","reason":"A"}]}"#;
    for (method, url) in [
        ("PUT", "/clusters/1/statuses"),
        ("POST", "/clusters/%31/st%61tuses/"),
        ("PUT", "http://localhost:8000/api/hyperfleet/v1/clusters/2/statuses"),
        ("PATCH", "/clusters/1/statuses"),
    ] {
        let call = format!("{{method: {method}, url: \"{url}\", body: '{body}'}}");
        for task in [
            format!("params:\n  - {{name: p, source: {{api_call: {call}}}}}\n"),
            format!("preconditions:\n  - {{name: p, api_call: {call}, expression: 'true'}}\n"),
            format!("post:\n  post_actions:\n    - {{name: p, api_call: {call}}}\n"),
        ] {
            let mut world = |effect: &Effect| {
                assert!(!matches!(effect, Effect::Call(_)), "{task}: {effect:?}");
                if let Effect::Report(report) = effect {
                    assert!(
                        !report.to_string().contains(r#""type":"Finalized","status":"True""#),
                        "{report}"
                    );
                }
                None
            };
            run(program(&task), input(1), &cluster(1, false), &mut world);
        }
    }
}
