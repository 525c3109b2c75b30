//! `hyperfleet events dead-letters`: what a subscription gave up: look, try again, or throw away.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use hyperfleet_core::Timestamp;
use hyperfleet_events::{DeadLetter, DeadLetters};
use serde_json::{Value, json};

use super::{arguments, broker, settings};
use crate::commands::delete::yes;
use crate::commands::{Exit, Failure};
use crate::output::ask::confirm;
use crate::output::form::Form;
use crate::output::paint::{Tone, paint};
use crate::output::table::{Cell, Table};
use crate::output::{self, text};
use crate::remote::resources::{output_argument, since};
use crate::remote::{self, Session};

/// More than a broker shows at one time.
const ALL: usize = usize::MAX;
/// As many are shown before a question about them.
const MAX_SHOWN: usize = 20;

pub(super) fn command() -> Command {
    let of = || {
        [
            Arg::new("subscription")
                .long("subscription")
                .visible_alias("adapter")
                .value_name("NAME")
                .required(true)
                .help("Whose letters: the subscription, which has its adapter's name"),
            Arg::new("topic").long("topic").value_name("TOPIC").help("Only those of this topic"),
        ]
    };
    let which = || {
        [
            Arg::new("id")
                .value_name("ID")
                .action(ArgAction::Append)
                .num_args(1..)
                .required_unless_present("all")
                .help("Letters by their ids"),
            Arg::new("all").long("all").action(ArgAction::SetTrue).conflicts_with("id").help("All of them"),
            yes(),
        ]
    };
    let limit = Arg::new("limit")
        .long("limit")
        .value_name("NUMBER")
        .value_parser(value_parser!(u64).range(1..))
        .default_value("100")
        .help("No more than this many, the oldest first");
    let list = Command::new("list")
        .about("List what a subscription gave up, the oldest first")
        .args(of())
        .args([limit, output_argument().default_value("table")])
        .after_help("Try it:\n  hyperfleet events dead-letters list --adapter dns --broker-type nats");
    let show = Command::new("show").about("Show a dead letter with its event").args(of()).args([
        Arg::new("id").value_name("ID").required(true).help("The letter's id"),
        output_argument().default_value("yaml"),
    ]);
    let replay = Command::new("replay")
        .about("Give dead letters to their subscription again, counted from the beginning")
        .args(of())
        .args(which())
        .after_help("Try it:\n  hyperfleet events dead-letters replay --adapter dns --all -y");
    let drop = Command::new("drop").about("Throw dead letters away").args(of()).args(which());
    Command::new("dead-letters")
        .about("Deal with events that a subscription gave up")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([list, show, replay, drop].map(arguments))
}

pub(super) fn dispatch(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    match matches.subcommand() {
        Some(("list", matches)) => remote::run(matches, list),
        Some(("show", matches)) => remote::run(matches, show),
        Some(("replay", matches)) => remote::run(matches, replay),
        Some(("drop", matches)) => remote::run(matches, drop),
        _ => Err(Failure::usage("no such command; see hyperfleet events dead-letters --help")),
    }
}

async fn letters(session: &Session, matches: &ArgMatches) -> Result<DeadLetters, Failure> {
    let broker = broker(&settings(session, matches)?).await?;
    let subscription = subscription(matches);
    Ok(match matches.get_one::<String>("topic") {
        Some(topic) => broker.dead_letters(topic, subscription),
        None => broker.all_dead_letters(subscription),
    })
}

fn subscription(matches: &ArgMatches) -> &str {
    matches.get_one::<String>("subscription").map(String::as_str).unwrap_or_default()
}

