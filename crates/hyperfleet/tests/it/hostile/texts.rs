//! Texts that are code elsewhere, wherever a text is accepted: members, labels, paths, parameters, headers.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{harmless, still_serves};
use crate::support::*;

const FRAGMENTS: [&str; 22] = [
    "'; drop table resources; --",
    "\"; drop table resources; --",
    "' or '1'='1",
    "1; delete from changes",
    "') union select version from feed --",
    "$1",
    "?1",
    ":name",
    "%s%n%x",
    "{{7*7}}${7*7}",
    "<script>alert(1)</script>",
    "../../../../etc/passwd",
    "..\\..\\",
    "\\",
    "\\u0000",
    "\u{0}",
    "a\u{0}b",
    "\r\nx-injected: yes",
    "\u{1b}[2J\u{7}",
    "\u{202e}\u{200b}\u{feff}",
    "\u{1f4a9}\u{10ffff}\u{fffe}",
    "e\u{301}\u{301}\u{301}",
];

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        write!(out, "%{byte:02x}").unwrap();
        out
    })
}

async fn hostile_texts_in_members_are_kept_or_refused(app: &App) {
    let cluster = app.create_cluster("target").await;
    for fragment in FRAGMENTS {
        let whole = |member: &str, value: Value| {
            let mut body = json!({"kind": "Cluster", "name": unique("text"), "spec": {}});
            body[member] = value;
            body
        };
        for body in [
            whole("name", fragment.into()),
            whole("kind", fragment.into()),
            whole("labels", json!({fragment: "v"})),
            whole("labels", json!({"k": fragment})),
            whole("references", json!({fragment: []})),
            whole("spec", fragment.into()),
            whole(fragment, fragment.into()),
        ] {
            for path in ["/clusters", "/resources", &format!("{}/nodepools", href(&cluster))] {
                harmless(&app.post(path).json(&body).await.expect_status(400), fragment);
            }
        }
        let kept = !fragment.contains('\0');
        for spec in [json!({"a": fragment}), json!({fragment: 1}), json!({"a": [{"b": fragment}]})] {
            let answer = app.post("/clusters").json(&whole("spec", spec.clone())).await;
            harmless(&answer, fragment);
            if kept {
                let made = answer.expect_status(201).json();
                assert_eq!(app.read(&made).await["spec"], spec);
                assert_eq!(
                    app.merge(&made, &json!({"spec": {"more": fragment}})).await["spec"]["more"],
                    fragment
                );
                assert_eq!(app.remove(&made).await["spec"]["more"], fragment);
            } else {
                let fault = &answer.expect_status(400).json()["errors"][0];
                assert!(text(&fault["field"]).starts_with("spec"), "{fault}");
            }
        }
        // What a server manages is ignored, whatever it is.
        let managed =
            app.post("/clusters").json(&whole("id", fragment.into())).await.expect_status(201).json();
        assert_ne!(managed["id"], fragment);
    }
    assert_eq!(app.read(&cluster).await, cluster);
    still_serves(app).await;
}

async fn hostile_texts_in_patches_and_reasons_are_kept_or_refused(app: &App) {
    for fragment in FRAGMENTS {
        let cluster = app.create_cluster(&unique("patched")).await;
        for patch in [
            json!({"labels": {"k": fragment}}),
            json!({"labels": {fragment: "v"}}),
            json!({"references": {fragment: [{"id": fragment}]}}),
            json!({fragment: {}}),
        ] {
            for path in [href(&cluster).to_owned(), format!("/resources/{}", id(&cluster))] {
                harmless(&app.patch(&path).json(&patch).await.expect_status(400), fragment);
            }
        }
        let pointer = fragment.replace('~', "~0").replace('/', "~1");
        for operation in [
            json!({"op": "add", "path": format!("/spec/{pointer}"), "value": fragment}),
            json!({"op": "add", "path": format!("/labels/{pointer}"), "value": fragment}),
            json!({"op": "test", "path": format!("/spec/{pointer}"), "value": fragment}),
            json!({"op": "remove", "path": format!("/spec/{pointer}")}),
            json!({"op": fragment, "path": fragment}),
            json!({"op": "copy", "from": fragment, "path": fragment}),
        ] {
            let patch = app.patch(href(&cluster)).header("content-type", "application/json-patch+json");
            harmless(&patch.json(&json!([operation])).await, fragment);
        }
        app.remove(&cluster).await;
        let force =
            app.post(&format!("{}/force-delete", href(&cluster))).json(&json!({"reason": fragment})).await;
        harmless(&force, fragment);
        let expected = if fragment.contains('\0') { 400 } else { 204 };
        force.expect_status(expected);
    }
    still_serves(app).await;
}

