//! The names that a source reads from its scope, and the known name that is nearest to an unknown one.

use crate::fault::Fault;

/// What a source reads from its scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The variable, then its members as far as the source relies on them: `a.b.?c.d` relies on `a` and its `b`.
    pub path: Vec<String>,
    /// The line in the source, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// A fault for each name whose variable is not among the known.
pub fn unknown(names: &[Name], known: &[&str]) -> Vec<Fault> {
    let fault = |name: &Name| {
        let root = name.path.first().filter(|root| !known.contains(&root.as_str()))?;
        let message = format!("unknown name '{root}'{}", hint(root, known.iter().copied()));
        Some(Fault::new((name.line, name.column), &message))
    };
    names.iter().filter_map(fault).collect()
}

/// `; did you mean …?` with the nearest candidate, or nothing when none is near.
pub fn hint<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let nearest = candidates
        .into_iter()
        .map(|candidate| (edits(name, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= (candidate.len() + 1) / 3)
        .min_by_key(|(edits, _)| *edits);
    match nearest {
        Some((_, candidate)) => format!("; did you mean {candidate}?"),
        None => String::new(),
    }
}

/// Levenshtein's distance between two names in lower case. Far beyond the length of any candidate, a name is no near miss.
pub fn edits(a: &str, b: &str) -> usize {
    if a.len() > 4 * b.len() + 4 {
        return usize::MAX;
    }
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
