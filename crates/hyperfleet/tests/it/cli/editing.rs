//! `edit`, with shell scripts for people at editors.

use std::path::PathBuf;

use hyperfleet_testkit::eventually;
use serde_json::{Value, json};

use super::{Cli, DEADLINE};
use crate::support::{App, any_store};

const GO: &str = "compatibility: {contract: go-0.2}";

/// A person whose editor is this script; the file is `$1`.
fn person(app: &App, script: &str) -> Cli {
    let cli = Cli::of(app).file("editor.sh", script);
    let directory = cli.program.directory().display().to_string();
    cli.env("VISUAL", "").env("EDITOR", "sh editor.sh").env("TMPDIR", &directory)
}

/// The texts that were left in the directory.
fn kept(cli: &Cli) -> Vec<PathBuf> {
    let files = std::fs::read_dir(cli.program.directory()).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.to_str().unwrap().contains("hyperfleet-edit-")).collect()
}

fn seen(cli: &Cli) -> String {
    std::fs::read_to_string(cli.program.directory().join("seen")).unwrap()
}

async fn cluster(app: &App) -> Value {
    let spec = json!({"region": "eu", "size": 3, "deep": {"a": 1, "b": 2}});
    let labels = json!({"a": "b", "c": "d"});
    app.create("/clusters", &json!({"kind": "Cluster", "name": "prod-1", "labels": labels, "spec": spec}))
        .await
}

async fn edit_sends_only_the_changed_members_and_keeps_every_digit(app: &App) {
    let before = cluster(app).await;
    const EXACT: &str = "12345678901234567890.123456789012345678901";
    app.merge(&before, &serde_json::from_str(&format!("{{\"spec\": {{\"exact\": {EXACT}}}}}")).unwrap())
        .await;
    let cli = person(
        app,
        "cp \"$1\" seen; stat -c %a \"$1\" > mode; sed -i -e 's/size: 3/size: 4/' -e '/  a: b/d' -e '/    b: 2/d' \"$1\"",
    );
    assert_eq!(cli.ok("edit cluster prod-1").await, "cluster/prod-1 changed\n");
    insta::assert_snapshot!(seen(&cli), @"
    # cluster/prod-1 at generation 2: change labels, spec or references, save, and leave.
    # An unchanged or empty file sends nothing.
    kind: Cluster
    name: prod-1
    labels:
      a: b
      c: d
    spec:
      region: eu
      size: 3
      deep:
        a: 1
        b: 2
      exact: 12345678901234567890.123456789012345678901
    ");
    assert_eq!(std::fs::read_to_string(cli.program.directory().join("mode")).unwrap(), "600\n");
    let after = app.read(&before).await;
    assert_eq!(after["labels"], json!({"c": "d"}));
    assert_eq!((&after["spec"]["size"], &after["spec"]["deep"]), (&json!(4), &json!({"a": 1})));
    assert_eq!(after["spec"]["exact"].to_string(), EXACT);
    assert_eq!((&after["spec"]["region"], &after["generation"]), (&json!("eu"), &json!(3)));
    assert_eq!(kept(&cli).len(), 0);
}

async fn edit_without_a_change_sends_nothing(app: &App) {
    let cluster = cluster(app).await;
    let version = app.etag(&cluster).await;
    for script in ["true", "touch \"$1\"", "echo '# a thought' >> \"$1\"", ": > \"$1\""] {
        let cli = person(app, script);
        assert_eq!(cli.ok("edit cluster prod-1").await, "cluster/prod-1 unchanged\n", "{script}");
        assert_eq!(kept(&cli).len(), 0, "{script}");
    }
    let cli = person(app, "exit 3");
    let ended = cli.run("edit cluster prod-1").await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.ends_with("(sh editor.sh) ended with exit status: 3; nothing was sent\n"),
        "{ended:?}"
    );
    assert_eq!(kept(&cli).len(), 0, "there was nothing to lose");
    let cli = person(app, "exit 3").env("VISUAL", "true");
    assert_eq!(cli.ok("edit cluster prod-1").await, "cluster/prod-1 unchanged\n", "VISUAL comes first");
    assert_eq!(app.etag(&cluster).await, version);
}

