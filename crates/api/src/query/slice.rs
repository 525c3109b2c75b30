//! The parameters of lists that are ordered by name, without search.

use hyperfleet_core::{Contract, Error};
use hyperfleet_store::{Slice, SliceStart};
use serde::{Deserialize, Serialize};

use super::{Query, page_size};
use crate::page_token::TokenSigner;

/// The requested page.
#[derive(Debug)]
pub(crate) struct SliceParameters {
    /// The page number, from 1.
    pub(crate) page: u64,
    /// The slice of the list.
    pub(crate) slice: Slice,
}

/// A page token: the last name of the page before, and the number of the next page.
#[derive(Debug, Serialize, Deserialize)]
struct SliceToken {
    #[serde(rename = "a")]
    after: String,
    #[serde(rename = "n")]
    page: u64,
}

impl SliceParameters {
    /// Parses the parameters and refuses all others. Page tokens are bound to the route beside the signer.
    pub(crate) fn parse(
        raw: Option<&str>,
        contract: Contract,
        signer_and_route: (&TokenSigner, &str),
    ) -> Result<Self, Error> {
        let mut query = Query::new(raw, contract);
        let slice = Self::take(&mut query, signer_and_route);
        query.finish(slice)
    }

    /// Takes the paging parameters from a query.
    pub(super) fn take(query: &mut Query, signer_and_route: (&TokenSigner, &str)) -> Self {
        let page = query.number("page", None);
        let limit = page_size(query);
        let count = query.word("total", &[("exact", true), ("none", false)]).unwrap_or(true);
        let (page, start) = match query.token(page, signer_and_route, |_| true) {
            Some(SliceToken { after, page }) => (page, SliceStart::After(after)),
            None => {
                let page = page.unwrap_or(1);
                (page, SliceStart::Offset((page - 1).saturating_mul(limit)))
            }
        };
        Self { page, slice: Slice { start, limit, count } }
    }

    /// The number of the page, if it was asked for by its number.
    pub(crate) fn number(&self) -> Option<u64> {
        matches!(self.slice.start, SliceStart::Offset(_)).then_some(self.page)
    }

    /// The token of the next page, which starts after the last name of this page.
    pub(crate) fn next(
        &self,
        last: Option<&str>,
        signer_and_route: (&TokenSigner, &str),
    ) -> Result<Option<String>, Error> {
        let Some(after) = last else { return Ok(None) };
        let (token_signer, route) = signer_and_route;
        let token = SliceToken { after: after.to_owned(), page: self.page.saturating_add(1) };
        token_signer.sign(&token, route).map(Some)
    }
}
