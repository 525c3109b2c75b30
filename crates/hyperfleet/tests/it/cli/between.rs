//! Somebody between the command line and its server, who may do something, or answer, before a request gets there.

use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::support::App;

/// An answer in place of the server's, if there is one.
pub(super) type Meddling = Pin<Box<dyn Future<Output = Option<&'static str>> + Send>>;

/// The way to the server; gone with this value.
pub(super) struct Between {
    pub(super) server: String,
    _listening: JoinSet<()>,
}

impl Between {
    /// `meddle` sees the first line of each request, before the server does.
    pub(super) async fn of(app: &App, meddle: impl Fn(String) -> Meddling + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let (behind, meddle) = (app.api().authority().to_owned(), Arc::new(meddle));
        let mut listening = JoinSet::new();
        listening.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((from, _)) = listener.accept().await {
                let to = TcpStream::connect(&behind).await.unwrap();
                connections.spawn(relay(from, to, Arc::clone(&meddle)));
            }
        });
        Self { server, _listening: listening }
    }
}

async fn relay(from: TcpStream, to: TcpStream, meddle: Arc<impl Fn(String) -> Meddling>) {
    let ((mut requests, mut back), (mut answers, mut there)) = (from.into_split(), to.into_split());
    let asked = async {
        let mut chunk = vec![0; 64 << 10];
        while let Ok(length @ 1..) = requests.read(&mut chunk).await {
            // A client writes the head of a request at once.
            let text = String::from_utf8_lossy(&chunk[..length]);
            let first = text.lines().next().filter(|line| line.ends_with(" HTTP/1.1")).map(str::to_owned);
            let answer = match first {
                Some(first) => meddle(first).await,
                None => None,
            };
            if answer.is_some() {
                return answer;
            }
            there.write_all(&chunk[..length]).await.unwrap();
        }
        None
    };
    let answer = tokio::select! {
        answer = asked => answer,
        _ = copy(&mut answers, &mut back) => None,
    };
    if let Some(answer) = answer {
        back.write_all(answer.as_bytes()).await.unwrap();
    }
}
