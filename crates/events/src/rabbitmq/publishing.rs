//! Publishing with confirms. A channel carries one message at a time: the client library hands a returned message
//! to whichever confirmation comes next, so with two on one channel an event that no queue took could pass for
//! one that was taken. Many channels make up for it.

use std::collections::HashSet;
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Confirmation, Connection};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;

use super::{RabbitMq, properties, unavailable};
use crate::error::BrokerError;
use crate::message::Message;

/// Longest wait for the server, for one message.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Messages that are on their way at one time.
const CHANNELS: usize = 64;

pub(super) struct Publishing {
    room: Semaphore,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    idle: Vec<Channel>,
    declared: HashSet<String>,
}

impl Default for Publishing {
    fn default() -> Self {
        Self { room: Semaphore::new(CHANNELS), state: Mutex::default() }
    }
}

impl Publishing {
    /// Keeps a channel for the next message.
    pub(super) async fn keep(&self, channel: Channel) {
        let mut state = self.state.lock().await;
        if state.idle.len() < CHANNELS {
            state.idle.push(channel);
        }
    }
}

impl RabbitMq {
    /// A channel with confirms, on a connection that is made anew when it broke.
    pub(super) async fn channel(&self) -> Result<Channel, BrokerError> {
        let mut state = self.0.publishing.state.lock().await;
        while let Some(channel) = state.idle.pop() {
            if channel.status().connected() {
                return Ok(channel);
            }
        }
        if !state.connection.as_ref().is_some_and(|connection| connection.status().connected()) {
            *state = State::default();
        }
        let connection = match &state.connection {
            Some(connection) => connection,
            None => state.connection.insert(self.connect().await?),
        };
        let channel = timeout(PATIENCE, async {
            let channel = connection.create_channel().await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            Ok(channel)
        });
        channel.await.map_err(|_| BrokerError::TimedOut)?.map_err(|error: lapin::Error| unavailable(error))
    }

    /// Publishes a message and waits for its confirm; `declare` is an exchange that must be there.
    pub(super) async fn put(
        &self,
        declare: Option<&str>,
        exchange: &str,
        key: &str,
        message: &Message,
        headers: FieldTable,
    ) -> Result<(), BrokerError> {
        let _room = self.0.publishing.room.acquire().await.map_err(unavailable)?;
        let channel = self.channel().await?;
        let confirmed = timeout(PATIENCE, async {
            if let Some(exchange) = declare
                && !self.0.publishing.state.lock().await.declared.contains(exchange)
            {
                self.declare_exchange(&channel, exchange).await?;
                self.0.publishing.state.lock().await.declared.insert(exchange.to_owned());
            }
            let mandatory = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            let properties = properties(message, headers);
            let sent =
                channel.basic_publish(exchange.into(), key.into(), mandatory, &message.body, properties);
            sent.await.map_err(unavailable)?.await.map_err(unavailable)
        });
        let result = match confirmed.await {
            Ok(Ok(Confirmation::Ack(None))) => Ok(()),
            Ok(Ok(Confirmation::Ack(Some(_)))) => {
                Err(BrokerError::Unroutable(declare.unwrap_or(key).to_owned()))
            }
            Ok(Ok(Confirmation::Nack(_) | Confirmation::NotRequested)) => {
                Err(BrokerError::Refused("it did not confirm the message".to_owned()))
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(BrokerError::TimedOut),
        };
        match &result {
            Ok(()) | Err(BrokerError::Unroutable(_)) => self.0.publishing.keep(channel).await,
            // Whatever comes late on this channel belongs to no later message; an exchange may be gone.
            Err(_) => {
                self.0.publishing.state.lock().await.declared.clear();
                let _ = timeout(PATIENCE, channel.close(200, "given up".into())).await;
            }
        }
        result
    }
}
