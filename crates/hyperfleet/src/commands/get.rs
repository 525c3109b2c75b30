//! `hyperfleet get`: one resource, many, or all of a kind, once or as they change.

use std::process::ExitCode;

use clap::{Args, value_parser};
use hyperfleet_client::{Collection, Kind, ListQuery, Page, Request, Resource, WatchEvent, WatchQuery};
use hyperfleet_core::Timestamp;
use serde_json::Value;

use super::apply::common_exit;
use super::{Exit, Failure};
use crate::output;
use crate::output::format::{self, Each, Format};
use crate::output::paint::Tone;
use crate::output::table::{Cell, Table};
use crate::remote::owners::Owners;
use crate::remote::resources::{self, Columns, TableOptions};
use crate::remote::target::{self, FoundResource, NamedTarget, Prefer, Within};
use crate::remote::{Session, selector};

/// The largest page that the server gives.
const PAGE: u64 = 500;

/// Show resources: one, many, or all of a kind
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet get clusters -l environment=production -o wide\n  hyperfleet get nodepools --in clusters/prod-1 -w\n  hyperfleet get cluster prod-1 -o jsonpath='{.status.conditions[?(@.type==\"Reconciled\")].status}'"
)]
pub(crate) struct Get {
    /// KIND, KIND NAME..., KIND/NAME... or `all`; an id stands for any name
    #[arg(value_name = "WHAT", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    within: Within,
    /// By labels: key=value, key!=value, key in (a,b), key, !key, with commas between
    #[arg(long, short = 'l', value_name = "LABELS")]
    selector: Option<String>,
    /// By search, such as "spec.region='us-east-1' and generation > 2"
    #[arg(long, value_name = "QUERY")]
    search: Option<String>,
    /// Order, such as 'created_time desc,name'
    #[arg(long, value_name = "FIELDS", default_value = "name")]
    order_by: String,
    /// At most this many
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Include finalizing resources
    #[arg(long)]
    show_deleted: bool,
    /// Then follow changes until Ctrl-C
    #[arg(long, short)]
    watch: bool,
    /// A column for each of these labels, with commas between
    #[arg(long, short = 'L', value_name = "KEYS", value_delimiter = ',')]
    label_columns: Vec<String>,
    /// Tables without their first line
    #[arg(long)]
    no_headers: bool,
    #[arg(long, short, value_name = "FORMAT", default_value = "table", help = format::HELP)]
    output: Format,
}

