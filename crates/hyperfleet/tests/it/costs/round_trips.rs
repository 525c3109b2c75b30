//! A relay before PostgreSQL that counts round trips. Statements that are sent together take one. A client gets a moment to
//! send all of them before an answer is let through, so that the count does not depend on the speed of the answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

/// The name of the socket of a server on its usual port.
const SOCKET: &str = ".s.PGSQL.5432";
/// Statements within it are sent together.
const MOMENT: Duration = Duration::from_millis(10);

/// What the connections have seen.
#[derive(Default)]
struct Seen {
    trips: AtomicUsize,
    /// The connections that gather what is sent together.
    gathering: AtomicUsize,
}

/// A running relay.
pub(super) struct Relay {
    directory: TempDir,
    seen: Arc<Seen>,
}

impl Relay {
    /// Listens before the server with this directory.
    pub(super) fn listen(server: &Path) -> Self {
        let directory = tempfile::Builder::new().prefix("hf-relay-").tempdir_in("/tmp").unwrap();
        let listener = UnixListener::bind(directory.path().join(SOCKET)).unwrap();
        let seen = Arc::new(Seen::default());
        tokio::spawn({
            let (seen, server) = (Arc::clone(&seen), server.join(SOCKET));
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    tokio::spawn(relay(client, PathBuf::clone(&server), Arc::clone(&seen)));
                }
            }
        });
        Self { directory, seen }
    }

    /// The URL of a database behind the relay.
    pub(super) fn url(&self, database: &str) -> String {
        let host = self.directory.path().to_string_lossy().replace('/', "%2F");
        format!("postgres://postgres@/{database}?host={host}")
    }

    /// The number of round trips so far, once nothing that was sent waits for more to be sent with it. A request may leave
    /// something behind it, such as the end of a statement, which must not be counted together with the next request.
    pub(super) async fn count(&self) -> usize {
        while self.seen.gathering.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.seen.trips.load(Ordering::SeqCst)
    }
}

/// One connection, until either side ends it.
async fn relay(mut client: UnixStream, server: PathBuf, seen: Arc<Seen>) -> std::io::Result<()> {
    let mut server = UnixStream::connect(server).await?;
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            biased;
            read = client.read(&mut asked) => {
                let read = read?;
                seen.trips.fetch_add(1, Ordering::SeqCst);
                seen.gathering.fetch_add(1, Ordering::SeqCst);
                let open = forward(&mut client, &mut server, &mut asked, read).await;
                seen.gathering.fetch_sub(1, Ordering::SeqCst);
                if !open? {
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

/// Passes on what was read, and what follows within a moment. Says whether the client is still there.
async fn forward(
    client: &mut UnixStream,
    server: &mut UnixStream,
    asked: &mut [u8],
    mut read: usize,
) -> std::io::Result<bool> {
    while read > 0 {
        server.write_all(&asked[..read]).await?;
        match tokio::time::timeout(MOMENT, client.read(asked)).await {
            Ok(more) => read = more?,
            Err(_) => return Ok(true),
        }
    }
    Ok(false)
}
