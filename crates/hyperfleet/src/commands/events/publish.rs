//! `hyperfleet events publish`: makes resources reconcile now, by the event that the Sentinel would publish.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Arg, ArgAction, ArgMatches, Command};
use hyperfleet_core::Timestamp;
use hyperfleet_events::{Broker, Event};
use hyperfleet_sentinel::config::Config;
use hyperfleet_sentinel::decide::Reason;
use hyperfleet_sentinel::event::{self, Made};
use hyperfleet_sentinel::seen::{Learned, Seen};
use serde_json::Value;

use super::{arguments, broker, settings};
use crate::commands::Failure;
use crate::commands::apply::{common_exit, tell_failure};
use crate::output::form::Form;
use crate::output::paint::{Tone, paint};
use crate::output::{self, json, text, yaml};
use crate::remote::Session;
use crate::remote::resources::output_argument;
use crate::remote::target::{self, Found, Prefer};

pub(super) fn command() -> Command {
    let command = Command::new("publish")
        .about("Make resources reconcile now: publish the event that the Sentinel would")
        .args([
            target::words("KIND NAME..., KIND/NAME...; an id stands for any name"),
            target::within(),
            Arg::new("topic").long("topic").value_name("TOPIC").help("Where to [default: clients.broker.topic, or hyperfleet-<plural>]"),
            Arg::new("dry-run").long("dry-run").action(ArgAction::SetTrue).help("Print the event, and publish nothing"),
            output_argument(),
        ])
        .after_help("Try it:\n  hyperfleet events publish cluster prod-1 --broker-type nats\n  hyperfleet events publish nodepool prod-1/workers --dry-run");
    arguments(command)
}

pub(super) async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let config = settings(session, matches)?;
    let dry = matches.get_flag("dry-run");
    let broker = if dry { None } else { Some(broker(&config).await?) };
    let found = target::several(session, matches, Prefer::Active).await?;
    let alone = found.len() == 1;
    let mut failures = Vec::new();
    for one in &found {
        let event = made(&config, one)?;
        let topic =
            matches.get_one("topic").cloned().unwrap_or_else(|| config.work.topic_of(&one.kind.plural));
        match send(broker.as_ref(), &topic, &event).await {
            Ok(()) => print(one, &topic, &event, matches.get_one::<Form>("output"), dry)?,
            Err(failure) if alone => return Err(failure),
            Err(failure) => {
                tell_failure(&one.called(), &failure);
                failures.push(failure.code);
            }
        }
    }
    Ok(common_exit(&failures))
}

async fn send(broker: Option<&Broker>, topic: &str, event: &Event) -> Result<(), Failure> {
    match broker {
        Some(broker) => Ok(broker.publish(topic, event).await?),
        None => Ok(()),
    }
}

/// The event, with whatever the Sentinel's `message_data` adds.
fn made(config: &Config, found: &Found) -> Result<Event, Failure> {
    let resource = Arc::new(Value::Object(found.resource.raw().clone()));
    let seen = Seen::read(resource, Learned::State(None), Timestamp::now());
    let seen = seen.ok_or_else(|| Failure::new(format!("{} has no id or no generation", found.called())))?;
    let Made { event, fault } =
        event::make(&config.name, &config.work, &found.kind.plural, &seen, Reason::Requested);
    if let Some(fault) = fault {
        output::talk(&format!("{} message_data failed: {}", output::bold("warning:"), text::clean(&fault)));
    }
    Ok(event)
}

fn print(found: &Found, topic: &str, event: &Event, form: Option<&Form>, dry: bool) -> Result<(), Failure> {
    let value = serde_json::from_slice::<Value>(&event.to_json()).unwrap_or_default();
    let text = match form {
        Some(Form::Name) => format!("{}\n", found.called()),
        Some(Form::Yaml) => format!("---\n{}", yaml::write(&value)),
        Some(form @ Form::JsonPath(_)) => {
            form.value(&value).transpose().map_err(Failure::usage)?.unwrap_or_default()
        }
        Some(Form::Json) => format!("{}\n", json::compact(&value)),
        None if dry => format!("{}\n", json::compact(&value)),
        Some(Form::Table | Form::Wide) | None => {
            let verb = if dry { "would be published to" } else { "published to" };
            let done = paint(&format!("{verb} {}", text::clean(topic)), Tone::Good, output::data_colours());
            format!("{} {done}\n", found.called())
        }
    };
    output::data(&text);
    Ok(())
}
