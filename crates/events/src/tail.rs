//! Shows what is published, for people. A tail takes nothing from a subscription, misses what is published while it is
//! not connected, and leaves nothing behind.

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::backoff::Reconnect;
use crate::broker::TailSource;
use crate::error::BrokerError;
use crate::event::{Event, NotAnEvent};
use crate::message::Message;

/// Messages that are buffered for a slow reader.
const BACKLOG: usize = 256;

/// A tail of a topic. Dropping it ends it.
#[derive(Debug)]
pub struct Tail {
    messages: mpsc::Receiver<Message>,
    attached: watch::Receiver<Attached>,
    task: JoinHandle<()>,
    cancel_on_drop: DropGuard,
}

/// The outcome of the last attempt to connect.
type Attached = Option<Result<(), BrokerError>>;

/// A message that was published.
#[derive(Debug, Clone)]
pub struct TailedMessage {
    /// The message.
    pub body: Bytes,
    /// The event, when the message is one.
    pub event: Result<Event, NotAnEvent>,
}

impl Tail {
    pub(crate) fn start(source: TailSource) -> Self {
        let (sender, messages) = mpsc::channel(BACKLOG);
        let (attach, attached) = watch::channel(None);
        let closing = CancellationToken::new();
        let task = tokio::spawn(run(source, sender, attach, closing.clone()));
        Self { messages, attached, task, cancel_on_drop: closing.drop_guard() }
    }

    /// Waits for the outcome of the first attempt to connect. The tail reconnects even after an error.
    pub async fn ready(&mut self) -> Result<(), BrokerError> {
        match self.attached.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            _ => Ok(()),
        }
    }

    /// Ends the tail, and returns when nothing of it is left at the broker.
    pub async fn close(self) {
        drop(self.cancel_on_drop);
        // Wakes the task if it waits for room in the buffer.
        drop(self.messages);
        let _ = self.task.await;
    }

    /// Waits for the next message.
    pub async fn next(&mut self) -> Option<TailedMessage> {
        let message = self.messages.recv().await?;
        Some(TailedMessage { event: Event::read(&message.body), body: message.body })
    }
}

async fn run(
    mut source: TailSource,
    messages: mpsc::Sender<Message>,
    attached: watch::Sender<Attached>,
    closing: CancellationToken,
) {
    let mut reconnect = Reconnect::default();
    let endless = async {
        loop {
            let mut result = source.attach().await;
            let since = Instant::now();
            attached.send_replace(Some(result.clone()));
            while result.is_ok() {
                result = match source.next().await {
                    Ok(message) => {
                        if messages.send(message).await.is_err() {
                            return;
                        }
                        Ok(())
                    }
                    Err(error) => Err(error),
                };
            }
            reconnect.held_for(since.elapsed());
            tokio::time::sleep(reconnect.next()).await;
        }
    };
    closing.run_until_cancelled(endless).await;
    source.close().await;
}
