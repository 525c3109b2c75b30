//! Ten thousand POSTs whose connections are cut at random moments, each sent again with its key until it is answered.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{KEY, is_replayed};
use crate::support::*;

const CALLERS: usize = 50;
const EACH: usize = 200;

both_stores!(posts_retried_after_cut_connections_are_executed_once);

async fn posts_retried_after_cut_connections_are_executed_once(app: &App) {
    let api = Arc::new(app.api());
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let api = api.clone();
        callers.spawn(async move {
            let mut random = fastrand::Rng::with_seed(caller as u64);
            let mut answered = Vec::new();
            for number in 0..EACH {
                let name = format!("c{caller}-{number}");
                let body = json!({"kind": "Cluster", "name": name, "spec": {}}).to_string();
                while random.usize(..10) < 6 {
                    cut_short(api.authority(), &name, &body, &mut random).await;
                }
                let post = api.post(&format!("{BASE}/clusters")).header("content-type", "application/json");
                let answer = post.header(KEY, &name).body(body).await.expect_status(201);
                answered.push((name, answer.json()["id"].take(), is_replayed(&answer)));
            }
            answered
        });
    }
    let answered: Vec<(String, Value, bool)> = callers.join_all().await.into_iter().flatten().collect();
    let replayed = answered.iter().filter(|(_, _, replayed)| *replayed).count();
    assert!(replayed > EACH, "many were done although their caller was gone: {replayed}");
    assert!(replayed < CALLERS * EACH, "and some were not");

    let mut found: HashMap<String, Value> = HashMap::new();
    let mut next = String::new();
    loop {
        let page =
            app.get(&format!("/clusters?fields=name&pageSize=500{next}")).await.expect_status(200).json();
        for item in page["items"].as_array().unwrap() {
            let before = found.insert(text(&item["name"]).to_owned(), item["id"].clone());
            assert_eq!(before, None);
        }
        let Some(token) = page["next_page_token"].as_str() else { break };
        next = format!("&pageToken={token}");
    }
    assert_eq!(found.len(), CALLERS * EACH);
    for (name, id, _) in answered {
        assert_eq!(found[&name], id, "the answer is about the one that was made");
    }
}

/// Sends a part of the request or all of it, perhaps reads the beginning of the answer, and hangs up.
async fn cut_short(authority: &str, key: &str, body: &str, random: &mut fastrand::Rng) {
    let length = body.len();
    let request = format!(
        "POST {BASE}/clusters HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\n\
         Idempotency-Key: {key}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let mut connection = TcpStream::connect(authority).await.unwrap();
    let sent = if random.usize(..10) < 7 { request.len() } else { random.usize(..request.len()) };
    connection.write_all(&request.as_bytes()[..sent]).await.unwrap();
    if sent == request.len() && random.usize(..10) < 3 {
        let _ = connection.read(&mut [0; 16]).await;
    }
}
