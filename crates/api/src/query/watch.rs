//! The parameters of a watch: the criteria of a list, and the version to start after. Paging parameters do not apply.

use std::sync::Arc;

use hyperfleet_core::search::{self, Filter, Options, Scope};
use hyperfleet_core::{Catalog, Contract, Epoch, Error, FeedPosition, Projection, ResourceId, Version};

use super::list::kind;
use super::{Query, page_size_names};
use crate::contract::HttpContract;

/// The parameters of a watch.
#[derive(Debug)]
pub(crate) struct WatchParameters {
    /// The version to start after, and its epoch if it was sent; `None` starts with the present state.
    pub(crate) since: Option<(Version, Option<Epoch>)>,
    /// The projection of each resource.
    pub(crate) fields: Option<Projection>,
    search: Option<Filter>,
    show_deleted: bool,
    kind: Option<Arc<str>>,
}

/// Whether the query asks for a watch.
pub(crate) fn is_watch(raw: Option<&str>) -> bool {
    let given = form_urlencoded::parse(raw.unwrap_or_default().as_bytes());
    given.into_iter().any(|(name, value)| name == "watch" && value == "true")
}

impl WatchParameters {
    /// Parses the parameters. `any_kind` is for the route that serves every kind; `last_event` is the `Last-Event-ID`
    /// of a resumed stream, which overrides `since`.
    pub(crate) fn parse(
        raw: Option<&str>,
        last_event: Option<&str>,
        catalog: &Catalog,
        contract: Contract,
        options: Options,
        any_kind: bool,
    ) -> Result<Self, Error> {
        let mut query = Query::new(raw, contract);
        query.word("watch", &[("true", true), ("false", false)]);
        let since = query.take("since").map(|text| ("since", text));
        let since = last_event.map(|text| ("Last-Event-ID", text.to_owned())).or(since);
        let since = since.and_then(|(name, text)| {
            let found = FeedPosition::parse(text.trim());
            if found.is_none() {
                let message = format!(
                    "{name} must be a version, a whole number of at least 0, or the position of a list or an event"
                );
                query.fault(name, message, Some(&text), "format");
            }
            found
        });
        let fields = query.fields();
        let show_deleted = query.word("showDeleted", &[("true", true), ("false", false)]);
        let kind = if any_kind { kind(&mut query, catalog) } else { None };
        let search = query.take("search").and_then(|text| match search::parse(&text, options) {
            Ok(filter) => Some(filter),
            Err(error) => {
                query.search_error = Some(error);
                None
            }
        });
        let of_pages = ["page", "orderBy", "order", "pageToken", "total", "ref_type", "ref_target_id"];
        for name in page_size_names(contract).into_iter().chain(of_pages) {
            if let Some(value) = query.take(name) {
                query.fault(name, format!("{name} has no meaning beside watch"), Some(&value), "exclusive");
            }
        }
        let show_deleted = show_deleted.unwrap_or(HttpContract::of(contract).lists_finalizing);
        query.finish(Self { since, fields, search, show_deleted, kind })
    }

    /// The filter of the watch.
    pub(crate) fn filter(&self, kinds: Vec<Arc<str>>, owner: Option<ResourceId>) -> Filter {
        let kinds = self.kind.as_ref().map_or(kinds, |kind| vec![kind.clone()]);
        let finalizing = self.show_deleted || self.search.as_ref().is_some_and(Filter::names_deleted_time);
        Scope { kinds, owner, finalizing, referring_to: None }.confine(self.search.clone())
    }
}
