//! The target on a real API server. All tests share one control plane; each has a namespace and an adapter of its own.

mod apply;
mod delete;
mod observe;
mod settings;
mod support;
mod watch;
