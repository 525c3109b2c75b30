//! The client against servers that misbehave, each a few bytes written by hand to a socket. What it does with the real
//! server is tested where that is.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]
#![allow(clippy::panic, reason = "a wrong answer fails the test")]

mod answers;
mod lists;
mod repeats;
mod secrets;
mod stranger;
mod tls;
mod watches;
