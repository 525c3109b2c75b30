//! The brokers that events are measured over, each with what a Sentinel must be told to use it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use hyperfleet_events::{Broker, BrokerConfig, Metrics};
use hyperfleet_service::settings::{Sources, environment};
use hyperfleet_testkit::{Nats, RabbitMq};

use super::found::Eventing;

/// A broker that runs.
pub(super) struct Carrier {
    pub(super) name: &'static str,
    pub(super) broker: Broker,
    /// Names it to a Sentinel.
    pub(super) variables: BTreeMap<String, String>,
    _process: Process,
}

/// It goes with this value.
#[allow(dead_code, reason = "held for what happens when it is dropped")]
enum Process {
    Nats(Nats),
    RabbitMq(RabbitMq),
    Elsewhere,
}

impl Carrier {
    /// All that can be measured here, NATS first; `found` is told of the others.
    pub(super) async fn all(found: &mut Eventing) -> Result<Vec<Self>> {
        let nats = Nats::start().await?;
        let rabbitmq = RabbitMq::start().await?;
        let mut carriers = vec![
            Self::open(
                "nats",
                &[("HYPERFLEET_BROKER_TYPE", "nats"), ("HYPERFLEET_BROKER_NATS_URL", &nats.url())],
                Process::Nats(nats),
            )
            .await?,
            Self::open(
                "rabbitmq",
                &[
                    ("HYPERFLEET_BROKER_TYPE", "rabbitmq"),
                    ("HYPERFLEET_BROKER_RABBITMQ_URL", &rabbitmq.url()),
                ],
                Process::RabbitMq(rabbitmq),
            )
            .await?,
        ];
        match environment().get("PUBSUB_EMULATOR_HOST").filter(|host| !host.is_empty()) {
            Some(host) => {
                let variables = [
                    ("HYPERFLEET_BROKER_TYPE", "googlepubsub"),
                    ("HYPERFLEET_BROKER_GOOGLEPUBSUB_PROJECT_ID", "bench"),
                    ("HYPERFLEET_BROKER_GOOGLEPUBSUB_CREATE_TOPIC_IF_MISSING", "true"),
                    ("HYPERFLEET_BROKER_GOOGLEPUBSUB_CREATE_SUBSCRIPTION_IF_MISSING", "true"),
                    ("PUBSUB_EMULATOR_HOST", host),
                ];
                carriers.push(Self::open("googlepubsub", &variables, Process::Elsewhere).await?);
            }
            None => found.left_out.push("googlepubsub, for PUBSUB_EMULATOR_HOST names no server"),
        }
        found.left_out.push("memory, whose events stay within the process of `hyperfleet up`");
        Ok(carriers)
    }

    async fn open(name: &'static str, variables: &[(&str, &str)], process: Process) -> Result<Self> {
        let variables: BTreeMap<String, String> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let sources = Sources { environment: variables.clone(), ..Sources::default() };
        let config = BrokerConfig::load(sources).map_err(|faults| anyhow::anyhow!("{faults}"))?;
        let broker = Broker::open(&config, Metrics::default()).await.context(name)?;
        Ok(Self { name, broker, variables, _process: process })
    }
}
