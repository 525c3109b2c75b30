//! `-l`: labels selected as with `kubectl`, turned into the filter language of the server.

use super::target::quoted;
use crate::commands::Failure;

/// One search out of `-l` and `--search`; `None` if neither was given.
pub(crate) fn search(selector: Option<&str>, search: Option<&str>) -> Result<Option<String>, Failure> {
    let mut parts: Vec<String> = Vec::new();
    if let Some(selector) = selector {
        parts.extend(terms(selector).iter().map(|term| condition(term)).collect::<Result<Vec<_>, _>>()?);
    }
    if let Some(search) = search.filter(|search| !search.trim().is_empty()) {
        // Parentheses keep an `or` from reaching out; a search that closes more than it opens is the server's to refuse.
        parts.push(if parts.is_empty() { search.to_owned() } else { format!("({search})") });
    }
    Ok(if parts.is_empty() { None } else { Some(parts.join(" and ")) })
}

/// The terms between commas, where those in parentheses do not count.
fn terms(selector: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut depth = 0_u32;
    for c in selector.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                terms.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = terms.last_mut() {
            last.push(c);
        }
    }
    terms.into_iter().map(|term| term.trim().to_owned()).filter(|term| !term.is_empty()).collect()
}

fn condition(term: &str) -> Result<String, Failure> {
    let label = |key: &str| -> Result<String, Failure> {
        let key = key.trim();
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(Failure::usage(format!(
                "{term:?} is not a label selector; use key=value, key!=value, key in (a,b), key or !key"
            )));
        }
        Ok(format!("labels[{}]", quoted(key)))
    };
    let value = |value: &str| quoted(value.trim());
    if let Some((key, values)) = split_set(term, " notin ") {
        return Ok(format!("not {} in {}", label(key)?, set(values)?));
    }
    if let Some((key, values)) = split_set(term, " in ") {
        return Ok(format!("{} in {}", label(key)?, set(values)?));
    }
    if let Some((key, given)) = term.split_once("!=") {
        // As with kubectl, what has no such label is selected too.
        return Ok(format!("not {}={}", label(key)?, value(given)));
    }
    if let Some((key, given)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(format!("{}={}", label(key)?, value(given)));
    }
    match term.strip_prefix('!') {
        Some(key) => Ok(format!("{} is null", label(key)?)),
        None => Ok(format!("{} is not null", label(term)?)),
    }
}

fn split_set<'a>(term: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    term.split_once(word).filter(|(key, _)| !key.contains('='))
}

fn set(values: &str) -> Result<String, Failure> {
    let inner = values.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let inner = inner.ok_or_else(|| Failure::usage(format!("{values:?} is not a set; write (a,b)")))?;
    let values: Vec<String> = inner.split(',').map(|value| quoted(value.trim())).collect();
    Ok(format!("[{}]", values.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_become_searches() {
        for (selector, expected) in [
            ("env=prod", "labels['env']='prod'"),
            ("env==prod,team!=blue", "labels['env']='prod' and not labels['team']='blue'"),
            ("env in (a, b),!old", "labels['env'] in ['a','b'] and labels['old'] is null"),
            ("env notin (a)", "not labels['env'] in ['a']"),
            ("team.io/owner", "labels['team.io/owner'] is not null"),
            ("a='b", "labels['a']='''b'"),
        ] {
            assert_eq!(search(Some(selector), None).ok().flatten().as_deref(), Some(expected), "{selector}");
        }
        let both = search(Some("a=b"), Some("name='x' or name='y'")).ok().flatten();
        assert_eq!(both.as_deref(), Some("labels['a']='b' and (name='x' or name='y')"));
        assert_eq!(search(None, Some("name='x'")).ok().flatten().as_deref(), Some("name='x'"));
        assert!(search(Some("a b"), None).is_err());
        assert!(search(Some("a in b"), None).is_err());
    }
}
