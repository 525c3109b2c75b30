//! One suite for every broker, against a real server of it, and tests of what is special to one broker.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what a test does not expect fails it")]

mod memory;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "pubsub")]
mod pubsub;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(any(feature = "nats", feature = "rabbitmq"))]
mod restart;
mod suite;
mod world;