async fn hostile_texts_in_paths_and_parameters_find_nothing(app: &App) {
    let cluster = app.create_cluster("target").await;
    let odd = [
        "%00",
        "%ff",
        "%c0%80",
        "%ed%a0%80",
        "..%2f..%2f",
        "%2e%2e",
        "..",
        ".",
        "%",
        "%zz",
        "%2",
        "+",
        "%25%30%30",
    ];
    let segments = FRAGMENTS.map(|fragment| (encoded(fragment), fragment));
    for (segment, meant) in segments.into_iter().chain(odd.map(|segment| (segment.to_owned(), segment))) {
        for path in [
            format!("{BASE}/clusters/{segment}"),
            format!("{BASE}/resources/{segment}"),
            format!("{BASE}/clusters/{segment}/nodepools"),
            format!("{}/nodepools/{segment}", href(&cluster)),
            format!("{BASE}/{segment}"),
            format!("/api/hyperfleet/{segment}"),
            format!("/api/hyperfleet/v1{segment}/clusters"),
        ] {
            for method in ["GET", "PATCH", "DELETE", "POST"] {
                let call =
                    app.api().call(method.parse().unwrap(), &path).header("content-type", "application/json");
                let answer = call.body(r#"{"spec": {"a": 1}}"#).await;
                harmless(&answer, meant);
                assert!([400, 404, 405].contains(&answer.status), "{method} {path}: {answer}");
            }
            let force = app.api().post(&format!("{path}/force-delete")).body(r#"{"reason": "r"}"#).await;
            harmless(&force, meant);
            assert!([400, 404, 405].contains(&force.status), "{path}: {force}");
        }
        for query in [
            "page=",
            "pageSize=",
            "size=",
            "orderBy=",
            "order=",
            "fields=",
            "fields=spec.",
            "showDeleted=",
            "total=",
            "ref_type=",
            "kind=",
            "dryRun=",
            "ref_type=wif&ref_target_id=",
            "",
        ] {
            for path in [&format!("{BASE}/resources"), href(&cluster)] {
                harmless(&app.api().get(&format!("{path}?{query}{segment}")).await, meant);
            }
        }
        let both = format!("{BASE}/resources?ref_target_id={}&ref_type={segment}", id(&cluster));
        let found = app.api().get(&both).await;
        harmless(&found, meant);
        // A blank one is an absent one, and the other is not enough.
        found.expect_status(if segment == "+" { 400 } else { 200 });
    }
    assert_eq!(app.read(&cluster).await, cluster);
    still_serves(app).await;
}

async fn hostile_texts_in_headers_are_plain_text(app: &App) {
    let cluster = app.create_cluster("target").await;
    let headers = [
        "x-request-id",
        "traceparent",
        "if-none-match",
        "accept",
        "accept-encoding",
        "authorization",
        "user-agent",
        "cookie",
        "range",
        "x-forwarded-for",
        "forwarded",
        "origin",
    ];
    let plain = FRAGMENTS
        .iter()
        .filter(|fragment| !fragment.chars().any(|c| c == '\r' || c == '\n' || c.is_control()));
    for fragment in plain {
        for header in headers {
            let answer = app.api().get(href(&cluster)).header(header, fragment).await;
            harmless(&answer, fragment);
            let expected = if header == "if-none-match" { 400 } else { 200 };
            assert_eq!(answer.status, expected, "{header}: {fragment}");
            assert_eq!(answer.header("x-injected"), None);
        }
        let refused =
            app.api().patch(href(&cluster)).header("if-match", fragment).body(r#"{"spec": {"a": 1}}"#).await;
        harmless(&refused.expect_status(400), fragment);
        let quoted = format!("\"{}\"", fragment.replace(['"', ' '], "_"));
        let refused =
            app.api().patch(href(&cluster)).header("if-match", quoted).body(r#"{"spec": {"a": 1}}"#).await;
        harmless(&refused.expect_status(409), fragment);
    }
    assert_eq!(app.read(&cluster).await, cluster);
    still_serves(app).await;
}

async fn a_body_with_random_damage_never_breaks_the_server(app: &App) {
    let cluster = app.create_cluster("target").await;
    let bodies = [
        r#"{"kind":"Cluster","name":"abc-def","spec":{"a":[1,2.5e3,{"b":null}],"\u0063":"\ud83d\ude00"},"labels":{"x/y":"z"}}"#,
        r#"{"spec":{"a":null,"b":{"c":[true,false]}},"labels":null,"references":{"wif":[{"kind":"Wif","id":"1"}]}}"#,
        r#"[{"op":"add","path":"/spec/a~1b","value":{"x":[1]}},{"op":"move","from":"/spec/a~1b","path":"/spec/c"}]"#,
    ];
    let mut random = fastrand::Rng::with_seed(0x5eed_0001);
    for round in 0..600 {
        let mut body = bodies[random.usize(..bodies.len())].as_bytes().to_vec();
        for _ in 0..=random.usize(..4) {
            let at = random.usize(..body.len());
            match random.usize(..if body.len() > 1 { 4 } else { 1 }) {
                0 => body[at] = u8::try_from(random.usize(..256)).unwrap(),
                1 => drop(body.remove(at)),
                2 => body.insert(at, b"{}[]\",:\\0e-\0"[random.usize(..12)]),
                _ => body.truncate(at.max(1)),
            }
        }
        let media_type = ["application/json", "application/merge-patch+json", "application/json-patch+json"]
            [random.usize(..3)];
        let path = [
            format!("{BASE}/clusters"),
            href(&cluster).to_owned(),
            format!("{}/force-delete", href(&cluster)),
        ];
        let call = match random.usize(..3) {
            0 => app.api().post(&path[0]),
            1 => app.api().patch(&path[1]),
            _ => app.api().post(&path[2]),
        };
        harmless(&call.header("content-type", media_type).body(body).await, &format!("round {round}"));
    }
    still_serves(app).await;
}

both_stores!(
    hostile_texts_in_members_are_kept_or_refused,
    hostile_texts_in_patches_and_reasons_are_kept_or_refused,
    hostile_texts_in_paths_and_parameters_find_nothing,
    hostile_texts_in_headers_are_plain_text,
    a_body_with_random_damage_never_breaks_the_server,
);
