//! A connection out of the pool for the time of one read. A read that is abandoned (its caller hung up,
//! its deadline passed) leaves a query running: then the query is cancelled and the connection does not
//! go back, so that nobody queues behind it.

use deadpool_postgres::{Client, Object};
use tokio_postgres_rustls::MakeRustlsConnect;

pub(super) struct PooledConnection {
    client: Option<Client>,
    tls: MakeRustlsConnect,
}

impl PooledConnection {
    pub(super) fn new(client: Client, tls: MakeRustlsConnect) -> Self {
        Self { client: Some(client), tls }
    }

    pub(super) fn client(&self) -> &Client {
        self.client.as_ref().expect("a connection holds its client until it is given back")
    }

    /// Returns the connection to the pool.
    pub(super) fn give_back(mut self) {
        self.client = None;
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        let (cancel, tls) = (client.cancel_token(), self.tls.clone());
        drop(Object::take(client));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // At worst the server's own statement timeout ends it.
                let _ = cancel.cancel_query(tls).await;
            });
        }
    }
}
