//! The search for what may be due, page by page. Against an API that knows conditions in searches it finds only that;
//! against any other it reads everything that fits the selector, and the book sorts it out.

use hyperfleet_client::{Client, Collection, Error, ListQuery, Resource};
use hyperfleet_core::Timestamp;
use tokio::sync::mpsc;

use crate::config::Work;
use crate::decide::STALE_AFTER;
use crate::seen::FIELDS;

/// Pages that may wait to be looked at.
const AHEAD: usize = 2;

/// What a search brings.
#[derive(Debug)]
pub(crate) enum Found {
    /// Some resources, as of this version.
    Page(Option<u64>, Vec<Resource>),
    /// It is over; the version is that of the first page.
    End(Result<Option<u64>, Error>),
}

/// How to search.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    pub(crate) client: Client,
    pub(crate) collection: Collection,
    pub(crate) page_size: u64,
    /// Each is one list. There is no `or` between them, because no index finds both sides of one.
    pub(crate) filters: Vec<Option<String>>,
    pub(crate) fields: Option<String>,
}

impl Search {
    /// Begins, in a task of its own that ends when nobody listens.
    pub(crate) fn begin(self) -> mpsc::Receiver<Found> {
        let (out, found) = mpsc::channel(AHEAD);
        tokio::spawn(async move {
            let end = self.run(&out).await;
            let _ = out.send(Found::End(end)).await;
        });
        found
    }

    async fn run(&self, out: &mpsc::Sender<Found>) -> Result<Option<u64>, Error> {
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
                    first = page.version;
                }
                let count = page.items.len() as u64;
                turned += count;
                let more_by_number = count > 0 && page.total.is_some_and(|total| turned < total);
                if out.send(Found::Page(page.version, page.items)).await.is_err() {
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

/// What may be due, in the terms of the API's conditions.
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

/// The members that are needed, if not all of them.
pub(crate) fn fields(work: &Work) -> Option<String> {
    (work.decision.is_none() && work.data.is_none()).then(|| FIELDS.to_owned())
}
