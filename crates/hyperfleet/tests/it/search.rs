//! `search` over HTTP on both stores. The language itself is tested in core; here each of its rules is shown to hold on
//! a database, on both stores alike, and no search leads out of its list.

mod columns;
mod conditions;
mod contracts;
mod fleet;
mod grammar;
mod hostile;
mod labels;
mod logic;
mod mistakes;
mod numbers;
mod projection;
mod scope;
mod shown;
mod specs;
mod texts;
mod totals;
mod types;

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::support::*;
use fleet::{Fleet, report};

/// Text as it stands in a query string.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").unwrap();
        }
        out
    })
}

/// The path of a list with a search.
pub(crate) fn searched(list: &str, search: &str) -> String {
    let mark = if list.contains('?') { '&' } else { '?' };
    format!("{list}{mark}search={}", encoded(search))
}

/// What a search finds in a list: the names in their order, with a space between. Its total is their number.
async fn found(app: &App, list: &str, search: &str) -> String {
    let path = format!("{}&pageSize=500&orderBy=name", searched(list, search));
    let answer = app.get(&path).await;
    assert!(answer.status == 200, "{search}: {answer}");
    let list = answer.json();
    let items = list["items"].as_array().unwrap();
    assert_eq!((&list["total"], &list["size"]), (&json!(items.len()), &json!(items.len())), "{search}");
    items.iter().map(|item| text(&item["name"])).collect::<Vec<_>>().join(" ")
}

/// Fails the test when a search finds other names than those beside it, with every search that does.
async fn finds(app: &App, list: &str, expected: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (search, names) in expected {
        let found = found(app, list, search).await;
        if found != *names {
            wrong.push(format!("{search}\n    found  {found:?}\n    not    {names:?}"));
        }
    }
    assert!(wrong.is_empty(), "{list}\n{}", wrong.join("\n"));
}

/// The same, with the names by the search.
async fn all_find(app: &App, list: &str, names: &str, searches: &[&str]) {
    let expected: Vec<_> = searches.iter().map(|search| (*search, names)).collect();
    finds(app, list, &expected).await;
}

/// A refused search.
struct Mistake {
    /// Where, in characters from 1.
    position: usize,
    /// What was wrong there.
    said: String,
    /// The detail of the problem, with the part of the query and the caret.
    detail: String,
}

/// The mistake in a search, which must be the only one and stand where the caret does.
async fn mistake(app: &App, list: &str, search: &str) -> Mistake {
    let answer = app.get(&searched(list, search)).await;
    assert!(answer.status == 400, "{search}: {answer}");
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004", "{search}");
    let problem = answer.json();
    assert_eq!(problem["errors"].as_array().unwrap().len(), 1, "{search}: {answer}");
    assert_eq!(problem["errors"][0]["field"], "search", "{search}");
    let message = text(&problem["errors"][0]["message"]);
    let (position, said) =
        message.strip_prefix("search at position ").and_then(|rest| rest.split_once(": ")).unwrap();
    let position: usize = position.parse().unwrap();
    let detail = text(&problem["detail"]).to_owned();
    assert_caret(search, position, &detail);
    Mistake { position, said: said.to_owned(), detail }
}

/// The caret stands under the character at the position, or behind the last one.
#[track_caller]
fn assert_caret(search: &str, position: usize, detail: &str) {
    let characters: Vec<char> = search.chars().collect();
    assert!((1..=characters.len() + 1).contains(&position), "{position} is not in {search:?}");
    let mut lines = detail.lines().rev();
    let (caret, excerpt) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    assert!(caret.ends_with('^') && caret.trim() == "^", "no caret in {detail:?}");
    let column = caret.chars().count() - 1;
    let (shown, meant) = (excerpt.chars().nth(column), characters.get(position - 1));
    // What would move the column is shown as a space.
    let meant = meant.map(|c| if c.is_control() { ' ' } else { *c });
    assert!(
        shown == meant || (meant.is_none() && shown == Some('…')),
        "{shown:?} for {meant:?} in {detail:?}"
    );
}

/// Fails the test unless each search is refused at the position beside it with words of which those are a part.
async fn refuses(app: &App, list: &str, expected: &[(&str, usize, &str)]) {
    let mut wrong = Vec::new();
    for (search, position, words) in expected {
        let mistake = mistake(app, list, search).await;
        if mistake.position != *position || !mistake.said.contains(words) {
            wrong.push(format!("{search}\n    at {}: {}", mistake.position, mistake.said));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
