//! What every broker promises, said once. Each test gets a world of its own.

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
            those_who_use_the_same_subscription_share_its_events
            what_is_acknowledged_does_not_come_again
            a_failed_event_comes_again_with_its_count_and_is_then_a_dead_letter_with_the_reason
            a_delivery_dropped_without_an_answer_counts_as_failed
            a_message_that_is_no_event_is_a_dead_letter_at_once
            one_resource_is_out_once_in_order_and_no_more_are_out_than_may_be
            events_that_wait_for_another_try_do_not_hold_up_others
            draining_waits_for_what_is_out_and_gives_back_the_rest
            what_a_process_gives_back_when_it_ends_it_does_not_take_again
            what_is_given_back_comes_again_and_no_try_is_lost
            the_count_of_deliveries_survives_the_process
            what_a_crashed_process_held_comes_again_and_is_counted
            an_event_that_kills_every_process_becomes_a_dead_letter
            a_dead_letter_is_replayed_to_its_own_subscription_alone
            a_dead_letter_can_be_dropped
            many_dead_letters_tell_their_topics_and_go_at_once
            a_look_sees_what_is_published_and_takes_nothing
            everything_is_counted
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
    assert_eq!(world.broker.health().await, Ok(()));
}

pub(crate) async fn those_who_use_the_same_subscription_share_its_events(world: World) {
    let alone = Options { parallelism: 1, take_ahead: Some(1), ..options() };
    let mut one = world.subscribe("shared", &alone).await;
    let mut other = ready(&world.another().await, &world.topic, &world.named("shared"), &alone).await;
    world.publish("a").await;
    world.publish("b").await;
    // Neither lets go before both have one.
    let (first, second) = (next(&mut one).await, next(&mut other).await);
    assert_ne!(resource(&first.event), resource(&second.event));
    first.acknowledge().await.unwrap();
    second.acknowledge().await.unwrap();
}

pub(crate) async fn what_is_acknowledged_does_not_come_again(world: World) {
    let mut subscription = world.subscribe("s", &options()).await;
    world.publish("a").await;
    next(&mut subscription).await.acknowledge().await.unwrap();
    subscription.drain().await;
    world.publish("b").await;
    let mut subscription = world.subscribe("s", &options()).await;
    assert_eq!(resource(&next(&mut subscription).await.event), "b");
}

pub(crate) async fn a_failed_event_comes_again_with_its_count_and_is_then_a_dead_letter_with_the_reason(
    world: World,
) {
    let mut subscription = world.subscribe("s", &options()).await;
    let published = world.publish("a").await;
    for attempt in 1..=3 {
        let delivery = next(&mut subscription).await;
        assert_eq!((delivery.attempt, &delivery.event), (attempt, &published));
        delivery.reject(format!("no\nluck {attempt}")).await.unwrap();
    }
    let letter = first_letter(&world, "s").await;
    assert_eq!((letter.reason.as_str(), letter.attempts), ("no luck 3", 3));
    assert_eq!(letter.event(), Ok(published));
    assert!(letter.time.is_some());
}

pub(crate) async fn a_delivery_dropped_without_an_answer_counts_as_failed(world: World) {
    let mut subscription = world.subscribe("s", &options()).await;
    world.publish("a").await;
    drop(next(&mut subscription).await);
    let again = next(&mut subscription).await;
    assert_eq!(again.attempt, 2);
    again.acknowledge().await.unwrap();
}

pub(crate) async fn a_message_that_is_no_event_is_a_dead_letter_at_once(world: World) {
    let mut subscription = world.subscribe("s", &options()).await;
    let poison = Event { source: String::new(), ..event("poison") };
    world.broker.publish(&world.topic, &poison).await.unwrap();
    let letter = first_letter(&world, "s").await;
    assert_eq!((letter.reason.as_str(), letter.attempts), ("not a CloudEvent: source is missing", 1));
    assert_eq!(letter.body, poison.to_json());
    world.publish("a").await;
    assert_eq!(resource(&next(&mut subscription).await.event), "a");
}

pub(crate) async fn one_resource_is_out_once_in_order_and_no_more_are_out_than_may_be(world: World) {
    let mut subscription = world.subscribe("s", &Options { parallelism: 2, ..options() }).await;
    let first = world.publish("a").await;
    let second = world.publish("a").await;
    world.publish("b").await;
    world.publish("c").await;
    eventually("all four are here", DEADLINE, async || (world.metric("received_total") == 4).then_some(()))
        .await;

    let a = next(&mut subscription).await;
    assert_eq!(a.event, first);
    let b = next(&mut subscription).await;
    assert_eq!(resource(&b.event), "b", "the second of `a` waits for the first");
    assert!(subscription.next().now_or_never().is_none(), "two are out, which is all that may be");
    b.acknowledge().await.unwrap();
    let c = next(&mut subscription).await;
    assert_eq!(resource(&c.event), "c");
    c.acknowledge().await.unwrap();
    assert!(subscription.next().now_or_never().is_none(), "`a` is still out");
    a.acknowledge().await.unwrap();
    assert_eq!(next(&mut subscription).await.event, second);
}

