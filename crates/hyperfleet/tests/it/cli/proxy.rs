//! A proxy between the command line and its server, which can act or answer before a request reaches the server.

use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::support::App;

/// An answer in place of the server's, if there is one.
pub(super) type Intervention = Pin<Box<dyn Future<Output = Option<&'static str>> + Send>>;

/// A proxy of the server, which listens as long as this value lives.
pub(super) struct Proxy {
    pub(super) server: String,
    _listening: JoinSet<()>,
}

impl Proxy {
    /// `intervene` sees the first line of each request, before the server does.
    pub(super) async fn of(
        app: &App,
        intervene: impl Fn(String) -> Intervention + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let (behind, intervene) = (app.api().authority().to_owned(), Arc::new(intervene));
        let mut listening = JoinSet::new();
        listening.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((from, _)) = listener.accept().await {
                let to = TcpStream::connect(&behind).await.unwrap();
                connections.spawn(relay(from, to, Arc::clone(&intervene)));
            }
        });
        Self { server, _listening: listening }
    }
}

async fn relay(from: TcpStream, to: TcpStream, intervene: Arc<impl Fn(String) -> Intervention>) {
    let ((mut requests, mut back), (mut answers, mut there)) = (from.into_split(), to.into_split());
    let asked = async {
        let mut chunk = vec![0; 64 << 10];
        while let Ok(length @ 1..) = requests.read(&mut chunk).await {
            // A client writes the head of a request at once.
            let text = String::from_utf8_lossy(&chunk[..length]);
            let first = text.lines().next().filter(|line| line.ends_with(" HTTP/1.1")).map(str::to_owned);
            let answer = match first {
                Some(first) => intervene(first).await,
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
