//! `hyperfleet adapter run --once`: one execution of a task for real, without a broker.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use hyperfleet_adapter::Config;
use hyperfleet_adapter::engine::{Execution, Input, Outcome, Program, Settle};
use hyperfleet_adapter::serve::Driver;
use hyperfleet_adapter::tools::Trace;
use hyperfleet_client::{Client, Collection, GetQuery, ItemPath, ListQuery, Resource};
use hyperfleet_events::Event;
use hyperfleet_service::settings::environment;
use serde_json::{Map, Value, json};

use super::super::{Exit, Failure, block_on};
use super::dry_run::{Format, print};
use super::task::TaskFile;
use crate::cli::configuration::{Adapter, Configuration};

/// Run a task once for real, without a broker
///
/// It reads the resource, does what the task file says, reports, and prints what was done. The exit code is 1 when the
/// adapter fails, 3 when the resource is not there, 6 when something cannot be reached, and 9 when it reports a failure.
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet adapter run --once -c config.yaml -t task.yaml clusters/prod-1"
)]
pub(crate) struct Run {
    #[command(flatten)]
    task: TaskFile,
    /// Do it once
    #[arg(long, required = true)]
    once: bool,
    /// Plural of the kind, and id or name of the resource
    #[arg(value_name = "KIND/NAME", required_unless_present = "event", conflicts_with = "event")]
    resource: Option<String>,
    /// The event instead of a resource, a CloudEvent in JSON
    #[arg(long, value_name = "FILE")]
    event: Option<PathBuf>,
    /// Show manifests and bodies
    #[arg(long)]
    verbose: bool,
    /// How the trace is written
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
    #[command(flatten)]
    configuration: Configuration<Adapter>,
}

/// What the execution is about.
struct Subject {
    item: ItemPath,
    event_id: String,
    event_type: String,
    data: Map<String, Value>,
}

impl Run {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let config = Config::load(&self.configuration.sources())?;
        if config.name.is_empty() {
            return Err(Failure::usage(
                "adapter.name is required: set it in the file or with --adapter-name",
            ));
        }
        let task = self.task.load(&config)?;
        let file = self.task.path()?;
        block_on(|mut signals| async move {
            let client = Client::new(config.api.clone())?;
            let driver =
                Driver::connect(&config, client.clone(), &task, &file).await.map_err(Failure::usage)?;
            let subject = self.subject(&client).await?;
            let id = subject.data.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
            let input =
                Input { event: subject.data, id, attempt: 1, attempts: 1, once: true, ..Input::default() };
            let program = Program::new(&config, task, &environment());
            let execution = Execution::new(Arc::new(program), input);
            let finished = tokio::select! {
                finished = tokio::time::timeout(config.deadline, driver.execute(&client, &subject.item, execution)) => {
                    let late = |_| Failure::with(Exit::Unreachable, format!("the execution did not end within {:?}", config.deadline));
                    finished.map_err(late)?
                }
                signal = signals.next() => return Ok(ExitCode::from(signal.exit_code())),
            };
            let trace = Trace {
                event_id: &subject.event_id,
                event_type: &subject.event_type,
                finished: &finished,
                operations: &[],
                verbose: self.verbose,
            };
            let code = print(&trace, self.output);
            Ok(match (&finished.settle, finished.outcome) {
                (Settle::Outage { .. }, _) => ExitCode::from(6),
                (_, Outcome::Gone) => ExitCode::from(3),
                (_, Outcome::Failed) => ExitCode::from(9),
                _ => code,
            })
        })
    }

    async fn subject(&self, client: &Client) -> Result<Subject, Failure> {
        if let Some(file) = &self.event {
            let text = std::fs::read(file)
                .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
            let event = Event::read(&text)
                .map_err(|error| Failure::usage(format!("{} is no CloudEvent: {error}", file.display())))?;
            let Some(named) = event.resource() else {
                return Err(Failure::usage("the event names no resource: data.id is missing"));
            };
            let href = named.href.as_deref().and_then(ItemPath::of_href);
            let item = href.unwrap_or_else(|| Collection::any().item(&named.id));
            let data = event.data.as_object().cloned().unwrap_or_default();
            return Ok(Subject { item, event_id: event.id, event_type: event.event_type, data });
        }
        let named = self.resource.as_deref().unwrap_or_default();
        let Some((kind, name)) = named.split_once('/') else {
            return Err(Failure::usage("name the resource as KIND/NAME, such as clusters/prod-1"));
        };
        let resource = find(client, kind, name).await?;
        let item = resource.path().unwrap_or_else(|| Collection::of(kind).item(resource.id()));
        let mut data = json!({"id": resource.id(), "kind": resource.kind(), "href": resource.href(),
                              "generation": resource.generation()});
        if let Some(owner) = resource.raw().get("owner_references") {
            data["owner_references"] = owner.clone();
        }
        let data = data.as_object().cloned().unwrap_or_default();
        Ok(Subject { item, event_id: "run-once".to_owned(), event_type: String::new(), data })
    }
}

/// The resource of an id or a name.
async fn find(client: &Client, kind: &str, name: &str) -> Result<Resource, Failure> {
    let collection = Collection::of(kind);
    match client.get(&collection.item(name), &GetQuery::default()).await {
        Ok(resource) => return Ok(resource),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    let search = format!("name = '{}'", name.replace('\'', "''"));
    let query = ListQuery { search: Some(search), show_deleted: true, ..ListQuery::default() };
    let page = client.list(&collection, &query).await?;
    match page.items.into_iter().next() {
        Some(resource) => Ok(resource),
        None => Err(Failure { code: 3, ..Failure::new(format!("there is no {kind}/{name}")) }),
    }
}
