//! RabbitMQ: the suite against a real node, what is special to it, and a node that is killed.

use futures_util::StreamExt as _;
use hyperfleet_events::BrokerError;
use hyperfleet_testkit::RabbitMq;
use lapin::options::{BasicConsumeOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties};
use uuid::Uuid;

use crate::suite::suite;
use crate::world::{World, event, options};

suite!(world(&RabbitMq::shared().url()));

async fn world(url: &str) -> World {
    World::of(&[("broker.type", "rabbitmq"), ("broker.rabbitmq.url", url)], None).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unroutable_event_is_an_error_also_among_routable_ones() {
    let world = world(&RabbitMq::shared().url()).await;
    let _subscription = world.subscribe("s", &options()).await;
    let unheard = format!("{}-unheard", world.topic);
    let publishing = (0..200).map(async |number| {
        let (topic, taken) = if number % 2 == 0 { (&unheard, false) } else { (&world.topic, true) };
        (taken, world.broker.publish(topic, &event("a")).await)
    });
    for (taken, result) in futures_util::future::join_all(publishing).await {
        match result {
            Ok(()) => assert!(taken),
            Err(BrokerError::Unroutable(topic)) => assert!(!taken && topic == unheard),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_and_headers_are_those_of_the_go_library() {
    let url = RabbitMq::shared().url();
    let own = Uuid::new_v4().simple().to_string();
    let (exchange, queue) = (format!("exchange-{own}"), format!("queue-{own}"));
    let world = World::of(
        &[
            ("broker.type", "rabbitmq"),
            ("broker.rabbitmq.url", &url),
            ("broker.rabbitmq.exchange", &exchange),
            ("broker.rabbitmq.exchange_type", "topic"),
            ("broker.rabbitmq.queue", &queue),
        ],
        None,
    )
    .await;
    let subscription = world.subscribe("s", &options()).await;
    subscription.drain().await;
    let published = world.publish("a").await;

    // The client library takes a bare slash for a virtual host without a name.
    let address = url.trim_end_matches('/');
    let connection = Connection::connect(address, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let name = format!("{queue}-{}", world.named("s"));
    let passive = QueueDeclareOptions { passive: true, durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(name.as_str().into(), passive, FieldTable::default()).await.unwrap();
    let consume =
        channel.basic_consume(name.into(), "".into(), BasicConsumeOptions::default(), FieldTable::default());
    let delivery = consume.await.unwrap().next().await.unwrap().unwrap();
    assert_eq!(delivery.data, published.to_json());
    assert_eq!(delivery.exchange.as_str(), exchange);
    let headers = delivery.properties.headers().as_ref().unwrap().inner();
    let id = AMQPValue::LongString(published.id.as_str().into());
    assert_eq!(headers.get("_watermill_message_uuid"), Some(&id));
    assert_eq!(delivery.properties.delivery_mode(), &Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_confirmed_event_is_lost_when_the_node_is_killed_and_early_clients_connect_when_it_is_up() {
    let node = RabbitMq::start().await.unwrap();
    let world = world(&node.url()).await;
    crate::restart::no_confirmed_event_is_lost(&world, async || {
        node.kill();
        node.start_again().await.unwrap();
    })
    .await;
    // Starting a node takes long, so the same one serves for this too.
    node.kill();
    let early = self::world(&node.url()).await;
    crate::restart::the_broker_works_once_its_server_is_up(&early, async || {
        node.start_again().await.unwrap();
    })
    .await;
}
