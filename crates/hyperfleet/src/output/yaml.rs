//! YAML in and out. Writing is our own few lines, because the value type keeps numbers as they were received and no
//! YAML library writes those; reading keeps them too ([`exact`]), and takes many documents at once.

mod exact;

use serde_json::Value;
use serde_saphyr::Spanned;

use super::text;

/// Words that some YAML reader takes for something else than text.
const RESERVED: [&str; 14] =
    ["true", "false", "null", "~", "yes", "no", "on", "off", "y", "n", ".nan", ".inf", "-.inf", "+.inf"];

/// One document in block style.
pub(crate) fn write(value: &Value) -> String {
    let mut out = String::new();
    node(&mut out, value, 0, Context::Start);
    out
}

/// Every document of a text that is YAML or JSON; empty documents are left out. The error names the position.
pub(crate) fn read(text: &str) -> Result<Vec<Value>, String> {
    // JSON is nearly YAML, but only its own reader keeps numbers of any size.
    if text.trim_start().starts_with(['{', '[']) {
        let documents: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
        if let Ok(documents) = documents {
            return Ok(documents);
        }
    }
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        // The size of a fleet is not bounded here. Expansion of aliases has its own bounds.
        budget: serde_saphyr::budget! {
            max_documents: 10_000_000,
            max_nodes: 100_000_000,
            max_events: 200_000_000,
            max_total_scalar_bytes: 256 << 20,
        },
        // The JSON parser decides whether a number is too large.
        non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::PassThrough,
    };
    let documents: Vec<Spanned<exact::Node>> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| error.to_string())?;
    let values = documents.into_iter().map(|document| exact::value(document, text));
    values.filter(|value| !matches!(value, Ok(Value::Null))).collect()
}

/// The position of a node, which decides what precedes a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    Start,
    BehindKey,
    BehindDash,
}

fn node(out: &mut String, value: &Value, indent: usize, context: Context) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(members) if !members.is_empty() => {
            if context == Context::BehindKey {
                out.push('\n');
            }
            for (at, (name, value)) in members.iter().enumerate() {
                // The first member follows its dash.
                if at > 0 || context != Context::BehindDash {
                    out.push_str(&pad);
                }
                out.push_str(&scalar(name));
                out.push(':');
                behind_key(out, value, indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            if context == Context::BehindKey {
                out.push('\n');
            }
            for (at, item) in items.iter().enumerate() {
                if at > 0 || context != Context::BehindDash {
                    out.push_str(&pad);
                }
                out.push_str("- ");
                node(out, item, indent + 2, Context::BehindDash);
            }
        }
        Value::String(text) => match literal(text) {
            Some(head) if context != Context::Start => {
                out.push_str(head);
                out.push('\n');
                let pad = " ".repeat(indent.max(2));
                for line in text.lines() {
                    if !line.is_empty() {
                        out.push_str(&pad);
                        out.push_str(line);
                    }
                    out.push('\n');
                }
            }
            _ => {
                out.push_str(&scalar(text));
                out.push('\n');
            }
        },
        other => {
            out.push_str(&other.to_string());
            out.push('\n');
        }
    }
}

fn behind_key(out: &mut String, value: &Value, indent: usize) {
    let block = match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if !block {
        out.push(' ');
    }
    // A list has the indent of its key, as is common.
    let deeper = if value.is_array() { indent } else { indent + 2 };
    node(out, value, deeper, Context::BehindKey);
}

/// `|` or `|-` where a text of several lines needs no escapes.
fn literal(text: &str) -> Option<&'static str> {
    let plain_lines = text.lines().count() > 1
        && !text.starts_with([' ', '\n', '\t'])
        && !text.contains('\r')
        && text.lines().all(|line| !line.ends_with([' ', '\t']) && !line.chars().any(text::acts));
    match (plain_lines, text.ends_with("\n\n"), text.ends_with('\n')) {
        (true, false, true) => Some("|"),
        (true, false, false) => Some("|-"),
        _ => None,
    }
}

