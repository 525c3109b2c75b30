//! Searches for resources that may be due, page by page. If the API cannot filter by conditions, a search reads all that
//! match the selector, and the schedule decides.

use hyperfleet_client::{Client, Collection, Error, ListQuery, Resource};
use hyperfleet_core::Timestamp;
use tokio::sync::mpsc;

use crate::config::Work;
use crate::decide::STALE_AFTER;
use crate::observed::FIELDS;

/// Pages that are read ahead.
const AHEAD: usize = 2;

/// The results of a search.
#[derive(Debug)]
pub(crate) enum SearchResults {
    /// Some resources, as of this version.
    Page(Option<u64>, Vec<Resource>),
    /// The end, with the position of the first page.
    End(Result<Option<String>, Error>),
}

/// How to search.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    pub(crate) client: Client,
    pub(crate) collection: Collection,
    pub(crate) page_size: u64,
    /// One list for each, because no index serves an `or` of them.
    pub(crate) filters: Vec<Option<String>>,
    pub(crate) fields: Option<String>,
}

impl Search {
    /// Starts a task, which ends when the receiver is dropped.
    pub(crate) fn begin(self) -> mpsc::Receiver<SearchResults> {
        let (out, found) = mpsc::channel(AHEAD);
        tokio::spawn(async move {
            let end = self.run(&out).await;
            let _ = out.send(SearchResults::End(end)).await;
        });
        found
    }

    async fn run(&self, out: &mpsc::Sender<SearchResults>) -> Result<Option<String>, Error> {
        let mut first = None;
        for (i, filter) in self.filters.iter().enumerate() {
            let mut query = ListQuery {
                search: filter.clone(),
                order_by: Some("created_time".to_owned()),
                page_size: Some(self.page_size),
                fields: self.fields.clone(),
                show_deleted: true,
                ..ListQuery::default()
            };
            let mut turned = 0;
            loop {
                let page = self.client.list(&self.collection, &query).await?;
                if i == 0 && query.page_token.is_none() && query.page.is_none() {
                    first = page.position;
                }
                let count = page.items.len() as u64;
                turned += count;
                let more_by_number = count > 0 && page.total.is_some_and(|total| turned < total);
                if out.send(SearchResults::Page(page.version, page.items)).await.is_err() {
                    return Ok(None);
                }
                match page.next {
                    Some(token) if query.page_token.as_ref() != Some(&token) => {
                        query.page = None;
                        query.page_token = Some(token);
                    }
                    None if query.page_token.is_none() && more_by_number => {
                        query.page = Some(query.page.unwrap_or(1) + 1);
                    }
                    _ => break,
                }
            }
        }
        Ok(first)
    }
}

/// The selector as a search.
pub(crate) fn selector(work: &Work) -> Option<String> {
    let parts =
        work.selector.iter().map(|(label, value)| format!("labels.{label}='{}'", value.replace('\'', "''")));
    Some(parts.collect::<Vec<_>>().join(" and ")).filter(|search| !search.is_empty())
}

/// Filters for what may be due.
pub(crate) fn due(work: &Work, now: Timestamp) -> Vec<Option<String>> {
    const RECONCILED: &str = "status.conditions.Reconciled";
    let stale = Timestamp::from_micros(now.micros() - STALE_AFTER.as_micros() as i64);
    let and = selector(work).map_or_else(String::new, |selector| format!("{selector} and "));
    vec![
        Some(format!("{and}{RECONCILED}='False'")),
        Some(format!(
            "{and}{RECONCILED}='True' and {RECONCILED}.last_updated_time < '{stale}' \
             and {RECONCILED}.reason != 'NoRequiredAdapters'"
        )),
    ]
}

/// The members to ask for, if not all of them are needed.
pub(crate) fn fields(work: &Work) -> Option<String> {
    (work.decision.is_none() && work.data.is_none()).then(|| FIELDS.to_owned())
}
