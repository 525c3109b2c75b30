//! The HTTP API: REST and JSON over a [`hyperfleet_store::Store`].
//!
//! `router` is the table of contents. A handler decodes, calls the store, and renders; the rules
//! live in `hyperfleet_core`, and errors become problem bodies in one place.
#![forbid(unsafe_code)]

mod app;
mod around;
mod body;
pub mod config;
mod decode;
mod decode_report;
mod explain;
pub mod gate;
mod info;
mod leases;
mod observe;
pub mod openapi;
mod page_token;
mod pages;
mod past;
mod place;
mod query;
mod render;
mod resources;
mod retry;
mod router;
pub mod server;
mod sharing;
mod statuses;
mod timeline;
mod unmatched;
mod wait;
mod watch;
mod whoami;
