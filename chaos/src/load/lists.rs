//! Walks over the pages of lists, each page from any replica.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hyperfleet_testkit::{Answer, Client};
use serde_json::Value;

use super::{BASE, Caller};
use crate::feed;
use crate::history::{Read, Walk};

/// Small, so that a walk has several pages.
const PAGE: usize = 20;
/// Between two walks, and between two attempts.
const PAUSE: Duration = Duration::from_millis(500);
/// An attempt to read a page.
const ATTEMPTS: usize = 20;

pub(super) async fn run(mut caller: Caller) {
    while !caller.shared.is_stopping() {
        // A walk that cannot be completed tells nothing.
        let _ = walk(&mut caller).await;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn walk(caller: &mut Caller) -> Option<()> {
    let started = caller.shared.now();
    let path = format!("{BASE}/clusters?orderBy=name&pageSize={PAGE}");
    let (mut token, mut ids) = (None, Vec::new());
    loop {
        let page = page(caller, &path, token.as_deref()).await?;
        if token.is_none() {
            let (ended, version) = (caller.shared.now(), page["version"].as_u64()?);
            caller.shared.history().reads.push(Read { started, ended, version });
        }
        for item in page["items"].as_array()? {
            ids.push(feed::id(&item["id"]).ok()?);
        }
        token = page["next_page_token"].as_str().map(str::to_owned);
        if token.is_none() {
            let ended = caller.shared.now();
            caller.shared.history().walks.push(Walk { started, ended, ids });
            return Some(());
        }
    }
}

/// One page; the token of one replica is good at another.
async fn page(caller: &mut Caller, path: &str, token: Option<&str>) -> Option<Value> {
    let path = token.map_or_else(|| path.to_owned(), |token| format!("{path}&pageToken={token}"));
    for _ in 0..ATTEMPTS {
        caller.home = caller.random.usize(..caller.shared.replicas.len());
        let client = caller.replica();
        match caller.shared.send(client.get(&path)).await {
            Some(answer) if answer.status == 200 => return serde_json::from_slice(&answer.body).ok(),
            Some(answer) if answer.status < 500 => {
                caller.shared.unexpected(format!("GET {path}: {answer}"));
                return None;
            }
            _ if caller.shared.is_stopping() => return None,
            _ => tokio::time::sleep(PAUSE).await,
        }
    }
    None
}

/// All items of a list, from one replica in good order, with the version of the first page.
pub(crate) async fn pages(client: &Client, path: &str) -> Result<(Vec<Value>, u64)> {
    let (mut items, mut version, mut token) = (Vec::new(), None, String::new());
    loop {
        let separator = if path.contains('?') { '&' } else { '?' };
        let mut page = ask(client, &format!("{path}{separator}pageSize=500{token}")).await?;
        if let Value::Array(more) = page["items"].take() {
            items.extend(more);
        }
        let version = *version.get_or_insert(page["version"].as_u64().context("a list without a version")?);
        match page["next_page_token"].as_str() {
            Some(next) => token = format!("&pageToken={next}"),
            None => return Ok((items, version)),
        }
    }
}

/// The version of the feed, which a list tells.
pub(crate) async fn present_version(client: &Client) -> Result<u64> {
    let page = ask(client, &format!("{BASE}/clusters?pageSize=1&total=none")).await?;
    page["version"].as_u64().context("a list without a version")
}

async fn ask(client: &Client, path: &str) -> Result<Value> {
    let answer: Answer = client.get(path).send().await?;
    ensure!(answer.status == 200, "GET {path}: {answer}");
    Ok(serde_json::from_slice(&answer.body)?)
}
