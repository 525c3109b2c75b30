//! Many resources at once: some by their names, or all of a kind that labels or a search select.

use clap::Args;
use hyperfleet_client::{ListQuery, Page, Request, Resource};

use super::{FoundResource, Prefer, Within, lists_below, named, parse};
use crate::commands::Failure;
use crate::remote::{Session, selector};

/// The flags that select.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// All of the kind with these labels
    #[arg(long, short = 'l', value_name = "LABELS")]
    selector: Option<String>,
    /// All of the kind that match this search
    #[arg(long, value_name = "QUERY")]
    search: Option<String>,
    /// All of the kind
    #[arg(long, conflicts_with_all = ["selector", "search"])]
    all: bool,
}

impl Selection {
    /// Whether any number of resources may be found.
    pub(crate) fn is_given(&self) -> bool {
        self.selector.is_some() || self.search.is_some() || self.all
    }
}

/// Those that the words name, or all of a kind that is selected.
pub(crate) async fn found(
    session: &Session,
    words: &[String],
    within: &Within,
    selection: &Selection,
) -> Result<Vec<FoundResource>, Failure> {
    let search = selector::search(selection.selector.as_deref(), selection.search.as_deref())?;
    let by_kind = parse(session.kinds().await?, words)?.into_iter().filter(|one| one.path.is_empty());
    let kinds: Vec<_> = by_kind.map(|one| one.kind).collect();
    if kinds.is_empty() {
        return match search {
            Some(_) => Err(Failure::usage("-l and --search cannot be combined with names")),
            None => named(session, words, within, Prefer::Active).await,
        };
    }
    if search.is_none() && !selection.all {
        return Err(Failure::usage("specify names, -l, --search or --all"));
    }
    let owner = within.find(session).await?;
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
            found.extend(
                page.items.into_iter().map(|resource| FoundResource { kind: kind.clone(), resource }),
            );
        }
    }
    Ok(found)
}
