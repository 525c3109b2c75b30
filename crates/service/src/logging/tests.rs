use std::sync::{Arc, Mutex};

use serde_json::Value as Json;
use tracing::{error, info, info_span, warn};

use super::*;

fn masking() -> Masking {
    Masking {
        enabled: true,
        headers: ["Authorization", "Cookie"].map(str::to_owned).into(),
        fields: ["password", "secret", "token", "api_key"].map(str::to_owned).into(),
        secrets: Secrets::of(["s3cret@place", "a\"b%2Dc"]),
    }
}

/// What is written while `work` logs.
fn written(format: Format, colour: bool, level: Level, work: impl FnOnce()) -> String {
    let config = LogConfig {
        level,
        format,
        output: Output::Stdout,
        masking: masking(),
        component: "api".into(),
        version: "1.2.3".into(),
        hostname: "here".into(),
    };
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let sink = bytes.clone();
    let write: layer::Sink = Box::new(move |line| sink.lock().unwrap().extend_from_slice(line));
    let lines = Lines::new(config, colour, write);
    let subscriber = tracing_subscriber::registry().with(lines).with(levels(level));
    tracing::subscriber::with_default(subscriber, work);
    String::from_utf8(bytes.lock().unwrap().clone()).unwrap()
}

fn json(work: impl FnOnce()) -> Json {
    let text = written(Format::Json, true, Level::INFO, work);
    assert_eq!(text.matches('\n').count(), 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

fn text(work: impl FnOnce()) -> String {
    let line = written(Format::Text, false, Level::INFO, work);
    // Without the time, which is in the way of comparing.
    line[13..].to_owned()
}

#[test]
fn a_json_line_has_the_fixed_names_first_and_then_the_fields() {
    let raw = written(Format::Json, false, Level::INFO, || {
        info!(status = 200, duration_ms = 1.5, ok = true, path = "/x", "served");
    });
    let start = raw.find(",\"level\"").unwrap();
    assert_eq!(
        raw[start..],
        *",\"level\":\"info\",\"message\":\"served\",\"component\":\"api\",\"version\":\"1.2.3\",\
          \"hostname\":\"here\",\"status\":200,\"duration_ms\":1.5,\"ok\":true,\"path\":\"/x\"}\n"
    );
    let line: Json = serde_json::from_str(&raw).unwrap();
    let time = line["timestamp"].as_str().unwrap();
    assert_eq!(time.len(), "2026-01-02T03:04:05.678Z".len());
    assert!(time.ends_with('Z'));
}

#[test]
fn span_fields_are_flattened_the_inner_one_wins_and_a_message_is_always_there() {
    let line = json(|| {
        let outer = info_span!("request", request_id = "r1", a = 1, late = tracing::field::Empty);
        let _outer = outer.enter();
        outer.record("late", "yes");
        outer.record("a", 2);
        let _inner = info_span!("store", request_id = "r2", component = "store").entered();
        info!(a = 3, request_id = "r3");
    });
    assert_eq!(line["request_id"], "r3");
    assert_eq!(line["a"], 3);
    assert_eq!(line["late"], "yes");
    assert_eq!(line["component"], "store");
    assert_eq!(line["message"], "");
}

#[test]
fn no_key_occurs_twice() {
    let raw = written(Format::Json, false, Level::INFO, || {
        let _outer = info_span!("s", level = 1, message = "span", version = "x", a = 1).entered();
        info!(timestamp = 5, level = "fake", a = 2, json.a = "3", "real");
    });
    for name in ["timestamp", "level", "message", "version", "a"] {
        assert_eq!(raw.matches(&format!("\"{name}\":")).count(), 1, "{name} in {raw}");
    }
    let line: Json = serde_json::from_str(&raw).unwrap();
    assert_eq!((&line["level"], &line["message"], &line["a"]), (&"info".into(), &"real".into(), &3.into()));
}

#[test]
fn any_text_makes_valid_json() {
    let nasty = "a\"b\\c\n\r\t\0\u{1b}[31m\u{2028}é😀";
    let line = json(|| error!(error = nasty, debug = ?nasty, nan = f64::NAN, big = u128::MAX, "{nasty}"));
    assert_eq!(line["message"], nasty);
    assert_eq!(line["error"], nasty);
    assert_eq!(line["nan"], "NaN");
    assert_eq!(line["big"].to_string(), u128::MAX.to_string());
}

#[test]
fn a_json_field_is_nested_and_masked_and_stays_text_when_it_is_no_json() {
    let line = json(|| {
        info!(
            json.request_context =
                r#"{"path":"/x?token=abc","headers":{"cookie":"c"},"db_password":"p","n":1e400}"#,
            json.broken = "{",
            "refused"
        );
    });
    assert_eq!(
        line["request_context"].to_string(),
        r#"{"path":"/x?token=***","headers":{"cookie":"***"},"db_password":"***","n":1e+400}"#
    );
    assert_eq!(line["broken"], "{");
}

#[test]
fn an_error_is_logged_with_its_causes() {
    #[derive(Debug, thiserror::Error)]
    #[error("cannot connect with password=hunter2")]
    struct Outer(#[source] std::io::Error);
    let failure = Outer(std::io::Error::other("refused\nhere"));
    let line = json(|| error!(error = &failure as &dyn std::error::Error, "failed"));
    assert_eq!(line["error"], "cannot connect with password=***: refused\nhere");
}

#[test]
fn text_is_short_and_quotes_only_what_needs_it() {
    let line = text(|| {
        let _span = info_span!("s", request_id = "r 1").entered();
        warn!(status = 503, path = "/a", empty = "", quote = "a\"b", "shed");
    });
    assert_eq!(line, "WARN  shed status=503 path=/a empty=\"\" quote=\"a\\\"b\" request_id=\"r 1\"\n");
}

#[test]
fn text_cannot_be_made_to_forge_a_line_or_drive_the_terminal() {
    let line = text(|| info!(name = "a\nb\u{1b}[2J", "x\r\ny\u{9b}31m\u{202e}"));
    assert_eq!(line, "INFO  x\\r\\ny\\u{9b}31m\\u{202e} name=a\\nb\\u{1b}[2J\n");
}

#[test]
fn colours_are_for_terminals_only() {
    let work = || info!(a = 1, "x");
    assert!(
        written(Format::Text, true, Level::INFO, work).contains("\x1b[32mINFO \x1b[0m x\x1b[2m a=1\x1b[0m\n")
    );
    assert!(!written(Format::Text, false, Level::INFO, work).contains('\x1b'));
    assert!(!written(Format::Json, true, Level::INFO, work).contains("\\u001b"));
}

#[test]
fn libraries_are_quiet_unless_the_level_is_debug() {
    let work = || {
        tracing::info!(target: "hyper::proto", "library");
        tracing::warn!(target: "hyper::proto", "library warning");
        tracing::debug!(target: "hyperfleet_api::x", "ours");
    };
    let info = written(Format::Text, false, Level::INFO, work);
    assert!(info.contains("library warning") && info.lines().count() == 1, "{info}");
    assert_eq!(written(Format::Text, false, Level::DEBUG, work).lines().count(), 3);
    assert_eq!(written(Format::Text, false, Level::ERROR, work), "");
}

#[test]
fn a_value_that_logs_while_it_is_formatted_disturbs_nothing() {
    struct Chatty;
    impl std::fmt::Display for Chatty {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            info!("from inside");
            f.write_str("chatty")
        }
    }
    let lines = written(Format::Text, false, Level::INFO, || info!(value = %Chatty, "outside"));
    assert!(lines.contains("outside value=chatty"), "{lines}");
}

#[test]
fn fields_are_masked_by_name() {
    let line = json(|| {
        info!(
            password = "p",
            db_password = 7,
            "apiKey" = "k",
            "X-Secret" = "s",
            token_count = 3,
            passwords = 1,
            "x"
        );
    });
    for name in ["password", "db_password", "apiKey", "X-Secret"] {
        assert_eq!(line[name], MASK, "{name}");
    }
    assert_eq!((&line["token_count"], &line["passwords"]), (&3.into(), &1.into()));
}

#[test]
fn free_text_loses_its_secrets() {
    for (given, shown) in [
        ("nothing to hide: a=b", "nothing to hide: a=b"),
        ("password=hunter2 host=db", "password=*** host=db"),
        ("Password = hunter2, then", "Password = ***, then"),
        ("token: abc", "token: ***"),
        ("/x?token=abc&page=2", "/x?token=***&page=2"),
        (r#"{"password":"a b","user":"u"}"#, r#"{"password":***,"user":"u"}"#),
        (r#"{"password":"a\"b","user":"u"}"#, r#"{"password":***,"user":"u"}"#),
        (r#"body \"password\":\"ab\",\"u\":1"#, r#"body \"password\":***,\"u\":1"#),
        (r#"Login { password: Some("hunter 2"), n: 1 }"#, "Login { password: ***), n: 1 }"),
        ("sent Bearer abc.def-ghi to x", "sent Bearer *** to x"),
        ("token: Bearer abc", "token: *** ***"),
        ("Authorization: Basic dXNlcjpw x\nHost: y", "Authorization: ***\nHost: y"),
        ("cookie: a=b; c=d", "cookie: ***"),
        ("at postgres://me:pw@db/x?sslmode=require", "at postgres://me:***@db/x?sslmode=require"),
        ("at postgres://me:p@w@db/x", "at postgres://me:***@db/x"),
        ("at postgres://me:p/w@db/x", "at postgres://me:***@db/x"),
        ("at postgres://me@db/x", "at postgres://me@db/x"),
        ("http://localhost:8000/a@b http://[::1]:80/", "http://localhost:8000/a@b http://[::1]:80/"),
        ("amqp://é:ü@host token=é", "amqp://é:***@host token=***"),
        ("hyperfleet::token::Check at src/token.rs:12:5", "hyperfleet::token::Check at src/token.rs:12:5"),
        ("password=", "password="),
        ("nats://T0KEN@h:4222, nats://me:pw@h", "nats://***@h:4222, nats://me:***@h"),
        ("ServerAddr(Url { username: \"s3cret@place\" })", "ServerAddr(Url { username: \"***\" })"),
        ("PLAIN \\0me\\0a\\\"b-c, a\"b-c or a\"b%2Dc", "PLAIN \\0me\\0***, *** or ***"),
        ("password=\"unclosed", "password=***"),
    ] {
        assert_eq!(masking().text(given), shown);
    }
    let off = Masking { enabled: false, ..masking() };
    assert_eq!(off.text("password=x"), "password=x");
    assert_eq!(off.header("Cookie", "x"), "x");
}

#[test]
fn a_configured_url_is_shown_without_its_secrets() {
    for (given, shown) in [
        ("nats://localhost:4222", "nats://localhost:4222"),
        ("nats://T0KEN@h:4222", "nats://***@h:4222"),
        ("T0KEN@h:4222", "***@h:4222"),
        ("nats://me:pw@h:4222", "nats://me:***@h:4222"),
        ("nats://T0KEN@a, nats://me:pw@b:4222", "nats://***@b:4222"),
        ("nats://a,me:pw@b", "nats://a,me:***@b"),
        ("postgres://me:p@s/w, x@db/fleet?password=more&a=b", "postgres://***@db/fleet?password=***&a=b"),
        ("postgres://me:p@s/w@db/fleet", "postgres://me:***@db/fleet"),
        ("amqp://me:pw@h:5672/%2f", "amqp://me:***@h:5672/%2f"),
    ] {
        assert_eq!(without_url_secrets(given), shown);
        for secret in ["T0KEN", "pw", "p@s/w", "more"].into_iter().filter(|secret| given.contains(secret)) {
            assert!(url_secrets(given).iter().any(|found| found.contains(secret)), "{secret} of {given}");
        }
    }
}

#[test]
fn headers_are_masked_by_name() {
    let masking = masking();
    assert_eq!(masking.header("authorization", "Bearer x"), MASK);
    assert_eq!(masking.header("X-Auth-Token", "x"), MASK);
    assert_eq!(masking.header("Accept", "text/html"), "text/html");
    assert_eq!(masking.header("Referer", "http://u:p@h/"), "http://u:***@h/");
}

#[test]
fn a_number_is_written_as_it_is() {
    let numbers =
        [0.0, -0.0, 0.001, 0.12, 7.0, 12.345, 1.2345, 0.000_1, -1.5, 999_999.999, 1e12, 1e300, f64::MAX];
    for number in numbers {
        let line = json(|| info!(number, "measured"));
        assert_eq!(line["number"].as_f64(), Some(number), "{line}");
    }
    let raw = written(Format::Json, false, Level::INFO, || info!(a = 12.34, b = 3.0, c = 0.05, "measured"));
    assert!(raw.ends_with(",\"a\":12.34,\"b\":3,\"c\":0.05}\n"), "{raw}");
}
