//! Suggests the known name that is nearest to an unknown one.

/// `; did you mean …?` with the nearest candidate, or nothing when none is near.
pub(crate) fn hint<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
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
