//! The guarantees of every broker. Each test gets a world of its own.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::FutureExt as _;
use hyperfleet_events::{BrokerError, Event, Options};
use hyperfleet_testkit::eventually;

use crate::world::{DEADLINE, World, event, next, options, ready, resource};

/// Makes the suite's tests for one broker, whose world `$world` gives.
macro_rules! suite {
    ($world:expr; $($test:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                crate::suite::$test($world.await).await;
            }
        )*
    };
    ($world:expr) => {
        crate::suite::suite! { $world;
            every_subscription_gets_every_event_as_it_was_published
            consumers_of_one_subscription_share_its_events
            an_acknowledged_event_is_not_redelivered
            a_nacked_event_is_redelivered_with_its_count_and_then_becomes_a_dead_letter_with_the_reason
            a_dropped_delivery_is_nacked
            a_message_that_is_no_event_becomes_a_dead_letter_at_once
            a_resource_has_one_unsettled_delivery_in_order_and_parallelism_bounds_all
            delayed_redeliveries_do_not_hold_up_other_events
            a_drain_waits_for_unsettled_deliveries_and_requeues_the_rest
            a_draining_process_does_not_consume_its_requeued_events_again
            a_requeued_event_is_redelivered_and_uses_up_no_delivery
            the_delivery_count_survives_the_process
            events_of_a_crashed_process_are_redelivered_and_counted
            an_event_that_kills_every_process_becomes_a_dead_letter
            a_dead_letter_is_replayed_to_its_own_subscription_alone
            a_dead_letter_can_be_dropped
            dead_letters_have_topics_and_are_replayed_and_dropped_in_bulk
            a_tail_shows_published_events_and_takes_none
            metrics_count_every_step_of_an_event
        }
    };
}
pub(crate) use suite;

pub(crate) async fn every_subscription_gets_every_event_as_it_was_published(world: World) {
    let mut one = world.subscribe("one", &options()).await;
    let mut other = world.subscribe("other", &options()).await;
    let published = [world.publish("a").await, world.publish("b").await];
    for subscription in [&mut one, &mut other] {
        let mut received = Vec::new();
        for _ in &published {
            let delivery = next(subscription).await;
            assert_eq!(delivery.attempt, 1);
            received.push(delivery.event.clone());
            delivery.acknowledge().await.unwrap();
        }
        assert_eq!(received, published);
    }
    world.broker.health().await.unwrap();
}

pub(crate) async fn consumers_of_one_subscription_share_its_events(world: World) {
    let alone = Options { parallelism: 1, prefetch: Some(1), ..options() };
    let mut one = world.subscribe("shared", &alone).await;
    let mut other = ready(&world.another().await, &world.topic, &world.named("shared"), &alone).await;
    world.publish("a").await;
    world.publish("b").await;
    // Neither acknowledges before both have one.
    let (first, second) = (next(&mut one).await, next(&mut other).await);
    assert_ne!(resource(&first.event), resource(&second.event));
    first.acknowledge().await.unwrap();
    second.acknowledge().await.unwrap();
}

pub(crate) async fn an_acknowledged_event_is_not_redelivered(world: World) {
    let mut subscription = world.subscribe("s", &options()).await;
    world.publish("a").await;
    next(&mut subscription).await.acknowledge().await.unwrap();
    subscription.drain().await;
    world.publish("b").await;
    let mut subscription = world.subscribe("s", &options()).await;
    assert_eq!(resource(&next(&mut subscription).await.event), "b");
}

pub(crate) async fn a_nacked_event_is_redelivered_with_its_count_and_then_becomes_a_dead_letter_with_the_reason(
    world: World,
) {
    let mut subscription = world.subscribe("s", &options()).await;
    let published = world.publish("a").await;
    for attempt in 1..=3 {
        let delivery = next(&mut subscription).await;
        assert_eq!((delivery.attempt, &delivery.event), (attempt, &published));
        delivery.nack(format!("no\nluck {attempt}")).await.unwrap();
    }
    let letter = first_letter(&world, "s").await;
    assert_eq!((letter.reason.as_str(), letter.attempts), ("no luck 3", 3));
    assert_eq!(letter.event(), Ok(published));
    assert!(letter.time.is_some());
}

pub(crate) async fn a_dropped_delivery_is_nacked(world: World) {
    let mut subscription = world.subscribe("s", &options()).await;
    world.publish("a").await;
    drop(next(&mut subscription).await);
    let again = next(&mut subscription).await;
    assert_eq!(again.attempt, 2);
    again.acknowledge().await.unwrap();
}

