//! Paths into JSON: `a.b.0`, and the JSONPath of `kubectl` in braces, `{.items[?(@.adapter=='dns')].data.zone}`.

use serde_json::Value;

use super::source::Variables;
use crate::values::numbers_equal;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath {
    source: String,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Member(String),
    Index(i64),
    All,
    Filter { path: Vec<Step>, test: Option<(Comparison, Value)> },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Parses a path; the error says what is wrong, without a position.
    pub(crate) fn parse(source: &str) -> Result<Self, String> {
        let text = source.trim();
        if text.is_empty() {
            return Err("the path is empty".to_owned());
        }
        let steps = match text.strip_prefix('{') {
            Some(rest) => {
                let inner = rest.strip_suffix('}').ok_or("the path has no closing brace")?;
                parse_steps(inner.trim().trim_start_matches('$'))?
            }
            None if text.contains('[') => parse_steps(&format!(".{}", text.trim_start_matches('.')))?,
            None => dotted(text),
        };
        Ok(Self { source: text.to_owned(), steps })
    }

    /// As it is written.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// The first member that it names.
    pub(crate) fn root(&self) -> Option<&str> {
        match self.steps.first() {
            Some(Step::Member(name)) => Some(name),
            _ => None,
        }
    }

    /// The value at the path among variables: nothing when there is none, a list when there are several.
    pub(crate) fn find_in(&self, variables: &dyn Variables) -> Option<Value> {
        let (root, rest) = match self.steps.split_first()? {
            (Step::Member(name), rest) => (variables.get(name)?, rest),
            _ => return None,
        };
        let mut found = walk(vec![root], rest);
        match found.len() {
            0 => None,
            1 => found.pop().cloned(),
            _ => Some(found.into_iter().cloned().collect()),
        }
    }
}

/// The value at a dotted path, through lists by number.
pub(crate) fn dotted_value<'v>(root: &'v Value, path: &str) -> Option<&'v Value> {
    walk(vec![root], &dotted(path)).pop()
}

fn dotted(path: &str) -> Vec<Step> {
    path.trim_start_matches('.').split('.').map(|part| Step::Member(part.to_owned())).collect()
}

fn walk<'v>(mut now: Vec<&'v Value>, steps: &[Step]) -> Vec<&'v Value> {
    for step in steps {
        now = now.into_iter().flat_map(|value| one(value, step)).collect();
    }
    now
}

fn one<'v>(value: &'v Value, step: &Step) -> Vec<&'v Value> {
    match (step, value) {
        (Step::Member(name), Value::Object(members)) => members.get(name).into_iter().collect(),
        (Step::Member(name), Value::Array(items)) => {
            name.parse::<usize>().ok().and_then(|at| items.get(at)).into_iter().collect()
        }
        (Step::Index(at), Value::Array(items)) => {
            let at = if *at < 0 { *at + items.len() as i64 } else { *at };
            usize::try_from(at).ok().and_then(|at| items.get(at)).into_iter().collect()
        }
        (Step::All, Value::Array(items)) => items.iter().collect(),
        (Step::All, Value::Object(members)) => members.values().collect(),
        (Step::Filter { path, test }, Value::Array(items)) => {
            items.iter().filter(|item| holds(item, path, test.as_ref())).collect()
        }
        _ => Vec::new(),
    }
}

fn holds(item: &Value, path: &[Step], test: Option<&(Comparison, Value)>) -> bool {
    let found = walk(vec![item], path).pop();
    let Some((comparison, expected)) = test else { return found.is_some_and(|value| !value.is_null()) };
    let Some(found) = found else { return false };
    let equal = || match (found, expected) {
        (Value::Number(a), Value::Number(b)) => numbers_equal(a, b),
        (a, b) => a == b,
    };
    let order = || match (found, expected) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (a, b) => a.as_f64()?.partial_cmp(&b.as_f64()?),
    };
    match comparison {
        Comparison::Equal => equal(),
        Comparison::NotEqual => !equal(),
        Comparison::Less => order().is_some_and(std::cmp::Ordering::is_lt),
        Comparison::LessOrEqual => order().is_some_and(std::cmp::Ordering::is_le),
        Comparison::Greater => order().is_some_and(std::cmp::Ordering::is_gt),
        Comparison::GreaterOrEqual => order().is_some_and(std::cmp::Ordering::is_ge),
    }
}

