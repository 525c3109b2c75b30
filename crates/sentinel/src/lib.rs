//! Decides when a resource needs work, and publishes a small event for its adapters. It never does the work.
//!
//! The decisions are made without I/O: [`decide`] is the table of cases, [`schedule`] holds the resources that are not
//! reconciled and their due events, [`resync`] says when to search for due resources, and [`membership`] which ranges this
//! replica owns. A [`controller`] for each kind lists, watches and publishes.
#![forbid(unsafe_code)]

pub mod backoff;
mod clock;
pub mod config;
mod context;
mod controller;
mod controllers;
pub mod custom;
pub mod decide;
pub mod event;
mod lease;
pub mod membership;
mod metrics;
pub mod observed;
pub mod ranges;
pub mod resync;
mod run;
pub mod schedule;
mod search;
pub mod serve;

pub use context::CHECKS;
pub use metrics::Metrics;
pub use run::{Parts, run};
