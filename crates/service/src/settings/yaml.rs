//! YAML input and output for settings. Reading follows YAML 1.2 (`yes` and `no` are text) and never repeats lines of
//! the input, because they may hold secrets. Writing is done here, because the value type keeps numbers as text.

use serde_json::Value as Json;

/// Words that some YAML reader takes for something else than text.
const RESERVED: [&str; 10] = ["true", "false", "null", "~", "yes", "no", "on", "off", "y", "n"];

/// Reads one document; an empty one is null. The error names the line.
pub(super) fn read(text: &str) -> Result<Json, String> {
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    match serde_saphyr::from_str_with_options::<Option<Json>>(text, options) {
        Ok(tree) => Ok(tree.unwrap_or(Json::Null)),
        Err(error) => Err(error.to_string()),
    }
}

/// A string as a scalar: plain where that is safe, else in quotes.
pub(super) fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || "/._".contains(c))
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._:@+-".contains(c))
        && !text.ends_with(':')
        && !RESERVED.contains(&text.to_ascii_lowercase().as_str())
        && matches!(read(text), Ok(Json::String(same)) if same == text);
    if plain { text.to_owned() } else { Json::from(text).to_string() }
}

/// A tree in block style, each line indented by `indent` spaces.
pub(super) fn block(tree: &Json, indent: usize) -> String {
    let mut out = String::new();
    write_block(&mut out, tree, indent);
    out
}

/// What can stand behind `key:` on the same line, if the tree is no block.
pub(super) fn inline(tree: &Json) -> Option<String> {
    match tree {
        Json::String(text) => Some(scalar(text)),
        Json::Array(items) if !items.is_empty() => {
            let simple = items.iter().all(|item| !item.is_array() && !item.is_object());
            simple.then(|| {
                let items: Vec<_> = items.iter().filter_map(inline).collect();
                format!("[{}]", items.join(", "))
            })
        }
        Json::Object(members) if !members.is_empty() => None,
        other => Some(other.to_string()),
    }
}

fn write_block(out: &mut String, tree: &Json, indent: usize) {
    let pad = " ".repeat(indent);
    match tree {
        Json::Object(members) => {
            for (name, value) in members {
                out.push_str(&pad);
                out.push_str(&scalar(name));
                match inline(value) {
                    Some(text) => out.extend([": ", &text, "\n"]),
                    None => {
                        out.push_str(":\n");
                        write_block(out, value, indent + 2);
                    }
                }
            }
        }
        Json::Array(items) => {
            for item in items {
                out.push_str(&pad);
                out.push_str("- ");
                match inline(item) {
                    Some(text) => out.extend([&text, "\n"]),
                    // The first line of the item stands behind its dash.
                    None => out.push_str(block(item, indent + 2).trim_start_matches(' ')),
                }
            }
        }
        other => out.extend([&pad, &other.to_string(), "\n"]),
    }
}
