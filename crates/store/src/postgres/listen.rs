//! A connection that listens to the notifications of commits. While it is lost and made again, the reader of the feed finds
//! new versions by its own timer.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use hyperfleet_core::Version;
use tokio_postgres::AsyncMessage;

use super::connect::{Address, TIMEOUT};
use crate::failure::{Failure, FailureKind};
use crate::feed::Feed;
use crate::metrics::Metrics;

/// The channel of the notifications, whose payload is the newest version.
pub(super) const CHANNEL: &str = "hyperfleet_feed";

/// How long to wait before connecting again.
const PAUSE: Duration = Duration::from_millis(500);

/// How often to check the connection, because a dead one reports nothing.
const CHECK: Duration = Duration::from_secs(10);

/// Listens for as long as the process runs.
pub(super) async fn run(address: Address, feed: Feed, metrics: Metrics) {
    loop {
        if let Err(failure) = listen(&address, &feed, &metrics).await {
            tracing::warn!(error = failure.chain(), "lost the connection that listens for changes");
        }
        metrics.feed.listening.set(0);
        tokio::time::sleep(PAUSE).await;
    }
}

async fn listen(address: &Address, feed: &Feed, metrics: &Metrics) -> Result<(), Failure> {
    let no_answer = || Failure::new(FailureKind::Unavailable, "the server did not answer in time");
    let (client, mut connection) = tokio::time::timeout(TIMEOUT, address.config.connect(address.tls.clone()))
        .await
        .map_err(|_| no_answer())??;
    let heard = async {
        let mut messages = stream::poll_fn(|context| connection.poll_message(context));
        while let Some(message) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message?
                && let Ok(version) = notification.payload().parse()
            {
                feed.announce(Version(version));
            }
        }
        Err(Failure::new(FailureKind::Unavailable, "the server closed it"))
    };
    let asked = async {
        let listen = format!("listen {CHANNEL}");
        tokio::time::timeout(TIMEOUT, client.batch_execute(&listen)).await.map_err(|_| no_answer())??;
        metrics.feed.listening.set(1);
        // Commits before `listen` were not announced here.
        feed.wake();
        loop {
            tokio::time::sleep(CHECK).await;
            tokio::time::timeout(TIMEOUT, client.batch_execute("select 1"))
                .await
                .map_err(|_| no_answer())??;
        }
    };
    tokio::select! {
        ended = heard => ended,
        failed = asked => failed,
    }
}
