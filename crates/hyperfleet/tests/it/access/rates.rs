//! Rates: whoever asks too much is told when to come back, and nobody else notices. Buckets fill while a test runs, so
//! what is counted is held against the time that it took.

use std::time::Instant;

use super::*;
use crate::support::{href, text};

guarded!(
    server = RATES;
    a_burst_is_answered_and_what_comes_after_it_is_told_to_wait,
    nobody_pays_for_another,
    reads_writes_and_reports_are_paid_for_apart,
    what_needs_no_token_costs_nothing,
);

const RATES: &str = "
  rate_limit:
    enabled: true
    reads: {per_second: 1, burst: 3}
    writes: {per_second: 1, burst: 3}
    reports: {per_second: 1, burst: 3}
";

/// Asks until it is too much; that answer.
async fn exhaust(ask: impl AsyncFn() -> Answer) -> Answer {
    let started = Instant::now();
    let mut answered = 0;
    loop {
        let answer = ask().await;
        if answer.status == 429 {
            let most = 3 + started.elapsed().as_secs() + 1;
            assert!((3..=most).contains(&answered), "{answered} answers within {:?}", started.elapsed());
            return answer;
        }
        assert!(answer.status < 300, "{answer}");
        answered += 1;
        assert!(answered < 1000, "no end to it");
    }
}

#[track_caller]
fn assert_limited(answer: &Answer) {
    assert_refused(answer, 429, "LMT-001");
    assert_eq!(answer.header("retry-after"), Some("1"), "{answer}");
    let problem = answer.json();
    assert_eq!(
        (&problem["limit"], &problem["window"], &problem["retry_after"]),
        (&json!(1), &json!("1s"), &json!(1))
    );
}

async fn a_burst_is_answered_and_what_comes_after_it_is_told_to_wait(guarded: &Guarded) {
    let ann = guarded.named("ann@example.com");
    assert_limited(&exhaust(async || ann.get("/clusters").await).await);
    assert_limited(&exhaust_more(async || ann.get("/whoami").await).await);
}

/// Asks until it is too much, of a bucket that is nearly empty.
async fn exhaust_more(ask: impl AsyncFn() -> Answer) -> Answer {
    let mut answer = ask().await;
    for _ in 0..1000 {
        if answer.status == 429 {
            break;
        }
        answer = ask().await;
    }
    answer
}

async fn nobody_pays_for_another(guarded: &Guarded) {
    let ann = guarded.named("ann@example.com");
    exhaust(async || ann.get("/clusters").await).await;
    guarded.named("bob@example.com").get("/clusters").await.expect_status(200);
    // Another token is the same caller; one without a name is the address.
    let again = guarded.member("ann@example.com", &["others"]);
    assert_limited(&exhaust_more(async || again.get("/clusters").await).await);
    let nameless = guarded.holder(&guarded.issuer.nameless());
    assert_limited(&exhaust(async || nameless.get("/clusters").await).await);
    guarded.named("bob@example.com").get("/clusters").await.expect_status(200);
}

async fn reads_writes_and_reports_are_paid_for_apart(guarded: &Guarded) {
    let (ann, bob) = (guarded.named("ann@example.com"), guarded.named("bob@example.com"));
    let made = bob.cluster("made", &json!({})).await;
    exhaust(async || ann.get(href(&made)).await).await;
    let patch = json!({"labels": {"a": "b"}});
    let refused = exhaust(async || ann.patch(href(&made), &patch).await).await;
    assert_limited(&refused);
    let statuses = format!("{}/statuses", href(&made));
    let refused = exhaust(async || ann.call("PUT", &statuses).json(&report()).await).await;
    assert_limited(&refused);
    // What is refused is not done.
    let late = cluster("late", &json!({}));
    assert_limited(&exhaust_more(async || ann.post("/clusters?dryRun=true", &late).await).await);
    assert_eq!(text(&bob.get(href(&made)).await.expect_status(200).json()["updated_by"]), "ann@example.com");
}

async fn what_needs_no_token_costs_nothing(guarded: &Guarded) {
    let ann = guarded.named("ann@example.com");
    exhaust(async || ann.get("/clusters").await).await;
    for _ in 0..20 {
        ann.get("/openapi").await.expect_status(200);
        ann.get("/api/hyperfleet/health").await.expect_status(200);
        // Who is not let in spends nobody's tokens.
        guarded.get("/clusters").await.expect_status(401);
    }
    guarded.holder(&guarded.issuer.nameless()).get("/clusters").await.expect_status(200);
}
