//! What must hold for a refused query: the answer points at a place of it, shows the place, and says nothing that
//! a terminal or a log would trip over.

use hyperfleet_core::search::SearchError;
use hyperfleet_core::{Error, ErrorKind};

/// No answer is longer, however long the query is.
const LONGEST: usize = 1_024;

/// Checks why `text` is refused.
pub(crate) fn check(text: &str, error: &SearchError) {
    let length = text.chars().count();
    let position = error.position();
    assert!((1..=length + 1).contains(&position), "{position} is no position among {length}");

    let message = &error.fault().message;
    assert!(message.starts_with(&format!("search at position {position}: ")), "{message}");
    assert!(!message.chars().any(char::is_control), "{message:?}");

    let shown = error.to_string();
    assert!(shown.chars().count() <= LONGEST, "{shown}");
    let lines: Vec<&str> = shown.split('\n').collect();
    assert_eq!(lines.len(), 3, "{shown:?}");
    assert_eq!(lines[0], message);
    assert!(!lines[1].chars().any(char::is_control), "{shown:?}");
    let column = lines[2].chars().count() - 1;
    assert_eq!(lines[2], format!("{}^", " ".repeat(column)));
    let (meant, pointed_at) = (text.chars().nth(position - 1), lines[1].chars().nth(column));
    let hidden = meant.is_some_and(char::is_control) && pointed_at == Some(' ');
    assert!(hidden || pointed_at == meant, "{pointed_at:?} is not {meant:?}\n{shown}");

    let error = Error::from(error.clone());
    assert_eq!((&error.kind, error.code()), (&ErrorKind::Invalid, "HYPERFLEET-VAL-004"));
    let fields: Vec<&str> = error.faults.iter().map(|fault| fault.field.as_str()).collect();
    assert_eq!(fields, ["search"]);
}
