//! The client against fake servers that misbehave, and against a router in its own process.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should reply where")]
#![allow(clippy::panic, reason = "a wrong answer fails the test")]

mod answers;
mod fake_server;
mod in_process;
mod lists;
mod repeats;
mod secrets;
mod tls;
mod watches;
