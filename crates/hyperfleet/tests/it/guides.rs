//! The examples of the guides, run as they are printed. Those of the guide to searches are here.

mod pages;
mod watching;

use serde_json::Value;

use crate::support::*;

const GUIDE: &str = include_str!("../../../../docs/how-to/search.md");

const DNS_ALONE: &str = r"
entities:
  - {kind: Cluster, plural: clusters, required_adapters: [dns]}
  - {kind: NodePool, plural: nodepools, parent_kind: Cluster, on_parent_delete: cascade}
";

/// A fenced block: its label, its text, and the prose up to the next block.
struct Block<'a> {
    label: &'a str,
    text: &'a str,
    behind: &'a str,
}

fn fenced(guide: &str) -> Vec<Block<'_>> {
    let parts: Vec<&str> = guide.split("```").collect();
    let fenced = parts.chunks_exact(2).map(|pair| pair[1]).zip(parts.iter().step_by(2).skip(1));
    fenced
        .map(|(block, behind)| {
            let (label, text) = block.split_once('\n').unwrap();
            Block { label, text: text.trim_end(), behind }
        })
        .collect()
}

/// The names in the sentence that follows a search.
fn found(behind: &str) -> Vec<&str> {
    let sentence = behind.trim_start().strip_prefix("Finds ").expect("a search without its result");
    let sentence = sentence.split(['.', ':']).next().unwrap();
    sentence.split('`').skip(1).step_by(2).collect()
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Whether `given` is what the page shows; `…` stands for anything, and versions count what happened before.
fn shows(page: &Value, given: &Value) -> bool {
    match (page, given) {
        (Value::String(text), _) if text == "…" => true,
        (Value::Array(page), Value::Array(given)) => {
            page.len() == given.len() && page.iter().zip(given).all(|(page, given)| shows(page, given))
        }
        (Value::Object(page), Value::Object(given)) => {
            page.keys().eq(given.keys())
                && page.iter().all(|(key, page)| key == "version" || shows(page, &given[key]))
        }
        _ => page == given,
    }
}

async fn report(app: &App, cluster: &Value, status: &str, reason: &str) {
    let report = crate::support::report("dns", 1, status, text(&cluster["created_time"]));
    app.report(cluster, &with_reason(report, reason, "")).await.expect_status(201);
}

async fn found_by(app: &App, list: &str, search: &str) -> Vec<String> {
    let path = format!("/{list}?orderBy=name&search={}", encoded(search));
    let answer = app.get(&path).await.expect_status(200).json();
    answer["items"].as_array().unwrap().iter().map(|item| text(&item["name"]).to_owned()).collect()
}

async fn every_example_of_the_search_guide_finds_what_the_page_says(app: &App) {
    let blocks = fenced(GUIDE);
    let fleet: Vec<Value> = serde_json::from_str(blocks[0].text).unwrap();
    for cluster in &fleet {
        let mut body = cluster.clone();
        body["kind"] = "Cluster".into();
        let cluster = app.post("/clusters").json(&body).await.expect_status(201).json();
        match text(&cluster["name"]) {
            "prod-east" => {
                app.create_nodepool(&cluster, "workers").await;
                report(app, &cluster, "True", "Done").await;
            }
            "prod-west" => report(app, &cluster, "True", "Done").await,
            "staging" => report(app, &cluster, "False", "QuotaExceeded").await,
            "scratch" => drop(app.remove(&cluster).await),
            _ => {}
        }
    }
    let mut examples = 0;
    for (i, block) in blocks.iter().enumerate() {
        match block.label {
            "search" => {
                assert_eq!(
                    found_by(app, "clusters", block.text).await,
                    found(block.behind),
                    "{}",
                    block.text
                );
            }
            "search resources" => {
                assert_eq!(
                    found_by(app, "resources", block.text).await,
                    found(block.behind),
                    "{}",
                    block.text
                );
            }
            "search mistake" => {
                let path = format!("/clusters?search={}", encoded(block.text));
                let problem = app.get(&path).await.expect_status(400).json();
                assert_eq!(problem["detail"], blocks[i + 1].text);
            }
            "http" => {
                let (path, query) = block.text.strip_prefix("GET ").unwrap().split_once('?').unwrap();
                let answer = app
                    .get(&format!("{path}?{}", query.replace('\'', "%27")))
                    .await
                    .expect_status(200)
                    .json();
                let page: Value = serde_json::from_str(blocks[i + 1].text).unwrap();
                assert!(shows(&page, &answer), "{} gave {answer:#}", block.text);
            }
            _ => continue,
        }
        examples += 1;
    }
    assert!(examples > 20, "{examples} examples were found on the page");
}

any_store!(config = DNS_ALONE; every_example_of_the_search_guide_finds_what_the_page_says);
