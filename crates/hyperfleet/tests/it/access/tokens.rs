//! Tokens: without a valid one nothing is read or changed, and with one the caller's identity is recorded.

use super::*;
use crate::support::{id, text, watched};
use hyperfleet_testkit::eventually;

both_stores!(
    start = async |backend| Guarded::on(backend, "").await;
    without_a_token_every_protected_operation_answers_401,
    open_operations_ignore_missing_and_invalid_tokens,
    an_invalid_token_is_refused_with_its_reason,
    a_caller_with_a_token_writes_under_its_name,
    a_token_without_an_identity_reads_and_does_not_write,
    a_watch_ends_when_the_key_of_its_token_is_withdrawn,
);

/// All routes that need no token. A route that is new here was opened on purpose.
const OPEN: [&str; 8] = [
    "/api/hyperfleet",
    "/api/hyperfleet/health",
    "/api/hyperfleet/metadata",
    "/api/hyperfleet/v1/openapi",
    "/api/hyperfleet/v1/openapi.html",
    "/api/hyperfleet/v1/openapi.yaml",
    "/api/hyperfleet/v1/openapi/swagger-ui.css",
    "/api/hyperfleet/v1/openapi/swagger-ui.js",
];

fn filled(template: &str, id: &str) -> String {
    let segments = template.split('/').map(|part| if part.starts_with('{') { id } else { part });
    segments.collect::<Vec<_>>().join("/")
}

async fn without_a_token_every_protected_operation_answers_401(guarded: &Guarded) {
    let ann = guarded.named("ann@example.com");
    let cluster = ann.cluster("kept", &json!({})).await;
    let before = ann.get("/resources?showDeleted=true").await.expect_status(200).json();
    let mut details = Vec::new();
    for (method, template, _) in operations(guarded).await.into_iter().filter(|(.., open)| !open) {
        for path in [filled(&template, walk::UNKNOWN_ID), filled(&template, id(&cluster))] {
            let queried = format!("{path}?surprise=1");
            let good = body(&method, &path, "Cluster");
            for (path, body) in [
                (&path, good.as_ref().map(Value::to_string)),
                (&path, Some("no JSON".to_owned())),
                (&queried, None),
            ] {
                let asked = guarded.call(&method, path);
                let asked = match body {
                    Some(body) => asked.header("content-type", "application/json").body(body),
                    None => asked,
                };
                let answer = asked.await;
                assert_refused(&answer, 401, "AUT-001");
                assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"hyperfleet\""), "{path}");
                assert_eq!(answer.header("etag"), None);
                let problem = answer.json();
                assert!(problem.get("errors").is_none(), "{answer}");
                details.push(problem["detail"].clone());
            }
        }
        if method == "GET" {
            guarded.head(&filled(&template, id(&cluster))).await.expect_status(401);
        }
    }
    details.dedup();
    assert_eq!(details.len(), 1, "the refusal says nothing of what was asked: {details:?}");
    let after = ann.get("/resources?showDeleted=true").await.expect_status(200).json();
    assert_eq!(after, before, "nothing was done");
}

async fn open_operations_ignore_missing_and_invalid_tokens(guarded: &Guarded) {
    let mut open: Vec<_> = operations(guarded).await.into_iter().filter(|(.., open)| *open).collect();
    open.sort_unstable();
    let paths: Vec<_> = open.iter().map(|(_, path, _)| path.as_str()).collect();
    assert_eq!(paths, OPEN);
    for (method, path, _) in &open {
        assert_eq!(method, "GET", "{path}");
        guarded.get(path).await.expect_status(200);
        guarded.get(path).header("authorization", "Bearer rubbish").await.expect_status(200);
    }
    for probe in ["/healthz", "/readyz"] {
        guarded.server.health().get(probe).await.expect_status(200);
    }
    // What is not there at all is not there for anyone.
    assert_refused(&guarded.get("/nowhere").await, 404, "NTF-000");
    assert_refused(&guarded.call("PUT", "/clusters").await, 405, "NTF-000");
}

async fn an_invalid_token_is_refused_with_its_reason(guarded: &Guarded) {
    let ours = &guarded.issuer;
    let good = ours.token("ann@example.com");
    let (message, _) = good.rsplit_once('.').unwrap();
    let other = ours.token("bob@example.com");
    let (_, signature) = other.rsplit_once('.').unwrap();
    let stranger = Issuer::new().token("ann@example.com");
    let expired = ours.expired("ann@example.com");
    for (sent, code) in [
        (format!("Bearer {stranger}"), "AUT-002"),
        (format!("Bearer {message}.{signature}"), "AUT-002"),
        (format!("Bearer {expired}"), "AUT-003"),
        ("Bearer rubbish".to_owned(), "AUT-004"),
        ("Bearer a.b.c".to_owned(), "AUT-004"),
        (format!("Bearer {message}"), "AUT-004"),
        ("Basic YW5uOnNlY3JldA==".to_owned(), "AUT-001"),
        ("Bearer".to_owned(), "AUT-001"),
    ] {
        let body = cluster("never", &json!({}));
        for asked in [
            guarded.get("/clusters"),
            guarded.get("/whoami"),
            guarded.post("/clusters").json(&body),
            guarded.delete(&format!("/clusters/{}", walk::UNKNOWN_ID)),
        ] {
            let answer = asked.header("authorization", &sent).await;
            assert_refused(&answer, 401, code);
            let challenge = answer.header("www-authenticate").unwrap();
            assert!(challenge.starts_with("Bearer realm=\"hyperfleet\""), "{challenge}");
            assert_eq!(challenge.contains("error=\"invalid_token\""), code != "AUT-001", "{challenge}");
            let secret = sent.split_once(' ').map_or("no secret", |(_, secret)| secret);
            assert!(!answer.to_string().contains(secret), "{answer}");
        }
    }
    let twice = guarded.get("/clusters").header("authorization", format!("Bearer {good}"));
    let twice = twice.header("authorization", format!("Bearer {good}")).await;
    assert_refused(&twice, 401, "AUT-004");
    assert_eq!(guarded.named("ann@example.com").list("/clusters").await, (0, vec![]));
    let logs = Value::from(guarded.server.logs()).to_string();
    for token in [&good, &other, &stranger, &expired] {
        let (_, signature) = token.rsplit_once('.').unwrap();
        assert!(!logs.contains(signature), "a token must not be logged");
    }
}

