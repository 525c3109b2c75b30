//! Equipment of the tests and the load generator: a temporary PostgreSQL, temporary brokers, the real server binary in
//! a process of its own, and a plain HTTP client.
//!
//! Tests use the product as its users do, so nothing here knows the internals of the other crates and nothing replaces
//! them. A program missing on the machine is an error that names the remedy, never a skipped test.

#![forbid(unsafe_code)]

mod client;
mod eventually;
mod fake_clock;
mod guard;
mod kubernetes;
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
pub use fake_clock::FakeClock;
pub use guard::Guard;
pub use kubernetes::Kubernetes;
pub use nats::Nats;
pub use postgres::{Database, Postgres};
pub use process::Process;
pub use rabbitmq::RabbitMq;
pub use server::{Launch, Server, Store, without_settings};
pub use stream::{Event, Stream};
