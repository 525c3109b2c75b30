//! Compresses responses. A caller that accepts no supported encoding gets an uncompressed response instead of 406,
//! because the request may already have taken effect.

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

/// The smallest body that is compressed, in bytes.
const WORTH_COMPRESSING: u64 = 256;

/// Which responses are compressed.
type Worthwhile = And<And<SizeAbove, NotForContentType>, NotForContentType>;

type Compressed = http::Response<CompressionBody<Body>>;

/// Compresses the responses of a service for callers that accept it, and costs nothing for others.
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
}
