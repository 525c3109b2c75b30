//! Google Pub/Sub: the suite against the stand-in or an emulator, and what is special to it.

use hyperfleet_events::BrokerError;

use crate::suite::suite;
use crate::world::{World, event};

suite!(world(true));

async fn world(makes: bool) -> World {
    let makes = makes.to_string();
    let settings = [
        ("broker.type", "googlepubsub"),
        ("broker.googlepubsub.project_id", "test"),
        ("broker.googlepubsub.create_topic_if_missing", makes.as_str()),
        ("broker.googlepubsub.create_subscription_if_missing", makes.as_str()),
    ];
    World::of(&settings, Some(hyperfleet_pubsub_stand_in::host())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_are_not_made_unless_the_settings_say_so() {
    let world = world(false).await;
    let refused = world.broker.publish(&world.topic, &event("a")).await;
    assert!(matches!(refused, Err(BrokerError::Refused(_))), "{refused:?}");
}
