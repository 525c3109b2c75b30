//! What the tests and the load generator stand on: a temporary PostgreSQL, temporary brokers, the real server
//! binary in a process of its own, and a plain HTTP client.
//!
//! Tests go through the doors that users use, so nothing here knows the inside of the other crates and nothing
//! stands in for them. What is missing on the machine is an error that names the remedy, never a skipped test.

#![forbid(unsafe_code)]

mod client;
mod eventually;
mod guard;
pub mod model;
mod nats;
mod output;
mod postgres;
mod process;
mod rabbitmq;
mod server;
mod stream;

pub use client::{Answer, Call, Client, raw};
pub use eventually::eventually;
pub use nats::Nats;
pub use postgres::{Database, Postgres};
pub use rabbitmq::RabbitMq;
pub use server::{Launch, Server, Store};
pub use stream::{Event, Stream};
