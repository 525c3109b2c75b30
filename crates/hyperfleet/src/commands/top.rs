//! `hyperfleet top`: the fleet as it changes. A watch feeds a model, the model gives views, and a view is drawn some times
//! a second; without a terminal the present view is printed once.

mod controls;
mod model;
mod screen;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use hyperfleet_client::{Collection, Request, Resource, Watch, WatchEvent, WatchQuery};
use hyperfleet_core::Timestamp;
use hyperfleet_service::shutdown;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use tokio::sync::mpsc;

use super::Failure;
use crate::output::paint::Tone;
use crate::output::table::{Cell, Table};
use crate::output::{self, age};
use crate::remote::session::duration;
use crate::remote::{Session, selector};

use controls::{Controls, Flow};
use model::{Model, ReconciliationPhase, View, ViewOptions};

/// The fields of a resource that the view needs.
const FIELDS: &str = "id,kind,name,generation,deleted_time,owner_references,status.conditions";
/// Rows of the view that is printed once.
const PRINTED_ROWS: usize = 20;
/// The time between two frames.
const FRAME: Duration = Duration::from_millis(250);
/// How soon the thread that reads keys notices that its receiver is gone.
const KEYS_LOOK: Duration = Duration::from_millis(100);

/// Watch the fleet: what is not reconciled, for how long and why
///
/// It shows how many resources are in which phase, how fast resources change, which adapters fail, and what is
/// unreconciled for longest. Where stdout is not a terminal, the present state is printed once.
#[derive(Debug, Args)]
#[command(
    after_help = format!("Keys: {}\n\nTry it:\n  hyperfleet top\n  hyperfleet top nodepools -l environment=production | head", controls::HELP)
)]
pub(crate) struct Top {
    /// Only this kind [default: all]
    #[arg(value_name = "KIND")]
    kind: Option<String>,
    /// By labels: key=value, key!=value, key in (a,b), key, !key, with commas between
    #[arg(long, short = 'l', value_name = "LABELS")]
    selector: Option<String>,
    /// By search, such as "spec.region='us-east-1'"
    #[arg(long, value_name = "QUERY")]
    search: Option<String>,
    /// Unreconciled for longer than this counts as stuck
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10m")]
    stuck_after: Duration,
}

impl Top {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        // Also where no kind is named: a watch would try for ever to reach a server that is not there.
        let kinds = session.kinds().await?;
        let list = match &self.kind {
            Some(word) => kinds.find(word)?.collection(),
            None => Collection::any(),
        };
        let query = WatchQuery {
            search: selector::search(self.selector.as_deref(), self.search.as_deref())?,
            fields: Some(FIELDS.to_owned()),
            show_deleted: true,
            ..WatchQuery::default()
        };
        if session.prints_curl() {
            session.call(Request::watch(&list, &query)).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut model = Model::new(self.stuck_after);
        if output::data_on_terminal() {
            let watch = session.client.watch(&list, &query);
            return live(session, watch, model).await;
        }
        once(session, &list, &query, &mut model).await
    }
}

/// The present state, printed.
async fn once(
    session: &Session,
    list: &Collection,
    query: &WatchQuery,
    model: &mut Model,
) -> Result<ExitCode, Failure> {
    let query = hyperfleet_client::ListQuery {
        search: query.search.clone(),
        fields: query.fields.clone(),
        show_deleted: true,
        page_size: Some(500),
        ..hyperfleet_client::ListQuery::default()
    };
    let now = Timestamp::now();
    for resource in session.pages::<Resource>(Request::list(list, &query), None).await?.items {
        model.take(WatchEvent::Added { version: 0, resource }, now);
    }
    let view = model.view(&ViewOptions { rows: PRINTED_ROWS, ..ViewOptions::default() }, now);
    output::data(&printed(&view, output::data_colours()));
    Ok(ExitCode::SUCCESS)
}

