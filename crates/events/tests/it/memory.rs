//! The broker within one process: the suite, its bound, and whose broker it is.

use std::time::Duration;

use hyperfleet_events::{Broker, BrokerError, Metrics, Options};

use crate::suite::suite;
use crate::world::{World, event};

suite!(World::of(&[], None));

#[tokio::test]
async fn a_publish_is_refused_when_a_subscription_has_100_000_events_waiting() {
    let broker = Broker::memory(Metrics::default());
    let idle = Options { parallelism: 1, ..broker.options() };
    let _subscription = broker.subscribe("t", "s", idle);
    let event = event("a");
    let mut published = 0;
    let refused = loop {
        match broker.publish("t", &event).await {
            Ok(()) => published += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(published, 100_000);
    assert!(matches!(&refused, BrokerError::Full(name) if name == "s"), "{refused}");
}

#[tokio::test]
async fn clones_of_a_memory_broker_share_their_events() {
    let broker = Broker::memory(Metrics::default());
    let mut subscription = broker.clone().subscribe("t", "s", broker.options());
    Broker::memory(Metrics::default()).publish("t", &event("elsewhere")).await.unwrap();
    let published = event("here");
    broker.publish("t", &published).await.unwrap();
    let delivery = tokio::time::timeout(Duration::from_secs(60), subscription.next()).await.unwrap().unwrap();
    assert_eq!(delivery.event, published);
}