pub(crate) async fn events_that_wait_for_another_try_do_not_hold_up_others(world: World) {
    let patient = Options {
        parallelism: 1,
        take_ahead: Some(2),
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
        delivery.reject("not now").await.unwrap();
    }
}

pub(crate) async fn draining_waits_for_what_is_out_and_gives_back_the_rest(world: World) {
    let one_by_one = Options { parallelism: 1, ..options() };
    let mut subscription = world.subscribe("s", &one_by_one).await;
    for resource in ["a", "b", "c"] {
        world.publish(resource).await;
    }
    eventually("all are here", DEADLINE, async || (world.metric("received_total") == 3).then_some(())).await;
    let out = next(&mut subscription).await;
    assert_eq!(resource(&out.event), "a");
    let mut drain = std::pin::pin!(subscription.drain());
    assert!((&mut drain).now_or_never().is_none(), "one is still out");
    out.acknowledge().await.unwrap();
    drain.await;

    let mut successor = ready(&world.another().await, &world.topic, &world.named("s"), &one_by_one).await;
    // One may come twice where the broker had not heard yet that it was given back.
    let mut left = BTreeSet::new();
    while left != BTreeSet::from(["b".to_owned(), "c".to_owned()]) {
        let delivery = next(&mut successor).await;
        left.insert(resource(&delivery.event));
        delivery.acknowledge().await.unwrap();
    }
}

