//! `hyperfleet get`: one resource, many, or all of a kind, once or as they change.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use hyperfleet_client::{Collection, Kind, ListQuery, Page, Request, Resource, WatchEvent, WatchQuery};
use hyperfleet_core::Timestamp;
use serde_json::Value;

use super::apply::common_exit;
use super::{Exit, Failure};
use crate::output;
use crate::output::form::{Each, Form};
use crate::output::paint::Tone;
use crate::output::table::{Cell, Table};
use crate::remote::owners::Owners;
use crate::remote::resources::{self, Columns, Look};
use crate::remote::target::{self, Found, Prefer, Wanted};
use crate::remote::{Session, selector, session};

/// The largest page that the server gives.
const PAGE: u64 = 500;

pub(crate) fn command() -> Command {
    let command = Command::new("get")
        .about("Show resources: one, many, or all of a kind")
        .args([
            target::words("KIND, KIND NAME..., KIND/NAME... or `all`; an id stands for any name"),
            target::within(),
            Arg::new("selector").short('l').long("selector").value_name("LABELS").help("By labels: key=value, key!=value, key in (a,b), key, !key, with commas between"),
            Arg::new("search").long("search").value_name("QUERY").help("By the filter language, such as \"spec.region='us-east-1' and generation > 2\""),
            Arg::new("order-by").long("order-by").value_name("FIELDS").default_value("name").help("Order, such as 'created_time desc,name'"),
            Arg::new("limit").long("limit").value_name("NUMBER").value_parser(value_parser!(u64).range(1..)).help("No more than this many"),
            Arg::new("show-deleted").long("show-deleted").action(ArgAction::SetTrue).help("Also what is being deleted"),
            Arg::new("watch").short('w').long("watch").action(ArgAction::SetTrue).help("Then go on with each change, until Ctrl-C"),
            Arg::new("label-columns").short('L').long("label-columns").value_name("KEYS").action(ArgAction::Append).help("A column for each of these labels, with commas between"),
            Arg::new("no-headers").long("no-headers").action(ArgAction::SetTrue).help("Tables without their first line"),
            resources::output_argument().default_value("table"),
        ])
        .after_help("Try it:\n  hyperfleet get clusters -l environment=production -o wide\n  hyperfleet get nodepools --in clusters/prod-1 -w\n  hyperfleet get cluster prod-1 -o jsonpath='{.status.conditions[?(@.type==\"Reconciled\")].status}'");
    session::arguments(command)
}

pub(crate) async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let form = matches.get_one::<Form>("output").cloned().unwrap_or(Form::Table);
    let words: Vec<String> = matches.get_many("what").into_iter().flatten().cloned().collect();
    let lists = if words == ["all"] {
        vec![Collection::any()]
    } else {
        let wanted = target::parse(session.kinds().await?, &words)?;
        if wanted.iter().all(|one| one.path.is_empty()) {
            let kinds: Vec<Kind> = wanted.into_iter().map(|one| one.kind).collect();
            lists(session, &kinds, target::owner(session, matches).await?).await?
        } else {
            let (found, failures) = named(session, matches, &wanted).await?;
            if found.is_empty() {
                return Ok(common_exit(&failures));
            }
            let ended = show(session, matches, &form, &found, wanted.len() > 1).await?;
            return Ok(if failures.is_empty() { ended } else { common_exit(&failures) });
        }
    };
    let query = query(matches, &lists)?;
    list(session, matches, &form, &lists, &query).await
}

