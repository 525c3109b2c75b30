//! An address that stays while the server behind it is killed and started again on other ports.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::support::App;

/// The address. It is gone when this value is dropped.
pub(super) struct Relay {
    address: SocketAddr,
    behind: Arc<Mutex<String>>,
    _listening: JoinSet<()>,
}

impl Relay {
    pub(super) async fn to(app: &App) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let behind = Arc::new(Mutex::new(app.api().authority().to_owned()));
        let target = behind.clone();
        let mut listening = JoinSet::new();
        listening.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut from, _)) = listener.accept().await {
                let target = target.lock().unwrap().clone();
                connections.spawn(async move {
                    // Without a server behind it the caller's connection ends, as through any proxy.
                    if let Ok(mut to) = TcpStream::connect(target).await {
                        let _ = copy_bidirectional(&mut from, &mut to).await;
                    }
                });
            }
        });
        Self { address, behind, _listening: listening }
    }

    pub(super) fn authority(&self) -> String {
        self.address.to_string()
    }

    /// Ends the server as a power cut would, starts it again, and leads to it.
    pub(super) async fn kill_and_restart(&self, app: &mut App) {
        app.server.kill9();
        app.restart().await;
        app.api().authority().clone_into(&mut self.behind.lock().unwrap());
    }
}
