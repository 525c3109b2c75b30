//! The interactive page: Swagger UI from the binary, so that it needs no other server. Its content security policy
//! allows no other origin and no inline script.

use std::sync::LazyLock;

use axum::extract::RawQuery;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use http::{HeaderMap, HeaderValue};

use super::{ASK_AGAIN, fingerprint, response};

const SCRIPT: &str = concat!(
    include_str!("../../assets/swagger-ui/swagger-ui-bundle.js"),
    "\n",
    include_str!("../../assets/docs.js"),
);
const STYLE: &str = include_str!("../../assets/swagger-ui/swagger-ui.css");
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// For a URL that changes with its content.
const KEEP: &str = "public, max-age=31536000, immutable";

static SCRIPT_KEY: LazyLock<String> = LazyLock::new(|| fingerprint(SCRIPT.as_bytes()));
static STYLE_KEY: LazyLock<String> = LazyLock::new(|| fingerprint(STYLE.as_bytes()));
static PAGE: LazyLock<Bytes> = LazyLock::new(|| {
    let page = include_str!("../../assets/docs.html");
    page.replace("{{script}}", &SCRIPT_KEY).replace("{{style}}", &STYLE_KEY).into()
});

/// `GET B/openapi.html`.
pub async fn page(request: HeaderMap) -> Response {
    let mut response = guarded(response(&request, "text/html; charset=utf-8", ASK_AGAIN, PAGE.clone()));
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // For browsers that do not know `frame-ancestors`.
    response.headers_mut().insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    response
}

/// `GET B/openapi/swagger-ui.js`.
pub async fn script(RawQuery(query): RawQuery, request: HeaderMap) -> Response {
    asset(query.as_deref(), &SCRIPT_KEY, &request, "text/javascript; charset=utf-8", SCRIPT)
}

/// `GET B/openapi/swagger-ui.css`.
pub async fn style(RawQuery(query): RawQuery, request: HeaderMap) -> Response {
    asset(query.as_deref(), &STYLE_KEY, &request, "text/css; charset=utf-8", STYLE)
}

fn asset(
    query: Option<&str>,
    key: &str,
    request: &HeaderMap,
    media_type: &'static str,
    content: &'static str,
) -> Response {
    let keyed = query.and_then(|query| query.strip_prefix("v=")) == Some(key);
    let cache = if keyed { KEEP } else { ASK_AGAIN };
    guarded(response(request, media_type, cache, Bytes::from_static(content.as_bytes())))
}

/// Keeps browsers from guessing another type than the one given.
fn guarded(mut response: Response) -> Response {
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