pub(crate) async fn what_a_process_gives_back_when_it_ends_it_does_not_take_again(world: World) {
    let one_by_one = Options { parallelism: 1, ..options() };
    let counted_here = matches!(world.broker.kind(), "memory" | "rabbitmq");
    let mut subscription = world.subscribe("s", &one_by_one).await;
    for resource in ["a", "b", "c"] {
        world.publish(resource).await;
    }
    // More often than they may be handed out.
    for restart in 1..=6 {
        let out = next(&mut subscription).await;
        assert!(out.attempt == 1 || !counted_here, "{} after {restart}", out.attempt);
        let here = async || (world.metric("received_total") >= 3 * restart).then_some(());
        eventually("one is out and two wait", DEADLINE, here).await;
        let ((), given_back) = tokio::join!(subscription.drain(), out.give_back());
        given_back.unwrap();
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
    assert_eq!(letters.list(10).await, Ok(Vec::new()));
}

pub(crate) async fn what_is_given_back_comes_again_and_no_try_is_lost(world: World) {
    let twice = Options { max_deliveries: 2, ..options() };
    let mut subscription = world.subscribe("s", &twice).await;
    let published = world.publish("a").await;
    // More often than it may be handed out.
    for _ in 0..4 {
        let delivery = next(&mut subscription).await;
        assert_eq!(delivery.event, published);
        if matches!(world.broker.kind(), "memory" | "rabbitmq") {
            assert_eq!(delivery.attempt, 1, "where we count, it does not");
        }
        delivery.give_back().await.unwrap();
    }
    let again = next(&mut subscription).await;
    assert_eq!(again.event, published);
    again.acknowledge().await.unwrap();
    let letters = world.broker.dead_letters(&world.topic, &world.named("s"));
    assert_eq!(letters.list(10).await, Ok(Vec::new()));
}

pub(crate) async fn the_count_of_deliveries_survives_the_process(world: World) {
    // Whatever is given back on the way may be counted too.
    let often = Options { max_deliveries: 10, ..options() };
    let mut subscription = world.subscribe("s", &often).await;
    world.publish("a").await;
    next(&mut subscription).await.reject("no luck").await.unwrap();
    let second = next(&mut subscription).await;
    assert_eq!(second.attempt, 2);
    // A server of NATS 2.9 forgets a count that comes due while nobody asks for messages, so somebody does.
    let mut successor = ready(&world.another().await, &world.topic, &world.named("s"), &often).await;
    second.reject("no luck").await.unwrap();
    subscription.drain().await;
    let third = next(&mut successor).await;
    assert!(third.attempt >= 3, "{}", third.attempt);
    third.acknowledge().await.unwrap();
}

/// A process that takes one delivery and is gone without a word: its runtime ends under it.
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

pub(crate) async fn what_a_crashed_process_held_comes_again_and_is_counted(world: World) {
    world.subscribe("s", &options()).await.drain().await;
    world.publish("a").await;
    assert_eq!(take_one_and_crash(&world, &options()).await, 1);
    let mut successor = world.subscribe("s", &options()).await;
    let again = next(&mut successor).await;
    assert_eq!((resource(&again.event).as_str(), again.attempt), ("a", 2));
    again.acknowledge().await.unwrap();
}

pub(crate) async fn an_event_that_kills_every_process_becomes_a_dead_letter(world: World) {
    let twice = Options { max_deliveries: 2, ..options() };
    world.subscribe("s", &twice).await.drain().await;
    world.publish("a").await;
    assert_eq!(take_one_and_crash(&world, &twice).await, 1);
    assert_eq!(take_one_and_crash(&world, &twice).await, 2);
    let mut successor = world.subscribe("s", &twice).await;
    let letter = first_letter(&world, "s").await;
    assert_eq!((letter.reason.as_str(), letter.attempts), ("handed out 2 times and never settled", 3));
    assert!(successor.next().now_or_never().is_none());
}

pub(crate) async fn a_dead_letter_is_replayed_to_its_own_subscription_alone(world: World) {
    let once = Options { max_deliveries: 1, ..options() };
    let mut subscription = world.subscribe("s", &once).await;
    let mut other = world.subscribe("other", &once).await;
    let published = world.publish("a").await;
    next(&mut other).await.acknowledge().await.unwrap();
    next(&mut subscription).await.reject("no luck").await.unwrap();
    let id = first_letter(&world, "s").await.id;
    let letters = world.broker.dead_letters(&world.topic, &world.named("s"));
    letters.replay(&id).await.unwrap();

    let again = next(&mut subscription).await;
    assert_eq!((again.attempt, &again.event), (1, &published));
    again.acknowledge().await.unwrap();
    assert_eq!(letters.list(10).await, Ok(Vec::new()));
    assert_eq!(letters.replay(&id).await, Err(BrokerError::NoSuchLetter(id)));
    // What comes next to the other one is what comes next, not the replay.
    let later = world.publish("b").await;
    assert_eq!(next(&mut other).await.event, later);
}

pub(crate) async fn a_dead_letter_can_be_dropped(world: World) {
    let once = Options { max_deliveries: 1, ..options() };
    let mut subscription = world.subscribe("s", &once).await;
    for resource in ["a", "b"] {
        world.publish(resource).await;
        next(&mut subscription).await.reject(resource).await.unwrap();
    }
    let letters = world.broker.dead_letters(&world.topic, &world.named("s"));
    let both = eventually("two letters", DEADLINE, async || {
        Some(letters.list(10).await.unwrap()).filter(|letters| letters.len() == 2)
    })
    .await;
    assert_eq!(both.iter().map(|letter| letter.reason.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(letters.show(&both[1].id).await.as_ref(), Ok(&both[1]));
    letters.drop(&both[0].id).await.unwrap();
    assert_eq!(letters.list(10).await.as_deref(), Ok(&both[1..]));
    assert_eq!(letters.drop(&both[0].id).await, Err(BrokerError::NoSuchLetter(both[0].id.clone())));
}

pub(crate) async fn many_dead_letters_tell_their_topics_and_go_at_once(world: World) {
    let once = Options { max_deliveries: 1, ..options() };
    let mut subscription = world.subscribe("s", &once).await;
    for resource in ["a", "b", "c"] {
        world.publish(resource).await;
        next(&mut subscription).await.reject(resource).await.unwrap();
    }
    let letters = world.broker.all_dead_letters(&world.named("s"));
    let three = eventually("three letters", DEADLINE, async || {
        Some(letters.list(10).await.unwrap()).filter(|letters| letters.len() == 3)
    })
    .await;
    assert!(three.iter().all(|letter| letter.topic.as_ref() == Some(&world.topic)), "{three:?}");
    let of_another = world.broker.dead_letters("another", &world.named("s"));
    assert_eq!(of_another.list(10).await, Ok(Vec::new()));

    letters.replay_all(&three[..2]).await.unwrap();
    let mut again = BTreeSet::new();
    for _ in 0..2 {
        let delivery = next(&mut subscription).await;
        again.insert(resource(&delivery.event));
        delivery.acknowledge().await.unwrap();
    }
    assert_eq!(again, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    let same = [&three[..], &three[..]].concat();
    assert_eq!(letters.drop_all(&same).await, Ok(1), "two of them were replayed");
    assert_eq!(letters.list(10).await, Ok(Vec::new()));
    let nobodys = world.broker.all_dead_letters(&world.named("nobody"));
    assert_eq!(nobodys.list(10).await, Ok(Vec::new()));
}

pub(crate) async fn a_look_sees_what_is_published_and_takes_nothing(world: World) {
    let mut subscription = world.subscribe("s", &options()).await;
    let mut look = world.broker.tail(&world.topic);
    tokio::time::timeout(DEADLINE, look.begun()).await.expect("the look must begin").unwrap();
    let published = world.publish("a").await;
    let seen = tokio::time::timeout(DEADLINE, look.next()).await.expect("the event must be seen").unwrap();
    assert_eq!(seen.event.as_ref(), Ok(&published));
    tokio::time::timeout(DEADLINE, look.close()).await.expect("the look must end");
    let delivery = next(&mut subscription).await;
    assert_eq!((delivery.attempt, &delivery.event), (1, &published));
    delivery.acknowledge().await.unwrap();
}

pub(crate) async fn everything_is_counted(world: World) {
    let mut subscription = world.subscribe("s", &Options { max_deliveries: 2, ..options() }).await;
    world.publish("a").await;
    next(&mut subscription).await.acknowledge().await.unwrap();
    world.publish("b").await;
    next(&mut subscription).await.reject("no luck").await.unwrap();
    next(&mut subscription).await.reject("no luck").await.unwrap();
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
