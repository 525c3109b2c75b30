//! Rate limits: a caller beyond its limit gets `Retry-After`, other callers are not affected. Buckets fill while a test
//! runs, so counts are compared with the elapsed time.

use std::time::Instant;

use super::*;
use crate::support::{href, text};

both_stores!(
    start = async |backend| Guarded::on(backend, RATES).await;
    requests_beyond_the_burst_are_refused_with_retry_after,
    rate_limits_are_separate_for_each_caller,
    reads_writes_and_reports_have_separate_rate_limits,
    requests_without_a_token_are_not_rate_limited,
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

async fn requests_beyond_the_burst_are_refused_with_retry_after(guarded: &Guarded) {
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

async fn rate_limits_are_separate_for_each_caller(guarded: &Guarded) {
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

async fn reads_writes_and_reports_have_separate_rate_limits(guarded: &Guarded) {
    let (ann, bob) = (guarded.named("ann@example.com"), guarded.named("bob@example.com"));
    let made = bob.cluster("made", &json!({})).await;
    exhaust(async || ann.get(href(&made)).await).await;
    let patch = json!({"labels": {"a": "b"}});
    let refused = exhaust(async || ann.patch(href(&made), &patch).await).await;
    assert_limited(&refused);
    let statuses = format!("{}/statuses", href(&made));
    let refused = exhaust(async || ann.call("PUT", &statuses).json(&validated()).await).await;
    assert_limited(&refused);
    // What is refused is not done.
    let late = cluster("late", &json!({}));
    assert_limited(&exhaust_more(async || ann.post("/clusters?dryRun=true", &late).await).await);
    assert_eq!(text(&bob.get(href(&made)).await.expect_status(200).json()["updated_by"]), "ann@example.com");
}

async fn requests_without_a_token_are_not_rate_limited(guarded: &Guarded) {
    let ann = guarded.named("ann@example.com");
    exhaust(async || ann.get("/clusters").await).await;
    for _ in 0..20 {
        ann.get("/openapi").await.expect_status(200);
        ann.get("/api/hyperfleet/health").await.expect_status(200);
        // An unauthenticated request takes no token of any bucket.
        guarded.get("/clusters").await.expect_status(401);
    }
    guarded.holder(&guarded.issuer.nameless()).get("/clusters").await.expect_status(200);
}
