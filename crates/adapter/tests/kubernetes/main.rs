//! The target on a real API server. All tests share one control plane; each has a namespace and an adapter of its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what a test does not expect fails it")]

mod apply;
mod delete;
mod observe;
mod settings;
mod support;
mod watch;
