//! What the routers of health and metrics share: problem bodies for unknown paths and methods, and a request id in
//! every response.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use http::HeaderValue;
use http::header::CACHE_CONTROL;

use crate::http_error::{HttpError, METHOD_NOT_ALLOWED, NO_SUCH_ROUTE};
use crate::problem;
use crate::request_ids::RequestIds;

/// Adds the fallbacks and the request id to `router`. Routes that are added later miss them.
pub(crate) fn add_to(router: Router) -> Router {
    router
        .fallback(async || HttpError::new(&NO_SUCH_ROUTE, "No such endpoint."))
        .method_not_allowed_fallback(async || {
            let detail = "The endpoint does not know this method.";
            HttpError::new(&METHOD_NOT_ALLOWED, detail)
        })
        .layer(middleware::from_fn(observe))
}

async fn observe(request: Request, next: Next) -> Response {
    let ids = RequestIds::of(request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let mut response = problem::rendered(next.run(request).await, &ids, method.as_str(), &path);
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    ids.set_header(&mut response);
    response
}
