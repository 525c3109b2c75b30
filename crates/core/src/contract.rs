//! The API contract in force. The Go implementation differs from the documented contract in the points below, in those
//! of requests and responses, which the API lists, and in no others.

/// Whose behaviour the API has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Contract {
    /// The documented contract.
    #[default]
    Documented,
    /// The behaviour of the Go implementation, for its Sentinel and its adapters.
    Go0_2,
}

impl Contract {
    /// Every contract by its name in the configuration.
    pub const ALL: [(&'static str, Self); 2] = [("documented", Self::Documented), ("go-0.2", Self::Go0_2)];

    /// Whether a PATCH replaces `spec`, `labels` and `references` whole instead of merging into them.
    pub(crate) fn patch_replaces(self) -> bool {
        self == Self::Go0_2
    }

    /// Whether a change of labels increases the generation.
    pub(crate) fn labels_change_generation(self) -> bool {
        self == Self::Go0_2
    }

    /// Whether the path of a child nests below its owner's.
    pub fn nests_children(self) -> bool {
        self == Self::Go0_2
    }
}
