//! The frames that an HTTP/2 peer sends about the connection instead of requests: pings, settings, resets, priorities and
//! windows. Each costs work and most of them an answer, and the protocol sets no limit, so a peer that sends them much
//! faster than clients do loses its connection. Frames of requests are bounded elsewhere: by h2, by the number of
//! concurrent streams, and by the limits of the service.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// What a client sends before its first frame.
const PREFACE: usize = 24;
const HEADER: usize = 9;
/// Frames of requests, by their types.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;

/// How many frames may come at once, and how often one more.
const BURST: usize = 1_000;
const INTERVAL: Duration = Duration::from_millis(10);
/// A peer may send one more for so many bytes that it takes, because it opens its windows as it takes them.
const BYTES_TAKEN: usize = 1 << 10;

/// A connection whose peer sends frames.
pub(super) struct FrameLimit<IO> {
    io: IO,
    frames: Frames,
}

impl<IO> FrameLimit<IO> {
    pub(super) fn new(io: IO) -> Self {
        let frames = Frames {
            skip: PREFACE,
            header: [0; HEADER],
            have: 0,
            left: BURST,
            since: Instant::now(),
            taken: 0,
        };
        Self { io, frames }
    }
}

/// Counts the frames in a stream of bytes.
struct Frames {
    /// Bytes to skip before the next header.
    skip: usize,
    header: [u8; HEADER],
    /// How much of the header is there.
    have: usize,
    /// How many frames may still come.
    left: usize,
    /// When they were counted last.
    since: Instant,
    /// Bytes taken by the peer since then.
    taken: usize,
}

impl Frames {
    /// Reads what the peer has sent; fails if it sends too many frames.
    fn read(&mut self, mut bytes: &[u8], now: impl Fn() -> Instant) -> io::Result<()> {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            let copied = (HEADER - self.have).min(bytes.len() - skipped);
            self.header[self.have..self.have + copied].copy_from_slice(&bytes[skipped..skipped + copied]);
            self.have += copied;
            bytes = &bytes[skipped + copied..];
            if self.have < HEADER {
                return Ok(());
            }
            let [high, middle, low, kind, ..] = self.header;
            self.skip = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            self.have = 0;
            if !matches!(kind, DATA | HEADERS | CONTINUATION) {
                self.count(&now)?;
            }
        }
    }

    fn count(&mut self, now: impl Fn() -> Instant) -> io::Result<()> {
        if self.left == 0 {
            let now = now();
            let passed = now.saturating_duration_since(self.since).as_millis() / INTERVAL.as_millis();
            let passed = usize::try_from(passed).unwrap_or(usize::MAX);
            self.left = passed.saturating_add(self.taken / BYTES_TAKEN).min(BURST);
            if self.left == 0 {
                return Err(io::Error::other("the peer sends too many HTTP/2 control frames"));
            }
            (self.since, self.taken) = (now, 0);
        }
        self.left -= 1;
        Ok(())
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for FrameLimit<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.io).poll_read(cx, buffer) {
            Poll::Ready(Ok(())) => Poll::Ready(self.frames.read(&buffer.filled()[before..], Instant::now)),
            other => other,
        }
    }
}

impl<IO: AsyncWrite + Unpin> FrameLimit<IO> {
    fn note_taken(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.frames.taken = self.frames.taken.saturating_add(bytes);
        }
        written
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for FrameLimit<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.note_taken(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, parts);
        self.note_taken(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 6;

    fn frame(kind: u8, length: usize) -> Vec<u8> {
        let [.., high, middle, low] = length.to_be_bytes();
        [vec![high, middle, low, kind, 0, 0, 0, 0, 1], vec![kind; length]].concat()
    }

    fn fresh() -> Frames {
        FrameLimit::new(()).frames
    }

    #[test]
    fn control_frames_are_counted_however_the_bytes_are_split() {
        for part in [1, 2, 9, 10, 1000] {
            let mut frames = fresh();
            let now = frames.since;
            let mut bytes = vec![b'P'; PREFACE];
            for _ in 0..BURST / 10 {
                bytes.extend([frame(HEADERS, 300), frame(DATA, 70_000), frame(DATA, 0)].concat());
                bytes.extend(frame(PING, 8).repeat(10));
            }
            for part in bytes.chunks(part) {
                frames.read(part, || now).unwrap();
            }
            assert_eq!(frames.left, 0, "{part}");
            assert!(frames.read(&frame(PING, 8), || now).is_err());
        }
    }

    #[test]
    fn time_and_bytes_that_the_peer_takes_allow_more_frames() {
        let mut frames = fresh();
        let now = frames.since;
        frames.read(&[b'P'; PREFACE], || now).unwrap();
        frames.read(&frame(PING, 8).repeat(BURST), || now).unwrap();
        let later = now + 3 * INTERVAL;
        frames.taken = 2 * BYTES_TAKEN;
        frames.read(&frame(PING, 8).repeat(5), || later).unwrap();
        assert!(frames.read(&frame(PING, 8), || later).is_err());
    }
}