impl Get {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let lists = if self.words == ["all"] {
            vec![Collection::any()]
        } else {
            let wanted = target::parse(session.kinds().await?, &self.words)?;
            if wanted.iter().all(|one| one.path.is_empty()) {
                let kinds: Vec<Kind> = wanted.into_iter().map(|one| one.kind).collect();
                lists(session, &kinds, self.within.find(session).await?).await?
            } else {
                let (found, failures) = named(session, &wanted, &self.within).await?;
                if found.is_empty() {
                    return Ok(common_exit(&failures));
                }
                let ended = self.show(session, &found, wanted.len() > 1).await?;
                return Ok(if failures.is_empty() { ended } else { common_exit(&failures) });
            }
        };
        let query = self.query(&lists)?;
        self.list(session, &lists, &query).await
    }

    fn table_options(&self) -> TableOptions {
        TableOptions { labels: self.label_columns.clone(), is_headless: self.no_headers }
    }

    fn query(&self, lists: &[Collection]) -> Result<ListQuery, Failure> {
        let mixed = lists == [Collection::any()] && self.order_by == "name";
        let order = if mixed { "kind,name" } else { &self.order_by };
        Ok(ListQuery {
            search: selector::search(self.selector.as_deref(), self.search.as_deref())?,
            order_by: Some(order.to_owned()).filter(|order| !order.is_empty()),
            page_size: Some(self.limit.map_or(PAGE, |limit| limit.min(PAGE))),
            show_deleted: self.show_deleted,
            ..ListQuery::default()
        })
    }

    /// Named resources, each looked up already.
    async fn show(
        &self,
        session: &Session,
        found: &[FoundResource],
        many: bool,
    ) -> Result<ExitCode, Failure> {
        if session.prints_curl() {
            for one in found {
                session.call(Request::get(one.item().to_string())).await?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let resources: Vec<Resource> = found.iter().map(|one| one.resource.clone()).collect();
        if !self.watch {
            resources::print(session, &resources, many, &self.output, &self.table_options()).await?;
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
        let mut display =
            Display::new(&self.output, Columns::of(&resources, &self.output, &self.table_options()));
        display.watch(session, &one.kind.collection(), &query).await
    }

    async fn list(
        &self,
        session: &Session,
        lists: &[Collection],
        query: &ListQuery,
    ) -> Result<ExitCode, Failure> {
        let limit = self.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let watch = WatchQuery {
            search: query.search.clone(),
            show_deleted: query.show_deleted,
            ..WatchQuery::default()
        };
        if session.prints_curl() {
            for list in lists {
                session
                    .call(if self.watch { Request::watch(list, &watch) } else { Request::list(list, query) })
                    .await?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut found = Vec::new();
        let mut position = None;
        for list in lists {
            let left = limit.map(|limit| limit.saturating_sub(found.len()));
            if left == Some(0) {
                break;
            }
            let page: Page<Resource> = session.pages(Request::list(list, query), left).await?;
            position = page.position;
            found.extend(page.items);
        }
        if !self.watch {
            resources::print(session, &found, true, &self.output, &self.table_options()).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let [list] = lists else {
            return Err(Failure::usage("-w watches one list at a time"));
        };
        let mut display =
            Display::new(&self.output, Columns::of(&found, &self.output, &self.table_options()));
        let owners = Owners::of(session, &found).await?;
        if !display.state(&found, &owners) {
            return Ok(ExitCode::SUCCESS);
        }
        display.watch(session, list, &WatchQuery { since: position, ..watch }).await
    }
}

/// Resources by their names. A missing one is reported, and does not hide the others.
async fn named(
    session: &Session,
    wanted: &[NamedTarget],
    within: &Within,
) -> Result<(Vec<FoundResource>, Vec<u8>), Failure> {
    let owner = within.find(session).await?;
    let (mut found, mut failures) = (Vec::new(), Vec::new());
    for one in wanted {
        match target::resolve(session, one, owner.as_ref(), Prefer::Active).await {
            Ok(one) => found.push(one),
            Err(failure) if wanted.len() > 1 && failure.code == u8::from(Exit::NotFound) => {
                output::message(&format!("{} {}", output::red("error:"), failure.text));
                failures.push(failure.code);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok((found, failures))
}

/// The lists of some kinds, of all or of one owner.
async fn lists(
    session: &Session,
    kinds: &[Kind],
    owner: Option<FoundResource>,
) -> Result<Vec<Collection>, Failure> {
    let mut lists = Vec::new();
    for kind in kinds {
        match &owner {
            Some(owner) => lists.extend(target::lists_below(session, kind, owner).await?),
            None => lists.push(kind.collection()),
        }
    }
    Ok(lists)
}

/// What a watch prints: a line or a document for each change.
struct Display<'a> {
    format: &'a Format,
    each: Each<'a>,
    columns: Columns,
    table: Table,
    headed: bool,
}

impl<'a> Display<'a> {
    fn new(format: &'a Format, columns: Columns) -> Self {
        Self { format, each: Each::of(format), table: columns.table(), columns, headed: false }
    }

    /// Prints the state at the start. Returns whether the output still has a reader.
    fn state(&mut self, resources: &[Resource], owners: &Owners) -> bool {
        match self.format {
            Format::Table | Format::Wide => {
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

    /// Prints one change. Returns whether the output still has a reader.
    fn change(&mut self, resource: &Resource, owners: &Owners, end: Option<&'static str>) -> bool {
        let text = match self.format {
            Format::Table | Format::Wide => {
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
            Format::Name => format!("{}\n", owners.path_of(resource)),
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
        session.log_request(&format!("GET {list}?watch=true"));
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
                    output::message("the watch was restarted; this is the present state");
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

/// The message for a resource that left a list: it no longer matches, it is gone, or, by its own state, it is
/// finalizing.
fn end(resource: &Resource, shows_deleted: bool) -> Option<&'static str> {
    match (resource.is_finalizing(), shows_deleted) {
        (false, _) => Some("Left"),
        (true, true) => Some("Gone"),
        (true, false) => None,
    }
}
