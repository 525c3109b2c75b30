//! Every route of the API, top to bottom. Kinds come from configuration: each gets its flat
//! routes, and one set below every chain of its owners.

mod encoding;

use std::sync::Arc;

use axum::extract::Request;
use axum::routing::{MethodRouter, Route, get, post, put};
use axum::{Extension, Router, middleware};
use hyperfleet_core::BASE;
use tower::layer::layer_fn;

use crate::app::App;
use crate::around::Around;
use crate::observe::{self, Observer};
use crate::openapi::{self, Document};
use crate::place::Place;
use crate::{explain, gate, info, leases, past, resources, statuses, timeline, unmatched, whoami};
use encoding::Encoded;

/// The path below which everything is served.
pub(crate) const ROOT: &str = "/api/hyperfleet";

/// What leases are below.
pub(crate) const LEASES: &str = "leases";

/// The whole API.
pub(crate) fn router(app: &App, observer: Observer) -> Router {
    routes(app)
        .router
        .fallback(unmatched::no_such_route)
        .method_not_allowed_fallback(unmatched::no_such_method)
        .with_state(app.clone())
        // Together, outermost first: axum boxes what it is given, and clones every box for every request.
        .layer((
            layer_fn(Encoded::new),
            Around::new(move |request: Request, route: &mut Route| {
                observe::observe(observer.clone(), request, route)
            }),
        ))
}

fn routes(app: &App) -> Routes {
    let view = app.rulebook.view();
    let mut routes = Routes::default();

    let bare = |methods: MethodRouter<App>| {
        if view.contract.refuses_unknown {
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

    // Behind the gate. Another method on the same path is refused before it, as another path is.
    let gate = || {
        let app = app.clone();
        Around::new(move |request: Request, route: &mut Route| {
            gate::admit(app.clone(), request, route.clone())
        })
    };
    let guarded = |methods: MethodRouter<App>| methods.route_layer(gate());
    routes.add(&format!("{BASE}/whoami"), guarded(get(whoami::whoami)));
    routes.add(&format!("{BASE}/authz/check"), guarded(post(whoami::check)));
    routes.add(&format!("{BASE}/{LEASES}"), guarded(get(leases::list)));
    routes.add(&format!("{BASE}/{LEASES}/{{group}}/{{name}}"), guarded(put(leases::put)));

    for place in Place::all(view.catalog) {
        let collection = format!("{BASE}{}", place.collection_path());
        let item = format!("{BASE}{}", place.item_path());
        let place = Extension(Arc::new(place));
        let at = |methods: MethodRouter<App>| methods.route_layer((place.clone(), gate()));

        routes.add(&collection, at(get(resources::list).post(resources::create)));
        routes.add(&item, at(get(resources::read).patch(resources::patch).delete(resources::delete)));
        routes.add(&format!("{item}/force-delete"), at(post(resources::force_delete)));
        let report = get(statuses::list).put(statuses::submit).post(statuses::submit);
        routes.add(&format!("{item}/statuses"), at(report));
        routes.add(&format!("{item}/explain"), at(get(explain::explain)));
        routes.add(&format!("{item}/timeline"), at(get(timeline::list)));
        routes.add(&format!("{item}/diff"), at(get(past::diff)));
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
