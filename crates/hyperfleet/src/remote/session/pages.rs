//! Lists of any length, page by page, from servers with page tokens and from those that count, and pages of a size that
//! the server gives.

use hyperfleet_client::{Page, Request, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Session;
use crate::commands::Failure;

/// A page size that `compatibility.contract: go-0.2` accepts too.
const SMALL_PAGE: u64 = 100;

/// Every page of a list from the one that `request` asks for, until there are `limit` items.
pub(super) async fn all<T: DeserializeOwned>(
    session: &Session,
    request: Request,
    limit: Option<usize>,
) -> Result<Page<T>, Failure> {
    let mut whole: Page<T> = Page::read(&session.fetch(request.clone()).await?)?;
    let mut number = 1_u64;
    let mut last = whole.items.len();
    while last > 0 && limit.is_none_or(|limit| whole.items.len() < limit) {
        let mut request = request.clone();
        request.query.retain(|(name, _)| name != "page" && name != "pageToken");
        let token = whole.next.take();
        request = match &token {
            Some(token) => request.param("pageToken", token),
            // A server without tokens counts, and is asked by number.
            None if whole.total.is_some_and(|total| (whole.items.len() as u64) < total) => {
                number += 1;
                request.param("page", &number)
            }
            None => break,
        };
        let page: Page<T> = Page::read(&session.fetch(request).await?)?;
        if page.next.is_some() && page.next == token {
            return Err(Failure::new("the server returned the same page token twice"));
        }
        last = page.items.len();
        whole.next = page.next;
        whole.items.extend(page.items);
    }
    if let Some(limit) = limit {
        whole.items.truncate(limit);
    }
    Ok(whole)
}

/// Whether the server refused the size of the page.
pub(super) fn refuses_size(answer: &Response) -> bool {
    let faults =
        |problem: Value| problem.get("errors").and_then(Value::as_array).cloned().unwrap_or_default();
    answer.status.as_u16() == 400
        && answer.json().is_ok_and(|problem| faults(problem).iter().any(|fault| fault["field"] == "size"))
}

/// Asks for no more than every server gives in one page; whether that is less than before.
pub(super) fn shrink(request: &mut Request) -> bool {
    let size = request.query.iter_mut().find(|(name, _)| name == "size");
    match size.filter(|(_, size)| size.parse::<u64>().is_ok_and(|size| size > SMALL_PAGE)) {
        Some((_, size)) => {
            *size = SMALL_PAGE.to_string();
            true
        }
        None => false,
    }
}
