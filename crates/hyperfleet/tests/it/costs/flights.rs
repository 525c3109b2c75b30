//! A relay before PostgreSQL that counts how often somebody waits for it. Statements that leave together wait once. Who
//! sends is given a moment to send all of it before any answer is let through, so that the count does not depend on
//! how fast the answers are.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

/// The name of the socket of a server on its usual port.
const SOCKET: &str = ".s.PGSQL.5432";
/// What leaves within it leaves together.
const MOMENT: Duration = Duration::from_millis(10);

/// A running relay.
pub(super) struct Flights {
    directory: TempDir,
    count: Arc<AtomicUsize>,
}

impl Flights {
    /// Listens before the server with this directory.
    pub(super) fn relay(server: &Path) -> Self {
        let directory = tempfile::Builder::new().prefix("hf-relay-").tempdir_in("/tmp").unwrap();
        let listener = UnixListener::bind(directory.path().join(SOCKET)).unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        tokio::spawn({
            let (count, server) = (Arc::clone(&count), server.join(SOCKET));
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    tokio::spawn(relay(client, PathBuf::clone(&server), Arc::clone(&count)));
                }
            }
        });
        Self { directory, count }
    }

    /// The URL of a database behind the relay.
    pub(super) fn url(&self, database: &str) -> String {
        let host = self.directory.path().to_string_lossy().replace('/', "%2F");
        format!("postgres://postgres@/{database}?host={host}")
    }

    /// How often anybody waited so far.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

/// One connection, until either side ends it.
async fn relay(mut client: UnixStream, server: PathBuf, count: Arc<AtomicUsize>) -> std::io::Result<()> {
    let mut server = UnixStream::connect(server).await?;
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            biased;
            read = client.read(&mut asked) => {
                let mut read = read?;
                count.fetch_add(1, Ordering::Relaxed);
                while read > 0 {
                    server.write_all(&asked[..read]).await?;
                    match tokio::time::timeout(MOMENT, client.read(&mut asked)).await {
                        Ok(more) => read = more?,
                        Err(_) => break,
                    }
                }
                if read == 0 {
                    return Ok(());
                }
            }
            read = server.read(&mut answered) => match read? {
                0 => return Ok(()),
                read => client.write_all(&answered[..read]).await?,
            },
        }
    }
}