/// Resources by their names. One that is not there is told of, and does not hide the others.
async fn named(
    session: &Session,
    matches: &ArgMatches,
    wanted: &[Wanted],
) -> Result<(Vec<Found>, Vec<u8>), Failure> {
    let owner = target::owner(session, matches).await?;
    let (mut found, mut failures) = (Vec::new(), Vec::new());
    for one in wanted {
        match target::resolve(session, one, owner.as_ref(), Prefer::Active).await {
            Ok(one) => found.push(one),
            Err(failure) if wanted.len() > 1 && failure.code == u8::from(Exit::NotFound) => {
                output::talk(&format!("{} {}", output::red("error:"), failure.text));
                failures.push(failure.code);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok((found, failures))
}

fn look(matches: &ArgMatches) -> Look {
    let labels = matches.get_many::<String>("label-columns").into_iter().flatten();
    Look {
        labels: labels.flat_map(|keys| keys.split(',')).map(str::to_owned).collect(),
        is_headless: matches.get_flag("no-headers"),
    }
}

/// The lists of some kinds, of all or of one owner.
async fn lists(session: &Session, kinds: &[Kind], owner: Option<Found>) -> Result<Vec<Collection>, Failure> {
    let mut lists = Vec::new();
    for kind in kinds {
        match &owner {
            Some(owner) => lists.extend(target::lists_below(session, kind, owner).await?),
            None => lists.push(kind.collection()),
        }
    }
    Ok(lists)
}

fn query(matches: &ArgMatches, lists: &[Collection]) -> Result<ListQuery, Failure> {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let limit = matches.get_one::<u64>("limit").copied();
    let order = text("order-by").unwrap_or_default();
    let mixed = lists == [Collection::any()] && order == "name";
    Ok(ListQuery {
        search: selector::search(text("selector").as_deref(), text("search").as_deref())?,
        order_by: Some(if mixed { "kind,name".to_owned() } else { order }).filter(|order| !order.is_empty()),
        page_size: Some(limit.map_or(PAGE, |limit| limit.min(PAGE))),
        show_deleted: matches.get_flag("show-deleted"),
        ..ListQuery::default()
    })
}

/// Resources that were named, each found already.
async fn show(
    session: &Session,
    matches: &ArgMatches,
    form: &Form,
    found: &[Found],
    many: bool,
) -> Result<ExitCode, Failure> {
    if session.prints_curl() {
        for one in found {
            session.call(Request::get(one.item().to_string())).await?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let resources: Vec<Resource> = found.iter().map(|one| one.resource.clone()).collect();
    if !matches.get_flag("watch") {
        resources::print(session, &resources, many, form, &look(matches)).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let [one] = found else {
        return Err(Failure::usage("-w watches one resource or a whole list"));
    };
    let query = WatchQuery {
        search: Some(format!("id={}", target::quoted(one.resource.id()))),
        show_deleted: true,
        ..WatchQuery::default()
    };
    let mut display = Display::new(form, Columns::of(&resources, form, &look(matches)));
    display.watch(session, &one.kind.collection(), &query).await
}

async fn list(
    session: &Session,
    matches: &ArgMatches,
    form: &Form,
    lists: &[Collection],
    query: &ListQuery,
) -> Result<ExitCode, Failure> {
    let limit = matches.get_one::<u64>("limit").map(|limit| usize::try_from(*limit).unwrap_or(usize::MAX));
    let watched = matches.get_flag("watch");
    let watch = WatchQuery {
        search: query.search.clone(),
        show_deleted: query.show_deleted,
        ..WatchQuery::default()
    };
    if session.prints_curl() {
        for list in lists {
            session
                .call(if watched { Request::watch(list, &watch) } else { Request::list(list, query) })
                .await?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut found = Vec::new();
    let mut version = None;
    for list in lists {
        let left = limit.map(|limit| limit.saturating_sub(found.len()));
        if left == Some(0) {
            break;
        }
        let page: Page<Resource> = session.pages(Request::list(list, query), left).await?;
        version = page.version;
        found.extend(page.items);
    }
    if !watched {
        resources::print(session, &found, true, form, &look(matches)).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let [list] = lists else {
        return Err(Failure::usage("-w watches one list at a time"));
    };
    let mut display = Display::new(form, Columns::of(&found, form, &look(matches)));
    let owners = Owners::of(session, &found).await?;
    if !display.state(&found, &owners) {
        return Ok(ExitCode::SUCCESS);
    }
    display.watch(session, list, &WatchQuery { since: version, ..watch }).await
}

/// What a watch prints: a line or a document for each change.
struct Display<'a> {
    form: &'a Form,
    each: Each<'a>,
    columns: Columns,
    table: Table,
    headed: bool,
}

impl<'a> Display<'a> {
    fn new(form: &'a Form, columns: Columns) -> Self {
        Self { form, each: Each::of(form), table: columns.table(), columns, headed: false }
    }

    /// The state at the start; whether anybody reads it.
    fn state(&mut self, resources: &[Resource], owners: &Owners) -> bool {
        match self.form {
            Form::Table | Form::Wide => {
                let now = Timestamp::now();
                for resource in resources {
                    self.table.row(self.columns.row(resource, owners, now));
                }
                self.headed = true;
                let text = self.table.render(output::data_colours());
                self.table.take_rows(false);
                output::data_is_read(&text)
            }
            _ => resources.iter().all(|resource| self.change(resource, owners, None)),
        }
    }

    /// One change; whether anybody reads it.
    fn change(&mut self, resource: &Resource, owners: &Owners, end: Option<&'static str>) -> bool {
        let text = match self.form {
            Form::Table | Form::Wide => {
                let mut cells = self.columns.row(resource, owners, Timestamp::now());
                if let (Some(end), Some(status)) = (end, cells.get_mut(1 + usize::from(self.columns.owner))) {
                    *status = Cell::new(end, Tone::Faint);
                }
                self.table.row(cells);
                if self.headed {
                    self.table.take_rows(output::data_colours())
                } else {
                    self.headed = true;
                    let text = self.table.render(output::data_colours());
                    self.table.take_rows(false);
                    text
                }
            }
            Form::Name => format!("{}\n", owners.path_of(resource)),
            _ => self.each.text(&Value::Object(resource.raw().clone())),
        };
        output::data_is_read(&text)
    }

    async fn watch(
        &mut self,
        session: &Session,
        list: &Collection,
        query: &WatchQuery,
    ) -> Result<ExitCode, Failure> {
        session.tell(&format!("GET {list}?watch=true"));
        let mut watch = session.client.watch(list, query);
        loop {
            let (resource, end) = match watch.next().await? {
                WatchEvent::Added { resource, .. } | WatchEvent::Modified { resource, .. } => {
                    (resource, None)
                }
                WatchEvent::Deleted { resource, .. } => {
                    let end = end(&resource, query.show_deleted);
                    (resource, end)
                }
                WatchEvent::Restart => {
                    output::talk(
                        "the server does not keep what happened meanwhile; this is the present state",
                    );
                    continue;
                }
                WatchEvent::Bookmark { .. } => continue,
            };
            let owners = Owners::of(session, std::slice::from_ref(&resource)).await.unwrap_or_default();
            if !self.change(&resource, &owners, end) {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

/// What to say of a resource that left a list: it does not fit any more, it is gone, or its deletion has begun, which
/// its own state tells.
fn end(resource: &Resource, shows_deleted: bool) -> Option<&'static str> {
    match (resource.is_finalizing(), shows_deleted) {
        (false, _) => Some("Left"),
        (true, true) => Some("Gone"),
        (true, false) => None,
    }
}
