//! What `apply` and errors look up on the way: it can be interrupted, is asked for once, and holds nobody up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyperfleet_testkit::eventually;

use super::between::{Between, Meddling};
use super::{Cli, DEADLINE};
use crate::support::{App, CATALOG, both_stores};

const REFUSAL: &str = "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const TWO_LEVELS: &str = "kind: Zone\nname: z-1\n---\nkind: Rack\nname: r-1\nowner: zone/z-1\n";

/// Somebody who counts the requests with `part` in their first line, and does this with them.
async fn who_sees(app: &App, part: &'static str, meddle: fn() -> Meddling) -> (Between, Arc<AtomicUsize>) {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let between = Between::of(app, move |request| {
        if !request.contains(part) {
            return Box::pin(async { None });
        }
        count.fetch_add(1, Ordering::Relaxed);
        meddle()
    });
    (between.await, seen)
}

fn never() -> Meddling {
    Box::pin(std::future::pending())
}

async fn an_apply_is_interrupted_while_it_looks(app: &App) {
    let (between, seen) = who_sees(app, "/racks?search=", never).await;
    let cli = Cli::at(&between.server).file("two.yaml", TWO_LEVELS);
    let mut applying = cli.start("apply -f two.yaml --request-timeout 10m");
    eventually("a look", DEADLINE, async || (seen.load(Ordering::Relaxed) > 0).then_some(())).await;
    applying.signal("INT").await;
    assert_eq!(applying.ended().await, Some(130));
    assert_eq!(
        applying.stderr(),
        [
            "1 created, 0 changed, 0 unchanged, 0 failed",
            "interrupted: 1 not done; run it again, and it goes on from here"
        ]
    );
}

async fn an_apply_that_cannot_look_further_tells_what_it_has_done(app: &App) {
    let (between, _) = who_sees(app, "/racks?search=", || Box::pin(async { Some(REFUSAL) })).await;
    let cli = Cli::at(&between.server).file("two.yaml", TWO_LEVELS);
    let ended = cli.run("apply -f two.yaml").await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(5), "zone/z-1 created\n"), "{ended:?}");
    assert!(
        ended.stderr.starts_with("1 created, 0 changed, 0 unchanged, 0 failed\nerror: "),
        "{}",
        ended.stderr
    );
}

async fn an_owner_that_is_not_there_is_asked_for_once(app: &App) {
    let documents: String =
        (0..20).map(|n| format!("kind: Rack\nname: r-{n}\nowner: zone/zone-9\n---\n")).collect();
    let (between, seen) = who_sees(app, "/zones?", || Box::pin(async { None })).await;
    let cli = Cli::at(&between.server).file("many.yaml", &documents);
    let ended = cli.run("apply -f many.yaml").await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert_eq!(ended.stderr.matches("there is no zone/zone-9").count(), 20, "{ended:?}");
    assert_eq!(seen.load(Ordering::Relaxed), 2, "one for the name, one for a name that may have been meant");
}

async fn an_error_does_not_wait_for_a_suggestion(app: &App) {
    let (between, seen) = who_sees(app, "like", never).await;
    let cli = Cli::at(&between.server);
    cli.ok("create cluster production").await;
    let ended = cli.run("get cluster prodcution --request-timeout 10m").await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(3), "error: there is no cluster/prodcution\n"));
    assert_eq!(seen.load(Ordering::Relaxed), 1, "nor is it asked for again");
}

async fn who_wants_curl_commands_gets_no_suggestions(app: &App) {
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

both_stores!(
    config = CATALOG;
    an_apply_is_interrupted_while_it_looks,
    an_apply_that_cannot_look_further_tells_what_it_has_done,
    an_owner_that_is_not_there_is_asked_for_once,
    an_error_does_not_wait_for_a_suggestion,
    who_wants_curl_commands_gets_no_suggestions,
);
