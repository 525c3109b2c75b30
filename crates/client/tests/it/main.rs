//! The client against servers that misbehave, each a few bytes written by hand to a socket, and against a router in its
//! own process. What it does with the real
//! server is tested where that is.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]
#![allow(clippy::panic, reason = "a wrong answer fails the test")]

mod answers;
mod inside;
mod lists;
mod repeats;
mod secrets;
mod stranger;
mod tls;
mod watches;
