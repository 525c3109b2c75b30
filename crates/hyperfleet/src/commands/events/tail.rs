//! `hyperfleet events tail`: events as they are published. It takes no event from a subscription, and begins with the next event.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, value_parser};
use futures_util::future::select_all;
use hyperfleet_client::Kind;
use hyperfleet_events::{Event, Kind as BrokerKind, TailedMessage};
use hyperfleet_sentinel::config::Config;
use hyperfleet_service::shutdown::{Signals, signals};
use serde_json::Value;

use super::broker;
use crate::commands::apply::print_failure;
use crate::commands::{Exit, Failure};
use crate::output::format::{Each, Format};
use crate::output::paint::Tone;
use crate::output::table::{Cell, Table};
use crate::output::{self, age, text};
use crate::remote::Session;
use crate::remote::kinds::singular;
use crate::remote::resources::brief;
use crate::remote::session::duration;

/// Members of an event's data with a column of their own.
const SHOWN: [&str; 5] = ["id", "kind", "href", "generation", "owner_references"];

/// Wide enough for the names of most kinds.
const KIND_WIDTH: usize = 12;

/// Show events as they are published, until Ctrl-C
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet events tail --broker-type nats --kind cluster\n  hyperfleet events tail --topic hyperfleet-clusters -o json --count 1 --for 30s"
)]
pub(crate) struct Tail {
    /// Only events about this kind; may be given again
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
    /// Only this topic [default: clients.broker.topic, or hyperfleet-<plural> of every kind]; may be given again
    #[arg(long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
    /// End after this many events
    #[arg(long, short = 'n', value_name = "NUMBER", value_parser = value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this time; before --count is reached, with exit code 7
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    span: Option<Duration>,
    /// table, wide, json (one CloudEvent a line), yaml, name or jsonpath=TEMPLATE
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

impl Tail {
    pub(super) async fn run(&self, session: &Session, config: &Config) -> Result<ExitCode, Failure> {
        let mut stop = signals().map_err(Failure::new)?;
        let broker = broker(config).await?;
        let mut kinds = Vec::new();
        for word in &self.kinds {
            kinds.push(session.kinds().await?.find(word)?.clone());
        }
        let topics = self.topics(session, config, &kinds).await?;
        let mut tails: Vec<_> = topics.iter().map(|topic| broker.tail(topic)).collect();
        let ended = async {
            begun(&mut tails, &topics).await?;
            output::message(&output::dim(&format!(
                "looking at {} ({})",
                text::clean(&topics.join(", ")),
                broker.kind()
            )));
            follow(&mut tails, &topics, &mut Display::new(self, &kinds), &mut stop).await
        }
        .await;
        for tail in tails {
            tail.close().await;
        }
        ended
    }

    /// The topics to look at.
    async fn topics(
        &self,
        session: &Session,
        config: &Config,
        kinds: &[Kind],
    ) -> Result<Vec<String>, Failure> {
        let plurals = match (&self.topics[..], &config.work.topic, &config.work.kinds) {
            ([_, ..], ..) => return Ok(self.topics.clone()),
            (_, Some(topic), _) => return Ok(vec![topic.clone()]),
            _ if !kinds.is_empty() => plurals(kinds),
            (.., Some(plurals)) => plurals.clone(),
            (.., None) => plurals(session.kinds().await?.all()),
        };
        let mut topics: Vec<String> = plurals.iter().map(|plural| config.work.topic_of(plural)).collect();
        if config.broker.kind == BrokerKind::RabbitMq && config.broker.rabbitmq.exchange.is_some() {
            // One exchange carries all topics, so each tail would show every event.
            topics.truncate(1);
        }
        Ok(topics)
    }
}

fn plurals(kinds: &[Kind]) -> Vec<String> {
    kinds.iter().map(|kind| kind.plural.clone()).collect()
}

/// Waits until the tails have begun. A failed one is retried, as long as another has begun.
async fn begun(tails: &mut [hyperfleet_events::Tail], topics: &[String]) -> Result<(), Failure> {
    let mut failures = Vec::new();
    for (tail, topic) in tails.iter_mut().zip(topics) {
        if let Err(error) = tail.ready().await {
            failures.push((topic, Failure::from(error)));
        }
    }
    if failures.len() == topics.len()
        && let Some((_, failure)) = failures.pop()
    {
        return Err(failure);
    }
    for (topic, failure) in &failures {
        print_failure(&text::clean(topic), failure);
    }
    Ok(())
}

async fn follow(
    tails: &mut [hyperfleet_events::Tail],
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

/// The printer of events, and the count after which it ends.
struct Display<'a> {
    format: &'a Format,
    each: Each<'a>,
    table: Table,
    headed: bool,
    /// In lower case; all kinds when empty.
    kinds: Vec<String>,
    left: Option<u64>,
    span: Option<Duration>,
}

impl<'a> Display<'a> {
    fn new(tail: &'a Tail, kinds: &[Kind]) -> Self {
        let format = &tail.output;
        let mut head = vec!["time (utc)", "kind", "gen", "id", "owner"];
        if matches!(format, Format::Wide) {
            head.extend(["event", "source"]);
        }
        head.push("more");
        let mut table = Table::new(&head);
        // Lines are printed as they come, and one column holds texts of any length.
        table.widen(1, KIND_WIDTH);
        Self {
            format,
            each: Each::of(format),
            table,
            headed: false,
            kinds: kinds.iter().map(|kind| kind.kind.to_lowercase()).collect(),
            left: tail.count,
            span: tail.span,
        }
    }

    fn out_of_time(&self) -> Result<ExitCode, Failure> {
        match (self.left, self.span) {
            (Some(left), Some(span)) => {
                let text = format!("timed out after {} waiting for {left} more events", age::span(span));
                Err(Failure::with(Exit::TimedOut, text))
            }
            _ => Ok(ExitCode::SUCCESS),
        }
    }

    /// Prints events. Returns whether to continue.
    fn show(&mut self, seen: &TailedMessage, topic: &str) -> bool {
        let event = match &seen.event {
            Ok(event) => event,
            Err(fault) => {
                if self.kinds.is_empty() {
                    output::message(&text::clean(&format!("a message of {topic} is {fault}")));
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

    /// Prints an event. Returns whether the output still has a reader.
    fn print(&mut self, event: &Event) -> bool {
        let text = match self.format {
            Format::Table | Format::Wide => {
                self.table.row(cells(event, matches!(self.format, Format::Wide)));
                let colours = output::data_colours();
                let text =
                    if self.headed { self.table.take_rows(colours) } else { self.table.render(colours) };
                self.headed = true;
                self.table.take_rows(false);
                text
            }
            Format::Name => format!("{}\n", text::clean(&name(event))),
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
        // Without the date, because live events are of today.
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

/// `cluster/ID`, as an argument of another command.
fn name(event: &Event) -> String {
    let id = event.resource().map(|subject| subject.id).unwrap_or_default();
    format!("{}/{id}", event.kind_of_type().unwrap_or(&event.event_type))
}
