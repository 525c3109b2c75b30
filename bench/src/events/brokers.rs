//! The brokers that events are measured over, with the variables that a Sentinel needs to use them.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use hyperfleet_events::{Broker, BrokerConfig, Metrics};
use hyperfleet_service::settings::Sources;
use hyperfleet_testkit::{Nats, RabbitMq};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Nats,
    RabbitMq,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Nats, Self::RabbitMq];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nats => "nats",
            Self::RabbitMq => "rabbitmq",
        }
    }
}

/// A running broker.
pub(super) struct RunningBroker {
    pub(super) kind: Kind,
    pub(super) broker: Broker,
    /// Environment variables of a Sentinel.
    pub(super) variables: BTreeMap<String, String>,
    _process: Process,
}

/// The broker's process, which ends with this value.
#[allow(dead_code, reason = "held for what happens when it is dropped")]
enum Process {
    Nats(Nats),
    RabbitMq(RabbitMq),
}

impl RunningBroker {
    pub(super) async fn start(kind: Kind) -> Result<Self> {
        let (url, name, process) = match kind {
            Kind::Nats => {
                let nats = Nats::start().await?;
                (nats.url(), "HYPERFLEET_BROKER_NATS_URL", Process::Nats(nats))
            }
            Kind::RabbitMq => {
                let rabbitmq = RabbitMq::start().await?;
                (rabbitmq.url(), "HYPERFLEET_BROKER_RABBITMQ_URL", Process::RabbitMq(rabbitmq))
            }
        };
        let variables = BTreeMap::from([
            ("HYPERFLEET_BROKER_TYPE".to_owned(), kind.name().to_owned()),
            (name.to_owned(), url),
        ]);
        let sources = Sources { environment: variables.clone(), ..Sources::default() };
        let config = BrokerConfig::load(sources).map_err(|faults| anyhow::anyhow!("{faults}"))?;
        let broker = Broker::open(&config, Metrics::default()).await.context(kind.name())?;
        Ok(Self { kind, broker, variables, _process: process })
    }
}
