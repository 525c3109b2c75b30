//! The points of the contract in force that only requests and responses depend on.

use std::time::Duration;

use hyperfleet_core::Contract;

/// How the API reads requests and prints responses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HttpContract {
    /// Lists include finalizing resources without being asked.
    pub(crate) lists_finalizing: bool,
    /// How old an `observed_time` may be.
    pub(crate) oldest_report: Option<Duration>,
    /// List bodies name their kind.
    pub(crate) names_lists: bool,
    /// Unknown query parameters and unknown members of a POST are refused.
    pub(crate) refuses_unknown: bool,
    /// Whether `pageSize` is understood besides `size`.
    pub(crate) has_page_size: bool,
    /// The most resources that one page holds.
    pub(crate) max_page_size: u64,
}

impl HttpContract {
    pub(crate) const fn of(contract: Contract) -> Self {
        match contract {
            Contract::Documented => Self {
                lists_finalizing: false,
                oldest_report: None,
                names_lists: true,
                refuses_unknown: true,
                has_page_size: true,
                max_page_size: 500,
            },
            Contract::Go0_2 => Self {
                lists_finalizing: true,
                oldest_report: Some(Duration::from_secs(30 * 60)),
                names_lists: false,
                refuses_unknown: false,
                has_page_size: false,
                max_page_size: 100,
            },
        }
    }
}