pub(crate) async fn a_message_that_is_no_event_becomes_a_dead_letter_at_once(world: World) {
    let mut subscription = world.subscribe("s", &options()).await;
    let poison = Event { source: String::new(), ..event("poison") };
    world.broker.publish(&world.topic, &poison).await.unwrap();
    let letter = first_letter(&world, "s").await;
    assert_eq!((letter.reason.as_str(), letter.attempts), ("not a CloudEvent: source is missing", 1));
    assert_eq!(letter.body, poison.to_json());
    world.publish("a").await;
    assert_eq!(resource(&next(&mut subscription).await.event), "a");
}

pub(crate) async fn a_resource_has_one_unsettled_delivery_in_order_and_parallelism_bounds_all(world: World) {
    let mut subscription = world.subscribe("s", &Options { parallelism: 2, ..options() }).await;
    let first = world.publish("a").await;
    let second = world.publish("a").await;
    world.publish("b").await;
    world.publish("c").await;
    eventually("all four are prefetched", DEADLINE, async || {
        (world.metric("received_total") == 4).then_some(())
    })
    .await;

    let a = next(&mut subscription).await;
    assert_eq!(a.event, first);
    let b = next(&mut subscription).await;
    assert_eq!(resource(&b.event), "b", "the second of `a` waits for the first");
    assert!(subscription.next().now_or_never().is_none(), "parallelism is 2");
    b.acknowledge().await.unwrap();
    let c = next(&mut subscription).await;
    assert_eq!(resource(&c.event), "c");
    c.acknowledge().await.unwrap();
    assert!(subscription.next().now_or_never().is_none(), "`a` is not settled yet");
    a.acknowledge().await.unwrap();
    assert_eq!(next(&mut subscription).await.event, second);
}

pub(crate) async fn delayed_redeliveries_do_not_hold_up_other_events(world: World) {
    let patient = Options {
        parallelism: 1,
        prefetch: Some(2),
        backoff_initial: Duration::from_secs(300),
        backoff_max: Duration::from_secs(300),
        ..options()
    };
    let mut subscription = world.subscribe("s", &patient).await;
    for number in 0..20 {
        world.publish(&format!("failing-{number}")).await;
    }
    world.publish("good").await;
    loop {
        let delivery = next(&mut subscription).await;
        assert_eq!(delivery.attempt, 1);
        if resource(&delivery.event) == "good" {
            break;
        }
        delivery.nack("not now").await.unwrap();
    }
}

pub(crate) async fn a_drain_waits_for_unsettled_deliveries_and_requeues_the_rest(world: World) {
    let one_by_one = Options { parallelism: 1, ..options() };
    let mut subscription = world.subscribe("s", &one_by_one).await;
    for resource in ["a", "b", "c"] {
        world.publish(resource).await;
    }
    eventually("all are prefetched", DEADLINE, async || (world.metric("received_total") == 3).then_some(()))
        .await;
    let out = next(&mut subscription).await;
    assert_eq!(resource(&out.event), "a");
    let mut drain = std::pin::pin!(subscription.drain());
    assert!((&mut drain).now_or_never().is_none(), "one delivery is not settled yet");
    out.acknowledge().await.unwrap();
    drain.await;

    let mut successor = ready(&world.another().await, &world.topic, &world.named("s"), &one_by_one).await;
    // One may come twice if the broker has not processed its requeue yet.
    let mut left = BTreeSet::new();
    while left != BTreeSet::from(["b".to_owned(), "c".to_owned()]) {
        let delivery = next(&mut successor).await;
        left.insert(resource(&delivery.event));
        delivery.acknowledge().await.unwrap();
    }
}

pub(crate) async fn a_draining_process_does_not_consume_its_requeued_events_again(world: World) {
    let one_by_one = Options { parallelism: 1, ..options() };
    let counted_here = matches!(world.broker.kind(), "memory" | "rabbitmq");
    let mut subscription = world.subscribe("s", &one_by_one).await;
    for resource in ["a", "b", "c"] {
        world.publish(resource).await;
    }
    // More often than max_deliveries.
    for restart in 1..=6 {
        let out = next(&mut subscription).await;
        assert!(out.attempt == 1 || !counted_here, "{} after {restart}", out.attempt);
        let here = async || (world.metric("received_total") >= 3 * restart).then_some(());
        eventually("one is delivered and two are prefetched", DEADLINE, here).await;
        let ((), requeued) = tokio::join!(subscription.drain(), out.requeue());
        requeued.unwrap();
        subscription = world.subscribe("s", &one_by_one).await;
    }
    let mut all = BTreeSet::new();
    while all.len() < 3 {
        let delivery = next(&mut subscription).await;
        assert!(delivery.attempt == 1 || !counted_here, "{} at the end", delivery.attempt);
        all.insert(resource(&delivery.event));
        delivery.acknowledge().await.unwrap();
    }
    let letters = world.broker.dead_letters(&world.topic, &world.named("s"));
    assert_eq!(letters.list(10).await.unwrap(), []);
}

