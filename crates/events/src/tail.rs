//! A look at what is published, for people. It takes nothing from any subscription, promises nothing about what
//! was published before it began or while the broker was away, and leaves nothing behind.

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::backoff::Reconnect;
use crate::broker::Look;
use crate::error::BrokerError;
use crate::event::{Event, NotAnEvent};
use crate::message::Message;

/// Messages that wait for a slow reader.
const BACKLOG: usize = 256;

/// A look at a topic, until it is dropped.
#[derive(Debug)]
pub struct Tail {
    seen: mpsc::Receiver<Message>,
    attached: watch::Receiver<Attached>,
    task: JoinHandle<()>,
    ends_with_this: DropGuard,
}

/// What came of the last try to begin.
type Attached = Option<Result<(), BrokerError>>;

/// A message that was seen on its way.
#[derive(Debug, Clone)]
pub struct Sighting {
    /// The message.
    pub body: Bytes,
    /// The event, when the message is one.
    pub event: Result<Event, NotAnEvent>,
}

impl Tail {
    pub(crate) fn start(look: Look) -> Self {
        let (sender, seen) = mpsc::channel(BACKLOG);
        let (attach, attached) = watch::channel(None);
        let closing = CancellationToken::new();
        let task = tokio::spawn(run(look, sender, attach, closing.clone()));
        Self { seen, attached, task, ends_with_this: closing.drop_guard() }
    }

    /// Waits until the look began or could not. It is tried again for ever in either case; this is for those who
    /// would rather give up.
    pub async fn begun(&mut self) -> Result<(), BrokerError> {
        match self.attached.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            _ => Ok(()),
        }
    }

    /// Ends the look, and returns when nothing of it is left at the broker.
    pub async fn close(self) {
        drop(self.ends_with_this);
        // What it was told last is of no interest any more; a sender that waits for room sees that.
        drop(self.seen);
        let _ = self.task.await;
    }

    /// The next message; waits for as long as it takes.
    pub async fn next(&mut self) -> Option<Sighting> {
        let message = self.seen.recv().await?;
        Some(Sighting { event: Event::read(&message.body), body: message.body })
    }
}

async fn run(
    mut look: Look,
    seen: mpsc::Sender<Message>,
    attached: watch::Sender<Attached>,
    closing: CancellationToken,
) {
    let mut reconnect = Reconnect::default();
    let endless = async {
        loop {
            let mut result = look.attach().await;
            let since = Instant::now();
            attached.send_replace(Some(result.clone()));
            while result.is_ok() {
                result = match look.next().await {
                    Ok(message) => {
                        if seen.send(message).await.is_err() {
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
    look.close().await;
}
