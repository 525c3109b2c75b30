//! NATS: the suite against a real server, what is special to it, and a server that is killed.

use hyperfleet_testkit::Nats;

use crate::suite::suite;
use crate::world::{World, event, next, options, resource};

suite!(world(&Nats::shared().url()));

async fn world(url: &str) -> World {
    World::of(&[("broker.type", "nats"), ("broker.nats.url", url), ("broker.nats.ack_wait", "4s")], None)
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_is_published_twice_is_delivered_once() {
    let world = world(&Nats::shared().url()).await;
    let mut subscription = world.subscribe("s", &options()).await;
    let twice = event("a");
    world.broker.publish(&world.topic, &twice).await.unwrap();
    world.broker.publish(&world.topic, &twice).await.unwrap();
    world.publish("b").await;
    assert_eq!(next(&mut subscription).await.event, twice);
    assert_eq!(resource(&next(&mut subscription).await.event), "b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_in_a_file_backed_stream_under_prefix_and_topic() {
    let url = Nats::shared().url();
    let world = world(&url).await;
    let published = world.publish("a").await;
    let context = async_nats::jetstream::new(async_nats::connect(&url).await.unwrap());
    let mut stream = context.get_stream("HYPERFLEET").await.unwrap();
    assert_eq!(stream.info().await.unwrap().config.storage, async_nats::jetstream::stream::StorageType::File);
    let kept = stream.get_last_raw_message_by_subject(&format!("events.{}", world.topic)).await.unwrap();
    assert_eq!(kept.payload, published.to_json());
    assert_eq!(kept.headers.get("Nats-Msg-Id").unwrap().as_str(), published.id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_confirmed_event_is_lost_when_the_server_is_killed() {
    let server = Nats::start().await.unwrap();
    let world = world(&server.url()).await;
    crate::restart::no_confirmed_event_is_lost(&world, async || {
        server.kill();
        server.start_again().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_can_be_opened_and_subscribed_to_before_its_server_is_up() {
    let server = Nats::start().await.unwrap();
    server.kill();
    let world = world(&server.url()).await;
    crate::restart::the_broker_works_once_its_server_is_up(&world, async || {
        server.start_again().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_login_of_the_url_is_used() {
    for (demanded, given) in [
        (&["--auth", "a-token"][..], "a-token"),
        (&["--user", "me", "--pass", "p@ss:word"], "me:p%40ss%3Aword"),
    ] {
        let server = Nats::start_with(demanded).await.unwrap();
        let world = world(&server.url().replace("nats://", &format!("nats://{given}@"))).await;
        let mut subscription = world.subscribe("s", &options()).await;
        world.publish("a").await;
        assert_eq!(resource(&next(&mut subscription).await.event), "a");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_with_several_logins_are_refused_without_telling_them() {
    let config = World::config(
        &[("broker.type", "nats"), ("broker.nats.url", "nats://secret@a,nats://other@b")],
        None,
    );
    let refused = hyperfleet_events::Broker::open(&config, hyperfleet_events::Metrics::default()).await;
    let text = refused.err().unwrap().to_string();
    assert!(text.contains("broker.nats.url: all servers must have the same login"), "{text}");
    assert!(!text.contains("secret") && !text.contains("other"), "{text}");
}
