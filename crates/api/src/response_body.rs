//! Bodies of large responses. A page is rendered in chunks, which are freed one by one as the client takes them, and the
//! memory of each is reserved until then, wherever it is buffered on its way.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyperfleet_core::{Error, Reservation, ResponseBudget};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

/// Roughly the size of a chunk.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// Registers the metric of the budget.
pub(crate) fn register(registry: &mut Registry, responses: &ResponseBudget) {
    registry.register_collector(Box::new(Unsent(responses.clone())));
}

/// Reads the budget at every scrape.
#[derive(Debug)]
struct Unsent(ResponseBudget);

impl Collector for Unsent {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let metric = ConstGauge::new(self.0.used() as u64);
        let help = "Responses of at least 64 KiB that are read or sent";
        let name = "hyperfleet_api_unsent";
        metric.encode(encoder.encode_descriptor(name, help, Some(&Unit::Bytes), metric.metric_type())?)
    }
}

/// Bytes whose memory is reserved for as long as it is referred to.
struct Reserved {
    data: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Reserved {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

/// The same bytes with their reservation.
fn reserved(data: Bytes, reservation: Reservation) -> Bytes {
    Bytes::from_owner(Reserved { data, _reservation: reservation })
}

/// Bytes that are sent whatever the budget allows, with a reservation if they are many.
pub(crate) fn held(data: Vec<u8>, responses: &ResponseBudget) -> Bytes {
    if !Reservation::counts(data.len()) {
        return data.into();
    }
    let reservation = responses.reservation(None, 0);
    reservation.hold(data.len());
    reserved(data.into(), reservation)
}

/// A rendered page. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Chunks(Vec<Bytes>);

impl Chunks {
    pub(crate) fn new(chunks: Vec<Bytes>) -> Self {
        Self(chunks)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    pub(crate) fn into_body(mut self) -> Body {
        match self.0.len() {
            0 | 1 => self.0.pop().unwrap_or_default().into(),
            _ => Body::new(ChunkedBody { left: self.len() as u64, chunks: self.0.into_iter() }),
        }
    }
}

struct ChunkedBody {
    chunks: vec::IntoIter<Bytes>,
    left: u64,
}

impl HttpBody for ChunkedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let chunk = self.chunks.next();
        self.left -= chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// A body whose memory is reserved, what was handed out of it included.
struct ReservedBody {
    body: Body,
    reservation: Reservation,
}

impl HttpBody for ReservedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let reserve = |frame: Frame<Bytes>| frame.map_data(|data| reserved(data, self.reservation.clone()));
        Poll::Ready(frame.map(|frame| frame.map(reserve)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Reserves the memory of a response, unless its handler did and left the reservation among its extensions. What a write
/// answers is held in any case, because the write has happened.
pub(crate) fn reserve(
    mut response: Response,
    writes: bool,
    reservation: impl FnOnce() -> Reservation,
) -> Result<Response, Error> {
    let size = usize::try_from(response.body().size_hint().lower()).unwrap_or(usize::MAX);
    if !Reservation::counts(size) {
        return Ok(response);
    }
    let reservation = match response.extensions_mut().remove::<Reservation>() {
        Some(reservation) => reservation,
        None => {
            let reservation = reservation();
            if writes {
                reservation.hold(size);
            } else {
                reservation.reserve(size)?;
            }
            reservation
        }
    };
    Ok(response.map(|body| Body::new(ReservedBody { body, reservation })))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn memory_is_reserved_until_the_last_chunk_is_let_go() {
        let budget = ResponseBudget::new(1 << 30);
        let chunks = Chunks::new([b'a', b'b'].map(|byte| vec![byte; CHUNK_BYTES].into()).to_vec());
        let response = Response::new(chunks.into_body());
        let mut body = reserve(response, false, || budget.reservation(None, 0)).unwrap().into_body();
        assert_eq!(
            (body.size_hint().exact(), budget.used()),
            (Some(2 * CHUNK_BYTES as u64), 2 * CHUNK_BYTES)
        );

        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let last = body.frame().await.unwrap().unwrap().into_data().unwrap().slice(..10);
        assert!(body.is_end_stream() && body.frame().await.is_none());
        assert!(first.iter().all(|byte| *byte == b'a') && last.iter().all(|byte| *byte == b'b'));
        drop((body, first));
        assert_eq!(budget.used(), 2 * CHUNK_BYTES);
        drop(last);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_read_is_refused_when_the_budget_is_used_and_a_write_is_not() {
        let budget = ResponseBudget::new(1 << 20);
        let held = budget.reservation(None, 0);
        held.hold(1 << 20);
        let answer = |writes| {
            let response = Response::new(Body::from(vec![b'x'; 1 << 20]));
            reserve(response, writes, || budget.reservation(None, 0)).map(drop)
        };
        assert!(answer(false).is_err() && answer(true).is_ok());
        drop(held);
        assert!(answer(false).is_ok());
    }
}
