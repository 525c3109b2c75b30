//! Every route of the API, top to bottom. Kinds come from configuration: each has flat routes, and one set of routes
//! below every chain of its owners.

mod encoding;

use std::sync::Arc;

use axum::extract::Request;
use axum::routing::{MethodRouter, Route, delete, get, patch, post, put};
use axum::{Extension, Router, middleware};
use http::header::DATE;
use tower::layer::layer_fn;

use crate::allowed_hosts::AllowedHosts;
use crate::app::App;
use crate::contract::HttpContract;
use crate::date::date;
use crate::gate::RouteRequirements;
use crate::observe::{self, Observer};
use crate::openapi::{self, Document};
use crate::route::KindRoute;
use crate::route_layer::RouteLayer;
use crate::{explain, gate, history, info, leases, resources, statuses, timeline, unmatched, whoami};
use encoding::Encoded;

/// The path below which version 1 is served.
pub(crate) const BASE: &str = "/api/hyperfleet/v1";

/// The path below which everything is served.
pub(crate) const ROOT: &str = "/api/hyperfleet";

/// The whole API.
pub(crate) fn router(app: &App, observer: Observer, allowed_hosts: AllowedHosts) -> Router {
    let app = app.clone();
    routes(&app)
        .router
        .fallback(unmatched::no_such_route)
        .method_not_allowed_fallback(unmatched::no_such_method)
        .with_state(app.clone())
        // One layer for both, outermost first, because axum boxes each layer and clones each box for every request.
        .layer((
            layer_fn(Encoded::new),
            RouteLayer::new(move |request: Request, route: &mut Route| {
                let response = observe::observe(observer.clone(), &allowed_hosts, request, route);
                let app = app.clone();
                async move {
                    let mut response = response.await;
                    response.headers_mut().insert(DATE, date(app.store.now()));
                    response
                }
            }),
        ))
}

fn routes(app: &App) -> Routes {
    let view = app.rulebook.view();
    let mut routes = Routes::default();

    let bare = |methods: MethodRouter<App>| {
        if HttpContract::of(view.contract).refuses_unknown {
            methods.layer(middleware::from_fn(info::without_parameters))
        } else {
            methods
        }
    };
    routes.add(ROOT, bare(get(info::metadata)));
    routes.add(&format!("{ROOT}/metadata"), bare(get(info::metadata)));
    routes.add(&format!("{ROOT}/health"), bare(get(info::health)));

    let rulebook = app.rulebook.clone();
    let document = Extension(openapi::when_asked(move || Document::build(rulebook.view())));
    routes.add(&format!("{BASE}/openapi"), bare(get(openapi::json)).layer(document.clone()));
    routes.add(&format!("{BASE}/openapi.yaml"), bare(get(openapi::yaml)).layer(document));
    routes.add(&format!("{BASE}/openapi.html"), bare(get(openapi::page)));
    let asset = |methods: MethodRouter<App>| methods.layer(middleware::from_fn(info::with_fingerprint));
    routes.add(&format!("{BASE}/openapi/swagger-ui.js"), asset(get(openapi::script)));
    routes.add(&format!("{BASE}/openapi/swagger-ui.css"), asset(get(openapi::style)));

    // Guarded routes. An unknown path or method is refused before the gate.
    let gate = |requirements: RouteRequirements| {
        let app = app.clone();
        RouteLayer::new(move |request: Request, route: &mut Route| {
            gate::admit(app.clone(), requirements, request, route.clone())
        })
    };
    let guarded =
        |requirements: RouteRequirements, methods: MethodRouter<App>| methods.route_layer(gate(requirements));
    routes.add(&format!("{BASE}/whoami"), guarded(RouteRequirements::SELF, get(whoami::whoami)));
    routes.add(&format!("{BASE}/authz/check"), guarded(RouteRequirements::SELF, post(whoami::check)));
    routes.add(&format!("{BASE}/leases"), guarded(RouteRequirements::LIST_LEASES, get(leases::list)));
    routes.add(
        &format!("{BASE}/leases/{{group}}/{{name}}"),
        guarded(RouteRequirements::RENEW_LEASE, put(leases::put)),
    );

    for kind_route in KindRoute::all(view.catalog) {
        let collection = format!("{BASE}{}", kind_route.collection_path());
        let item = format!("{BASE}{}", kind_route.item_path());
        let kind_route = Extension(Arc::new(kind_route));
        let at = |requirements: RouteRequirements, methods: MethodRouter<App>| {
            methods.route_layer((kind_route.clone(), gate(requirements)))
        };

        let list = at(RouteRequirements::LIST, get(resources::list));
        routes.add(&collection, list.merge(at(RouteRequirements::WRITE, post(resources::create))));
        let read = at(RouteRequirements::READ, get(resources::read));
        let write = at(RouteRequirements::WRITE, patch(resources::patch));
        let delete = at(RouteRequirements::DELETE, delete(resources::delete));
        routes.add(&item, read.merge(write).merge(delete));
        let force_delete = at(RouteRequirements::FORCE_DELETE, post(resources::force_delete));
        routes.add(&format!("{item}/force-delete"), force_delete);
        let reports = at(RouteRequirements::LIST, get(statuses::list));
        let report = at(RouteRequirements::REPORT, put(statuses::submit).post(statuses::submit));
        routes.add(&format!("{item}/statuses"), reports.merge(report));
        routes.add(&format!("{item}/explain"), at(RouteRequirements::LIST, get(explain::explain)));
        routes.add(&format!("{item}/timeline"), at(RouteRequirements::LIST, get(timeline::list)));
        routes.add(&format!("{item}/diff"), at(RouteRequirements::LIST, get(history::diff)));
    }
    routes
}

/// The routes, and the templates of their paths.
#[derive(Default)]
struct Routes {
    router: Router<App>,
    paths: Vec<String>,
}

impl Routes {
    /// One trailing `/` is tolerated everywhere.
    fn add(&mut self, path: &str, methods: MethodRouter<App>) {
        let router = std::mem::take(&mut self.router);
        self.router = router.route(path, methods.clone()).route(&format!("{path}/"), methods);
        self.paths.push(path.to_owned());
    }
}

#[cfg(test)]
mod tests;
