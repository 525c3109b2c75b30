//! The API contract in force. The Go implementation differs from the documented contract in the points below and in
//! no others; all code that depends on one of them reads it here.

use std::time::Duration;

/// The points in which the two contracts differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contract {
    /// Lists include finalizing resources without being asked.
    pub lists_finalizing: bool,
    /// A PATCH replaces `spec`, `labels` and `references` whole instead of merging into them.
    pub patch_replaces: bool,
    /// A change of labels increases the generation.
    pub labels_change_generation: bool,
    /// The path of a child nests below its owner's.
    pub nests_children: bool,
    /// How old an `observed_time` may be.
    pub oldest_report: Option<Duration>,
    /// List bodies name their kind.
    pub names_lists: bool,
    /// Unknown query parameters and unknown members of a POST are refused.
    pub refuses_unknown: bool,
    /// The largest page, and the parameters that ask for a size.
    pub page: PageRules,
}

/// How a caller asks for the size of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRules {
    /// Whether `pageSize` is understood besides `size`.
    pub page_size: bool,
    /// The most resources that one page holds.
    pub max: u64,
}

impl Contract {
    /// The documented contract.
    pub const DOCUMENTED: Self = Self {
        lists_finalizing: false,
        patch_replaces: false,
        labels_change_generation: false,
        nests_children: false,
        oldest_report: None,
        names_lists: true,
        refuses_unknown: true,
        page: PageRules { page_size: true, max: 500 },
    };

    /// The behaviour of the Go implementation, for its Sentinel and its adapters.
    pub const GO_0_2: Self = Self {
        lists_finalizing: true,
        patch_replaces: true,
        labels_change_generation: true,
        nests_children: true,
        oldest_report: Some(Duration::from_secs(30 * 60)),
        names_lists: false,
        refuses_unknown: false,
        page: PageRules { page_size: false, max: 100 },
    };

    /// Every contract by its name in the configuration.
    pub const ALL: [(&'static str, Self); 2] = [("documented", Self::DOCUMENTED), ("go-0.2", Self::GO_0_2)];
}

impl Default for Contract {
    fn default() -> Self {
        Self::DOCUMENTED
    }
}
