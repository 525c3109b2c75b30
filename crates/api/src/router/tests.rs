use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode};
use hyperfleet_core::rules::{ReportLimits, Rulebook};
use hyperfleet_core::{Catalog, Contract, EntityDescriptor, ResponseBudget, SpecSchemas};
use hyperfleet_service::build_info::BuildInfo;
use hyperfleet_service::health::Health;
use hyperfleet_service::shutdown::Shutdown;
use hyperfleet_store::{Backend, Metrics, Options, Store};
use prometheus_client::registry::Registry;
use tower::ServiceExt;

use super::*;
use crate::app::Parts;
use crate::coalesced_reads::CoalescedReads;
use crate::gate::{ConcurrencyLimiter, Gate};
use crate::page_token::TokenSigner;
use crate::watch::{Channels, WatchMetrics};

async fn app(kinds: Vec<EntityDescriptor>) -> App {
    let catalog = Arc::new(Catalog::new(kinds).unwrap());
    let schemas = SpecSchemas::compile(&catalog, None).unwrap();
    let rulebook = Arc::new(Rulebook {
        catalog,
        schemas,
        max_member_bytes: 1 << 20,
        report_limits: ReportLimits::default(),
        contract: Contract::Documented,
        legacy_conditions: false,
        tenancy: false,
        href_prefix: BASE,
    });
    let options = Options {
        backend: Backend::Sqlite { path: None },
        max_connections: 1,
        request_timeout: Duration::from_secs(30),
        connect_attempts: 0,
        connect_interval: Duration::ZERO,
        queue_limit: 1,
        migrate: true,
        tenants: false,
    };
    let store = Store::open(&options, rulebook.clone(), Metrics::default()).await.unwrap();
    App::new(Parts {
        gate: Gate::new(ConcurrencyLimiter::register(&mut Registry::default(), 1), None, None, None, None),
        lists: CoalescedReads::default(),
        channels: Channels::default(),
        watch_metrics: WatchMetrics::register(&mut Registry::default()),
        shutdown: Shutdown::new(),
        token_signer: TokenSigner::new(store.page_token_key()),
        store,
        rulebook,
        health: Health::new([]),
        build: BuildInfo::default(),
        body_limit: 1 << 20,
        page_limit: 16 << 20,
        responses: ResponseBudget::new(256 << 20),
        stuck_after: Duration::from_secs(600),
        read_timeout: Duration::from_secs(30),
        long_checks: crate::spec_check::permits(),
    })
}

fn deep() -> Vec<EntityDescriptor> {
    let kind = |kind: &str, plural: &str, parent: Option<&str>| EntityDescriptor {
        kind: kind.into(),
        plural: plural.into(),
        parent_kind: parent.map(Into::into),
        on_parent_delete: parent.map(|_| "cascade".into()),
        ..EntityDescriptor::default()
    };
    vec![
        kind("Zone", "zones", None),
        kind("Rack", "racks", Some("Zone")),
        kind("Host", "hosts", Some("Rack")),
        kind("Disk", "disks", Some("Host")),
        kind("Network", "networks", None),
    ]
}

/// The methods that the router allows for a path, as it answers an unknown method.
async fn methods(router: &Router, path: &str) -> Vec<String> {
    let request = Request::builder().method("BREW").uri(path).body(Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
    let allow = response.headers()["allow"].to_str().unwrap();
    allow.split(',').map(|method| method.trim().to_owned()).filter(|method| method != "HEAD").collect()
}

#[tokio::test]
async fn the_router_and_the_document_know_the_same_operations() {
    for kinds in [Catalog::default_descriptors(), deep()] {
        let app = app(kinds).await;
        let documented: BTreeSet<_> = Document::build(app.rulebook.view()).paths().into_iter().collect();
        let observer = Observer::register(&mut Registry::default(), &app.build);
        let router = router(&app, observer, AllowedHosts::any());
        let mut routed = BTreeSet::new();
        for path in routes(&app).paths {
            for method in methods(&router, &path).await {
                assert!(routed.insert((method, path.clone())), "{path} is routed twice");
            }
        }
        assert_eq!(routed, documented);
    }
}

#[tokio::test]
async fn no_kind_has_a_plural_that_is_a_word_of_the_routes() {
    let app = app(deep()).await;
    let plurals: BTreeSet<String> = deep().into_iter().map(|kind| kind.plural).collect();
    let mut words = BTreeSet::new();
    for path in routes(&app).paths {
        let Some(below) = path.strip_prefix(&format!("{BASE}/")) else { continue };
        // Where a plural may stand: right below the version, and right below a resource.
        let above = std::iter::once("{}").chain(below.split('/'));
        let after_ids = above
            .zip(below.split('/'))
            .filter(|(above, word)| above.starts_with('{') && !word.starts_with('{'));
        words.extend(after_ids.map(|(_, word)| word.to_owned()).filter(|word| !plurals.contains(word)));
    }
    for word in ["resources", "statuses", "diff"] {
        assert!(words.contains(word), "{words:?}");
    }
    for word in words {
        let mut kinds = deep();
        kinds[1].plural.clone_from(&word);
        let faults = Catalog::new(kinds).unwrap_err().join("\n");
        assert!(faults.contains(&format!("entities[1].plural: '{word}' is taken")), "{faults}");
    }
}
