//! The product as its users meet it: HTTP, the command line, the logs. Every test runs the real binary, and what
//! depends on the store runs on both.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should say where")]

mod support;

mod access;
mod adapter;
mod cli;
mod client;
mod clocks;
mod consistency;
mod contract;
mod costs;
mod documents;
mod explain;
mod guides;
mod history;
mod hostile;
mod idempotency;
mod leases;
mod lists;
mod operations;
mod resources;
mod search;
mod sentinel;
mod statuses;
mod top;
mod waiting;
mod watch;
