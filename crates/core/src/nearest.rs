//! Suggests the known word that is nearest to a misspelt one.

use hyperfleet_expr::edits;

/// The candidate with the fewest edits from `word`, if it is near enough to be meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.chars().take(64).collect();
    candidates
        .into_iter()
        .map(|candidate| (edits(&word, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= 1 + candidate.len() / 4)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_finds_the_nearest_one_and_an_unrelated_word_finds_none() {
        assert_eq!(nearest("nmae", ["name", "kind"]), Some("name"));
        assert_eq!(nearest("dryrun", ["dryRun"]), Some("dryRun"));
        assert_eq!(nearest("zzzzzz", ["name", "kind"]), None);
    }
}