async fn list(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut found = letters(session, matches).await?.list(ALL).await?;
    let limit = matches.get_one::<u64>("limit").and_then(|limit| usize::try_from(*limit).ok()).unwrap_or(ALL);
    let more = found.len().saturating_sub(limit);
    found.truncate(limit);
    let form = matches.get_one::<Form>("output").unwrap_or(&Form::Table);
    let text = match form {
        Form::Table | Form::Wide if found.is_empty() => String::new(),
        Form::Table | Form::Wide => table(&found, matches!(form, Form::Wide)).render(output::data_colours()),
        Form::Name => found.iter().map(|letter| format!("{}\n", text::clean(&letter.id))).collect(),
        form => {
            let items: Vec<Value> = found.iter().map(|letter| value(letter, subscription(matches))).collect();
            let all = json!({"kind": "DeadLetterList", "items": items});
            form.value(&all).transpose().map_err(Failure::usage)?.unwrap_or_default()
        }
    };
    output::data(&text);
    if found.is_empty() {
        output::talk("there are no dead letters");
    }
    if more > 0 {
        output::talk(&format!("and {more} more; --limit shows them"));
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let letters = letters(session, matches).await?;
    let id = matches.get_one::<String>("id").map(String::as_str).unwrap_or_default();
    let letter = letters.show(id).await?;
    let form = matches.get_one::<Form>("output").unwrap_or(&Form::Yaml);
    let text = match form {
        Form::Table | Form::Wide => {
            table(&[letter], matches!(form, Form::Wide)).render(output::data_colours())
        }
        Form::Name => format!("{}\n", text::clean(&letter.id)),
        form => {
            let value = value(&letter, subscription(matches));
            form.value(&value).transpose().map_err(Failure::usage)?.unwrap_or_default()
        }
    };
    output::data(&text);
    Ok(ExitCode::SUCCESS)
}

async fn replay(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let letters = letters(session, matches).await?;
    let Some(chosen) = chosen(&letters, matches, "Replay").await? else { return Ok(ExitCode::SUCCESS) };
    // One by one, each is told when it is done; `--all` may be many.
    let step = if matches.get_flag("all") { 100 } else { 1 };
    for some in chosen.chunks(step) {
        letters.replay_all(some).await?;
        told(some, "replayed");
    }
    Ok(ExitCode::SUCCESS)
}

async fn drop(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let letters = letters(session, matches).await?;
    let Some(chosen) = chosen(&letters, matches, "Throw away").await? else {
        return Ok(ExitCode::SUCCESS);
    };
    // One by one, each is told when it is gone; of many together the broker only counts.
    let step = if matches.get_flag("all") { chosen.len() } else { 1 };
    let mut found = 0;
    for some in chosen.chunks(step) {
        let dropped = letters.drop_all(some).await?.min(some.len());
        if dropped == some.len() {
            told(some, "dropped");
        }
        found += dropped;
    }
    match chosen.len() - found {
        0 => Ok(ExitCode::SUCCESS),
        missing => Err(Failure::new(format!(
            "{missing} of {} were not found: somebody else has dealt with them",
            chosen.len()
        ))),
    }
}

/// The letters that are meant, after a question where it takes one: what is thrown away does not come back, and who
/// says all may not know how many there are.
async fn chosen(
    letters: &DeadLetters,
    matches: &ArgMatches,
    verb: &str,
) -> Result<Option<Vec<DeadLetter>>, Failure> {
    let mut found = letters.list(ALL).await?;
    let all = matches.get_flag("all");
    if !all {
        let ids: Vec<&String> = matches.get_many("id").into_iter().flatten().collect();
        if let Some(missing) = ids.iter().find(|id| !found.iter().any(|letter| letter.id == ***id)) {
            let text = format!("{} has no dead letter {}", subscription(matches), missing);
            return Err(Failure::with(Exit::NotFound, text::clean(&text)));
        }
        found.retain(|letter| ids.contains(&&letter.id));
    }
    if found.is_empty() {
        output::talk("there are no dead letters");
        return Ok(None);
    }
    if !matches.get_flag("yes") && (all || verb != "Replay") {
        let what = match found.len() {
            1 => "this dead letter".to_owned(),
            many => format!("these {many} dead letters"),
        };
        let shown = &found[..found.len().min(MAX_SHOWN)];
        output::talk(table(shown, false).render(output::talk_colours()).trim_end());
        if found.len() > MAX_SHOWN {
            output::talk(&format!("and {} more", found.len() - MAX_SHOWN));
        }
        if !confirm(&format!("{verb} {what}?"))? {
            output::talk("nothing was done");
            return Ok(None);
        }
    }
    Ok(Some(found))
}

fn told(letters: &[DeadLetter], verb: &str) {
    let verb = paint(verb, Tone::Good, output::data_colours());
    let lines: String =
        letters.iter().map(|letter| format!("{} {verb}\n", text::clean(&letter.id))).collect();
    output::data(&lines);
}

fn table(letters: &[DeadLetter], wide: bool) -> Table {
    let mut head = vec!["id", "kind", "gen", "resource", "tries", "reason"];
    if wide {
        head.extend(["topic", "event"]);
    }
    head.push("age");
    let mut table = Table::new(&head);
    let now = Timestamp::now();
    for letter in letters {
        let event = letter.event().ok();
        let subject = event.as_ref().and_then(hyperfleet_events::Event::resource);
        let kind = subject.as_ref().and_then(|subject| subject.kind.clone());
        let generation = subject.as_ref().and_then(|subject| subject.generation);
        let mut cells = vec![
            Cell::new(&letter.id, Tone::Strong),
            kind.or_else(|| Some(event.as_ref()?.event_type.clone())).unwrap_or_default().into(),
            generation.map(|generation| generation.to_string()).unwrap_or_default().into(),
            subject.map(|subject| subject.id).unwrap_or_default().into(),
            letter.attempts.to_string().into(),
            Cell::new(&letter.reason, Tone::Bad),
        ];
        if wide {
            cells.push(letter.topic.clone().unwrap_or_default().into());
            cells.push(event.map(|event| event.id).unwrap_or_default().into());
        }
        cells.push(since(letter.time, now).into());
        table.row(cells);
    }
    table
}

/// A letter as data. A message that is no JSON is there as text.
fn value(letter: &DeadLetter, subscription: &str) -> Value {
    let mut value = json!({
        "kind": "DeadLetter",
        "id": letter.id,
        "subscription": subscription,
        "topic": letter.topic,
        "reason": letter.reason,
        "attempts": letter.attempts,
        "time": letter.time.map(|time| time.to_string()),
    });
    match serde_json::from_slice::<Value>(&letter.body) {
        Ok(event) => value["event"] = event,
        Err(_) => value["body"] = String::from_utf8_lossy(&letter.body).into(),
    }
    value
}
