//! Google Pub/Sub: the suite against our emulator or Google's, and what is special to it.

use hyperfleet_events::BrokerError;

use crate::suite::suite;
use crate::world::{World, event, options};

suite!(world(true));

async fn world(makes: bool) -> World {
    let makes = makes.to_string();
    let settings = [
        ("broker.type", "googlepubsub"),
        ("broker.googlepubsub.project_id", "test"),
        ("broker.googlepubsub.create_topic_if_missing", makes.as_str()),
        ("broker.googlepubsub.create_subscription_if_missing", makes.as_str()),
    ];
    World::of(&settings, Some(hyperfleet_pubsub_emulator::host())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_are_made_only_if_the_settings_allow_it() {
    let world = world(false).await;
    let refused = world.broker.publish(&world.topic, &event("a")).await;
    assert!(matches!(refused, Err(BrokerError::Refused(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_a_thousand_dead_letters_are_listed_and_dropped() {
    let world = world(true).await;
    world.subscribe("s", &options()).await.drain().await;
    let destination = format!("{}-dlq", world.named("s"));
    let putting = (0..1_001).map(async |_| world.broker.publish(&destination, &event("a")).await);
    for result in futures_util::future::join_all(putting).await {
        result.unwrap();
    }
    let letters = world.broker.all_dead_letters(&world.named("s"));
    let found = letters.list(2_000).await.unwrap();
    assert_eq!(found.len(), 1_001);
    assert_eq!(letters.drop_all(&found).await.unwrap(), 1_001);
}
