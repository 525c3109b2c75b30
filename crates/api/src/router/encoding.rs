//! Compresses responses. A caller that accepts no supported encoding gets an uncompressed response instead of 406,
//! because the request may already have taken effect. Responses beyond a number of compressors are sent as they are,
//! because a compressor takes megabytes for as long as its client reads.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use futures_util::future::{Either, MapOk, TryFutureExt as _};
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;
use http_body::Body as HttpBody;
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::Service;
use tower_http::compression::predicate::{And, NotForContentType, Predicate, SizeAbove};
use tower_http::compression::{Compression, CompressionBody, ResponseFuture};

/// The smallest body that is compressed, in bytes.
const WORTH_COMPRESSING: u64 = 256;

/// The most responses that are compressed at one time.
const COMPRESSORS: usize = 32;

/// Which responses are compressed.
type Worthwhile = And<And<SizeAbove, NotForContentType>, NotForContentType>;

type Compressed = http::Response<CompressionBody<Body>>;

/// Compresses the responses of a service for callers that accept it, and costs nothing for others.
#[derive(Clone)]
pub(super) struct Encoded<S>(Compression<Permitted<S>, HasPermit>);

impl<S> Encoded<S> {
    pub(super) fn new(service: S) -> Self {
        let compressors = Arc::new(Semaphore::new(COMPRESSORS));
        Self(Compression::new(Permitted { service, compressors }).compress_when(HasPermit))
    }
}

/// A permit for a compressor, among the extensions of a response that is to be compressed.
#[derive(Clone)]
struct CompressorPermit(#[expect(dead_code, reason = "held while it compresses")] Arc<OwnedSemaphorePermit>);

/// Compresses what has a permit.
#[derive(Clone, Copy)]
pub(super) struct HasPermit;

impl Predicate for HasPermit {
    fn should_compress<B: HttpBody>(&self, response: &http::Response<B>) -> bool {
        response.extensions().get::<CompressorPermit>().is_some()
    }
}

/// Gives permits to the responses of a service that are worth compressing.
#[derive(Clone)]
pub(super) struct Permitted<S> {
    service: S,
    compressors: Arc<Semaphore>,
}

impl<S> Service<Request> for Permitted<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = MapOk<S::Future, Box<dyn FnOnce(Response) -> Response + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let compressors = Arc::clone(&self.compressors);
        let permit = move |mut response: Response| {
            if worthwhile().should_compress(&response)
                && let Ok(permit) = compressors.try_acquire_owned()
            {
                response.extensions_mut().insert(CompressorPermit(Arc::new(permit)));
            }
            response
        };
        self.service.call(request).map_ok(Box::new(permit))
    }
}

impl<S> Service<Request> for Encoded<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<S::Future, MapOk<Compressing<S>, fn(Compressed) -> Response>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.get_mut().service.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        if accepts_any(request.headers()) {
            Either::Right(self.0.call(request).map_ok(while_permitted))
        } else {
            Either::Left(self.0.get_mut().service.call(request))
        }
    }
}

type Compressing<S> = ResponseFuture<<Permitted<S> as Service<Request>>::Future, HasPermit>;

/// The permit is given back with the body.
fn while_permitted(mut response: Compressed) -> Response {
    let permit = response.extensions_mut().remove::<CompressorPermit>();
    response.map(|body| match permit {
        Some(permit) => Body::new(body.map_frame(move |frame| {
            let _held = &permit;
            frame
        })),
        None => Body::new(body),
    })
}

/// All but small bodies and streams, because a compressor would hold events back until it has more of them.
fn worthwhile() -> Worthwhile {
    SizeAbove::new(WORTH_COMPRESSING)
        .and(NotForContentType::SSE)
        .and(NotForContentType::const_new("application/x-ndjson"))
}

/// Whether `Accept-Encoding` allows an encoding that the compressor supports. The compressor itself would answer 406 if
/// it does not.
fn accepts_any(headers: &HeaderMap) -> bool {
    if !headers.contains_key(ACCEPT_ENCODING) {
        return false;
    }
    let (mut gzip, mut zstd, mut others) = (None, None, None);
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    for coding in values.flat_map(|value| value.split(',')) {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let wanted = match name.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => &mut gzip,
            "zstd" => &mut zstd,
            "*" => &mut others,
            _ => continue,
        };
        if let Some(is_positive) = quality_of(quality.trim()) {
            *wanted = Some(wanted.unwrap_or(false) || is_positive);
        }
    }
    // An encoding that is not named has the quality of `*`.
    [gzip, zstd].iter().any(|named| named.or(others) == Some(true))
}

/// Whether this `q` is above 0, if it is one.
fn quality_of(text: &str) -> Option<bool> {
    let number = text.strip_prefix(['q', 'Q'])?.strip_prefix('=')?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let well_formed =
        matches!(whole, "0" | "1") && part.len() <= 3 && part.bytes().all(|b| b.is_ascii_digit());
    let is_zero = part.bytes().all(|digit| digit == b'0');
    (well_formed && (whole == "0" || is_zero)).then_some(whole == "1" || !is_zero)
}

#[cfg(test)]
mod tests {
    use tower::ServiceExt as _;

    use super::*;

    fn accepts(coding: &str) -> bool {
        accepts_any(&[(ACCEPT_ENCODING, coding.parse().unwrap())].into_iter().collect())
    }

    #[test]
    fn supported_accept_encoding_values_are_recognised() {
        for coding in [
            "gzip",
            "br, ZSTD;q=0.5",
            "*",
            "identity;q=0, gzip;q=1",
            "*;q=0, gzip",
            "*, gzip;q=0",
            "x-gzip;q=1.000",
        ] {
            assert!(accepts(coding), "{coding}");
        }
        for coding in [
            "identity;q=0",
            "*;q=0",
            "br;q=1, *;q=0",
            "gzip;q=0, identity;q=0",
            "gzip;q=x",
            "gzip;q=",
            "",
            "gzip;q=0.1234, identity;q=0",
            "gzip;q=.5, identity;q=0",
            "gzip;q=1.5",
            "gzip;q=0.000",
            "*, gzip;q=0, zstd;q=0, identity;q=0",
        ] {
            assert!(!accepts(coding), "{coding}");
        }
    }

    #[tokio::test]
    async fn responses_beyond_the_number_of_compressors_are_sent_as_they_are() {
        let service = tower::service_fn(async |_: Request| {
            Ok::<_, Infallible>(Response::new(Body::from("x".repeat(1 << 20))))
        });
        let encoded = Encoded::new(service);
        let ask = async || {
            let request = Request::builder().header(ACCEPT_ENCODING, "gzip").body(Body::empty()).unwrap();
            encoded.clone().oneshot(request).await.unwrap()
        };
        let is_compressed = |response: &Response| response.headers().contains_key("content-encoding");
        let mut unread = Vec::new();
        for _ in 0..COMPRESSORS {
            unread.push(ask().await);
        }
        assert!(unread.iter().all(is_compressed));
        let plain = ask().await;
        assert!(!is_compressed(&plain));
        assert_eq!(plain.into_body().collect().await.unwrap().to_bytes().len(), 1 << 20);

        let taken = unread.pop().unwrap().into_body().collect().await.unwrap().to_bytes();
        assert!(taken.len() < 1 << 14);
        assert!(is_compressed(&ask().await));
    }
}
