//! What the server does with its database without a caller: migrations, recomputed conditions, metrics, pruning
//! and what a verification reads.

pub(crate) mod inspection;
pub(crate) mod migrations;
pub(crate) mod pending;
pub(crate) mod recompute;