fn printed(view: &View, colours: bool) -> String {
    let mut phases = Table::new(&ReconciliationPhase::ALL.map(ReconciliationPhase::name));
    phases.row(view.phases.iter().map(|count| count.to_string().into()).collect());
    let mut text = phases.render(colours);
    if !view.rows.is_empty() {
        let mut table = Table::new(&["name", "kind", "phase", "for", "gen", "why"]);
        for row in &view.rows {
            table.row(vec![
                Cell::new(&row.name, Tone::Strong),
                row.kind.as_str().into(),
                Cell::new(row.phase.name(), tone(row.phase)),
                age::span(row.lasts).into(),
                row.generation.to_string().into(),
                row.why.as_str().into(),
            ]);
        }
        text.push_str(&format!("\n{}", table.render(colours)));
        if view.matching > view.rows.len() {
            text.push_str(&format!("and {} more\n", view.matching - view.rows.len()));
        }
    }
    if !view.adapters.is_empty() {
        let mut table = Table::new(&["adapter", "failing"]);
        for adapter in &view.adapters {
            table.row(vec![adapter.name.as_str().into(), Cell::new(&adapter.failing.to_string(), Tone::Bad)]);
        }
        text.push_str(&format!("\n{}", table.render(colours)));
    }
    text
}

fn tone(phase: ReconciliationPhase) -> Tone {
    match phase {
        ReconciliationPhase::Reconciled => Tone::Good,
        ReconciliationPhase::Reconciling | ReconciliationPhase::Finalizing => Tone::Pending,
        ReconciliationPhase::Degraded | ReconciliationPhase::Stuck => Tone::Bad,
    }
}

/// The fleet as it changes, until `q`.
async fn live(session: &Session, mut watch: Watch, mut model: Model) -> Result<ExitCode, Failure> {
    // A refusal is printed before the screen is taken.
    let first = watch.next().await?;
    model.take(first, Timestamp::now());
    let mut signals = shutdown::signals().map_err(Failure::new)?;
    let mut terminal = Screen(ratatui::try_init().map_err(Failure::new)?);
    let mut keys = keys();
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut controls = Controls::default();
    // A pause keeps the fleet as it was; sorting and filters still change.
    let mut held: Option<(Model, Timestamp)> = None;
    let server = session.client.base_url();
    loop {
        tokio::select! {
            event = watch.next() => model.take(event?, Timestamp::now()),
            key = keys.recv() => {
                let Some(key) = key else { break };
                if controls.press(key) == Flow::Quit {
                    break;
                }
                frames.reset_immediately();
            }
            _ = frames.tick() => {
                let begun = Instant::now();
                let size = terminal.0.size().map_err(Failure::new)?;
                controls.ask_for(size.height.into());
                held = controls.paused.then(|| held.take().unwrap_or_else(|| (model.clone(), Timestamp::now())));
                let view = match &held {
                    Some((model, then)) => model.view(&controls.options, *then),
                    None => model.view(&controls.options, Timestamp::now()),
                };
                let context = screen::ScreenContext {
                    server: &server,
                    trouble: watch.trouble().map(|error| error.to_string()),
                    colours: output::data_colours(),
                };
                controls.fit(view.rows.len(), screen::rows(size, &view, &context));
                terminal.0.draw(|frame| screen::draw(frame, &view, &controls, &context)).map_err(Failure::new)?;
                // Drawing takes at most a quarter of the time; events get the rest.
                frames.reset_after(FRAME.max(begun.elapsed() * 4));
            }
            signal = signals.next() => return Ok(ExitCode::from(signal.exit_code())),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The terminal, given back however this ends.
struct Screen(DefaultTerminal);

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Keys as they are pressed, read by a thread of their own because reading them blocks. It ends with its receiver.
fn keys() -> mpsc::Receiver<KeyEvent> {
    let (pressed, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        while !pressed.is_closed() {
            match event::poll(KEYS_LOOK) {
                Ok(false) => continue,
                Ok(true) => {}
                Err(_) => break,
            }
            match event::read() {
                Ok(Event::Key(key)) if key.kind == KeyEventKind::Press => {
                    if pressed.blocking_send(key).is_err() {
                        break;
                    }
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
    });
    keys
}
