//! `hyperfleet events dead-letters`: list, show, replay or drop the events that a subscription gave up.

use std::process::ExitCode;

use clap::{Args, Subcommand, value_parser};
use hyperfleet_core::Timestamp;
use hyperfleet_events::{DeadLetter, DeadLetters};
use hyperfleet_sentinel::config::Config;
use serde_json::{Value, json};

use super::{Brokered, broker};
use crate::commands::delete::YES;
use crate::commands::{Exit, Failure};
use crate::output::confirm::confirm;
use crate::output::format::{self, Format};
use crate::output::paint::{Tone, paint};
use crate::output::table::{Cell, Table};
use crate::output::{self, text};
use crate::remote::Session;
use crate::remote::resources::since;

/// More than any broker lists at one time.
const ALL: usize = usize::MAX;
/// The most dead letters that a confirmation shows.
const MAX_SHOWN: usize = 20;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    List(Brokered<List>),
    Show(Brokered<Show>),
    Replay(Brokered<Replay>),
    Drop(Brokered<Drop>),
}

impl Command {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::List(call) => call.run(List::run),
            Self::Show(call) => call.run(Show::run),
            Self::Replay(call) => call.run(Replay::run),
            Self::Drop(call) => call.run(Drop::run),
        }
    }
}

/// The flags that name a subscription.
#[derive(Debug, Args)]
struct Of {
    /// Subscription, which has the name of its adapter
    #[arg(long, visible_alias = "adapter", value_name = "NAME")]
    subscription: String,
    /// Only dead letters of this topic
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
}

impl Of {
    async fn dead_letters(&self, config: &Config) -> Result<DeadLetters, Failure> {
        let broker = broker(config).await?;
        Ok(match &self.topic {
            Some(topic) => broker.dead_letters(topic, &self.subscription),
            None => broker.all_dead_letters(&self.subscription),
        })
    }
}

/// List what a subscription gave up, the oldest first
#[derive(Debug, Args)]
#[command(after_help = "Try it:\n  hyperfleet events dead-letters list --adapter dns --broker-type nats")]
pub(crate) struct List {
    #[command(flatten)]
    of: Of,
    /// At most this many, the oldest first
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u64).range(1..), default_value = "100")]
    limit: u64,
    #[arg(long, short, value_name = "FORMAT", default_value = "table", help = format::HELP)]
    output: Format,
}