async fn the_second_of_two_concurrent_edits_keeps_its_text_and_overwrites_nothing(app: &App) {
    let cluster = cluster(app).await;
    // The slow one has the text open until the quick one is done.
    let slow = person(
        app,
        "touch open; while ! [ -e done ]; do sleep 0.02; done; sed -i 's/region: eu/region: us/' \"$1\"",
    );
    let mut call = slow.start("edit cluster prod-1");
    let at_work = slow.program.directory().join("open");
    eventually("the open editor", DEADLINE, async || at_work.exists().then_some(())).await;
    person(app, "sed -i 's/size: 3/size: 9/' \"$1\"").ok("edit cluster prod-1").await;
    std::fs::write(slow.program.directory().join("done"), "").unwrap();
    assert_eq!(call.ended().await, Some(4));

    let told = call.stderr().join("\n");
    assert!(told.contains("cluster/prod-1 was changed while you edited it; nothing was sent"), "{told}");
    let [file] = <[PathBuf; 1]>::try_from(kept(&slow)).unwrap();
    assert!(told.contains(file.to_str().unwrap()), "{told}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("region: us") && text.contains("size: 3"), "{text}");
    let after = app.read(&cluster).await["spec"].take();
    assert_eq!((&after["region"], &after["size"]), (&json!("eu"), &json!(9)));

    // The text is a document like any other.
    let told = slow.transcript(&format!("diff -f {}", file.display())).await;
    insta::assert_snapshot!(told, @r#"
    cluster/prod-1
      - spec.region: "eu"
      + spec.region: "us"
      - spec.size: 9
      + spec.size: 3
    --- exit 8
    "#);
}

async fn a_syntax_error_opens_the_editor_again_with_the_error_as_a_comment(app: &App) {
    let cluster = cluster(app).await;
    // First a bracket too few; then what is shown is kept, and the mistake repaired.
    let script = "if [ -e again ]; then cp \"$1\" seen; sed -i 's/size: \\[4/size: 4/' \"$1\"; \
                  else touch again; sed -i 's/size: 3/size: [4/' \"$1\"; fi";
    let cli = person(app, script);
    cli.ok("edit cluster prod-1").await;
    assert!(seen(&cli).starts_with("#! ") && seen(&cli).contains("size: [4"), "{}", seen(&cli));
    assert_eq!(app.read(&cluster).await["spec"]["size"], 4);
    assert_eq!(kept(&cli).len(), 0);
}

async fn a_refused_edit_opens_the_editor_again_with_the_problem(app: &App) {
    let cluster = cluster(app).await;
    let script = "if [ -e again ]; then [ -e seen ] || grep '^#!' \"$1\" > seen; sed -i 's/not a key/key/' \"$1\"; \
                  else touch again; sed -i -e 's/  a: b/  \"not a key\": b/' -e 's/  c: d/  c: [d]/' \"$1\"; fi";
    let cli = person(app, script);
    let ended = cli.run("edit cluster prod-1").await;
    insta::assert_snapshot!(super::steady(&seen(&cli)), @r#"
    #! Validation Error (HYPERFLEET-VAL-000, HTTP 400)
    #!   Request validation failed with 2 errors
    #!   labels.c must be a string, not an array (given: "[\"d\"]")
    #!   labels['not a key']: the key's name must start and end with a letter or digit and hold only letters, digits, '.', '_' and '-' (given: "not a key")
    #!   trace id: [trace]
    "#);
    // One of the two faults is left. The text is kept, and the server's answer decides the exit code.
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(kept(&cli).len(), 1);
    assert_eq!(app.read(&cluster).await["labels"], json!({"a": "b", "c": "d"}));
    let text = std::fs::read_to_string(&kept(&cli)[0]).unwrap();
    assert_eq!(
        text.matches("HTTP 400").count(),
        1,
        "each complaint takes the place of the one before: {text}"
    );
    std::fs::remove_file(&kept(&cli)[0]).unwrap();
    std::fs::remove_file(cli.program.directory().join("again")).unwrap();
    let cli = cli.file("editor.sh", &script.replace("c: [d]", "c: e"));
    cli.ok("edit cluster prod-1").await;
    assert_eq!(app.read(&cluster).await["labels"], json!({"key": "b", "c": "e"}));
}

/// What is painted for the terminal must not get into the text.
async fn a_refused_edit_can_be_corrected_on_a_coloured_terminal(app: &App) {
    let before = cluster(app).await;
    let script = "if [ -e again ]; then sed -i 's/  a b: c/  ab: c/' \"$1\"; \
                  else touch again; sed -i 's/  a: b/  a b: c/' \"$1\"; fi";
    let cli = person(app, script).env("CLICOLOR_FORCE", "1");
    let ended = cli.run("edit cluster prod-1").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(app.read(&before).await["labels"], json!({"c": "d", "ab": "c"}));
}

async fn an_unreadable_edit_is_kept(app: &App) {
    cluster(app).await;
    let cli = person(app, "printf '# caf\\351\\n' >> \"$1\"");
    let ended = cli.run("edit cluster prod-1").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("your text is kept in"), "{ended:?}");
    let [file] = <[PathBuf; 1]>::try_from(kept(&cli)).unwrap();
    assert!(std::fs::read(file).unwrap().ends_with(b"# caf\xe9\n"));
}

async fn an_abandoned_edit_is_kept(app: &App) {
    let cluster = cluster(app).await;
    let cli = person(app, "[ -e again ] || sed -i 's/name: prod-1/name: prod-2/' \"$1\"; touch again");
    let ended = cli.run("edit cluster prod-1").await;
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("name cannot be changed\n  your text is kept in "), "{}", ended.stderr);
    let [file] = <[PathBuf; 1]>::try_from(kept(&cli)).unwrap();
    assert!(std::fs::read_to_string(file).unwrap().contains("name: prod-2"));
    assert_eq!(app.read(&cluster).await["name"], "prod-1");
}

async fn an_edit_is_kept_when_the_server_is_unreachable(app: &App) {
    cluster(app).await;
    let pid = app.server.pid().unwrap().to_string();
    let cli = person(app, &format!("sed -i 's/size: 3/size: 4/' \"$1\"; kill -9 {pid}"));
    let ended = cli.run("edit cluster prod-1").await;
    assert_eq!(ended.code, Some(6), "{ended:?}");
    let [file] = <[PathBuf; 1]>::try_from(kept(&cli)).unwrap();
    assert!(ended.stderr.contains(file.to_str().unwrap()));
    assert!(std::fs::read_to_string(file).unwrap().contains("size: 4"));
}

async fn edit_shows_the_owner_by_name(app: &App) {
    let cluster = cluster(app).await;
    app.create_nodepool(&cluster, "workers").await;
    let cli = person(app, "grep -v '^#' \"$1\" > seen; sed -i 's/spec: {}/spec: {n: 1}/' \"$1\"");
    assert_eq!(cli.ok("edit nodepool prod-1/workers").await, "nodepool/workers changed\n");
    insta::assert_snapshot!(seen(&cli), @"
    kind: NodePool
    name: workers
    owner: cluster/prod-1
    labels: {}
    spec: {}
    ");
}

/// There a merge patch replaces what it names, and pages are small.
async fn edit_loses_nothing_in_compatibility_mode(app: &App) {
    let cluster = cluster(app).await;
    let cli = person(app, "sed -i -e 's/size: 3/size: 4/' -e '/  a: b/d' -e '/    b: 2/d' \"$1\"").file(
        "desired.yaml",
        "kind: Cluster\nname: prod-1\nspec: {region: us, deep: {c: 3}}\nlabels: {e: f}\n",
    );
    cli.ok("edit cluster prod-1").await;
    let after = app.read(&cluster).await;
    assert_eq!((&after["spec"]["region"], &after["labels"]), (&json!("eu"), &json!({"c": "d"})));
    assert_eq!((&after["spec"]["size"], &after["spec"]["deep"]), (&json!(4), &json!({"a": 1})));
    cli.ok("apply -f desired.yaml").await;
    cli.ok("label cluster prod-1 g=h").await;
    let after = app.read(&cluster).await;
    assert_eq!(after["labels"], json!({"c": "d", "e": "f", "g": "h"}));
    assert_eq!((&after["spec"]["size"], &after["spec"]["deep"]), (&json!(4), &json!({"a": 1, "c": 3})));
    assert_eq!(cli.run("diff -f desired.yaml").await.code, Some(0));
    for n in 0..120 {
        app.create_cluster(&format!("more-{n}")).await;
    }
    assert_eq!(cli.ok("get clusters -o name").await.lines().count(), 121);
}

any_store!(
    edit_sends_only_the_changed_members_and_keeps_every_digit,
    edit_without_a_change_sends_nothing,
    the_second_of_two_concurrent_edits_keeps_its_text_and_overwrites_nothing,
    a_syntax_error_opens_the_editor_again_with_the_error_as_a_comment,
    a_refused_edit_opens_the_editor_again_with_the_problem,
    a_refused_edit_can_be_corrected_on_a_coloured_terminal,
    an_unreadable_edit_is_kept,
    an_abandoned_edit_is_kept,
    edit_shows_the_owner_by_name,
    an_edit_is_kept_when_the_server_is_unreachable,
);

any_store!(config = GO; edit_loses_nothing_in_compatibility_mode);
