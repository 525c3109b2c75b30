//! The commands of the README and of the tutorial, run in order in one shell: each prints what the page shows. `…` on
//! the page stands for anything; ids, times and ages may differ.

use std::process::Stdio;

use hyperfleet_testkit::eventually;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::{BINARY, DEADLINE, steady};
use crate::operations::program::{Program, Running};

const README: &str = include_str!("../../../../../README.md");
const TUTORIAL: &str = include_str!("../../../../../docs/tutorial/first-cluster.md");
const END: &str = "<<<the end of a command>>>";

/// A command of the page, and what the page says that it prints.
#[derive(Debug)]
struct Step {
    command: String,
    shown: String,
}

/// The commands of the page, in order.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for block in page.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
        let mut unfinished = false;
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ").filter(|_| !unfinished) {
                steps.push(Step { command: command.to_owned(), shown: String::new() });
            } else if unfinished {
                let command = &mut steps.last_mut().unwrap().command;
                command.push('\n');
                command.push_str(line);
            } else {
                let shown = &mut steps.last_mut().expect("a block begins with a command").shown;
                shown.push_str(line);
                shown.push('\n');
            }
            let command = &steps.last().unwrap().command;
            let is_open = command.ends_with('\\')
                || !command.matches('\'').count().is_multiple_of(2)
                || (command.contains("<<'END'") && !command.ends_with("\nEND"));
            unfinished = steps.last().unwrap().shown.is_empty() && is_open;
        }
    }
    steps
}

/// Text without what differs from day to day, and with columns as close together as they can be.
fn plain(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    steady(&lines.collect::<Vec<_>>().join("\n")).trim().to_owned()
}

/// Whether this was printed where the page shows that.
fn agrees(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (plain(shown), plain(printed));
    let Some((first, others)) = shown.split_once('…') else { return shown == printed };
    let (middle, last) = others.rsplit_once('…').unwrap_or(("", others));
    let Some(mut rest) = printed.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else {
        return false;
    };
    middle.split('…').all(|part| match rest.split_once(part) {
        Some((_, behind)) => {
            rest = behind;
            true
        }
        None => part.is_empty(),
    })
}

/// A shell that goes on from command to command.
struct Shell {
    // Killed when dropped.
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Shell {
    fn open(program: &Program) -> Self {
        let mut process = program.command("bash", &[]).stdin(Stdio::piped()).spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { _process: process, input, output }
    }

    /// What the command prints, on either stream.
    async fn run(&mut self, command: &str) -> String {
        let line = format!("{{ {command}\n}} 2>&1 < /dev/null; echo; echo '{END}'\n");
        self.input.write_all(line.as_bytes()).await.unwrap();
        let mut printed = String::new();
        loop {
            let line = tokio::time::timeout(DEADLINE, self.output.next_line()).await;
            match line.unwrap_or_else(|_| panic!("{command} does not end: {printed}")).unwrap() {
                Some(line) if line == END => return printed,
                Some(line) => printed = format!("{printed}{line}\n"),
                None => panic!("{command} ended the shell: {printed}"),
            }
        }
    }
}

#[tokio::test]
async fn the_commands_of_the_readme_print_what_it_shows() {
    follow(README).await;
}

#[tokio::test]
async fn the_commands_of_the_tutorial_print_what_it_shows() {
    follow(TUTORIAL).await;
}

/// Runs every command of the page against a server of its own.
async fn follow(page: &str) {
    let program = Program::new().env("HOME", "/nowhere").env("XDG_CONFIG_HOME", "/nowhere");
    let built = program.directory().join("target/release");
    std::fs::create_dir_all(&built).unwrap();
    std::os::unix::fs::symlink(BINARY, built.join("hyperfleet")).unwrap();

    let mut steps = steps(page).into_iter();
    let first = steps.next().unwrap();
    assert_eq!(first.command, "make run");
    let up = program.start(&["up", "--port", "0", "--health-port", "0", "--metrics-port", "0"]);
    let welcome = eventually("the welcome", DEADLINE, async || {
        let said = up.stderr().join("\n");
        said.contains("Ctrl-C stops it.").then_some(said)
    })
    .await;
    let ports: Vec<&str> = welcome
        .split("http://localhost:")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap())
        .collect();
    let usual = |text: &str| {
        text.replace(&format!(":{}", ports[0]), ":8000")
            .replace(&format!(":{}", ports[2]), ":8080")
            .replace(&format!(":{}", ports[3]), ":9090")
    };
    assert!(
        agrees(&first.shown, &usual(&welcome)),
        "the page shows\n{}\nbut it says\n{welcome}",
        first.shown
    );

    let server = format!("http://localhost:{}", ports[0]);
    let program = program.env("HYPERFLEET_SERVER", &server);
    let mut shell = Shell::open(&program);
    let mut watches: Vec<(Step, Running)> = Vec::new();
    let mut commands = 1;
    for step in steps {
        commands += 1;
        if step.command.ends_with(" -w") {
            let words: Vec<&str> = step.command.split(' ').skip(1).collect();
            let watch = program.start(&words);
            eventually("the first lines of a watch", DEADLINE, async || {
                (watch.stdout().len() > 1).then_some(())
            })
            .await;
            watches.push((step, watch));
            continue;
        }
        let printed = usual(&shell.run(&step.command.replace("http://localhost:8000", &server)).await);
        assert!(
            agrees(&step.shown, &printed),
            "$ {}\n--- the page shows\n{}--- it prints\n{printed}",
            step.command,
            step.shown
        );
    }
    for (step, watch) in &watches {
        let lines = step.shown.lines().count();
        let printed = eventually(&step.command, DEADLINE, async || {
            let printed = watch.stdout();
            (printed.len() >= lines).then(|| printed.join("\n"))
        })
        .await;
        assert!(
            agrees(&step.shown, &printed),
            "$ {}\n--- the page shows\n{}--- it prints\n{printed}",
            step.command,
            step.shown
        );
    }
    assert_eq!(commands, page.matches("\n$ ").count());
}

#[test]
fn shown_and_printed_output_agree_only_if_they_are_equal() {
    for (shown, printed, expected) in [
        ("NAME   AGE\na      3s\n", "NAME  AGE\na     12s\n", true),
        ("NAME   AGE\na      3s\n", "NAME  AGE\nb     12s\n", false),
        ("{\"a\": 1, …, \"z\": 2}", "{\"a\": 1, \"b\": 7, \"z\": 2}", true),
        ("{\"a\": 1, …, \"z\": 2}", "{\"a\": 1, \"b\": 7, \"z\": 3}", false),
        ("a …", "a b c", true),
        ("a … c", "a b c d", false),
        ("a … c … e", "a b c d c e", true),
        ("a … x … e", "a b c d e", false),
        ("", "", true),
        ("", "x", false),
    ] {
        assert_eq!(agrees(shown, printed), expected, "{shown} and {printed}");
    }
}
