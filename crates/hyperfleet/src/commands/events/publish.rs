//! `hyperfleet events publish`: makes resources reconcile now, by the event that the Sentinel would publish.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use hyperfleet_core::Timestamp;
use hyperfleet_events::{Broker, Event};
use hyperfleet_sentinel::config::Config;
use hyperfleet_sentinel::decide::Reason;
use hyperfleet_sentinel::event::{self, Made};
use hyperfleet_sentinel::observed::{Observed, Origin};
use serde_json::Value;

use super::broker;
use crate::commands::Failure;
use crate::commands::apply::{common_exit, print_failure};
use crate::output::format::{self, Format};
use crate::output::paint::{Tone, paint};
use crate::output::{self, json, text, yaml};
use crate::remote::Session;
use crate::remote::target::{self, FoundResource, Prefer, Within};

/// Make resources reconcile now: publish the event that the Sentinel would
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet events publish cluster prod-1 --broker-type nats\n  hyperfleet events publish nodepool prod-1/workers --dry-run"
)]
pub(crate) struct Publish {
    /// KIND NAME..., KIND/NAME...; an id stands for any name
    #[arg(value_name = "WHAT", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    within: Within,
    /// Where to [default: clients.broker.topic, or hyperfleet-<plural>]
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Print the event, and publish nothing
    #[arg(long)]
    dry_run: bool,
    #[arg(long, short, value_name = "FORMAT", help = format::HELP)]
    output: Option<Format>,
}

impl Publish {
    pub(super) async fn run(&self, session: &Session, config: &Config) -> Result<ExitCode, Failure> {
        let broker = if self.dry_run { None } else { Some(broker(config).await?) };
        let found = target::named(session, &self.words, &self.within, Prefer::Active).await?;
        let alone = found.len() == 1;
        let mut failures = Vec::new();
        for one in &found {
            let event = made(config, one)?;
            let topic = self.topic.clone().unwrap_or_else(|| config.work.topic_of(&one.kind.plural));
            match send(broker.as_ref(), &topic, &event).await {
                Ok(()) => print(one, &topic, &event, self.output.as_ref(), self.dry_run)?,
                Err(failure) if alone => return Err(failure),
                Err(failure) => {
                    print_failure(&one.display_name(), &failure);
                    failures.push(failure.code);
                }
            }
        }
        Ok(common_exit(&failures))
    }
}

async fn send(broker: Option<&Broker>, topic: &str, event: &Event) -> Result<(), Failure> {
    match broker {
        Some(broker) => Ok(broker.publish(topic, event).await?),
        None => Ok(()),
    }
}

/// The event, with the members that the Sentinel's `message_data` adds.
fn made(config: &Config, found: &FoundResource) -> Result<Event, Failure> {
    let resource = Arc::new(Value::Object(found.resource.raw().clone()));
    let observed = Observed::read(resource, Origin::List(None), Timestamp::now());
    let missing = || Failure::new(format!("{} has no id or no generation", found.display_name()));
    let observed = observed.ok_or_else(missing)?;
    let Made { event, fault } =
        event::make(&config.name, &config.work, &found.kind.plural, &observed, Reason::Requested);
    if let Some(fault) = fault {
        output::message(&format!(
            "{} message_data failed: {}",
            output::bold("warning:"),
            text::clean(&fault)
        ));
    }
    Ok(event)
}

fn print(
    found: &FoundResource,
    topic: &str,
    event: &Event,
    format: Option<&Format>,
    dry: bool,
) -> Result<(), Failure> {
    let value = serde_json::from_slice::<Value>(&event.to_json()).unwrap_or_default();
    let text = match format {
        Some(Format::Name) => format!("{}\n", found.display_name()),
        Some(Format::Yaml) => format!("---\n{}", yaml::write(&value)),
        Some(format @ Format::JsonPath(_)) => {
            format.value(&value).transpose().map_err(Failure::usage)?.unwrap_or_default()
        }
        Some(Format::Json) => format!("{}\n", json::compact(&value)),
        None if dry => format!("{}\n", json::compact(&value)),
        Some(Format::Table | Format::Wide) | None => {
            let verb = if dry { "would be published to" } else { "published to" };
            let done = paint(&format!("{verb} {}", text::clean(topic)), Tone::Good, output::data_colours());
            format!("{} {done}\n", found.display_name())
        }
    };
    output::data(&text);
    Ok(())
}
