//! `hyperfleet events` over real brokers: what is looked at is what others get, and what was given up comes again.

use std::collections::BTreeMap;

use hyperfleet_events::{Broker, BrokerConfig, Event, Metrics, Options, Subscription};
use hyperfleet_service::settings::Sources;
use hyperfleet_testkit::{Nats, RabbitMq, eventually};
use serde_json::{Value, json};

use super::{BINARY, Cli, DEADLINE, steady, transcript};
use crate::operations::program::Running;
use crate::support::{App, DEFAULT, Terminal, unique};

/// A broker of some type, with a topic that no other test uses, and a command line that knows both.
struct Fixture {
    cli: Cli,
    broker: Broker,
    topic: String,
}

impl Fixture {
    async fn at(server: &str, variables: &[(&str, &str)]) -> Self {
        let topic = format!("{}-{}", unique("cli"), std::process::id());
        let mut environment = BTreeMap::from([("HYPERFLEET_BROKER_TOPIC".to_owned(), topic.clone())]);
        environment.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let cli = environment.iter().fold(Cli::at(server), |cli, (name, value)| cli.env(name, value));
        let config = BrokerConfig::load(Sources { environment, ..Sources::default() }).unwrap();
        let broker = Broker::open(&config, Metrics::default()).await.unwrap();
        Self { cli, broker, topic }
    }

    async fn subscribe(&self, name: &str) -> Subscription {
        let once = Options { max_deliveries: 1, ..Options::default() };
        let mut subscription = self.broker.subscribe(&self.topic, name, once);
        tokio::time::timeout(DEADLINE, subscription.ready()).await.expect("a subscription");
        subscription
    }

    /// Starts a look, and waits until it began.
    async fn tail(&self, flags: &str) -> Running {
        let running = self.cli.start(&format!("events tail {flags}"));
        eventually("a look that began", DEADLINE, async || {
            running.stderr().iter().any(|line| line.contains("looking at")).then_some(())
        })
        .await;
        running
    }

    /// Makes letters of events about these, in a subscription of its own, whose name it gives.
    async fn given_up(&self, resources: &[&str]) -> (String, Subscription) {
        let name = format!("{}-{}", unique("adapter"), std::process::id());
        let mut subscription = self.subscribe(&name).await;
        for id in resources {
            let data = json!({"id": id, "kind": "Cluster", "href": "/c", "generation": 3});
            let event = Event::reconcile("test", "Cluster", data, None);
            self.broker.publish(&self.topic, &event).await.unwrap();
            next(&mut subscription).await.nack(&format!("no luck with {id}")).await.unwrap();
        }
        let letters = self.broker.all_dead_letters(&name);
        eventually("letters", DEADLINE, async || {
            (letters.list(100).await.unwrap().len() == resources.len()).then_some(())
        })
        .await;
        (name, subscription)
    }

    /// The text without what differs from run to run.
    fn steady(&self, text: &str) -> String {
        steady(&without_times(text)).replace(&self.topic, "[topic]")
    }
}

async fn next(subscription: &mut Subscription) -> hyperfleet_events::Delivery {
    tokio::time::timeout(DEADLINE, subscription.next()).await.expect("an event must come").unwrap()
}

/// `12:34:56.789` at the start of a row becomes as many stars.
fn without_times(text: &str) -> String {
    let starts = |line: &str| line.len() > 12 && line.as_bytes()[2] == b':' && line.as_bytes()[8] == b'.';
    let line = |line: &str| {
        if starts(line) { format!("**:**:**.***{}\n", &line[12..]) } else { format!("{line}\n") }
    };
    text.lines().map(line).collect()
}

fn server(app: &App) -> String {
    format!("http://{}", app.api().authority())
}

async fn on_nats(server: &str) -> Fixture {
    let url = Nats::shared().url();
    Fixture::at(server, &[("HYPERFLEET_BROKER_TYPE", "nats"), ("HYPERFLEET_BROKER_NATS_URL", &url)]).await
}