/// A string as a scalar: plain where that is safe, else in quotes.
fn scalar(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "/._@+-".contains(c);
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || "/_".contains(c))
        && text.chars().all(|c| safe(c) || c == ' ')
        && !text.ends_with(' ')
        && !RESERVED.contains(&text.to_ascii_lowercase().as_str());
    // A JSON string is a YAML string, once characters that YAML does not allow raw are escaped.
    if plain { text.to_owned() } else { super::json::compact(&Value::from(text)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_is_printed_in_block_style() {
        let value = json!({
            "kind": "Cluster", "labels": {}, "generation": 3, "yes": "no", "time": "2026-01-01T00:00:00Z",
            "spec": {"zones": ["a", "b"], "nested": [{"x": 1, "y": [[1, 2], []]}], "script": "one\n\n  two\n"},
        });
        insta::assert_snapshot!(write(&value), @r#"
        kind: Cluster
        labels: {}
        generation: 3
        "yes": "no"
        time: "2026-01-01T00:00:00Z"
        spec:
          zones:
          - a
          - b
          nested:
          - x: 1
            "y":
            - - 1
              - 2
            - []
          script: |
            one

              two
        "#);
    }

    #[test]
    fn many_documents_and_exact_numbers_are_read() {
        let documents = read("kind: A\nsize: 9007199254740993\n---\n---\nkind: B\n").unwrap();
        assert_eq!(
            documents,
            [json!({"kind": "A", "size": 9_007_199_254_740_993_u64}), json!({"kind": "B"})]
        );
        let exact = read("{\"n\": 1.5e400}\n{\"m\": 123456789012345678901234567890}").unwrap();
        assert_eq!(exact[0]["n"].to_string(), "1.5e+400");
        assert_eq!(exact[1]["m"].to_string(), "123456789012345678901234567890");
        let exact = read("# é\na: {n: -12345678901234567890123}\n---\nb: [0.10000000000000000000001, 1.5E+400, &x 123456789012345678901234567890, *x]\nc: 1_000.5\n").unwrap();
        assert_eq!(exact[0]["a"]["n"].to_string(), "-12345678901234567890123");
        assert_eq!(
            exact[1]["b"].to_string(),
            "[0.10000000000000000000001,1.5e+400,123456789012345678901234567890,123456789012345678901234567890]"
        );
        assert_eq!(
            read("n: 12345678901234567890123.5 # the end").unwrap()[0]["n"].to_string(),
            "12345678901234567890123.5"
        );
        assert_eq!(read(&"kind: A\n---\n".repeat(5_000)).unwrap().len(), 5_000);
        assert_eq!(read(&"- 1\n".repeat(300_000)).unwrap()[0].as_array().unwrap().len(), 300_000);
        let bomb: String = (1..9)
            .map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(",")))
            .collect();
        assert!(read(&format!("a0: &a0 [1]\n{bomb}")).is_err(), "what aliases multiply has a bound");
        assert!(read("a: .inf").unwrap_err().contains("line 1"));
        assert!(read("a: [").is_err());
        assert_eq!(read("on: yes").unwrap(), [json!({"on": "yes"})]);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[ a-z0-9:#\\-\n\t'\"\\[{&*!|>%@`.~]{0,12}".prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec(("[a-z :#\\-]{1,6}", inner), 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_reads_back_as_the_same(value in any_json()) {
            let text = write(&value);
            prop_assert!(!text.chars().any(|c| c != '\n' && text::acts(c)), "{}", text);
            prop_assert_eq!(read(&format!("---\n{text}")).unwrap(), if value.is_null() { vec![] } else { vec![value] }, "{}", text);
        }

        #[test]
        fn no_text_makes_reading_panic(text in any::<String>()) {
            let _ = read(&text);
        }
    }
}
