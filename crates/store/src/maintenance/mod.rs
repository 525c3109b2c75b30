//! What the server does with its database without a caller: migrations, recomputed conditions, metrics and pruning.

pub(crate) mod migrations;
pub(crate) mod pending;
mod pruning;
mod recompute;
