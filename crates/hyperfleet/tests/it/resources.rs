//! Resources over HTTP, on both stores: what each request does, and how each wrong one is refused.

mod concurrency;
mod contents;
mod create;
mod create_refused;
mod delete;
mod dry_run;
mod force_delete;
mod json_patch;
mod merge_patch;
mod names;
mod preconditions;
mod read;
mod references;
mod spec_schema;