fn parse_steps(mut rest: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after)?;
            steps.push(bracket(after[..end].trim())?);
            rest = &after[end + 1..];
        } else if let Some(after) = rest.strip_prefix('.') {
            if after.starts_with('.') {
                return Err("recursive descent (..) is not supported".to_owned());
            }
            // A backslash keeps a dot in the name, as in `metadata.labels.app\.io`.
            let mut name = String::new();
            let mut length = 0;
            let mut escaped = false;
            for c in after.chars() {
                if !escaped && (c == '.' || c == '[') {
                    break;
                }
                length += c.len_utf8();
                if c == '\\' && !escaped {
                    escaped = true;
                } else {
                    name.push(c);
                    escaped = false;
                }
            }
            match name.as_str() {
                "" if after.is_empty() && steps.is_empty() => {}
                "" if after.starts_with('[') => {}
                "" => return Err("the path has an empty member".to_owned()),
                "*" => steps.push(Step::All),
                _ => steps.push(Step::Member(name)),
            }
            rest = &after[length..];
        } else {
            return Err(format!("unexpected {:?} in the path", rest.chars().next().unwrap_or(' ')));
        }
    }
    Ok(steps)
}

/// Where the bracket that is open ends, quotes and inner brackets respected.
fn closing(text: &str) -> Result<usize, String> {
    let (mut quote, mut depth) = (None, 0);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Ok(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    Err("the path has no closing bracket".to_owned())
}

fn bracket(inner: &str) -> Result<Step, String> {
    if inner == "*" {
        return Ok(Step::All);
    }
    if let Ok(index) = inner.parse() {
        return Ok(Step::Index(index));
    }
    if let Some(name) = unquoted(inner) {
        return Ok(Step::Member(name.to_owned()));
    }
    let filter = inner.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')'));
    let filter = filter.ok_or_else(|| format!("[{inner}] is no index, name or filter"))?;
    let path = |text: &str| match text.trim().strip_prefix('@') {
        Some(rest) => parse_steps(rest.trim()),
        None => Err("a filter compares a member of @".to_owned()),
    };
    const SIGNS: [(&str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    for (sign, comparison) in SIGNS {
        if let Some((left, right)) = filter.split_once(sign) {
            let right = right.trim();
            let value = match unquoted(right) {
                Some(text) => Value::from(text),
                None => serde_json::from_str(right)
                    .map_err(|_| format!("{right:?} is no number, true, false or text in quotes"))?,
            };
            return Ok(Step::Filter { path: path(left)?, test: Some((comparison, value)) });
        }
    }
    Ok(Step::Filter { path: path(filter)?, test: None })
}

fn unquoted(text: &str) -> Option<&str> {
    ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_what_they_name() {
        let root = json!({"items": [{"adapter": "dns", "n": 1, "data": {"zone": "z"}},
                                    {"adapter": "net", "n": 2.0}], "a.b": {"c": true}, "name": null});
        for (path, expected) in [
            ("items.0.adapter", Some(json!("dns"))),
            ("items[1].adapter", Some(json!("net"))),
            ("{.items[-1].n}", Some(json!(2.0))),
            ("{.items[*].adapter}", Some(json!(["dns", "net"]))),
            ("{.items[?(@.adapter=='dns')].data.zone}", Some(json!("z"))),
            ("{$.items[?(@.n == 2)].adapter}", Some(json!("net"))),
            ("{.items[?(@.data)].n}", Some(json!(1))),
            ("{.items[?(@.n>1)].n}", Some(json!(2.0))),
            ("{.a\\.b.c}", Some(json!(true))),
            ("{['a.b']['c']}", Some(json!(true))),
            ("name", Some(Value::Null)),
            ("items.7.adapter", None),
            ("nothing.at.all", None),
        ] {
            let found = JsonPath::parse(path).unwrap().find_in(root.as_object().unwrap());
            assert_eq!(found, expected, "{path}");
        }
        assert_eq!(JsonPath::parse("status.phase").unwrap().root(), Some("status"));
    }

    #[test]
    fn a_path_that_cannot_be_read_is_refused() {
        for path in ["", "{.a", "{.a[}", "{..a}", "{.a[?(b==1)]}", "{.a[?(@.b==x)]}", "{.a..b}", "{a}"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn parsing_never_panics(path in "\\PC{0,40}") {
            let _ = JsonPath::parse(&path);
        }
    }
}
