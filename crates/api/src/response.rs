//! What the handlers share: the headers of a request, and the making of responses.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::FromRequest;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use hyperfleet_core::rules::ResourceKey;
use hyperfleet_core::{Epoch, Error, FeedPosition, Projection, Reservation, Resource};
use hyperfleet_service::http_error::HttpError;

use crate::app::App;
use crate::render;
use crate::response_body::Chunks;

/// The response of a handler.
pub(crate) type HandlerResult = Result<Response, HttpError>;

/// The headers of a request without a body, moved out of it.
pub(crate) struct Headers(pub(crate) HeaderMap);

impl<S: Send + Sync> FromRequest<S> for Headers {
    type Rejection = Infallible;

    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, Infallible> {
        Ok(Self(request.into_parts().0.headers))
    }
}

/// A response with a resource, or a projection of it. `epoch` is that of the store before the resource was read or written.
pub(crate) fn shown(
    app: &App,
    status: StatusCode,
    (epoch, resource): (Epoch, &Resource),
    fields: Option<&Projection>,
) -> Result<Response, Error> {
    app.store.check_epoch(epoch)?;
    Ok(about((epoch, resource), json(status, render::resource(app.rulebook.view(), resource, fields)?)))
}

/// Adds the entity tag for the caller, and the subject for the log.
pub(crate) fn about((epoch, resource): (Epoch, &Resource), mut response: Response) -> Response {
    response.headers_mut().insert(ETAG, etag(FeedPosition { epoch, version: resource.version }));
    response.extensions_mut().insert(ResourceKey::of(resource));
    response
}

/// The entity tag of a resource or a lease: its version with the epoch.
pub(crate) fn etag(position: FeedPosition) -> HeaderValue {
    HeaderValue::from_maybe_shared(Bytes::from(format!("\"{position}\""))).expect("ASCII between quotes")
}

/// A page of a list. What it does not need of the reservation, it gives back.
pub(crate) fn page(chunks: Chunks, reservation: Reservation) -> Response {
    reservation.hold(chunks.len());
    let mut response = json(StatusCode::OK, chunks.into_body());
    if reservation.is_used() {
        response.extensions_mut().insert(reservation);
    }
    response
}

/// A JSON response.
pub(crate) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Adds a header, unless the value cannot be one.
pub(crate) fn header(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
