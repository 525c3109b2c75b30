//! What `apply` and errors look up on the way: lookups can be interrupted, happen once, and do not delay the command.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyperfleet_testkit::eventually;

use super::proxy::{Intervention, Proxy};
use super::{Cli, DEADLINE};
use crate::support::{App, CATALOG, any_store};

const REFUSAL: &str = "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const TWO_LEVELS: &str = "kind: Zone\nname: z-1\n---\nkind: Rack\nname: r-1\nowner: zone/z-1\n";

/// A proxy that counts the requests with `part` in their first line and intervenes in them.
async fn counting_proxy(
    app: &App,
    part: &'static str,
    intervene: fn() -> Intervention,
) -> (Proxy, Arc<AtomicUsize>) {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let proxy = Proxy::of(app, move |request| {
        if !request.contains(part) {
            return Box::pin(async { None });
        }
        count.fetch_add(1, Ordering::Relaxed);
        intervene()
    });
    (proxy.await, seen)
}

fn never() -> Intervention {
    Box::pin(std::future::pending())
}

async fn an_apply_is_interrupted_during_lookups(app: &App) {
    let (proxy, seen) = counting_proxy(app, "/racks?search=", never).await;
    let cli = Cli::at(&proxy.server).file("two.yaml", TWO_LEVELS);
    let mut applying = cli.start("apply -f two.yaml --request-timeout 10m");
    eventually("a look", DEADLINE, async || (seen.load(Ordering::Relaxed) > 0).then_some(())).await;
    applying.signal("INT").await;
    assert_eq!(applying.ended().await, Some(130));
    assert_eq!(
        applying.stderr(),
        ["1 created, 0 changed, 0 unchanged, 0 failed", "interrupted: 1 not done; run it again to continue"]
    );
}

async fn an_apply_sums_up_before_a_refused_lookup_ends_it(app: &App) {
    let (proxy, _) = counting_proxy(app, "/racks?search=", || Box::pin(async { Some(REFUSAL) })).await;
    let cli = Cli::at(&proxy.server).file("two.yaml", TWO_LEVELS);
    let ended = cli.run("apply -f two.yaml").await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(5), "zone/z-1 created\n"), "{ended:?}");
    assert!(
        ended.stderr.starts_with("1 created, 0 changed, 0 unchanged, 0 failed\nerror: "),
        "{}",
        ended.stderr
    );
}

async fn a_missing_owner_is_requested_once(app: &App) {
    let documents: String =
        (0..20).map(|n| format!("kind: Rack\nname: r-{n}\nowner: zone/zone-9\n---\n")).collect();
    let (proxy, seen) = counting_proxy(app, "/zones?", || Box::pin(async { None })).await;
    let cli = Cli::at(&proxy.server).file("many.yaml", &documents);
    let ended = cli.run("apply -f many.yaml").await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert_eq!(ended.stderr.matches("there is no zone/zone-9").count(), 20, "{ended:?}");
    assert_eq!(seen.load(Ordering::Relaxed), 2, "one for the name, one for a name that may have been meant");
}

async fn an_error_does_not_wait_for_a_suggestion(app: &App) {
    let (proxy, seen) = counting_proxy(app, "like", never).await;
    let cli = Cli::at(&proxy.server);
    cli.ok("create cluster production").await;
    let ended = cli.run("get cluster prodcution --request-timeout 10m").await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(3), "error: there is no cluster/prodcution\n"));
    assert_eq!(seen.load(Ordering::Relaxed), 1, "nor is it asked for again");
}

async fn curl_sends_no_request_for_suggestions(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster production").await;
    let suggested = cli.run("get cluster prodcution").await;
    assert!(suggested.stderr.contains("did you mean production?"), "{suggested:?}");
    let printed = cli.run("create nodepool prodcution/workers --curl").await;
    assert_eq!(
        printed.stderr,
        "there is no cluster/prodcution: ID_OF_cluster_prodcution stands for its id\n"
    );
}

any_store!(
    config = CATALOG;
    an_apply_is_interrupted_during_lookups,
    an_apply_sums_up_before_a_refused_lookup_ends_it,
    a_missing_owner_is_requested_once,
    an_error_does_not_wait_for_a_suggestion,
    curl_sends_no_request_for_suggestions,
);
