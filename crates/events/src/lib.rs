//! Events and the brokers that carry them: the envelope, and one small interface to publish, subscribe,
//! acknowledge, reject and look at dead letters, the same over every broker.
//!
//! What a subscription does with a message (whose turn it is, when it is tried again, when it is given up) is
//! decided once, in [`subscription`]. A broker only carries: it takes messages, hands them out with a count of
//! how often it did so, takes them back, and keeps dead letters.
#![forbid(unsafe_code)]

mod backoff;
mod broker;
pub mod config;
mod dead_letters;
mod error;
mod event;
mod lanes;
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
pub use error::BrokerError;
pub use event::{Event, NotAnEvent, Owner, Subject};
pub use metrics::Metrics;
pub use subscription::{Delivery, Options, Subscription};
pub use tail::{Sighting, Tail};
