//! Servers that are killed and started again.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use hyperfleet_testkit::eventually;

use crate::world::{DEADLINE, World, event, next, options, ready};

/// Publishers go on while the server is killed and started again; every event whose publish returned without an
/// error is received.
pub(crate) async fn no_confirmed_event_is_lost(world: &World, restart: impl AsyncFn()) {
    let mut subscription = world.subscribe("s", &options()).await;
    let (confirmed, received) = (Mutex::new(BTreeSet::new()), Mutex::new(BTreeSet::new()));
    let (failed, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let publisher = async |name: usize| {
        for number in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let event = event(&format!("{name}-{number}"));
            match world.broker.publish(&world.topic, &event).await {
                Ok(()) => drop(confirmed.lock().unwrap().insert(event.id)),
                Err(_) => failed.store(true, Ordering::Relaxed),
            }
        }
    };
    let confirmed_at_least = async |count: usize| {
        eventually("publishing goes on", DEADLINE, async || {
            (confirmed.lock().unwrap().len() >= count).then_some(())
        })
        .await;
    };
    let worker = async {
        while let Some(delivery) = subscription.next().await {
            received.lock().unwrap().insert(delivery.event.id.clone());
            // While the server is down this fails, and the event is redelivered.
            let _ = delivery.acknowledge().await;
        }
    };
    let story = async {
        confirmed_at_least(50).await;
        restart().await;
        let before = confirmed.lock().unwrap().len();
        confirmed_at_least(before + 50).await;
        stop.store(true, Ordering::Relaxed);
    };
    let publishing = async { tokio::join!(story, publisher(0), publisher(1), publisher(2)) };
    let all = async {
        publishing.await;
        eventually("everything confirmed is received", DEADLINE, async || {
            confirmed.lock().unwrap().is_subset(&received.lock().unwrap()).then_some(())
        })
        .await;
    };
    tokio::select! {
        () = worker => panic!("the subscription ended"),
        () = all => {}
    }
    assert!(failed.load(Ordering::Relaxed), "the server was away, and publishers noticed");
}

pub(crate) async fn the_broker_works_once_its_server_is_up(world: &World, start: impl AsyncFn()) {
    let early = event("early");
    assert!(world.broker.health().await.is_err());
    world.broker.publish(&world.topic, &early).await.unwrap_err();
    let mut subscription = world.broker.subscribe(&world.topic, &world.named("s"), options());
    start().await;
    tokio::time::timeout(DEADLINE, subscription.ready()).await.expect("the subscription must be made");
    let delivery = loop {
        // The publisher reconnects on its own.
        if world.broker.publish(&world.topic, &early).await.is_ok() {
            break next(&mut subscription).await;
        }
    };
    assert_eq!(delivery.event, early);
    delivery.acknowledge().await.unwrap();
    world.broker.health().await.unwrap();
    let mut another = ready(&world.another().await, &world.topic, &world.named("t"), &options()).await;
    world.publish("a").await;
    next(&mut another).await.acknowledge().await.unwrap();
}
