//! Content negotiation by the `Accept` header. A malformed media range matches nothing and is no error by itself,
//! because clients write this header carelessly. It is public, because fuzz tests run it alone.

use http::HeaderMap;
use http::header::ACCEPT;

/// All `Accept` headers of a request as one list.
pub fn accepted(headers: &HeaderMap) -> String {
    let values = headers.get_all(ACCEPT).iter();
    values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect::<Vec<_>>().join(",")
}

/// The offered media type with the highest quality; the first of equals, and the first if the list is empty. `None`
/// if the list accepts none of them.
pub fn preferred<'a>(accept: &str, offered: &[&'a str]) -> Option<&'a str> {
    if accept.trim().is_empty() {
        return offered.first().copied();
    }
    // The most specific range that matches a type decides its quality (RFC 9110, 12.5.1).
    let quality_of =
        |media_type: &str| accept.split(',').filter_map(|range| match_range(media_type, range)).max();
    let best =
        offered.iter().rev().max_by_key(|media_type| quality_of(media_type).map(|(_, quality)| quality));
    best.copied().filter(|best| quality_of(best).is_some_and(|(_, quality)| quality > 0))
}

/// How specifically a media range matches a media type, and its quality in thousandths.
fn match_range(media_type: &str, range: &str) -> Option<(usize, u32)> {
    let mut parts = range.split(';').map(|part| part.trim().to_ascii_lowercase());
    let range = parts.next()?;
    let (kind, _) = media_type.split_once('/')?;
    let precision = ["*/*".to_owned(), format!("{kind}/*"), media_type.to_owned()];
    let precision = precision.iter().position(|known| *known == range)?;
    let quality = parts.find_map(|part| part.strip_prefix("q=").map(str::to_owned));
    let quality = quality.and_then(|q| q.parse::<f32>().ok()).unwrap_or(1.0).clamp(0.0, 1.0);
    Some((precision, (quality * 1000.0) as u32))
}
