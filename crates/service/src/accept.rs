//! `Accept`: which of the forms that an answer can have its caller likes best. Read as leniently as it is written: what
//! is no media range allows nothing, and is no error by itself.

use http::HeaderMap;
use http::header::ACCEPT;

/// All that a caller sent, as one list.
pub fn accepted(headers: &HeaderMap) -> String {
    let values = headers.get_all(ACCEPT).iter();
    values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect::<Vec<_>>().join(",")
}

/// Of these media types the one that the list likes best, and of equals the first; the first also where the list says
/// nothing. `None` if it allows none.
pub fn preferred<'a>(accept: &str, offered: &[&'a str]) -> Option<&'a str> {
    if accept.trim().is_empty() {
        return offered.first().copied();
    }
    // Of the ranges that a type is in, the one that says most about it counts.
    let liking = |media_type: &str| accept.split(',').filter_map(|range| liking(media_type, range)).max();
    let best = offered.iter().rev().max_by_key(|media_type| liking(media_type).map(|(_, quality)| quality));
    best.copied().filter(|best| liking(best).is_some_and(|(_, quality)| quality > 0))
}

/// How much a media range says about a media type, and how much it wants it, in thousandths.
fn liking(media_type: &str, range: &str) -> Option<(usize, u32)> {
    let mut parts = range.split(';').map(|part| part.trim().to_ascii_lowercase());
    let range = parts.next()?;
    let (kind, _) = media_type.split_once('/')?;
    let precision = ["*/*".to_owned(), format!("{kind}/*"), media_type.to_owned()];
    let precision = precision.iter().position(|known| *known == range)?;
    let quality = parts.find_map(|part| part.strip_prefix("q=").map(str::to_owned));
    let quality = quality.and_then(|q| q.parse::<f32>().ok()).unwrap_or(1.0).clamp(0.0, 1.0);
    Some((precision, (quality * 1000.0) as u32))
}
