//! `hyperfleet events tail`: events as they are published. It takes nothing from anybody, and begins now.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command, value_parser};
use futures_util::future::select_all;
use hyperfleet_events::{Event, Kind as BrokerKind, Sighting, Tail};
use hyperfleet_sentinel::config::Config;
use hyperfleet_service::shutdown::{Signals, signals};
use serde_json::Value;

use super::{arguments, broker, kinds, settings, topics};
use crate::commands::apply::tell_failure;
use crate::commands::{Exit, Failure};
use crate::output::form::{Each, Form};
use crate::output::paint::Tone;
use crate::output::table::{Cell, Table};
use crate::output::{self, text};
use crate::remote::Session;
use crate::remote::kinds::singular;
use crate::remote::resources::{brief, output_argument};
use crate::remote::session::{duration, spoken};

/// What of an event's data has a column of its own.
const SHOWN: [&str; 5] = ["id", "kind", "href", "generation", "owner_references"];

/// Room for the names of most kinds.
const KIND_WIDTH: usize = 12;

pub(super) fn command() -> Command {
    let command = Command::new("tail")
        .about("Show events as they are published, until Ctrl-C")
        .args(topics())
        .args([
            Arg::new("count").long("count").short('n').value_name("NUMBER").value_parser(value_parser!(u64).range(1..)).help("End after this many events"),
            // Not called `for`, which stands for conditions elsewhere.
            Arg::new("span").long("for").value_name("DURATION").value_parser(duration).help("End after this time; before --count is reached, with exit code 7"),
            output_argument().default_value("table").help("table, wide, json (one CloudEvent a line), yaml, name or jsonpath=TEMPLATE"),
        ])
        .after_help("Try it:\n  hyperfleet events tail --broker-type nats --kind cluster\n  hyperfleet events tail --topic hyperfleet-clusters -o json --count 1 --for 30s");
    arguments(command)
}

pub(super) async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let config = settings(session, matches)?;
    let mut stop = signals().map_err(Failure::new)?;
    let broker = broker(&config).await?;
    let kinds: Vec<String> =
        kinds(session, matches).await?.iter().map(|kind| kind.kind.to_lowercase()).collect();
    let topics = wanted(session, matches, &config).await?;
    let mut tails: Vec<Tail> = topics.iter().map(|topic| broker.tail(topic)).collect();
    let ended = async {
        begun(&mut tails, &topics).await?;
        output::talk(&output::dim(&format!(
            "looking at {} ({})",
            text::clean(&topics.join(", ")),
            broker.kind()
        )));
        let mut display = Display::new(matches, kinds);
        follow(&mut tails, &topics, &mut display, &mut stop).await
    }
    .await;
    for tail in tails {
        tail.close().await;
    }
    ended
}

/// Waits until the looks began. One that cannot is tried further, as long as there are others.
async fn begun(tails: &mut [Tail], topics: &[String]) -> Result<(), Failure> {
    let mut failures = Vec::new();
    for (tail, topic) in tails.iter_mut().zip(topics) {
        if let Err(error) = tail.begun().await {
            failures.push((topic, Failure::from(error)));
        }
    }
    if failures.len() == topics.len()
        && let Some((_, failure)) = failures.pop()
    {
        return Err(failure);
    }
    for (topic, failure) in &failures {
        tell_failure(&text::clean(topic), failure);
    }
    Ok(())
}

/// The topics to look at.
async fn wanted(session: &Session, matches: &ArgMatches, config: &Config) -> Result<Vec<String>, Failure> {
    let named: Vec<String> = matches.get_many("topic").into_iter().flatten().cloned().collect();
    let plurals = match (&named[..], &config.work.topic, &config.work.kinds) {
        ([_, ..], ..) => return Ok(named),
        (_, Some(topic), _) => return Ok(vec![topic.clone()]),
        _ if matches.contains_id("kind") => {
            kinds(session, matches).await?.into_iter().map(|kind| kind.plural).collect()
        }
        (.., Some(plurals)) => plurals.clone(),
        (.., None) => session.kinds().await?.all().iter().map(|kind| kind.plural.clone()).collect::<Vec<_>>(),
    };
    let mut topics: Vec<String> = plurals.iter().map(|plural| config.work.topic_of(plural)).collect();
    if config.broker.kind == BrokerKind::RabbitMq && config.broker.rabbitmq.exchange.is_some() {
        // One exchange carries them all, so each look would show all of them.
        topics.truncate(1);
    }
    Ok(topics)
}

