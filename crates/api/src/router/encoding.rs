//! What encodings an answer may have. Someone who accepts none that there is gets plain bytes: an answer that was not
//! wished for in this form still says more than a refusal of something that has been done already.

use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, Request};

/// Forgets wishes that cannot be met.
pub(super) fn or_plain<B>(mut request: Request<B>) -> Request<B> {
    let headers = request.headers_mut();
    if headers.contains_key(ACCEPT_ENCODING) && !accepts_any(headers) {
        headers.remove(ACCEPT_ENCODING);
    }
    request
}

fn accepts_any(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|wish| {
        let (name, quality) = wish.split_once(';').unwrap_or((wish, "q=1"));
        let known = ["gzip", "zstd", "*"].iter().any(|known| name.trim().eq_ignore_ascii_case(known));
        known && is_positive(quality.trim())
    })
}

/// Whether this is a `q` above 0, well formed.
fn is_positive(quality: &str) -> bool {
    let Some(number) = quality.strip_prefix(['q', 'Q']).and_then(|rest| rest.strip_prefix('=')) else {
        return false;
    };
    number.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && number.parse::<f32>().is_ok_and(|quality| quality > 0.0 && quality <= 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(wish: &str) -> bool {
        let request = Request::builder().header(ACCEPT_ENCODING, wish).body(()).unwrap();
        or_plain(request).headers().contains_key(ACCEPT_ENCODING)
    }

    #[test]
    fn wishes_that_can_be_met_stay_and_others_are_forgotten() {
        for met in ["gzip", "br, ZSTD;q=0.5", "*", "identity;q=0, gzip;q=1", "*;q=0, gzip"] {
            assert!(kept(met), "{met}");
        }
        for unmet in
            ["identity;q=0", "*;q=0", "br;q=1, *;q=0", "gzip;q=0, identity;q=0", "gzip;q=x", "gzip;q=", ""]
        {
            assert!(!kept(unmet), "{unmet}");
        }
    }
}
