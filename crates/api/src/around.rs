//! A function around a route, as a layer. Axum's own puts the route and two futures into boxes of their own for every
//! request.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::Response;
use axum::routing::Route;
use futures_util::FutureExt;
use futures_util::future::Map;
use tower::{Layer, Service};

/// What an answer that cannot fail becomes.
type Never = fn(Response) -> Result<Response, Infallible>;

/// The layer.
#[derive(Clone)]
pub(crate) struct Around<F>(F);

/// A function with its route.
#[derive(Clone)]
pub(crate) struct Surrounded<F> {
    around: F,
    route: Route,
}

impl<F, A> Around<F>
where
    F: Fn(Request, &mut Route) -> A,
    A: Future<Output = Response>,
{
    /// What `around` does with a request and the route that it is for.
    pub(crate) fn new(around: F) -> Self {
        Self(around)
    }
}

impl<F: Clone> Layer<Route> for Around<F> {
    type Service = Surrounded<F>;

    fn layer(&self, route: Route) -> Surrounded<F> {
        Surrounded { around: self.0.clone(), route }
    }
}

impl<F, A> Service<Request> for Surrounded<F>
where
    F: Fn(Request, &mut Route) -> A,
    A: Future<Output = Response>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Map<A, Never>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Routes are ready at any time.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        (self.around)(request, &mut self.route).map(Ok as Never)
    }
}
