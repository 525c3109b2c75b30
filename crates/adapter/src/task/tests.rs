//! Task files as authors write them, good and bad.

use std::path::Path;

use super::*;

fn load(text: &str) -> Loaded {
    Task::parse(text, "task.yaml", Path::new("."), &Options::default())
}

pub(super) fn findings(text: &str) -> String {
    load(text).findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

const WHOLE: &str = r#"
params:
  - name: clusterId
    source: event.id
    type: string
    required: true
  - name: region
    source: env.REGION
    default: us-east-1
  - name: cluster
    source:
      api_call:
        url: "/clusters/{{ .clusterId }}"
        timeout: 10s
        retry_attempts: 3
        retry_backoff: exponential
        headers: [{name: X-A, value: "{{ .region }}"}]
  - name: deleting
    source: {expression: "has(cluster.deleted_time)"}
  - name: secret
    source: {file: {path: /etc/x, trim: false}}
preconditions:
  - name: checkState
    api_call: {method: GET, url: "/clusters/{{ .clusterId }}"}
    capture:
      - {name: clusterName, field: name}
      - name: notReady
        expression: |
          status.conditions.filter(c, c.type == "Ready").size() > 0
    conditions:
      - {field: clusterName, operator: in, values: [a, b]}
      - {field: checkState.status, operator: exists}
  - name: second
    expression: notReady || region == "x"
resources:
  - name: namespace
    transport: {client: kubernetes}
    manifest:
      apiVersion: v1
      kind: Namespace
      metadata:
        name: "{{ .clusterId | lower }}"
    discovery: {by_name: "{{ .clusterId | lower }}"}
    lifecycle:
      delete: {propagationPolicy: Foreground, when: {expression: deleting}}
      create: {when: {expression: "!deleting"}}
  - name: job
    manifest: |
      apiVersion: batch/v1
      kind: Job
      metadata:
        name: "{{ .clusterId }}-job"
    discovery:
      namespace: "*"
      by_selectors: {label_selector: {a/b: "{{ .clusterId }}"}}
    recreate_on_change: true
post:
  payloads:
    - name: payload
      build:
        adapter: "{{ .adapter.name }}"
        observed_generation: {expression: cluster.generation}
        data: {phase: {field: resources.namespace.status.phase, default: none}}
  post_actions:
    - name: report
      when: {expression: adapter.executionStatus == "success"}
      log: {level: warning, message: "reporting {{ .clusterId }}"}
      api_call: {method: PUT, url: "/clusters/{{ .clusterId }}/statuses", body: "{{ .payload }}"}
"#;

#[test]
fn a_whole_file_loads_with_every_key() {
    let loaded = load(WHOLE);
    let told: Vec<String> = loaded.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "task.yaml:23:5: warning[A701] api_call of a precondition is deprecated; use a param with source.api_call"
        ]
    );
    let task = loaded.task.unwrap();
    assert_eq!(task.environment, ["REGION"]);
    assert_eq!(
        task.object_types(),
        [("batch/v1".to_owned(), "Job".to_owned()), ("v1".to_owned(), "Namespace".to_owned())]
    );
    assert!(task.uses(TargetClient::Kubernetes) && !task.uses(TargetClient::Maestro));
}