pub(crate) async fn a_requeued_event_is_redelivered_and_uses_up_no_delivery(world: World) {
    let twice = Options { max_deliveries: 2, ..options() };
    let mut subscription = world.subscribe("s", &twice).await;
    let published = world.publish("a").await;
    // More often than max_deliveries.
    for _ in 0..4 {
        let delivery = next(&mut subscription).await;
        assert_eq!(delivery.event, published);
        if matches!(world.broker.kind(), "memory" | "rabbitmq") {
            assert_eq!(delivery.attempt, 1, "a requeue is not counted");
        }
        delivery.requeue().await.unwrap();
    }
    let again = next(&mut subscription).await;
    assert_eq!(again.event, published);
    again.acknowledge().await.unwrap();
    let letters = world.broker.dead_letters(&world.topic, &world.named("s"));
    assert_eq!(letters.list(10).await.unwrap(), []);
}

pub(crate) async fn the_delivery_count_survives_the_process(world: World) {
    // Requeues on the way may be counted too.
    let often = Options { max_deliveries: 10, ..options() };
    let mut subscription = world.subscribe("s", &often).await;
    world.publish("a").await;
    next(&mut subscription).await.nack("no luck").await.unwrap();
    let second = next(&mut subscription).await;
    assert_eq!(second.attempt, 2);
    // NATS 2.9 loses the count of a redelivery that is due while no consumer pulls, so the successor pulls before.
    let mut successor = ready(&world.another().await, &world.topic, &world.named("s"), &often).await;
    second.nack("no luck").await.unwrap();
    subscription.drain().await;
    let third = next(&mut successor).await;
    assert!(third.attempt >= 3, "{}", third.attempt);
    third.acknowledge().await.unwrap();
}

/// A process that takes one delivery and crashes: its runtime ends.
async fn take_one_and_crash(world: &World, options: &Options) -> u32 {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (topic, name) = (world.topic.clone(), world.named("s"));
    let (tell, told) = tokio::sync::oneshot::channel();
    let (broker, options) = (world.another_on(&runtime).await, options.clone());
    runtime.spawn(async move {
        let mut subscription = ready(&broker, &topic, &name, &options).await;
        let delivery = next(&mut subscription).await;
        tell.send(delivery.attempt).unwrap();
        std::future::pending::<()>().await;
        drop((subscription, delivery));
    });
    let attempt = told.await.unwrap();
    runtime.shutdown_background();
    attempt
}

pub(crate) async fn events_of_a_crashed_process_are_redelivered_and_counted(world: World) {
    world.subscribe("s", &options()).await.drain().await;
    world.publish("a").await;
    assert_eq!(take_one_and_crash(&world, &options()).await, 1);
    let mut successor = world.subscribe("s", &options()).await;
    let again = next(&mut successor).await;
    assert_eq!(resource(&again.event), "a");
    // On a busy machine the ack deadline may pass once more before the successor sees the event.
    assert!(again.attempt >= 2, "{}", again.attempt);
    again.acknowledge().await.unwrap();
}

pub(crate) async fn an_event_that_kills_every_process_becomes_a_dead_letter(world: World) {
    let twice = Options { max_deliveries: 2, ..options() };
    world.subscribe("s", &twice).await.drain().await;
    world.publish("a").await;
    assert_eq!(take_one_and_crash(&world, &twice).await, 1);
    assert!(take_one_and_crash(&world, &twice).await >= 2);
    let mut successor = world.subscribe("s", &twice).await;
    let letter = first_letter(&world, "s").await;
    // On a busy machine the successor may let the ack deadline pass once more before it sees the event.
    assert!(letter.attempts >= 3, "{letter:?}");
    assert_eq!(letter.reason, format!("delivered {} times and never settled", letter.attempts - 1));
    assert!(successor.next().now_or_never().is_none());
}

pub(crate) async fn a_dead_letter_is_replayed_to_its_own_subscription_alone(world: World) {
    let once = Options { max_deliveries: 1, ..options() };
    let mut subscription = world.subscribe("s", &once).await;
    let mut other = world.subscribe("other", &once).await;
    let published = world.publish("a").await;
    next(&mut other).await.acknowledge().await.unwrap();
    next(&mut subscription).await.nack("no luck").await.unwrap();
    let id = first_letter(&world, "s").await.id;
    let letters = world.broker.dead_letters(&world.topic, &world.named("s"));
    letters.replay(&id).await.unwrap();

    let again = next(&mut subscription).await;
    assert_eq!((again.attempt, &again.event), (1, &published));
    again.acknowledge().await.unwrap();
    assert_eq!(letters.list(10).await.unwrap(), []);
    assert!(matches!(letters.replay(&id).await, Err(BrokerError::NoSuchLetter(missing)) if missing == id));
    // The other subscription does not get the replay.
    let later = world.publish("b").await;
    assert_eq!(next(&mut other).await.event, later);
}

