//! Request and response bodies that tell [`Patience`] how far they got. They pass every frame through
//! untouched.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};

use super::patience::{Patience, Running};

/// A request's body, which the service may leave unread.
pub(super) struct RequestBody {
    body: Incoming,
    ended: bool,
    patience: Arc<Patience>,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, patience: Arc<Patience>) -> Self {
        Self { body, ended: false, patience }
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
            self.patience.leave_body();
        }
    }
}

/// A response's body; its request runs until it is dropped. On a multiplexed connection the peer can
/// refuse to take a frame while the socket itself flows, so there a frame counts as stuck until the next
/// one is asked for.
pub(super) struct ResponseBody {
    body: Body,
    running: Running,
    multiplexed: bool,
    handed_out: bool,
}

impl ResponseBody {
    pub(super) fn new(body: Body, running: Running, multiplexed: bool) -> Self {
        Self { body, running, multiplexed, handed_out: false }
    }

    fn taken(&mut self) {
        if std::mem::take(&mut self.handed_out) {
            self.running.patience().unstuck();
        }
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.taken();
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if self.multiplexed && matches!(frame, Some(Ok(_))) {
            self.handed_out = true;
            self.running.patience().stuck();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.taken();
    }
}
