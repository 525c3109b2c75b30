//! Where the connections of a pool live: in the runtime that opened the store, whoever needs the first of them. A thread
//! that serves would drive its own only between requests, and whoever is given it next would wait for that thread.

use std::future::poll_fn;

use deadpool_postgres::Connect;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

pub(super) struct Home {
    pub(super) runtime: Handle,
    pub(super) tls: MakeRustlsConnect,
}

impl Connect for Home {
    fn connect(&self, config: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        let config = config.clone();
        Box::pin(async move {
            let mut connecting = Box::pin(async move { config.connect(self.tls.clone()).await });
            let (client, connection) = poll_fn(|cx| {
                let _at_home = self.runtime.enter();
                connecting.as_mut().poll(cx)
            })
            .await?;
            let task = self.runtime.spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(error = %error, "a database connection ended");
                }
            });
            Ok((client, task))
        })
    }
}