async fn follow(
    tails: &mut [Tail],
    topics: &[String],
    display: &mut Display<'_>,
    stop: &mut Signals,
) -> Result<ExitCode, Failure> {
    let span = display.span;
    let over = async {
        match span {
            Some(span) => tokio::time::sleep(span).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(over);
    while !tails.is_empty() {
        let (seen, from, _) = tokio::select! {
            seen = select_all(tails.iter_mut().map(|tail| Box::pin(tail.next()))) => seen,
            () = &mut over => return display.out_of_time(),
            signal = stop.next() => return Ok(ExitCode::from(signal.exit_code())),
        };
        let Some(seen) = seen else { break };
        if !display.show(&seen, &topics[from]) {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is printed of events, and when it is enough.
struct Display<'a> {
    form: &'a Form,
    each: Each<'a>,
    table: Table,
    headed: bool,
    /// In lower case; all kinds when empty.
    kinds: Vec<String>,
    left: Option<u64>,
    span: Option<Duration>,
}

impl<'a> Display<'a> {
    fn new(matches: &'a ArgMatches, kinds: Vec<String>) -> Self {
        let form = matches.get_one::<Form>("output").unwrap_or(&Form::Table);
        let mut head = vec!["time (utc)", "kind", "gen", "id", "owner"];
        if matches!(form, Form::Wide) {
            head.extend(["event", "source"]);
        }
        head.push("more");
        let mut table = Table::new(&head);
        // Lines are printed as they come, and one column holds texts of any length.
        table.widen(1, KIND_WIDTH);
        Self {
            form,
            each: Each::of(form),
            table,
            headed: false,
            kinds,
            left: matches.get_one("count").copied(),
            span: matches.get_one("span").copied(),
        }
    }

    fn out_of_time(&self) -> Result<ExitCode, Failure> {
        match (self.left, self.span) {
            (Some(left), Some(span)) => {
                let text = format!("{left} more events did not come within {}", spoken(span));
                Err(Failure::with(Exit::TimedOut, text))
            }
            _ => Ok(ExitCode::SUCCESS),
        }
    }

    /// Shows what was seen; whether more is wanted.
    fn show(&mut self, seen: &Sighting, topic: &str) -> bool {
        let event = match &seen.event {
            Ok(event) => event,
            Err(fault) => {
                if self.kinds.is_empty() {
                    output::talk(&text::clean(&format!("a message of {topic} is {fault}")));
                }
                return true;
            }
        };
        let fits = |kind: &str| self.kinds.iter().any(|wanted| wanted == kind);
        if !self.kinds.is_empty() && !event.kind_of_type().is_some_and(fits) {
            return true;
        }
        let printed = self.print(event);
        self.left = self.left.map(|left| left - 1);
        printed && self.left != Some(0)
    }

    /// Prints an event; whether anybody reads it.
    fn print(&mut self, event: &Event) -> bool {
        let text = match self.form {
            Form::Table | Form::Wide => {
                self.table.row(cells(event, matches!(self.form, Form::Wide)));
                let colours = output::data_colours();
                let text =
                    if self.headed { self.table.take_rows(colours) } else { self.table.render(colours) };
                self.headed = true;
                self.table.take_rows(false);
                text
            }
            Form::Name => format!("{}\n", text::clean(&name(event))),
            _ => self.each.text(&serde_json::from_slice::<Value>(&event.to_json()).unwrap_or_default()),
        };
        output::data_is_read(&text)
    }
}

fn cells(event: &Event, wide: bool) -> Vec<Cell> {
    let subject = event.resource();
    let kind = subject.as_ref().and_then(|subject| subject.kind.as_deref());
    let owner = subject
        .as_ref()
        .and_then(|subject| subject.owner.as_ref())
        .map(|owner| format!("{}/{}", singular(owner.kind.as_deref().unwrap_or("?")), owner.id));
    let generation = subject.as_ref().and_then(|subject| subject.generation);
    let time = event.time.map(|time| time.to_string()).unwrap_or_default();
    let mut cells = vec![
        // Hours to milliseconds: what is live is of today.
        Cell::new(time.get(11..23).unwrap_or_default(), Tone::Faint),
        Cell::new(kind.or(event.kind_of_type()).unwrap_or(&event.event_type), Tone::Strong),
        generation.map(|generation| generation.to_string()).unwrap_or_default().into(),
        subject.as_ref().map(|subject| subject.id.as_str()).unwrap_or_default().into(),
        owner.unwrap_or_default().into(),
    ];
    if wide {
        cells.push(Cell::new(&event.id, Tone::Faint));
        cells.push(event.source.as_str().into());
    }
    let more = event.data.as_object().into_iter().flatten();
    let more = more.filter(|(name, _)| !SHOWN.contains(&name.as_str()));
    let more: Vec<String> = more.map(|(name, value)| format!("{name}={}", brief(value))).collect();
    cells.push(Cell::new(&more.join(" "), Tone::Faint));
    cells
}

/// `cluster/ID`, to hand on to another command.
fn name(event: &Event) -> String {
    let id = event.resource().map(|subject| subject.id).unwrap_or_default();
    format!("{}/{id}", event.kind_of_type().unwrap_or(&event.event_type))
}
