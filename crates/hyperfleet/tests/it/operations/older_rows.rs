//! Rows as they were written before changes, reports and conditions had shorter forms. They are read as long as they
//! are there. What is told of the short forms here is told by nobody else: a database outlives its program.

use std::collections::HashMap;

use hyperfleet_testkit::Client;
use serde_json::{Value, json};

use super::home::{Home, Rows};
use super::{CLUSTERS, create_cluster};
use crate::search::encoded;

/// By which the first dictionary is known.
const WORDS: &[u8] = include_bytes!("../../../../store/src/packed/words.txt");

on_both_stores!(rows_from_before_the_short_forms_are_read_and_searched_as_before);

/// The dictionaries of a database, by the first byte of what they pack.
pub(super) type Dictionaries = HashMap<u8, Vec<u8>>;

/// The one in the binary, and those that the rows of the table `dictionaries` tell of by number and hexadecimal digits.
pub(super) fn dictionaries(learned: &Rows) -> Dictionaries {
    let learned = learned.iter().map(|row| (row[0].parse().unwrap(), bytes(&row[1])));
    learned.chain([(1, WORDS.to_vec())]).collect()
}

/// The texts of a value that is packed, from its hexadecimal digits.
pub(super) fn unpacked(dictionaries: &Dictionaries, hex: &str) -> Vec<String> {
    let packed = bytes(hex);
    let words = &dictionaries[&packed[0]];
    let mut reader = zstd::bulk::Decompressor::with_dictionary(words).unwrap();
    let text = reader.decompress(&packed[1..], 1 << 20).unwrap();
    String::from_utf8(text).unwrap().split('\0').map(str::to_owned).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

async fn rows_from_before_the_short_forms_are_read_and_searched_as_before(home: &Home) {
    let mut server = home.serve().start().await.unwrap();
    let (kept, gone) = live(&server.api()).await;
    let before = told(&server.api(), &kept, &gone).await;
    server.terminate().await.unwrap();
    write_as_before(home, &before[0]["status"]["conditions"]).await;
    server.restart().await.unwrap();
    for (before, after) in before.iter().zip(told(&server.api(), &kept, &gone).await) {
        assert_eq!(*before, after);
    }
    report(&server.api(), &kept, "2026-01-01T11:00:00Z", "Late").await;
    let reports = server.api().get(&format!("{kept}/statuses")).await.expect_status(200).json();
    assert_eq!(reports["items"][0]["conditions"][0]["reason"], "Late", "{reports}");
}

/// A cluster that lives and one that is gone; their paths.
async fn live(api: &Client) -> (String, String) {
    let mut paths = Vec::new();
    for name in ["kept", "gone"] {
        let cluster = create_cluster(api, name).await.json();
        paths.push(format!("{CLUSTERS}/{}", cluster["id"].as_str().unwrap()));
    }
    let [kept, gone] = paths.try_into().unwrap();
    api.call("PATCH".parse().unwrap(), &kept).json(&json!({"spec": {"n": 2}})).await.expect_status(200);
    report(api, &kept, "2026-01-01T10:00:00Z", "It's \"done\" \\o/").await;
    api.call("DELETE".parse().unwrap(), &gone).await.expect_status(202);
    api.post(&format!("{gone}/force-delete")).json(&json!({"reason": "over"})).await.expect_status(204);
    (kept, gone)
}

async fn report(api: &Client, cluster: &str, time: &str, reason: &str) {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": reason, "message": "Fine"});
    let report = json!({
        "adapter": "validator", "observed_generation": 2, "observed_time": time, "data": {"job": 1.50, "by": "it's me"},
        "conditions": [condition("Available"), condition("Applied"), condition("Health")],
    });
    let answer = api.call("PUT".parse().unwrap(), &format!("{cluster}/statuses")).json(&report).await;
    assert!([200, 201].contains(&answer.status), "{answer}");
}

/// Whatever is made of these rows.
async fn told(api: &Client, kept: &str, gone: &str) -> Vec<Value> {
    let searches = [
        "Reconciled.reason='ReconciledAll'",
        "Reconciled.message like 'All required%'",
        "ValidatorSuccessful.reason='It''s \"done\" \\o/'",
        "ValidatorSuccessful.observed_generation=2",
        "Reconciled.last_updated_time<'2026-01-01T10:00:01Z'",
        "Reconciled.last_transition_time<'2026-01-01T10:00:01Z'",
    ];
    let mut answers = Vec::new();
    for path in ["", "?generation=1", "/timeline", "/statuses"].map(|end| format!("{kept}{end}")) {
        answers.push(api.get(&path).await.expect_status(200).json());
    }
    answers.push(api.get(&format!("{gone}/timeline")).await.expect_status(200).json());
    for search in searches {
        let asked = encoded(&format!("status.conditions.{search}"));
        let found = api.get(&format!("{CLUSTERS}?search={asked}")).await.expect_status(200).json();
        assert_eq!(found["total"], 1, "{search}");
        answers.push(found);
    }
    answers
}

/// Writes all rows anew as they were before.
async fn write_as_before(home: &Home, conditions: &Value) {
    let text = |text: &str| match text {
        "" => "null".to_owned(),
        text => format!("'{}'", text.replace('\'', "''")),
    };
    let dictionaries = dictionaries(&Rows::new());
    for row in home.rows(&format!("select version, {} from changes", home.hex("packed"))).await {
        let [entries, undo, last] = unpacked(&dictionaries, &row[1]).try_into().unwrap();
        let [entries, undo, last] = [entries, undo, last].map(|part| text(&part));
        home.execute(&format!(
            "update changes set entries = {entries}, undo = {undo}, last = {last}, packed = null where version = {}",
            row[0]
        ))
        .await;
    }
    for row in home.rows(&format!("select adapter, {} from reports", home.hex("packed"))).await {
        let [conditions, data, _] = unpacked(&dictionaries, &row[1]).try_into().unwrap();
        let [conditions, data] = [conditions, data].map(|part| text(&part));
        home.execute(&format!(
            "update reports set conditions = {conditions}, data = {data}, packed = null where adapter = '{}'",
            row[0]
        ))
        .await;
    }
    assert!(home.rows("select conditions from resource_status").await[0][0].starts_with('\x01'));
    home.execute(&format!("update resource_status set conditions = {}", text(&conditions.to_string()))).await;
}
