//! A layer that passes a request and its route to a function. Axum's own layer boxes the route and two futures for
//! every request.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::Response;
use axum::routing::Route;
use futures_util::FutureExt;
use futures_util::future::Map;
use tower::{Layer, Service};

/// Wraps a response that cannot fail.
type Never = fn(Response) -> Result<Response, Infallible>;

/// The layer.
#[derive(Clone)]
pub(crate) struct RouteLayer<F>(F);

/// A function with its route.
#[derive(Clone)]
pub(crate) struct RouteService<F> {
    function: F,
    route: Route,
}

impl<F, A> RouteLayer<F>
where
    F: Fn(Request, &mut Route) -> A,
    A: Future<Output = Response>,
{
    /// A layer that calls `function` with a request and the route that it is for.
    pub(crate) fn new(function: F) -> Self {
        Self(function)
    }
}

impl<F: Clone> Layer<Route> for RouteLayer<F> {
    type Service = RouteService<F>;

    fn layer(&self, route: Route) -> RouteService<F> {
        RouteService { function: self.0.clone(), route }
    }
}

impl<F, A> Service<Request> for RouteService<F>
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
        (self.function)(request, &mut self.route).map(Ok as Never)
    }
}
