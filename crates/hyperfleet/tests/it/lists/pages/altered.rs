//! Page tokens that do not belong to this list: altered, of another list, or made up.

use super::*;

/// Fails the test unless the path is refused because of its token alone.
async fn refused(app: &App, path: &str, why: &str) {
    let answer = app.get(path).await;
    assert!(answer.status == 400, "{why}: {answer}");
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004", "{why}");
    let problem = answer.json();
    assert_eq!(problem["errors"].as_array().unwrap().len(), 1, "{why}: {answer}");
    assert_eq!(problem["errors"][0]["field"], "pageToken", "{why}");
}

async fn token(app: &App, path: &str) -> String {
    let list = app.get(path).await.expect_status(200).json();
    text(&list["next_page_token"]).to_owned()
}

async fn an_altered_token_is_refused(app: &App) {
    filled(app).await;
    let token = token(app, &searched("/resources?pageSize=2&orderBy=name", "name != 'x'")).await;
    assert!(token.is_ascii() && token.len() > 20, "{token}");
    let with = |token: &str| format!("/resources?pageToken={}", encoded(token));
    app.get(&with(&token)).await.expect_status(200);
    for at in 0..token.len() {
        for bit in [0, 1, 5] {
            let mut bytes = token.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let altered = String::from_utf8(bytes).unwrap();
            if !altered.trim().is_empty() {
                refused(app, &with(&altered), &format!("bit {bit} of byte {at}")).await;
            }
        }
    }
    // The last character may hold bits that mean nothing: they are part of the token too.
    for last in ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['-', '_', '=', '.']) {
        let altered = format!("{}{last}", &token[..token.len() - 1]);
        if altered != token {
            refused(app, &with(&altered), &altered).await;
        }
    }
    for length in (1..token.len()).step_by(7).chain([token.len() - 1, token.len() - 4]) {
        refused(app, &with(&token[..length]), &format!("cut to {length}")).await;
        refused(app, &with(&token[length..]), &format!("cut before {length}")).await;
    }
    for altered in [
        format!("{token}A"),
        format!("{token}AAAA"),
        format!("{token}="),
        format!("{token}=="),
        format!("{token} "),
        format!(" {token}"),
        format!("{token}\0"),
        format!("{token}\n"),
        format!("{token}{token}"),
        format!("{token}é"),
        token.to_uppercase(),
        token.to_lowercase(),
        token.chars().rev().collect(),
        "x".to_owned(),
        "null".to_owned(),
        "{}".to_owned(),
        "eyJpZCI6MX0".to_owned(),
        "A".repeat(30_000),
    ] {
        refused(app, &with(&altered), &altered).await;
    }
    assert_eq!(app.names(&format!("{}&pageSize=500", with(&token))).await.len(), 9);
    for blank in ["", "%20"] {
        assert_eq!(app.names(&format!("/networks?pageToken={blank}")).await.len(), 5, "a blank one is none");
    }
    let twice = app.get(&format!("{}&pageToken={token}", with(&token))).await.expect_status(400);
    assert_eq!(twice.json()["errors"][0]["field"], "pageToken", "{twice}");
}

async fn a_token_belongs_to_its_list(app: &App) {
    filled(app).await;
    let clusters = app.get("/clusters?orderBy=name").await.expect_status(200).json();
    let below = |number: usize| format!("{}/nodepools", href(&clusters["items"][number]));
    let lists = [
        "/clusters".to_owned(),
        "/networks".to_owned(),
        "/nodepools".to_owned(),
        "/resources".to_owned(),
        below(0),
        below(1),
    ];
    for from in &lists {
        let token = token(app, &format!("{from}?pageSize=1")).await;
        for to in &lists {
            let path = format!("{to}?pageToken={}", encoded(&token));
            if from == to {
                app.get(&path).await.expect_status(200);
            } else {
                refused(app, &path, &format!("{from} continued at {to}")).await;
            }
        }
        let gone = app.get(&format!("/clusters/absent/nodepools?pageToken={}", encoded(&token))).await;
        assert!([400, 404].contains(&gone.status), "{gone}");
    }
    // One kind of all kinds is not that kind's own list, nor all kinds.
    let narrowed = token(app, "/resources?kind=Cluster&pageSize=1").await;
    refused(app, &format!("/clusters?pageToken={}", encoded(&narrowed)), "of all kinds").await;
    let rest =
        app.get(&format!("/resources?pageToken={}", encoded(&narrowed))).await.expect_status(200).json();
    assert!(rest["items"].as_array().unwrap().iter().all(|item| item["kind"] == "Cluster"), "{rest}");
}

async fn a_token_of_another_server_is_refused(app: &App) {
    filled(app).await;
    let other = App::sqlite(CATALOG).await;
    filled(&other).await;
    for list in ["/clusters", "/resources", "/networks"] {
        let theirs = token(&other, &format!("{list}?pageSize=1")).await;
        refused(app, &format!("{list}?pageToken={}", encoded(&theirs)), "of another database").await;
        let ours = token(app, &format!("{list}?pageSize=1")).await;
        refused(&other, &format!("{list}?pageToken={}", encoded(&ours)), "of this database").await;
    }
}

both_stores!(
    config = CATALOG;
    an_altered_token_is_refused,
    a_token_belongs_to_its_list,
    a_token_of_another_server_is_refused,
);