pub(crate) async fn a_dead_letter_can_be_dropped(world: World) {
    let once = Options { max_deliveries: 1, ..options() };
    let mut subscription = world.subscribe("s", &once).await;
    for resource in ["a", "b"] {
        world.publish(resource).await;
        next(&mut subscription).await.nack(resource).await.unwrap();
    }
    let letters = world.broker.dead_letters(&world.topic, &world.named("s"));
    let both = eventually("two letters", DEADLINE, async || {
        Some(letters.list(10).await.unwrap()).filter(|letters| letters.len() == 2)
    })
    .await;
    assert_eq!(both.iter().map(|letter| letter.reason.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(letters.show(&both[1].id).await.unwrap(), both[1]);
    letters.drop(&both[0].id).await.unwrap();
    assert_eq!(letters.list(10).await.unwrap(), both[1..]);
    assert!(matches!(letters.drop(&both[0].id).await, Err(BrokerError::NoSuchLetter(_))));
}

pub(crate) async fn dead_letters_have_topics_and_are_replayed_and_dropped_in_bulk(world: World) {
    let once = Options { max_deliveries: 1, ..options() };
    let mut subscription = world.subscribe("s", &once).await;
    for resource in ["a", "b", "c"] {
        world.publish(resource).await;
        next(&mut subscription).await.nack(resource).await.unwrap();
    }
    let letters = world.broker.all_dead_letters(&world.named("s"));
    let three = eventually("three letters", DEADLINE, async || {
        Some(letters.list(10).await.unwrap()).filter(|letters| letters.len() == 3)
    })
    .await;
    assert!(three.iter().all(|letter| letter.topic.as_ref() == Some(&world.topic)), "{three:?}");
    let of_another = world.broker.dead_letters("another", &world.named("s"));
    assert_eq!(of_another.list(10).await.unwrap(), []);

    letters.replay_all(&three[..2]).await.unwrap();
    let mut again = BTreeSet::new();
    for _ in 0..2 {
        let delivery = next(&mut subscription).await;
        again.insert(resource(&delivery.event));
        delivery.acknowledge().await.unwrap();
    }
    assert_eq!(again, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    let same = [&three[..], &three[..]].concat();
    assert_eq!(letters.drop_all(&same).await.unwrap(), 1, "two of them were replayed");
    assert_eq!(letters.list(10).await.unwrap(), []);
    let unused = world.broker.all_dead_letters(&world.named("absent"));
    assert_eq!(unused.list(10).await.unwrap(), []);
}

pub(crate) async fn a_tail_shows_published_events_and_takes_none(world: World) {
    let mut subscription = world.subscribe("s", &options()).await;
    let mut tail = world.broker.tail(&world.topic);
    tokio::time::timeout(DEADLINE, tail.ready()).await.expect("the tail must begin").unwrap();
    let published = world.publish("a").await;
    let seen = tokio::time::timeout(DEADLINE, tail.next()).await.expect("the event must be seen").unwrap();
    assert_eq!(seen.event.as_ref(), Ok(&published));
    tokio::time::timeout(DEADLINE, tail.close()).await.expect("the tail must end");
    let delivery = next(&mut subscription).await;
    assert_eq!((delivery.attempt, &delivery.event), (1, &published));
    delivery.acknowledge().await.unwrap();
}

pub(crate) async fn metrics_count_every_step_of_an_event(world: World) {
    let mut subscription = world.subscribe("s", &Options { max_deliveries: 2, ..options() }).await;
    world.publish("a").await;
    next(&mut subscription).await.acknowledge().await.unwrap();
    world.publish("b").await;
    next(&mut subscription).await.nack("no luck").await.unwrap();
    next(&mut subscription).await.nack("no luck").await.unwrap();
    let counted: Vec<u64> = [
        "published_total",
        "received_total",
        "acknowledged_total",
        "rejected_total",
        "redelivered_total",
        "dead_lettered_total",
        "connected",
    ]
    .map(|name| world.metric(name))
    .into();
    assert_eq!(counted, [2, 3, 1, 2, 1, 1, 1]);
}

async fn first_letter(world: &World, subscription: &str) -> hyperfleet_events::DeadLetter {
    let letters = world.broker.dead_letters(&world.topic, &world.named(subscription));
    let letter = async || letters.list(10).await.unwrap().into_iter().next();
    eventually("a dead letter", DEADLINE, letter).await
}
