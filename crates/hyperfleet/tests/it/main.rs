//! The product through the doors that its users have: HTTP, the command line, the logs. Every
//! test of the API runs on both stores, against the real binary.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should say where")]

mod support;

mod access;
mod adapter;
mod cli;
mod client;
mod contract;
mod costs;
mod documents;
mod explain;
mod guides;
mod histories;
mod hostile;
mod leases;
mod lists;
mod operations;
mod past;
mod resources;
mod retries;
mod search;
mod sentinel;
mod statuses;
mod top;
mod waiting;
mod watch;
