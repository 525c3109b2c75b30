//! The stored form of values, the same for both stores.

pub(crate) mod ancestors;
pub(crate) mod columns;
pub(crate) mod compression;
pub(crate) mod conditions;
pub(crate) mod idempotency;
pub(crate) mod report;
