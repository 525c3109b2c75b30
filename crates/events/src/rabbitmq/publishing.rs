//! Publishing with confirms, one message at a time on a channel: the client library attaches a returned message to the
//! next confirm of its channel, so with two in flight an unroutable event could pass for a published one.

use std::collections::HashSet;
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Confirmation, Connection};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;

use super::{RabbitMq, declare_queue, properties};
use crate::error::BrokerError;
use crate::message::Message;

/// Longest wait for an answer of the server.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);
/// Messages in flight at one time.
const CHANNELS: usize = 64;

pub(super) struct Publishing {
    permits: Semaphore,
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
        Self { permits: Semaphore::new(CHANNELS), state: Mutex::default() }
    }
}

/// What to declare before a message is published.
#[derive(Debug, Clone, Copy)]
pub(super) enum Declare<'a> {
    Exchange(&'a str),
    Queue(&'a str),
    Nothing,
}

impl Publishing {
    /// Returns a channel to the pool.
    pub(super) async fn keep(&self, channel: Channel) {
        let mut state = self.state.lock().await;
        if state.idle.len() < CHANNELS {
            state.idle.push(channel);
        }
    }

    /// A channel with confirms of the pool, or a new one. A broken connection is replaced.
    pub(super) async fn channel(&self, backend: &RabbitMq) -> Result<Channel, BrokerError> {
        let mut state = self.state.lock().await;
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
            None => state.connection.insert(backend.connect().await?),
        };
        let channel = timeout(TIMEOUT, async {
            let channel = connection.create_channel().await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            Ok(channel)
        });
        channel
            .await
            .map_err(|_| BrokerError::TimedOut)?
            .map_err(|error: lapin::Error| BrokerError::unavailable(error))
    }

    /// Publishes a message and waits for its confirm.
    pub(super) async fn put(
        &self,
        backend: &RabbitMq,
        declare: Declare<'_>,
        exchange: &str,
        key: &str,
        message: &Message,
        headers: FieldTable,
    ) -> Result<(), BrokerError> {
        let _permit = self.permits.acquire().await.map_err(BrokerError::unavailable)?;
        // After this time the channel is dropped, and a late confirm with it.
        let confirmed = timeout(TIMEOUT, async {
            let channel = self.channel(backend).await?;
            self.declare(backend, &channel, declare).await?;
            let mandatory = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            let properties = properties(message, headers);
            let sent =
                channel.basic_publish(exchange.into(), key.into(), mandatory, &message.body, properties);
            let confirmation =
                sent.await.map_err(BrokerError::unavailable)?.await.map_err(BrokerError::unavailable)?;
            self.keep(channel).await;
            Ok(confirmation)
        });
        let error = match confirmed.await {
            Ok(Ok(Confirmation::Ack(None))) => return Ok(()),
            Ok(Ok(Confirmation::Ack(Some(_)))) => {
                BrokerError::Unroutable(if exchange.is_empty() { key } else { exchange }.to_owned())
            }
            Ok(Ok(Confirmation::Nack(_) | Confirmation::NotRequested)) => {
                BrokerError::refused("it did not confirm the message")
            }
            Ok(Err(error)) => error,
            Err(_) => BrokerError::TimedOut,
        };
        // Exchange or queue may have been deleted.
        self.state.lock().await.declared.clear();
        Err(error)
    }

    async fn declare(
        &self,
        backend: &RabbitMq,
        channel: &Channel,
        declare: Declare<'_>,
    ) -> Result<(), BrokerError> {
        let (Declare::Exchange(name) | Declare::Queue(name)) = declare else { return Ok(()) };
        if self.state.lock().await.declared.contains(name) {
            return Ok(());
        }
        match declare {
            Declare::Exchange(exchange) => backend.declare_exchange(channel, exchange).await?,
            Declare::Queue(queue) => declare_queue(channel, queue).await?,
            Declare::Nothing => {}
        }
        self.state.lock().await.declared.insert(name.to_owned());
        Ok(())
    }
}
