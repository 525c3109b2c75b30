//! The broker within one process: the suite, and what a clock in the test's hand shows.

use std::time::Duration;

use hyperfleet_events::{Broker, BrokerError, Metrics, Options};
use tokio::time::Instant;

use crate::suite::suite;
use crate::world::{World, event, next};

suite!(World::of(&[], None));

#[tokio::test(start_paused = true)]
async fn by_default_a_failed_event_waits_one_second_then_two_four_and_eight_and_is_given_up_after_the_fifth()
{
    let broker = Broker::memory(Metrics::default());
    let mut subscription = broker.subscribe("t", "s", broker.options());
    broker.publish("t", &event("a")).await.unwrap();
    let mut waits = Vec::new();
    for attempt in 1..=5 {
        let rejected = Instant::now();
        let delivery = next(&mut subscription).await;
        assert_eq!(delivery.attempt, attempt);
        waits.push(rejected.elapsed().as_millis().div_ceil(100));
        delivery.reject("no luck").await.unwrap();
    }
    assert_eq!(waits, [0, 10, 20, 40, 80]);
    assert_eq!(broker.dead_letters("t", "s").list(10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_subscription_that_nobody_works_on_is_full_at_some_point() {
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
    assert_eq!((published, refused), (100_000, BrokerError::Full("s".to_owned())));
}

#[tokio::test]
async fn clones_are_the_same_broker_and_others_are_not() {
    let broker = Broker::memory(Metrics::default());
    let mut subscription = broker.clone().subscribe("t", "s", broker.options());
    Broker::memory(Metrics::default()).publish("t", &event("elsewhere")).await.unwrap();
    let published = event("here");
    broker.publish("t", &published).await.unwrap();
    let delivery = tokio::time::timeout(Duration::from_secs(60), subscription.next()).await.unwrap().unwrap();
    assert_eq!(delivery.event, published);
}
