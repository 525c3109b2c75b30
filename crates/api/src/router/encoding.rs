//! What encodings an answer may have. Someone who accepts none that there is gets plain bytes: an answer that was not
//! wished for in this form still says more than a refusal of something that has been done already.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use futures_util::future::{Either, MapOk, TryFutureExt as _};
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;
use tower::Service;
use tower_http::compression::predicate::{And, NotForContentType, Predicate as _, SizeAbove};
use tower_http::compression::{Compression, CompressionBody, ResponseFuture};

/// Below this a compressed body saves less than it costs.
const WORTH_COMPRESSING: u64 = 256;

/// What is worth compressing.
type Worthwhile = And<And<SizeAbove, NotForContentType>, NotForContentType>;

type Compressed = http::Response<CompressionBody<Body>>;

/// Compresses the answers of a service for those who accept it, and is not there for others.
#[derive(Clone)]
pub(super) struct Encoded<S>(Compression<S, Worthwhile>);

impl<S> Encoded<S> {
    pub(super) fn new(service: S) -> Self {
        Self(Compression::new(service).compress_when(worthwhile()))
    }
}

impl<S> Service<Request> for Encoded<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<S::Future, MapOk<ResponseFuture<S::Future, Worthwhile>, fn(Compressed) -> Response>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.get_mut().poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        if accepts_any(request.headers()) {
            Either::Right(self.0.call(request).map_ok(|response| response.map(Body::new)))
        } else {
            Either::Left(self.0.get_mut().call(request))
        }
    }
}

/// All but what is small, and what is told piece by piece: a compressor would hold events back until it has more of them.
fn worthwhile() -> Worthwhile {
    SizeAbove::new(WORTH_COMPRESSING)
        .and(NotForContentType::SSE)
        .and(NotForContentType::const_new("application/x-ndjson"))
}

/// Whether the compressor knows an encoding that is wished for. It refuses those who wish for none that it knows.
fn accepts_any(headers: &HeaderMap) -> bool {
    if !headers.contains_key(ACCEPT_ENCODING) {
        return false;
    }
    let (mut gzip, mut zstd, mut others) = (None, None, None);
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    for wish in values.flat_map(|value| value.split(',')) {
        let (name, quality) = wish.split_once(';').unwrap_or((wish, "q=1"));
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
    // What is not named is as all others are.
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
    use super::*;

    fn met(wish: &str) -> bool {
        accepts_any(&[(ACCEPT_ENCODING, wish.parse().unwrap())].into_iter().collect())
    }

    #[test]
    fn wishes_that_can_be_met_are_told_from_others() {
        for wish in [
            "gzip",
            "br, ZSTD;q=0.5",
            "*",
            "identity;q=0, gzip;q=1",
            "*;q=0, gzip",
            "*, gzip;q=0",
            "x-gzip;q=1.000",
        ] {
            assert!(met(wish), "{wish}");
        }
        for wish in [
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
            assert!(!met(wish), "{wish}");
        }
    }
}
