//! The typed HTTP client of the API, which the Sentinel, the adapters and the command line share.
//! Nothing else talks HTTP to the API, over the network or from within its process.
//!
//! A call is three steps, each to be had by itself: a [`Request`] is put together without any I/O, [`Client::send`]
//! carries it there and brings an [`Answer`] (with retries where a repetition cannot do harm), and the answer is read as
//! what it should be. What comes from the server is never trusted: bodies are bounded, redirects are not followed, and
//! whatever does not fit is an [`Error`] with a kind of its own. No secret shows in an error or in `Debug`.
#![forbid(unsafe_code)]

mod client;
pub mod config;
mod connect;
mod curl;
mod error;
mod insight;
mod kinds;
mod leases;
mod list;
mod path;
mod reach;
mod report;
mod request;
mod resource;
mod retry;
mod send;
mod settings;
mod token;
mod wait;
mod watch;
mod write;

pub use client::{Client, Context};
pub use error::{Error, FieldError, Problem};
pub use insight::{
    Blocker, Change, Decision, Diff, Explanation, GetQuery, Metadata, TimelineEntry, TimelineQuery, WhoAmI,
};
pub use kinds::Kind;
pub use leases::Lease;
pub use list::{ListQuery, Page};
pub use path::{BASE, Collection, ItemPath};
pub use reach::Inside;
pub use report::{AdapterReport, NewCondition, NewReport, Reported};
pub use request::{Answer, Request};
pub use resource::{Condition, Owner, Resource, Status};
pub use settings::{Retry, Settings};
pub use token::{Secret, Token};
pub use wait::Waited;
pub use watch::{Watch, WatchEvent, WatchQuery};
pub use write::PatchKind;
