//! Many resources at once: some by their names, or all of a kind that labels or a search select.

use clap::{Arg, ArgAction, ArgMatches};
use hyperfleet_client::{ListQuery, Page, Request, Resource};

use super::{Found, Prefer, lists_below, named, parse};
use crate::commands::Failure;
use crate::remote::{Session, selector};

/// `-l`, `--search` and `--all`.
pub(crate) fn arguments() -> [Arg; 3] {
    [
        Arg::new("selector")
            .short('l')
            .long("selector")
            .value_name("LABELS")
            .help("All of the kind with these labels"),
        Arg::new("search").long("search").value_name("QUERY").help("All of the kind that this finds"),
        Arg::new("all")
            .long("all")
            .action(ArgAction::SetTrue)
            .conflicts_with_all(["selector", "search"])
            .help("All of the kind"),
    ]
}

/// Whether these flags select, so that any number may be found.
pub(crate) fn is_one(matches: &ArgMatches) -> bool {
    matches.contains_id("selector") || matches.contains_id("search") || matches.get_flag("all")
}

/// Those that the words name, or all of a kind that is selected.
pub(crate) async fn found(
    session: &Session,
    matches: &ArgMatches,
    words: &[String],
) -> Result<Vec<Found>, Failure> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let search = selector::search(text("selector"), text("search"))?;
    let by_kind = parse(session.kinds().await?, words)?.into_iter().filter(|one| one.path.is_empty());
    let kinds: Vec<_> = by_kind.map(|one| one.kind).collect();
    if kinds.is_empty() {
        return match search {
            Some(_) => Err(Failure::usage("a selection needs a kind alone, without names")),
            None => named(session, matches, words, Prefer::Active).await,
        };
    }
    if search.is_none() && !matches.get_flag("all") {
        return Err(Failure::usage("which ones? Say names, -l, --search, or --all"));
    }
    let owner = super::owner(session, matches).await?;
    let mut found = Vec::new();
    for kind in kinds {
        let lists = match &owner {
            Some(owner) => lists_below(session, &kind, owner).await?,
            None => vec![kind.collection()],
        };
        let query = ListQuery {
            search: search.clone(),
            order_by: Some("name".to_owned()),
            page_size: Some(500),
            ..ListQuery::default()
        };
        for list in lists {
            let page: Page<Resource> = session.pages(Request::list(&list, &query), None).await?;
            found.extend(page.items.into_iter().map(|resource| Found { kind: kind.clone(), resource }));
        }
    }
    Ok(found)
}
