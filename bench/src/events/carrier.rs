//! The brokers that events are measured over, each with what a Sentinel must be told to use it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use hyperfleet_events::{Broker, BrokerConfig, Metrics};
use hyperfleet_service::settings::Sources;
use hyperfleet_testkit::{Nats, RabbitMq};

use crate::aside::Aside;

/// A type of broker.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Nats,
    RabbitMq,
    PubSub,
    Memory,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Nats, Self::RabbitMq, Self::PubSub, Self::Memory];

    fn name(self) -> &'static str {
        match self {
            Self::Nats => "nats",
            Self::RabbitMq => "rabbitmq",
            Self::PubSub => "googlepubsub",
            Self::Memory => "memory",
        }
    }

    /// Those whose rows are wanted, NATS first.
    pub(super) fn wanted(only: &str) -> Vec<Self> {
        let is_wanted = |kind: &Self| format!("postgresql events {}", kind.name()).contains(only);
        Self::ALL.into_iter().filter(is_wanted).collect()
    }
}

/// A broker that runs.
pub(super) struct Carrier {
    pub(super) kind: Kind,
    /// Tells also what of it is not as in the field.
    pub(super) name: &'static str,
    pub(super) broker: Broker,
    /// Names it to a Sentinel in a process of its own; none can have the one that is in ours.
    pub(super) variables: Option<BTreeMap<String, String>>,
    _process: Process,
}

/// It goes with this value.
#[allow(dead_code, reason = "held for what happens when it is dropped")]
enum Process {
    Nats(Nats),
    RabbitMq(RabbitMq),
    PubSub(Aside),
    Elsewhere,
}

impl Carrier {
    pub(super) async fn start(kind: Kind) -> Result<Self> {
        match kind {
            Kind::Nats => {
                let nats = Nats::start().await?;
                let variables = [("TYPE", "nats"), ("NATS_URL", &nats.url())];
                Self::open(kind, "nats", &variables, Process::Nats(nats)).await
            }
            Kind::RabbitMq => {
                let rabbitmq = RabbitMq::start().await?;
                let variables = [("TYPE", "rabbitmq"), ("RABBITMQ_URL", &rabbitmq.url())];
                Self::open(kind, "rabbitmq", &variables, Process::RabbitMq(rabbitmq)).await
            }
            Kind::PubSub => {
                let (name, host, process) = match hyperfleet_pubsub_stand_in::elsewhere() {
                    Some(host) => ("Pub/Sub (emulator)", host, Process::Elsewhere),
                    None => {
                        let aside = Aside::start(&["pubsub"])?;
                        ("Pub/Sub (stand-in)", aside.address.to_string(), Process::PubSub(aside))
                    }
                };
                let variables = [
                    ("TYPE", "googlepubsub"),
                    ("GOOGLEPUBSUB_PROJECT_ID", "bench"),
                    ("GOOGLEPUBSUB_CREATE_TOPIC_IF_MISSING", "true"),
                    ("GOOGLEPUBSUB_CREATE_SUBSCRIPTION_IF_MISSING", "true"),
                    (hyperfleet_pubsub_stand_in::ELSEWHERE, &host),
                ];
                Self::open(kind, name, &variables, process).await
            }
            Kind::Memory => Ok(Self {
                kind,
                name: "memory (Sentinel in bench)",
                broker: Broker::memory(Metrics::default()),
                variables: None,
                _process: Process::Elsewhere,
            }),
        }
    }

    /// Opens a broker by the variables that a Sentinel is given too; `TYPE` is short for `HYPERFLEET_BROKER_TYPE`.
    async fn open(
        kind: Kind,
        name: &'static str,
        variables: &[(&str, &str)],
        process: Process,
    ) -> Result<Self> {
        let full = |name: &str| match name {
            hyperfleet_pubsub_stand_in::ELSEWHERE => name.to_owned(),
            name => format!("HYPERFLEET_BROKER_{name}"),
        };
        let variables: BTreeMap<String, String> =
            variables.iter().map(|(name, value)| (full(name), (*value).to_owned())).collect();
        let sources = Sources { environment: variables.clone(), ..Sources::default() };
        let config = BrokerConfig::load(sources).map_err(|faults| anyhow::anyhow!("{faults}"))?;
        let broker = Broker::open(&config, Metrics::default()).await.context(name)?;
        Ok(Self { kind, name, broker, variables: Some(variables), _process: process })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_broker_is_asked_for_by_its_name_and_all_by_none() {
        assert_eq!(Kind::wanted("events memory"), [Kind::Memory]);
        assert_eq!(Kind::wanted("postgresql events nats"), [Kind::Nats]);
        assert_eq!(Kind::wanted("events"), Kind::ALL);
        assert_eq!(Kind::wanted(""), Kind::ALL);
        assert!(Kind::wanted("sqlite").is_empty() && Kind::wanted("watch").is_empty());
    }
}
