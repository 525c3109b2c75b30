//! The typed HTTP client of the API for the Sentinel, adapters and the command line, over the network or in the same
//! process.
//!
//! A call has three steps: a [`Request`] is built without I/O, [`Client::send`] sends it (with retries where they are safe)
//! and returns a [`Response`], which is parsed. The server is not trusted: bodies are bounded, redirects are not followed, and
//! an unexpected answer is an [`Error`] of its own kind. No secret shows in an error or in `Debug`.
#![forbid(unsafe_code)]

mod client;
pub mod config;
mod connect;
mod curl;
mod error;
mod inspect;
mod kinds;
mod leases;
mod list;
mod path;
mod report;
mod request;
mod resource;
mod response;
mod retry;
mod send;
mod server_clock;
mod settings;
mod token;
mod transport;
mod wait;
mod watch;

pub use client::{Client, Context};
pub use error::{Cause, Error, FieldError, Problem};
pub use inspect::{
    Blocker, Change, Decision, Diff, Explanation, GetQuery, Metadata, TimelineEntry, TimelineQuery, WhoAmI,
};
pub use kinds::Kind;
pub use leases::Lease;
pub use list::{ListQuery, Page};
pub use path::{BASE, Collection, ItemPath};
pub use report::{AdapterReport, NewCondition, NewReport, Reported};
pub use request::{PatchKind, Request};
pub use resource::{Condition, Owner, Resource, Status};
pub use response::Response;
pub use settings::{Retry, Settings};
pub use token::{Secret, Token};
pub use transport::InProcess;
pub use wait::Waited;
pub use watch::{Watch, WatchEvent, WatchQuery};