#[test]
fn every_fault_is_told_at_once_with_its_place_and_a_suggestion() {
    let text = r#"
parms: []
params:
  - name: a
    sorce: event.id
  - name: adapter
    source: event.id
    type: integer
  - name: c
    source: {expression: "a ==", file: {path: x}}
preconditions:
  - name: p
    conditions: [{field: a, operator: equal, value: 1}, {field: a, operator: in, value: 1}, {field: a, operator: exists, value: 1}]
  - name: q
resources:
  - name: r
    transport: {client: kubernets}
  - name: s
    manifest: {apiVersion: v1, kind: X, metadata: {name: "{{ .a "}}
    discovery: {by_name: x, by_selectors: {label_selector: {a: b}}}
    lifecycle: {delete: {propagationPolicy: background}}
post:
  payloads: [{name: z}]
  post_actions: [{name: y, api_call: {method: get}}]
"#;
    insta::assert_snapshot!(findings(text), @r#"
    task.yaml:2:1: error[A101] unknown key parms; did you mean params?
    task.yaml:4:5: error[A102] params[0].source is required
    task.yaml:5:5: error[A101] unknown key params[0].sorce; did you mean source?
    task.yaml:6:5: error[A203] adapter is the name of something of the framework's
    task.yaml:8:11: error[A105] params[1].type must be one of string, int, int64, float, float64, bool, not "integer"
    task.yaml:10:13: error[A104] params[2].source must have one of api_call, expression and file
    task.yaml:10:31: error[A201] the expression ends too early
    task.yaml:13:39: error[A105] preconditions[0].conditions[0].operator must be one of equals, notEquals, in, notIn, contains, greaterThan, greaterThanOrEqual, lessThan, lessThanOrEqual, exists, notExists, not "equal"; did you mean equals?
    task.yaml:13:57: error[A103] the value of in must be a list
    task.yaml:13:93: error[A104] exists takes no value
    task.yaml:14:5: error[A102] a precondition needs an api_call, conditions or an expression
    task.yaml:16:5: error[A102] resources[0].manifest is required
    task.yaml:17:25: error[A105] resources[0].transport.client must be one of kubernetes, maestro, not "kubernets"; did you mean kubernetes?
    task.yaml:18:5: error[A102] lifecycle.delete needs a discovery to tell whether the object is there
    task.yaml:19:65: error[A202] unclosed action
    task.yaml:20:16: error[A104] a discovery has either by_name or by_selectors
    task.yaml:21:25: error[A102] resources[1].lifecycle.delete.when.expression is required
    task.yaml:21:45: error[A105] resources[1].lifecycle.delete.propagationPolicy must be one of Background, Foreground, Orphan, not "background"; did you mean Background?
    task.yaml:23:14: error[A104] a payload has either build or build_ref
    task.yaml:24:38: error[A102] post.post_actions[0].api_call.url is required
    task.yaml:24:47: error[A105] post.post_actions[0].api_call.method must be one of GET, POST, PUT, PATCH, DELETE, not "get"; did you mean GET?
    "#);
    assert!(load(text).task.is_none());
}

#[test]
fn an_unknown_name_is_a_warning_at_its_place_inside_a_block() {
    let text = "params:\n  - {name: clusterStatus, source: event.id}\npreconditions:\n  - name: p\n    expression: |\n      true &&\n        clusterStat == \"x\"\nresources:\n  - name: r\n    manifest: |\n      apiVersion: v1\n      kind: ConfigMap\n      metadata: {name: x}\n      data: {a: \"{{ .clusterStatu }}\"}\n";
    assert_eq!(
        findings(text),
        "task.yaml:7:9: warning[A207] unknown name 'clusterStat'; did you mean clusterStatus?\n\
         task.yaml:14:21: warning[A207] unknown name 'clusterStatu'; did you mean clusterStatus?"
    );
    assert!(load(text).task.is_some());
}

#[test]
fn files_are_read_below_the_task_and_their_faults_name_them() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("job.yaml", "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: \"{{ .idd }}\"\n");
    write(
        "task.yaml",
        "params: [{name: id, source: event.id}]\nresources:\n  - name: job\n    manifest: {ref: job.yaml}\n",
    );
    let loaded = Task::load(&directory.path().join("task.yaml"), &Options::default());
    let told: Vec<String> = loaded.findings.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].ends_with("job.yaml:4:13: warning[A207] unknown name 'idd'; did you mean id?"),
        "{told:?}"
    );
    assert_eq!(loaded.task.unwrap().object_types(), [("batch/v1".to_owned(), "Job".to_owned())]);

    write(
        "task.yaml",
        "resources:\n  - name: job\n    manifest: {ref: ../job.yaml}\n  - name: k\n    manifest: {ref: gone.yaml}\n",
    );
    let loaded = Task::load(&directory.path().join("task.yaml"), &Options::default());
    assert!(loaded.findings[0].message.contains("leads out of"), "{:?}", loaded.findings);
    assert!(loaded.findings[1].message.contains("cannot read"), "{:?}", loaded.findings);
}

#[test]
fn the_example_loads_without_a_finding() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/adapters/job.yaml");
    let loaded = Task::load(&file, &Options::default());
    assert_eq!(loaded.findings, []);
    assert!(loaded.task.is_some());
}

proptest::proptest! {
    #[test]
    fn loading_a_mangled_file_never_panics(at in 0..WHOLE.len(), length in 0..40_usize, with in "\\PC{0,6}") {
        let mut text = WHOLE.to_owned();
        let start = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        let end = (start + length).min(text.len());
        if text.is_char_boundary(end) {
            text.replace_range(start..end, &with);
            let _ = load(&text);
        }
    }
}
