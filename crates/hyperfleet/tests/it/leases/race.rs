//! Concurrent claims of one lease.

use std::sync::Arc;

use super::*;

const CONTENDERS: usize = 32;

both_stores!(concurrent_claims_of_a_lease_have_one_winner);

/// All ask at once, each at a server in turn and each by a name of its own, if the lease is what `tag` says. The one
/// answer that grants it.
async fn contend(servers: &[&App], name: &str, tag: Option<&str>) -> Answer {
    let mut racing = tokio::task::JoinSet::new();
    for number in 0..CONTENDERS {
        let asked = claim(servers[number % servers.len()], name, &format!("holder-{number}"), "1h");
        let asked = match tag {
            Some(tag) => asked.header("if-match", tag),
            None => asked,
        };
        racing.spawn(async move { (number, asked.await) });
    }
    let mut granted = Vec::new();
    for (number, answer) in racing.join_all().await {
        match answer.status {
            200 => {
                assert_eq!(answer.json()["holder"], format!("holder-{number}"));
                granted.push(answer);
            }
            // The other claims find another version.
            _ => assert_refused(&answer, "CNF-002"),
        }
    }
    assert_eq!(granted.len(), 1, "{name}: {granted:?}");
    granted.remove(0)
}

/// A lease that was never held, one that was released, and one that has expired.
async fn contended(servers: &[&App]) {
    let app = servers[0];
    let over = etag(&claim(app, "over", "first", "1s").await.expect_status(200));
    for round in 0..5 {
        let name = format!("new-{round}");
        let winner = contend(servers, &name, None).await;
        let holder = text(&winner.json()["holder"]).to_owned();
        let back =
            claim(app, &name, &holder, "0s").header("if-match", etag(&winner)).await.expect_status(200);
        let tag = etag(&back);
        let winner = contend(servers, &name, if round % 2 == 0 { Some(&tag) } else { None }).await;
        for server in servers {
            let list = server.get("/leases?group=sentinel&pageSize=500").await.expect_status(200).json();
            assert!(list["items"].as_array().unwrap().contains(&winner.json()), "{list}");
        }
    }
    eventually("the lease is over", DEADLINE, async || {
        held(app).await.iter().all(|(name, _)| name != "over").then_some(())
    })
    .await;
    contend(servers, "over", Some(&over)).await;
}

async fn concurrent_claims_of_a_lease_have_one_winner(app: &App) {
    contended(&[app]).await;
}

#[test]
fn concurrent_claims_of_a_lease_at_two_servers_have_one_winner() {
    run(async {
        let database = Arc::new(database().await);
        let (one, other) = tokio::join!(
            App::on_database(launch().config(DEFAULT), Arc::clone(&database)),
            App::on_database(launch().config(DEFAULT), Arc::clone(&database))
        );
        contended(&[&one, &other]).await;
    });
}
