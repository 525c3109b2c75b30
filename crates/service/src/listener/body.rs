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
/// How much may still be buffered when the whole response was handed out.
const TAIL: usize = SEND_BUFFER + SLICE;

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
}

impl ResponseBody {
    pub(super) fn new(body: Body, running: RequestGuard, timer: Option<Arc<StreamTimer>>) -> Self {
        Self { body, _running: running, timer, rest: Bytes::new() }
    }
}

/// All slices share the memory of the frame. The last slices are no longer timed and could hold it forever, so they are
/// copied.
fn next_slice(rest: &mut Bytes) -> Bytes {
    let before = rest.len();
    let slice = rest.split_to(before.min(SLICE));
    if before > TAIL && rest.len() <= TAIL {
        *rest = Bytes::copy_from_slice(rest);
    }
    slice
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Self { body, timer, rest, .. } = &mut *self;
        let Some(timer) = timer else { return Pin::new(body).poll_frame(cx) };
        timer.resumed();
        if rest.is_empty() {
            match ready!(Pin::new(body).poll_frame(cx)).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => *rest = data,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        timer.blocked();
        Poll::Ready(Some(Ok(Frame::data(next_slice(rest)))))
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

    struct Held(Vec<u8>, #[expect(dead_code, reason = "only counted")] Arc<()>);

    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    #[test]
    fn the_last_slices_of_a_large_frame_do_not_keep_its_memory() {
        let whole: Vec<u8> = (0..10 * TAIL).map(|n| n as u8).collect();
        let holders = Arc::new(());
        let mut rest = Bytes::from_owner(Held(whole.clone(), Arc::clone(&holders)));
        let mut slices = Vec::new();
        while !rest.is_empty() {
            slices.push(next_slice(&mut rest));
        }
        assert_eq!(slices.concat(), whole);
        assert!(slices.iter().all(|slice| slice.len() <= SLICE));

        let last = slices.split_off(slices.len() - TAIL / SLICE);
        drop(slices);
        assert_eq!(Arc::strong_count(&holders), 1);
        drop(last);
    }
}
