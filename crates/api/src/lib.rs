//! The HTTP API: REST and JSON over a [`hyperfleet_store::Store`].
//!
//! `router` is the table of contents. A handler decodes, calls the store, and renders; the rules
//! live in `hyperfleet_core`, and errors become problem bodies in one place.
#![forbid(unsafe_code)]

pub mod accept;
mod allowed_hosts;
mod app;
mod body;
mod coalesced_reads;
pub mod config;
mod contract;
mod date;
mod decode;
mod decode_report;
mod explain;
pub mod gate;
mod history;
mod idempotency;
pub mod idempotency_key;
mod info;
mod leases;
mod lookup;
mod observe;
mod open_files;
pub mod openapi;
mod page_token;
mod paging;
pub mod precondition;
mod problem_types;
mod query;
mod render;
mod resources;
mod response;
mod response_body;
mod route;
mod route_layer;
mod router;
pub mod server;
mod spec_check;
mod statuses;
mod timeline;
mod unmatched;
mod verify;
mod wait;
mod watch;
mod whoami;
