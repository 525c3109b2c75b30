//! The TCP stream below a connection. It reports to [`Timeouts`] what the peer sends and takes, and closes so that the
//! peer still receives the last response. It sits below TLS because only there is every byte of progress visible.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::backlog::Backlog;
use super::timeouts::Timeouts;

pub(super) struct Socket {
    tcp: TcpStream,
    timeouts: Arc<Timeouts>,
    backlog: Backlog,
    shut: bool,
}

impl Socket {
    pub(super) fn new(tcp: TcpStream, timeouts: Arc<Timeouts>) -> Self {
        Self { tcp, timeouts, backlog: Backlog::default(), shut: false }
    }

    fn note_write(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Pending if self.backlog.waits(Instant::now()) => self.timeouts.write_blocked(&self.backlog),
            Poll::Ready(Ok(bytes)) if self.backlog.takes(*bytes, Instant::now) => {
                self.timeouts.write_resumed();
            }
            _ => {}
        }
        written
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.tcp).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.timeouts.bytes_received();
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write(cx, bytes);
        self.note_write(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write_vectored(cx, parts);
        self.note_write(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.shut {
            ready!(Pin::new(&mut self.tcp).poll_shutdown(cx))?;
            self.shut = true;
        }
        let mut scratch = [0; 4096];
        while self.timeouts.linger() {
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut self.tcp).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                _ => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::super::timeouts::{Limits, TimedOut};
    use super::*;

    #[tokio::test]
    async fn a_write_is_stuck_until_the_peer_takes_something() {
        let hour = Duration::from_secs(3600);
        let timeouts = Timeouts::new(Limits { head: hour, write: Duration::ZERO, idle: hour });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut socket = Socket::new(listener.accept().await.unwrap().0, Arc::clone(&timeouts));

        let chunk = vec![0; 1 << 20];
        while !futures_util::poll!(std::pin::pin!(socket.write(&chunk))).is_pending() {}
        assert_eq!(timeouts.expired().await, TimedOut::Write);

        let draining = tokio::spawn(async move { while peer.read(&mut [0; 1 << 16]).await.unwrap() > 0 {} });
        socket.write_all(&chunk).await.unwrap();
        assert!(futures_util::poll!(std::pin::pin!(timeouts.expired())).is_pending());
        drop(socket);
        draining.await.unwrap();
    }
}
