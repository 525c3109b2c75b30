//! Request and response bodies that report their progress to [`Timeouts`] and [`StreamTimer`]. They change no byte.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};

use super::stream_timeout::StreamTimer;
use super::timeouts::{RequestGuard, Timeouts};

/// The size of the parts on a multiplexed connection: one HTTP/2 frame.
const SLICE: usize = 16 * 1024;
/// How much of a response hyper's HTTP/2 buffers before the peer takes it.
pub(super) const SEND_BUFFER: usize = 64 * 1024;
/// How much of a response may wait in the connection without a timer.
const UNTIMED: usize = 1024;

/// A request's body, which the service may leave unread.
pub(super) struct RequestBody {
    body: Incoming,
    ended: bool,
    timeouts: Arc<Timeouts>,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, timeouts: Arc<Timeouts>) -> Self {
        Self { body, ended: false, timeouts }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.ended = !matches!(frame, Some(Ok(_)));
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if !self.ended && !self.body.is_end_stream() {
            self.timeouts.leave_body_unread();
        }
    }
}

/// A response's body; its request counts as running until the body is dropped. On a multiplexed connection it is handed
/// out in slices, so that hyper polls for the next one only when the peer has made room.
pub(super) struct ResponseBody {
    body: Body,
    _running: RequestGuard,
    timer: Option<Arc<StreamTimer>>,
    /// The rest of a frame that is handed out in slices.
    rest: Bytes,
    /// The size of the slice that was handed out last.
    handed_out: usize,
}

impl ResponseBody {
    pub(super) fn new(body: Body, running: RequestGuard, timer: Option<Arc<StreamTimer>>) -> Self {
        Self { body, _running: running, timer, rest: Bytes::new(), handed_out: 0 }
    }
}

/// The connection takes the next slice once there is room for all before it, and it keeps the last slice of a response
/// without a timer. So the last slice is a single byte, and as any part of a response may be its last, so is that of each.
fn next_slice(rest: &mut Bytes) -> Bytes {
    let is_end = (UNTIMED..=SLICE).contains(&rest.len());
    rest.split_to(if is_end { rest.len() - 1 } else { rest.len().min(SLICE) })
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Self { body, timer, rest, handed_out, .. } = &mut *self;
        let Some(timer) = timer else { return Pin::new(body).poll_frame(cx) };
        timer.resumed(std::mem::take(handed_out));
        if rest.is_empty() {
            match ready!(Pin::new(body).poll_frame(cx)).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => *rest = data,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        timer.blocked();
        let slice = next_slice(rest);
        *handed_out = slice.len();
        Poll::Ready(Some(Ok(Frame::data(slice))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_slice_is_small() {
        for (size, expected) in [
            (0, vec![]),
            (10, vec![10]),
            (UNTIMED, vec![UNTIMED - 1, 1]),
            (SLICE, vec![SLICE - 1, 1]),
            (SLICE + 1, vec![SLICE, 1]),
            (2 * SLICE + UNTIMED, vec![SLICE, SLICE, UNTIMED - 1, 1]),
        ] {
            let mut rest = Bytes::from(vec![b'x'; size]);
            let mut slices = Vec::new();
            while !rest.is_empty() {
                slices.push(next_slice(&mut rest).len());
            }
            assert_eq!(slices, expected);
        }
    }
}