async fn a_watch_ends_when_the_key_of_its_token_is_withdrawn(guarded: &Guarded) {
    let ann = guarded.named("ann@example.com");
    ann.cluster("seen", &json!({})).await;
    let mut stream = ann.get(&watched("/clusters")).watch().await;
    assert_eq!(stream.change().await.kind(), "ADDED");
    let successor = Issuer::new();
    std::fs::copy(successor.issuer.jwks_file(), guarded.issuer.issuer.jwks_file()).unwrap();
    let bob = guarded.holder(&successor.token("bob@example.com"));
    eventually("the other keys count", DEADLINE, async || {
        (bob.get("/whoami").await.status == 200).then_some(())
    })
    .await;
    assert_refused(&ann.get("/whoami").await, 401, "AUT-002");
    bob.cluster("unseen", &json!({})).await;
    let rest = stream.rest().await;
    assert!(!rest.iter().any(|event| event.text.contains("unseen")), "{rest:?}");
    let end = &rest.last().unwrap().json;
    assert_eq!(end["code"], "HYPERFLEET-SVC-001");
    let mut resumed = bob.get(&watched(&format!("/clusters?since={}", end["version"]))).watch().await;
    assert_eq!(resumed.change().await.object()["name"], "unseen", "nothing is skipped");
}

async fn a_caller_with_a_token_writes_under_its_name(guarded: &Guarded) {
    let (ann, bob) = (guarded.named(" ann@example.com "), guarded.named("bob@example.com"));
    let made = ann.cluster("hers", &json!({})).await;
    assert_eq!(
        (text(&made["created_by"]), text(&made["updated_by"])),
        ("ann@example.com", "ann@example.com")
    );
    let path = text(&made["href"]);
    // No shared cache may keep what one caller received.
    for (asked, status) in [
        (ann.get(path), 200),
        (ann.get("/clusters"), 200),
        (ann.get("/whoami"), 200),
        (ann.get(&format!("/clusters/{}", walk::UNKNOWN_ID)), 404),
    ] {
        let answer = asked.await.expect_status(status);
        assert_eq!(answer.header("cache-control"), Some("private, no-cache"), "{answer}");
        assert!(answer.header("vary").unwrap().contains("Authorization"), "{answer}");
    }
    let changed = bob.patch(path, &json!({"spec": {"size": 2}})).await.expect_status(200).json();
    assert_eq!(
        (text(&changed["created_by"]), text(&changed["updated_by"])),
        ("ann@example.com", "bob@example.com")
    );
    let removed = ann.delete(path).await.expect_status(202).json();
    assert_eq!(removed["deleted_by"], "ann@example.com");
    assert_eq!(bob.get(path).await.expect_status(200).json(), removed);
    let whoami = bob.get("/whoami").await.expect_status(200).json();
    assert_eq!(whoami, json!({"identity": "bob@example.com", "system": false}));
    let put = bob.call("PUT", &format!("{path}/statuses")).json(&validated()).await;
    assert!(put.status == 201 || put.status == 204, "{put}");
    bob.post(&format!("{path}/force-delete"), &json!({"reason": "done with it"})).await.expect_status(204);
}

async fn a_token_without_an_identity_reads_and_does_not_write(guarded: &Guarded) {
    let made = guarded.named("ann@example.com").cluster("kept", &json!({})).await;
    let path = text(&made["href"]);
    let nameless = guarded.holder(&guarded.issuer.nameless());
    assert_eq!(nameless.get(path).await.expect_status(200).json(), made);
    assert_eq!(nameless.list("/clusters").await, (1, vec!["kept".to_owned()]));
    assert_eq!(nameless.get("/whoami").await.expect_status(200).json()["identity"], Value::Null);
    let question = json!({"verb": "read", "kind": "Cluster"});
    nameless.post("/authz/check", &question).await.expect_status(200);
    let mut tried = 0;
    for (method, template, _) in operations(guarded).await {
        if method == "GET" || template.ends_with("/authz/check") {
            continue;
        }
        let path = filled(&template, id(&made));
        let asked = nameless.call(&method, &path);
        let answer = match body(&method, &path, "Cluster") {
            Some(body) => asked.json(&body).await,
            None => asked.await,
        };
        assert_refused(&answer, 401, "AUT-001");
        assert!(answer.header("www-authenticate").is_some(), "{answer}");
        tried += 1;
    }
    assert!(tried > 10, "{tried}");
    assert_eq!(nameless.get(path).await.expect_status(200).json(), made);
}