impl List {
    async fn run(&self, _: &Session, config: &Config) -> Result<ExitCode, Failure> {
        let mut found = self.of.dead_letters(config).await?.list(ALL).await?;
        let more = found.len().saturating_sub(usize::try_from(self.limit).unwrap_or(ALL));
        found.truncate(found.len() - more);
        let text = match &self.output {
            Format::Table | Format::Wide if found.is_empty() => String::new(),
            format @ (Format::Table | Format::Wide) => {
                table(&found, matches!(format, Format::Wide)).render(output::data_colours())
            }
            Format::Name => {
                found.iter().map(|dead_letter| format!("{}\n", text::clean(&dead_letter.id))).collect()
            }
            format => {
                let items = found.iter().map(|dead_letter| value(dead_letter, &self.of.subscription));
                let all = json!({"kind": "DeadLetterList", "items": items.collect::<Vec<_>>()});
                format.value(&all).transpose().map_err(Failure::usage)?.unwrap_or_default()
            }
        };
        output::data(&text);
        if found.is_empty() {
            output::message("there are no dead letters");
        }
        if more > 0 {
            output::message(&format!("{more} more; raise --limit to show them"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Show a dead letter with its event
#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    of: Of,
    /// Id of the dead letter
    #[arg(value_name = "ID")]
    id: String,
    #[arg(long, short, value_name = "FORMAT", default_value = "yaml", help = format::HELP)]
    output: Format,
}

impl Show {
    async fn run(&self, _: &Session, config: &Config) -> Result<ExitCode, Failure> {
        let dead_letter = self.of.dead_letters(config).await?.show(&self.id).await?;
        let text = match &self.output {
            format @ (Format::Table | Format::Wide) => {
                table(&[dead_letter], matches!(format, Format::Wide)).render(output::data_colours())
            }
            Format::Name => format!("{}\n", text::clean(&dead_letter.id)),
            format => {
                let value = value(&dead_letter, &self.of.subscription);
                format.value(&value).transpose().map_err(Failure::usage)?.unwrap_or_default()
            }
        };
        output::data(&text);
        Ok(ExitCode::SUCCESS)
    }
}

/// Redeliver dead letters to their subscription, with a new count
#[derive(Debug, Args)]
#[command(after_help = "Try it:\n  hyperfleet events dead-letters replay --adapter dns --all -y")]
pub(crate) struct Replay {
    #[command(flatten)]
    of: Of,
    #[command(flatten)]
    which: Which,
}

impl Replay {
    async fn run(&self, _: &Session, config: &Config) -> Result<ExitCode, Failure> {
        let dead_letters = self.of.dead_letters(config).await?;
        let Some(chosen) = self.which.choose(&dead_letters, &self.of, "Replay").await? else {
            return Ok(ExitCode::SUCCESS);
        };
        // Given ids are replayed and reported one by one; `--all` may be many.
        let step = if self.which.all { 100 } else { 1 };
        for some in chosen.chunks(step) {
            dead_letters.replay_all(some).await?;
            print_results(some, "replayed");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Delete dead letters for good
#[derive(Debug, Args)]
pub(crate) struct Drop {
    #[command(flatten)]
    of: Of,
    #[command(flatten)]
    which: Which,
}

impl Drop {
    async fn run(&self, _: &Session, config: &Config) -> Result<ExitCode, Failure> {
        let dead_letters = self.of.dead_letters(config).await?;
        let Some(chosen) = self.which.choose(&dead_letters, &self.of, "Delete").await? else {
            return Ok(ExitCode::SUCCESS);
        };
        // Given ids are dropped and reported one by one; of a batch the broker only returns a count.
        let step = if self.which.all { chosen.len() } else { 1 };
        let mut found = 0;
        for some in chosen.chunks(step) {
            let dropped = dead_letters.drop_all(some).await?.min(some.len());
            if dropped == some.len() {
                print_results(some, "dropped");
            }
            found += dropped;
        }
        match chosen.len() - found {
            0 => Ok(ExitCode::SUCCESS),
            missing => Err(Failure::new(format!(
                "{missing} of {} were not found: another process has handled them",
                chosen.len()
            ))),
        }
    }
}

/// The flags that select dead letters.
#[derive(Debug, Args)]
struct Which {
    /// Ids of dead letters
    #[arg(value_name = "ID", required_unless_present = "all")]
    id: Vec<String>,
    /// All dead letters
    #[arg(long, conflicts_with = "id")]
    all: bool,
    #[arg(long, short, help = YES)]
    yes: bool,
}

impl Which {
    /// The chosen dead letters, after confirmation where it is needed: a dropped one cannot be restored, and `--all` does
    /// not say how many there are.
    async fn choose(
        &self,
        dead_letters: &DeadLetters,
        of: &Of,
        verb: &str,
    ) -> Result<Option<Vec<DeadLetter>>, Failure> {
        let mut found = dead_letters.list(ALL).await?;
        if !self.all {
            if let Some(missing) =
                self.id.iter().find(|id| !found.iter().any(|dead_letter| dead_letter.id == **id))
            {
                let text = format!("{} has no dead letter {missing}", of.subscription);
                return Err(Failure::with(Exit::NotFound, text::clean(&text)));
            }
            found.retain(|dead_letter| self.id.contains(&dead_letter.id));
        }
        if found.is_empty() {
            output::message("there are no dead letters");
            return Ok(None);
        }
        if !self.yes && (self.all || verb != "Replay") {
            let what = match found.len() {
                1 => "this dead letter".to_owned(),
                many => format!("these {many} dead letters"),
            };
            let shown = &found[..found.len().min(MAX_SHOWN)];
            output::message(table(shown, false).render(output::message_colours()).trim_end());
            if found.len() > MAX_SHOWN {
                output::message(&format!("and {} more", found.len() - MAX_SHOWN));
            }
            if !confirm(&format!("{verb} {what}?"))? {
                output::message("nothing was done");
                return Ok(None);
            }
        }
        Ok(Some(found))
    }
}

fn print_results(dead_letters: &[DeadLetter], verb: &str) {
    let verb = paint(verb, Tone::Good, output::data_colours());
    let lines: String =
        dead_letters.iter().map(|dead_letter| format!("{} {verb}\n", text::clean(&dead_letter.id))).collect();
    output::data(&lines);
}

fn table(dead_letters: &[DeadLetter], wide: bool) -> Table {
    let mut head = vec!["id", "kind", "gen", "resource", "tries", "reason"];
    if wide {
        head.extend(["topic", "event"]);
    }
    head.push("age");
    let mut table = Table::new(&head);
    let now = Timestamp::now();
    for dead_letter in dead_letters {
        let event = dead_letter.event().ok();
        let subject = event.as_ref().and_then(hyperfleet_events::Event::resource);
        let kind = subject.as_ref().and_then(|subject| subject.kind.clone());
        let generation = subject.as_ref().and_then(|subject| subject.generation);
        let mut cells = vec![
            Cell::new(&dead_letter.id, Tone::Strong),
            kind.or_else(|| Some(event.as_ref()?.event_type.clone())).unwrap_or_default().into(),
            generation.map(|generation| generation.to_string()).unwrap_or_default().into(),
            subject.map(|subject| subject.id).unwrap_or_default().into(),
            dead_letter.attempts.to_string().into(),
            Cell::new(&dead_letter.reason, Tone::Bad),
        ];
        if wide {
            cells.push(dead_letter.topic.clone().unwrap_or_default().into());
            cells.push(event.map(|event| event.id).unwrap_or_default().into());
        }
        cells.push(since(dead_letter.time, now).into());
        table.row(cells);
    }
    table
}

/// A dead letter as data. A message that is no JSON becomes text.
fn value(dead_letter: &DeadLetter, subscription: &str) -> Value {
    let mut value = json!({
        "kind": "DeadLetter",
        "id": dead_letter.id,
        "subscription": subscription,
        "topic": dead_letter.topic,
        "reason": dead_letter.reason,
        "attempts": dead_letter.attempts,
        "time": dead_letter.time.map(|time| time.to_string()),
    });
    match serde_json::from_slice::<Value>(&dead_letter.body) {
        Ok(event) => value["event"] = event,
        Err(_) => value["body"] = String::from_utf8_lossy(&dead_letter.body).into(),
    }
    value
}
