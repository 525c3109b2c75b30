//! The parameters of reads of history.

use hyperfleet_core::{Contract, Error, Version};
use hyperfleet_store::TimelineStart;
use serde::{Deserialize, Serialize};

use super::{Query, page_size};
use crate::page_token::TokenSigner;

/// The parameters of a timeline.
#[derive(Debug)]
pub(crate) struct TimelineParameters {
    /// The page number, from 1.
    pub(crate) page: u64,
    /// The page size.
    pub(crate) page_size: u64,
    /// Whether to count all entries.
    pub(crate) count: bool,
    /// The start of the page.
    pub(crate) start: TimelineStart,
}

/// The page token of a timeline: the last entry of the page before, and the number of the next page.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TimelineToken {
    /// The version of the entry.
    #[serde(rename = "v")]
    pub(crate) version: i64,
    /// Its index among the entries of that version.
    #[serde(rename = "i")]
    pub(crate) index: u64,
    /// The number of the page, counted from the first.
    #[serde(rename = "n")]
    pub(crate) page: u64,
}

impl TimelineParameters {
    /// Parses the parameters. Page tokens are bound to the route beside the signer.
    pub(crate) fn parse(
        raw: Option<&str>,
        contract: Contract,
        signer_and_route: (&TokenSigner, &str),
    ) -> Result<Self, Error> {
        let mut query = Query::new(raw, contract);
        let page = query.number("page", None);
        let page_size = page_size(&mut query);
        let count = query.word("total", &[("exact", true), ("none", false)]).unwrap_or(true);
        let (page, start) = match query.token(page, signer_and_route, |_| true) {
            Some(TimelineToken { version, index, page }) => {
                (page, TimelineStart::Before(Version(version), index))
            }
            None => {
                let page = page.unwrap_or(1);
                (page, TimelineStart::Offset((page - 1).saturating_mul(page_size)))
            }
        };
        query.finish(Self { page, page_size, count, start })
    }
}

/// The generations to compare.
#[derive(Debug)]
pub(crate) struct DiffParameters {
    /// The generation to begin with.
    pub(crate) from: Option<i64>,
    /// The generation to end with.
    pub(crate) to: Option<i64>,
}

impl DiffParameters {
    /// Parses the parameters.
    pub(crate) fn parse(raw: Option<&str>, contract: Contract) -> Result<Self, Error> {
        let mut query = Query::new(raw, contract);
        let (from, to) = (query.generation("from"), query.generation("to"));
        query.finish(Self { from, to })
    }
}

impl Query {
    /// The number of a generation. A number beyond `i64` is a generation that no resource has reached.
    pub(super) fn generation(&mut self, name: &'static str) -> Option<i64> {
        self.number(name, None).map(|number| i64::try_from(number).unwrap_or(i64::MAX))
    }
}
