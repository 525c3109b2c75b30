//! What the small listeners (health, metrics) share: problem bodies where there is nothing to serve, and a
//! request id in every answer.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use http::HeaderValue;
use http::header::CACHE_CONTROL;
use hyperfleet_core::{Error, ErrorKind};

use crate::problem::{self, Failed};
use crate::request_ids::RequestIds;

/// Adds to `router` what every surface needs. Comes last: routes added later miss it.
pub(crate) fn complete(router: Router) -> Router {
    router
        .fallback(async || Failed::from(Error::new(ErrorKind::NoSuchRoute, "No such endpoint.")))
        .method_not_allowed_fallback(async || {
            let detail = "The endpoint does not know this method.";
            Failed::from(Error::new(ErrorKind::MethodNotAllowed, detail))
        })
        .layer(middleware::from_fn(observe))
}

async fn observe(request: Request, next: Next) -> Response {
    let ids = RequestIds::of(request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let mut response = problem::rendered(next.run(request).await, &ids, method.as_str(), &path);
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    ids.mark(&mut response);
    response
}
