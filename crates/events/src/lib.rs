//! Events and the brokers that carry them: the envelope, and one small interface to publish, subscribe,
//! acknowledge, nack and inspect dead letters, the same over every broker.
//!
//! The rules of delivery (order, redelivery, dead letters) are in [`subscription`]. A broker only carries: it takes
//! messages, delivers them with a count, takes them back, and keeps dead letters.
#![forbid(unsafe_code)]

pub mod backoff;
mod broker;
pub mod config;
mod dead_letters;
mod error;
mod event;
mod keyed_queue;
mod memory;
mod message;
mod metrics;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "pubsub")]
mod pubsub;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
mod subscription;
mod tail;

pub use broker::Broker;
pub use config::{BrokerConfig, Kind};
pub use dead_letters::{DeadLetter, DeadLetters};
pub use error::{BrokerError, Cause};
pub use event::{Event, NotAnEvent, Owner, Subject};
pub use metrics::Metrics;
pub use subscription::{Delivery, Options, Subscription};
pub use tail::{Tail, TailedMessage};
