//! Lists, page by page. Pages are followed by their tokens; a server that gives none (the Go implementation) is asked
//! by page numbers instead, and by `size`, which both know.

use std::collections::VecDeque;

use futures_util::stream::{self, Stream};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::client::Client;
use crate::error::Error;
use crate::path::Collection;
use crate::request::Request;
use crate::resource::Resource;
use crate::response::Response;

/// The parameters of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// The filter language.
    pub search: Option<String>,
    /// Such as `name` or `created_time desc,name`.
    pub order_by: Option<String>,
    /// How many to a page.
    pub page_size: Option<u64>,
    /// Where the page before ended.
    pub page_token: Option<String>,
    /// Which page, from 1; not beside a token.
    pub page: Option<u64>,
    /// Only these members.
    pub fields: Option<String>,
    /// Whether to count, which takes time.
    pub total: bool,
    /// Whether to include what is being deleted.
    pub show_deleted: bool,
    /// Which kind, on the list of all.
    pub kind: Option<String>,
    /// Only those that refer to this: ref type and id.
    pub referring_to: Option<(String, String)>,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The resources of the page.
    pub items: Vec<T>,
    /// How many there are on all pages, if that was asked for.
    pub total: Option<u64>,
    /// The version of the snapshot.
    pub version: Option<u64>,
    /// The position of the snapshot: a watch from here misses nothing. Of an older server it is the version.
    pub position: Option<String>,
    /// The token of the next page; the last has none.
    pub next: Option<String>,
}

impl<T: DeserializeOwned> Page<T> {
    /// The page that an answer holds.
    pub fn read(answer: &Response) -> Result<Self, Error> {
        let mut body: Value = answer.json()?;
        let Some(Value::Array(items)) = body.get_mut("items").map(Value::take) else {
            return Err(answer.malformed("a list without items"));
        };
        let items = items.into_iter().map(serde_json::from_value).collect::<Result<_, _>>();
        let version = body.get("version").and_then(Value::as_u64);
        let next = body.get("next_page_token").and_then(Value::as_str).filter(|token| !token.is_empty());
        Ok(Self {
            items: items.map_err(|fault| answer.malformed(fault))?,
            total: body.get("total").and_then(Value::as_u64),
            position: body
                .get("position")
                .and_then(Value::as_str)
                .map(str::to_owned)
                .or(version.map(|version| version.to_string())),
            version,
            next: next.map(str::to_owned),
        })
    }
}

/// The position of a reader that requests pages by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Paging {
    turned: u64,
    seen: u64,
}

impl Paging {
    /// The number of the page to ask for.
    pub(crate) fn number(&self) -> u64 {
        self.turned + 1
    }

    /// Counts a page; whether there is another.
    pub(crate) fn turn<T>(&mut self, page: &Page<T>) -> bool {
        self.turned += 1;
        self.seen += page.items.len() as u64;
        !page.items.is_empty() && page.total.is_some_and(|total| self.seen < total)
    }
}

/// Every item of a list that is small enough to fit in memory.
pub(crate) async fn whole<T: DeserializeOwned>(client: &Client, request: Request) -> Result<Vec<T>, Error> {
    let mut paging = Paging::default();
    let (mut all, mut turned) = (Vec::new(), request.clone());
    loop {
        let answer = client.ask(turned).await?;
        let page: Page<T> = Page::read(&answer)?;
        let more_by_number = paging.turn(&page);
        let is_empty = page.items.is_empty();
        all.extend(page.items);
        turned = match page.next {
            Some(token) if !is_empty => request.clone().param("pageToken", &token),
            None if more_by_number => request.clone().param("page", &paging.number()),
            _ => return Ok(all),
        };
    }
}

/// Every resource of a list, page after page as they are wanted.
pub(crate) fn pages(
    client: &Client,
    collection: &Collection,
    query: &ListQuery,
) -> impl Stream<Item = Result<Resource, Error>> + Send + Unpin + 'static + use<> {
    let turning = Turning {
        client: client.clone(),
        collection: collection.clone(),
        query: query.clone(),
        paging: Paging::default(),
        ready: VecDeque::new(),
        is_last: false,
    };
    Box::pin(stream::try_unfold(turning, |mut turning| async move {
        Ok(turning.next().await?.map(|resource| (resource, turning)))
    }))
}

struct Turning {
    client: Client,
    collection: Collection,
    query: ListQuery,
    paging: Paging,
    ready: VecDeque<Resource>,
    is_last: bool,
}

impl Turning {
    async fn next(&mut self) -> Result<Option<Resource>, Error> {
        while self.ready.is_empty() && !self.is_last {
            let request = Request::list(&self.collection, &self.query);
            let answer = self.client.ask(request).await?;
            let page: Page<Resource> = Page::read(&answer)?;
            let more_by_number = self.paging.turn(&page);
            match page.next {
                Some(token) if self.query.page_token.as_ref() == Some(&token) => {
                    return Err(answer.malformed("a page that leads to itself"));
                }
                Some(token) => {
                    self.query.page_token = Some(token);
                    self.query.page = None;
                }
                None if self.query.page_token.is_none() && more_by_number => {
                    self.query.page = Some(self.query.page.unwrap_or(1) + 1);
                }
                None => self.is_last = true,
            }
            self.ready = page.items.into();
        }
        Ok(self.ready.pop_front())
    }
}
