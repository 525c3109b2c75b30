//! The parameters of lists that are in the order of names and have nothing to search or to sort by.

use hyperfleet_core::{Contract, Error};
use hyperfleet_store::{Slice, SliceStart};
use serde::{Deserialize, Serialize};

use super::{Query, page_size};
use crate::page_token::Seal;

/// Which page is asked for.
#[derive(Debug)]
pub(crate) struct SliceParameters {
    /// Its number, from 1.
    pub(crate) page: u64,
    /// What it is of the list.
    pub(crate) slice: Slice,
}

/// What a page token holds: the last name of the page before, and the number of the next page.
#[derive(Debug, Serialize, Deserialize)]
struct SliceToken {
    #[serde(rename = "a")]
    after: String,
    #[serde(rename = "n")]
    page: u64,
}

impl SliceParameters {
    /// Reads them where there are no others. Tokens are bound to the text beside their seal.
    pub(crate) fn parse(raw: Option<&str>, contract: Contract, sealed: (&Seal, &str)) -> Result<Self, Error> {
        let mut query = Query::new(raw, contract);
        let slice = Self::take(&mut query, sealed);
        query.finish(slice)
    }

    /// Takes them out of those of a request.
    pub(super) fn take(query: &mut Query, sealed: (&Seal, &str)) -> Self {
        let page = query.number("page", None);
        let limit = page_size(query);
        let count = query.word("total", &[("exact", true), ("none", false)]).unwrap_or(true);
        let (page, start) = match query.token(page, sealed, |_| true) {
            Some(SliceToken { after, page }) => (page, SliceStart::After(after)),
            None => {
                let page = page.unwrap_or(1);
                (page, SliceStart::Offset((page - 1).saturating_mul(limit)))
            }
        };
        Self { page, slice: Slice { start, limit, count } }
    }

    /// The token of the page behind this one, where there is one: behind the last name of this page.
    pub(crate) fn next(&self, last: Option<&str>, sealed: (&Seal, &str)) -> Result<Option<String>, Error> {
        let Some(after) = last else { return Ok(None) };
        let (seal, route) = sealed;
        let token = SliceToken { after: after.to_owned(), page: self.page.saturating_add(1) };
        seal.close(&token, route).map(Some)
    }
}
