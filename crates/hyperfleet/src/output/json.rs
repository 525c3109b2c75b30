//! JSON for people and programs: indented, every number as it was received, and with the characters that a terminal
//! would act on escaped, which changes nothing of what it means.

use std::fmt::Write as _;

use serde_json::Value;

use super::text;

/// Over several lines, with a line feed at the end.
pub(crate) fn pretty(value: &Value) -> String {
    // A value has no map with keys that are no strings, so that writing it cannot fail.
    let mut text = escaped(&serde_json::to_string_pretty(value).unwrap_or_default());
    text.push('\n');
    text
}

/// On one line, without a line feed.
pub(crate) fn compact(value: &Value) -> String {
    escaped(&value.to_string())
}

/// Characters that act can stand in strings only, where an escape means the same. Line feeds are layout.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        if c != '\n' && text::acts(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_keep_their_digits_and_control_characters_are_escaped() {
        let value: Value = serde_json::from_str("{\"n\":1.50e400,\"t\":\"\u{9b}2J\u{e0001}\"}").unwrap();
        assert_eq!(pretty(&value), "{\n  \"n\": 1.50e+400,\n  \"t\": \"\\u009b2J\\udb40\\udc01\"\n}\n");
    }

    proptest! {
        #[test]
        fn any_text_reads_back_as_the_same(text in any::<String>()) {
            let value = json!({ text.as_str(): [text.as_str()] });
            prop_assert_eq!(&serde_json::from_str::<Value>(&pretty(&value)).unwrap(), &value);
            prop_assert_eq!(&serde_json::from_str::<Value>(&compact(&value)).unwrap(), &value);
        }
    }
}
