//! The bell between replicas: a connection that hears of commits. It is lost with the server and made again; what
//! was missed meanwhile the reader finds by itself.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use hyperfleet_core::Version;
use tokio_postgres::AsyncMessage;

use super::connect::{Address, TIMEOUT};
use crate::failure::{Failure, FailureKind};
use crate::feed::Feed;
use crate::metrics::Metrics;

/// The channel that commits ring, with the newest version.
pub(super) const CHANNEL: &str = "hyperfleet_feed";

/// How long to wait before a lost connection is made again.
const PAUSE: Duration = Duration::from_millis(500);

/// How often to make sure that the connection lives: a dead one would never say so.
const CHECK: Duration = Duration::from_secs(10);

/// Listens for as long as the process runs.
pub(super) async fn run(address: Address, feed: Feed, metrics: Metrics) {
    loop {
        if let Err(failure) = listen(&address, &feed, &metrics).await {
            tracing::warn!(error = failure.cause, "lost the connection that hears of changes");
        }
        metrics.feed.listening.set(0);
        tokio::time::sleep(PAUSE).await;
    }
}

async fn listen(address: &Address, feed: &Feed, metrics: &Metrics) -> Result<(), Failure> {
    let silent = || Failure::new(FailureKind::Unavailable, "the server did not answer in time");
    let (client, mut connection) = tokio::time::timeout(TIMEOUT, address.config.connect(address.tls.clone()))
        .await
        .map_err(|_| silent())??;
    let heard = async {
        let mut messages = stream::poll_fn(|context| connection.poll_message(context));
        while let Some(message) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message?
                && let Ok(version) = notification.payload().parse()
            {
                feed.tell(Version(version));
            }
        }
        Err(Failure::new(FailureKind::Unavailable, "the server closed it"))
    };
    let asked = async {
        let listen = format!("listen {CHANNEL}");
        tokio::time::timeout(TIMEOUT, client.batch_execute(&listen)).await.map_err(|_| silent())??;
        metrics.feed.listening.set(1);
        // Whatever was committed before this moment may have rung for nobody.
        feed.look();
        loop {
            tokio::time::sleep(CHECK).await;
            tokio::time::timeout(TIMEOUT, client.batch_execute("select 1")).await.map_err(|_| silent())??;
        }
    };
    tokio::select! {
        ended = heard => ended,
        failed = asked => failed,
    }
}
