//! The pattern of a `like`: texts, `%` for any run of characters, `_` for any one. It is kept in pieces and not
//! as text, because each database has its own way to escape, and a caller's backslash must mean the same on
//! all of them.

/// A pattern that a whole text has to fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LikePattern(Vec<Piece>);

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Exactly this; never empty, and never beside another text.
    Text(String),
    /// `%`: any characters, or none; never beside another.
    AnyRun,
    /// `_`: one character.
    AnyOne,
}

impl LikePattern {
    /// Reads a pattern. A backslash takes the meaning from the `%` or `_` behind it; any other is itself.
    pub fn parse(pattern: &str) -> Self {
        let mut pieces = Vec::new();
        let mut chars = pattern.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '%' if pieces.last() == Some(&Piece::AnyRun) => {}
                '%' => pieces.push(Piece::AnyRun),
                '_' => pieces.push(Piece::AnyOne),
                '\\' => push(&mut pieces, chars.next_if(|next| matches!(next, '%' | '_')).unwrap_or('\\')),
                plain => push(&mut pieces, plain),
            }
        }
        Self(pieces)
    }

    /// The same with ASCII letters in lower case, for texts in lower case.
    #[must_use]
    pub fn in_lower_case(mut self) -> Self {
        for piece in &mut self.0 {
            if let Piece::Text(text) = piece {
                text.make_ascii_lowercase();
            }
        }
        self
    }

    /// Its pieces, in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.0
    }

    /// Whether `text` fits. Between two runs the first place that fits is as good as any later one, so nothing
    /// is tried twice.
    pub fn matches(&self, text: &str) -> bool {
        let mut stretches = self.0.split(|piece| *piece == Piece::AnyRun);
        let Some(mut rest) = stretches.next().and_then(|first| strip(first, text)) else { return false };
        let Some(last) = stretches.next_back() else { return rest.is_empty() };
        for stretch in stretches {
            match find(stretch, rest) {
                Some(behind) => rest = behind,
                None => return false,
            }
        }
        tail(rest, width(last)).is_some_and(|tail| strip(last, tail) == Some(""))
    }
}

fn push(pieces: &mut Vec<Piece>, c: char) {
    match pieces.last_mut() {
        Some(Piece::Text(text)) => text.push(c),
        _ => pieces.push(Piece::Text(c.to_string())),
    }
}

/// What follows `stretch` at the start of `text`.
fn strip<'t>(stretch: &[Piece], text: &'t str) -> Option<&'t str> {
    stretch.iter().try_fold(text, |rest, piece| match piece {
        Piece::Text(text) => rest.strip_prefix(text.as_str()),
        Piece::AnyOne => rest.strip_prefix(|_| true),
        Piece::AnyRun => None,
    })
}

/// What follows the first place in `text` that fits `stretch`.
fn find<'t>(stretch: &[Piece], text: &'t str) -> Option<&'t str> {
    if let [Piece::Text(plain)] = stretch {
        return text.split_once(plain.as_str()).map(|(_, behind)| behind);
    }
    text.char_indices().find_map(|(at, _)| strip(stretch, &text[at..]))
}

/// The last `width` characters of `text`.
fn tail(text: &str, width: usize) -> Option<&str> {
    match width.checked_sub(1) {
        None => Some(""),
        Some(before) => text.char_indices().nth_back(before).map(|(at, _)| &text[at..]),
    }
}

/// How many characters fit `stretch`.
fn width(stretch: &[Piece]) -> usize {
    stretch.iter().map(|piece| if let Piece::Text(text) = piece { text.chars().count() } else { 1 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, text: &str) -> bool {
        LikePattern::parse(pattern).matches(text)
    }

    #[test]
    fn a_whole_text_fits_its_pattern() {
        for (pattern, text) in [
            ("", ""),
            ("abc", "abc"),
            ("%", ""),
            ("%", "abc"),
            ("a%", "a"),
            ("%c", "abc"),
            ("a%c", "ac"),
            ("a%b%c", "a-bb-bc"),
            ("_", "é"),
            ("a_c", "a😀c"),
            ("%_%", "a"),
            ("__%", "ab"),
            ("%b_", "abbc"),
            ("%a_c%e", "aabcde"),
            ("%ab", "abab"),
        ] {
            assert!(fits(pattern, text), "{text} like {pattern}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("abc", "abcd"),
            ("abc", "ABC"),
            ("a%c", "a"),
            ("aba%ba", "aba"),
            ("_", ""),
            ("_", "ab"),
            ("%__", "a"),
            ("%x%", "abc"),
            ("%a_%a_", "aba"),
        ] {
            assert!(!fits(pattern, text), "{text} not like {pattern}");
        }
    }

    #[test]
    fn a_backslash_takes_the_meaning_from_what_it_stands_before_and_is_itself_elsewhere() {
        use Piece::{AnyOne, AnyRun, Text};
        for (pattern, pieces) in [
            (r"100\%", vec![Text("100%".into())]),
            (r"a\_b_", vec![Text("a_b".into()), AnyOne]),
            (r"\\%", vec![Text(r"\%".into())]),
            (r"\d%%", vec![Text(r"\d".into()), AnyRun]),
            (r"%\", vec![AnyRun, Text(r"\".into())]),
        ] {
            assert_eq!(LikePattern::parse(pattern).pieces(), pieces, "{pattern}");
        }
    }
}
