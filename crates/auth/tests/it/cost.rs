//! What checking a token costs. Measured by hand, never asserted:
//! `cargo test -p hyperfleet-auth --release -- --ignored --nocapture cost`

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{EC, Fixture, NOW, RSA, Signer, at, bearer, claims_with, jwks};

async fn average<T>(count: u32, mut once: impl AsyncFnMut(u32) -> T) -> Duration {
    let began = Instant::now();
    for n in 0..count {
        std::hint::black_box(once(n).await);
    }
    began.elapsed() / count
}

#[tokio::test]
#[ignore = "a measurement"]
async fn cost_of_a_cached_and_of_a_new_token() {
    let fixture = Fixture::new(&jwks(&[&RSA.jwk(), &EC.jwk()]));
    let claims =
        |n: u32| claims_with(&json!({ "n": n, "groups": vec!["group"; 20], "scope": "x".repeat(300) }));
    let signers: [(&str, &Signer); 2] = [("RS256", &RSA), ("ES256", &EC)];
    for (name, signer) in signers {
        let cold: Vec<_> = (0..1_000).map(|n| bearer(&signer.token(&claims(n)))).collect();
        let unknown = average(1_000, async |n| {
            fixture.verifier.verify_at(&cold[n as usize], at(NOW)).await.unwrap();
        })
        .await;
        let warm = &cold[0];
        let known =
            average(100_000, async |_| fixture.verifier.verify_at(warm, at(NOW)).await.unwrap()).await;
        let bytes = warm["authorization"].len();
        println!("{name}: {bytes} bytes, first time {unknown:?}, again {known:?}");
    }
}