async fn on_rabbitmq(server: &str) -> Fixture {
    let url = RabbitMq::shared().url();
    Fixture::at(server, &[("HYPERFLEET_BROKER_TYPE", "rabbitmq"), ("HYPERFLEET_BROKER_RABBITMQ_URL", &url)])
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn published_events_reach_subscriptions_and_tails_on_nats() {
    let app = App::sqlite(DEFAULT).await;
    published_events_reach_subscriptions_and_tails(on_nats(&server(&app)).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn published_events_reach_subscriptions_and_tails_on_rabbitmq() {
    let app = App::postgres(DEFAULT).await;
    published_events_reach_subscriptions_and_tails(on_rabbitmq(&server(&app)).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_shown_replayed_and_dropped_on_nats() {
    let app = App::sqlite(DEFAULT).await;
    dead_letters_are_listed_shown_replayed_and_dropped(on_nats(&server(&app)).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_shown_replayed_and_dropped_on_rabbitmq() {
    let app = App::postgres(DEFAULT).await;
    dead_letters_are_listed_shown_replayed_and_dropped(on_rabbitmq(&server(&app)).await).await;
}

async fn published_events_reach_subscriptions_and_tails(fixture: Fixture) {
    let cli = &fixture.cli;
    cli.ok("create cluster prod-1").await;
    cli.ok("create nodepool prod-1/workers").await;
    let mut subscription = fixture.subscribe("adapter").await;
    let mut people = fixture.tail("--count 2").await;
    let mut pools = fixture.tail("--kind nodepools --count 1 -o name").await;
    let mut script = fixture.tail("-o json --count 1 --for 60s").await;
    let template = format!("{}x{}", "{range $..*}".repeat(8), "{end}".repeat(8));
    let mut failing = fixture.tail(&format!("--count 2 -o 'jsonpath={template}'")).await;

    let told = cli.transcript("events publish nodepool/prod-1/workers cluster/prod-1").await;
    insta::allow_duplicates! { insta::assert_snapshot!(fixture.steady(&told), @"
    nodepool/workers published to [topic]
    cluster/prod-1 published to [topic]
    "); }
    let event = next(&mut subscription).await.event.clone();
    assert_eq!(
        (event.source.as_str(), event.data["kind"].as_str()),
        ("hyperfleet-sentinel", Some("NodePool"))
    );

    assert_eq!(
        (people.ended().await, pools.ended().await, script.ended().await),
        (Some(0), Some(0), Some(0))
    );
    // Each of two fails, and both are counted.
    assert_eq!((failing.ended().await, failing.stdout().len()), (Some(0), 0));
    assert_eq!(failing.stderr()[1..], ["error: jsonpath: it picks too many values"]);
    insta::allow_duplicates! { insta::assert_snapshot!(fixture.steady(&people.stdout().join("\n")), @"
    TIME (UTC)    KIND          GEN  ID                                    OWNER                                         MORE
    **:**:**.***  NodePool      1    [id 1]  cluster/[id 2]  -
    **:**:**.***  Cluster       1    [id 2]  -                                             -
    "); }
    insta::allow_duplicates! { insta::assert_snapshot!(fixture.steady(&pools.stdout().join("\n")), @"nodepool/[id 1]"); }
    let [line] = &script.stdout()[..] else { panic!("{:?}", script.stdout()) };
    assert_eq!(line.as_bytes(), event.to_json(), "the event as it was published");
}

async fn dead_letters_are_listed_shown_replayed_and_dropped(fixture: Fixture) {
    let (cli, ids) = (&fixture.cli, ["a1", "b2", "c3"]);
    let (adapter, mut subscription) = fixture.given_up(&ids).await;
    let of = format!("--adapter {adapter}");
    let plain = |text: String| fixture.steady(&text).replace(&adapter, "[adapter]");
    let listed = cli.transcript(&format!("events dead-letters list {of}")).await;
    insta::allow_duplicates! { insta::assert_snapshot!(plain(listed), @"
    ID                                    KIND     GEN  RESOURCE  TRIES  REASON           AGE
    [id 1]  Cluster  3    a1        1      no luck with a1  [age]
    [id 2]  Cluster  3    b2        1      no luck with b2  [age]
    [id 3]  Cluster  3    c3        1      no luck with c3  [age]
    "); }

    let list = cli.json(&format!("events dead-letters list {of} -o json")).await;
    let letters: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    let shown = cli.transcript(&format!("events dead-letters show {of} {}", letters[0])).await;
    insta::allow_duplicates! { insta::assert_snapshot!(plain(shown), @r#"
    kind: DeadLetter
    id: "[id 1]"
    subscription: [adapter]
    topic: [topic]
    reason: no luck with a1
    attempts: 1
    time: "[time 1]"
    event:
      specversion: "1.0"
      id: "[id 2]"
      source: test
      type: com.redhat.hyperfleet.cluster.reconcile
      time: "[time 2]"
      datacontenttype: application/json
      data:
        id: a1
        kind: Cluster
        href: /c
        generation: 3
    "#); }

    let replayed = cli.transcript(&format!("events dead-letters replay {of} {}", letters[1])).await;
    insta::allow_duplicates! { insta::assert_snapshot!(plain(replayed), @"[id 1] replayed"); }
    let again = next(&mut subscription).await;
    assert_eq!(again.event.data["id"], "b2");
    again.acknowledge().await.unwrap();

    let gone = cli.transcript(&format!("events dead-letters drop {of} {} -y", letters[1])).await;
    insta::allow_duplicates! { insta::assert_snapshot!(plain(gone), @"
    --- stderr
    error: [adapter] has no dead letter [id 1]
    --- exit 3
    "); }
    let asked = cli.run(&format!("events dead-letters drop {of} --all")).await;
    assert_eq!(asked.code, Some(2), "{asked:?}");
    assert!(asked.stderr.contains("pass -y"), "{asked:?}");
    let dropped = cli.transcript(&format!("events dead-letters drop {of} --all -y")).await;
    insta::allow_duplicates! { insta::assert_snapshot!(plain(dropped), @"
    [id 1] dropped
    [id 2] dropped
    "); }
    let empty = cli.transcript(&format!("events dead-letters list {of} --topic {}", fixture.topic)).await;
    insta::allow_duplicates! { insta::assert_snapshot!(plain(empty), @"
    --- stderr
    there are no dead letters
    "); }
}

#[tokio::test(flavor = "multi_thread")]
async fn drop_reports_a_concurrently_dropped_dead_letter() {
    let fixture = on_nats("http://127.0.0.1:1").await;
    let (adapter, _subscription) = fixture.given_up(&["a1", "b2"]).await;
    let terminal = Terminal::open(&fixture.cli.program, 120, 30);
    terminal.type_line(&format!(
        "{BINARY} events dead-letters drop --adapter {adapter} --all; echo it ended with $?"
    ));
    terminal.shows("[y/N]").await;
    let letters = fixture.broker.all_dead_letters(&adapter);
    let first = letters.list(1).await.unwrap().remove(0);
    letters.drop(&first.id).await.unwrap();
    terminal.type_line("y");
    let screen = terminal.shows_all(&["1 of 2 were not found", "it ended with 1"], &[]).await;
    assert!(!screen.contains(" dropped"), "{screen}");
    assert!(letters.list(100).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn drop_previews_at_most_twenty_dead_letters() {
    let fixture = on_nats("http://127.0.0.1:1").await;
    let ids: Vec<String> = (0..23).map(|n| format!("c{n:02}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let (adapter, _subscription) = fixture.given_up(&ids).await;
    let asked = fixture.cli.run(&format!("events dead-letters drop --adapter {adapter} --all")).await;
    let lines: Vec<&str> = asked.stderr.lines().collect();
    assert_eq!(lines.iter().filter(|line| line.contains("no luck with c")).count(), 20, "{asked:?}");
    assert_eq!(lines[21], "and 3 more");
    assert!(lines[22].contains("Delete these 23 dead letters?"), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn publish_dry_run_prints_the_event_with_message_data() {
    let app = App::sqlite(DEFAULT).await;
    let fixture = on_nats(&server(&app)).await;
    let file = "sentinel: {name: mine}\nmessage_data: {why: reason, name: resource.name}\n";
    let cli = fixture.cli.file("configs/sentinel.yaml", file);
    cli.ok("create cluster prod-1").await;
    let event: Value = cli.json("events publish cluster prod-1 --dry-run").await;
    assert_eq!((&event["source"], &event["data"]["why"]), (&json!("mine"), &json!("requested")));
    assert_eq!((&event["data"]["name"], &event["data"]["generation"]), (&json!("prod-1"), &json!(1)));
    let missing = transcript(&cli.run("events publish cluster absent").await);
    insta::assert_snapshot!(missing, @"
    --- stderr
    error: there is no cluster/absent
    --- exit 3
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn tail_without_a_topic_follows_a_topic_per_kind() {
    let app = App::sqlite(DEFAULT).await;
    let own = unique("cli").replace('-', "_");
    let fixture = on_nats(&server(&app)).await;
    let cli = fixture.cli.env("HYPERFLEET_BROKER_TOPIC", "").env("HYPERFLEET_BROKER_NATS_STREAM", &own);
    let fixture = Fixture { cli: cli.env("HYPERFLEET_BROKER_NATS_SUBJECT_PREFIX", &own), ..fixture };
    fixture.cli.ok("create cluster prod-1").await;
    let mut tail = fixture.tail("--kind cluster -n 1 -o wide").await;
    let mut all = fixture.tail("-n 1 -o name").await;
    let told = fixture.cli.transcript("events publish cluster prod-1").await;
    insta::assert_snapshot!(told, @"cluster/prod-1 published to hyperfleet-clusters");
    assert_eq!((tail.ended().await, all.ended().await), (Some(0), Some(0)));
    insta::assert_snapshot!(fixture.steady(&tail.stdout().join("\n")), @"
    TIME (UTC)    KIND          GEN  ID                                    OWNER  EVENT                                 SOURCE               MORE
    **:**:**.***  Cluster       1    [id 1]  -      [id 2]  hyperfleet-sentinel  -
    ");
    assert_eq!(tail.stderr(), ["looking at hyperfleet-clusters (nats)"]);
    assert_eq!(all.stderr(), ["looking at hyperfleet-clusters, hyperfleet-nodepools (nats)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tail_ends_by_time_by_ctrl_c_and_without_events() {
    let fixture = on_nats("http://127.0.0.1:1").await;
    let cli = &fixture.cli;
    let look = format!("events tail --topic {}", fixture.topic);
    assert_eq!(cli.run(&format!("{look} --for 1s")).await.code, Some(0));
    let vain = cli.transcript(&format!("{look} --count 3 --for 1s")).await;
    insta::assert_snapshot!(fixture.steady(&vain), @"
    --- stderr
    looking at [topic] (nats)
    error: timed out after [age] waiting for 3 more events
    --- exit 7
    ");
    let mut running = fixture.tail(&format!("--topic {}", fixture.topic)).await;
    running.signal("INT").await;
    assert_eq!(running.ended().await, Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_broker_is_exit_code_6() {
    let cli = Cli::at("http://127.0.0.1:1");
    insta::assert_snapshot!(cli.transcript("events tail").await, @"
    --- stderr
    error: broker.type is memory (default), and a broker in memory lives in the process of `hyperfleet up`: no other process can reach it.
    Name the broker that the Sentinel publishes to: by --config, by HYPERFLEET_BROKER_TYPE, or by --broker-type nats, rabbitmq or googlepubsub.
    Beside `hyperfleet up`, look at the resources instead: `hyperfleet get clusters -w`, `hyperfleet why`, `hyperfleet timeline`.
    --- exit 2
    ");
    insta::assert_snapshot!(cli.transcript("events tail --broker-type rabbitmq --broker-rabbitmq-url amqp://127.0.0.1:1 --topic t").await, @"
    --- stderr
    error: the broker cannot be reached: IO error: Connection refused (os error 111)
      is it running, and are broker.type and its address right? `hyperfleet sentinel config` shows them
    --- exit 6
    ");
    insta::assert_snapshot!(cli.transcript("events tail --broker-type nats --broker-nats-url 127.0.0.1:1 --topic t").await, @"
    --- stderr
    error: the broker cannot be reached: not connected
      is it running, and are broker.type and its address right? `hyperfleet sentinel config` shows them
    --- exit 6
    ");
    insta::assert_snapshot!(cli.transcript("events dead-letters list --adapter dns --curl").await, @"
    --- stderr
    error: --curl does not apply: events go to the broker
    --- exit 2
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unroutable_event_is_an_error_on_rabbitmq() {
    let app = App::sqlite(DEFAULT).await;
    let fixture = on_rabbitmq(&server(&app)).await;
    fixture.cli.ok("create cluster prod-1").await;
    let told = fixture.cli.transcript("events publish cluster prod-1").await;
    insta::assert_snapshot!(fixture.steady(&told), @"
    --- stderr
    error: no subscription takes the events of topic [topic]
      start an adapter once: its subscription is what takes them
    --- exit 1
    ");
}
