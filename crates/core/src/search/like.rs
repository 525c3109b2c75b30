//! The pattern of a `like`: texts, `%` for any run of characters, `_` for any one. It is kept in pieces and not as
//! text, because each database escapes differently, and a caller's backslash must mean the same on all of them.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

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
    /// is tried twice. What it costs grows with the text; of the pattern's length a sixty-fourth counts.
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

/// As [`LikePattern::parse`] reads it.
impl fmt::Display for LikePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.0 {
            match piece {
                Piece::AnyRun => f.write_char('%')?,
                Piece::AnyOne => f.write_char('_')?,
                Piece::Text(text) => f.write_str(&text.replace('%', "\\%").replace('_', "\\_"))?,
            }
        }
        Ok(())
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

/// What follows the first place in `text` that fits `stretch`. The `_` at its ends only ask for so many characters.
fn find<'t>(stretch: &[Piece], text: &'t str) -> Option<&'t str> {
    let is_text = |piece: &Piece| *piece != Piece::AnyOne;
    let first = stretch.iter().position(is_text).unwrap_or(stretch.len());
    let last = stretch.iter().rposition(is_text).map_or(first, |last| last + 1);
    let rest = strip(&stretch[..first], text)?;
    let behind = match &stretch[first..last] {
        [] => rest,
        [Piece::Text(plain)] => rest.split_once(plain.as_str())?.1,
        mixed => find_mixed(mixed, rest)?,
    };
    strip(&stretch[last..], behind)
}

/// The same for texts with `_` between them. It keeps a bit for every place in `stretch`, which tells whether all up
/// to there fits what was read last. So a long pattern costs a few words a character, and not a new beginning at each.
fn find_mixed<'t>(stretch: &[Piece], text: &'t str) -> Option<&'t str> {
    let width = width(stretch);
    let mut any = vec![0_u64; width.div_ceil(64)];
    let mut plain: HashMap<char, Vec<u64>> = HashMap::new();
    let mut place = 0;
    for piece in stretch {
        match piece {
            Piece::Text(text) => {
                for c in text.chars() {
                    plain.entry(c).or_insert_with(|| vec![0; width.div_ceil(64)])[place / 64] |=
                        1 << (place % 64);
                    place += 1;
                }
            }
            Piece::AnyOne | Piece::AnyRun => {
                any[place / 64] |= 1 << (place % 64);
                place += 1;
            }
        }
    }
    for mask in plain.values_mut() {
        mask.iter_mut().zip(&any).for_each(|(word, any)| *word |= any);
    }
    let mut fits = vec![0_u64; any.len()];
    for (at, c) in text.char_indices() {
        let mut carried = 1;
        for (word, mask) in fits.iter_mut().zip(plain.get(&c).unwrap_or(&any)) {
            let next = *word >> 63;
            *word = (*word << 1 | carried) & mask;
            carried = next;
        }
        if fits[(width - 1) / 64] >> ((width - 1) % 64) & 1 == 1 {
            return Some(&text[at + c.len_utf8()..]);
        }
    }
    None
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
    use proptest::prelude::*;

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
    fn a_backslash_escapes_wildcards_and_is_literal_elsewhere() {
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

    /// By definition, one piece and one character after the other.
    fn fits_by_definition(pieces: &[Piece], text: &[char]) -> bool {
        match pieces {
            [] => text.is_empty(),
            [Piece::AnyRun, rest @ ..] => (0..=text.len()).any(|run| fits_by_definition(rest, &text[run..])),
            [Piece::AnyOne, rest @ ..] => !text.is_empty() && fits_by_definition(rest, &text[1..]),
            [Piece::Text(plain), rest @ ..] => {
                let plain: Vec<char> = plain.chars().collect();
                text.strip_prefix(&plain[..]).is_some_and(|text| fits_by_definition(rest, text))
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_096, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_text_fits_a_pattern_as_it_does_by_definition(pattern in "%?[aé_%]{0,12}", text in "[aé]{0,16}") {
            let pattern = LikePattern::parse(&pattern);
            let chars: Vec<char> = text.chars().collect();
            prop_assert_eq!(pattern.matches(&text), fits_by_definition(pattern.pieces(), &chars));
        }

        #[test]
        fn a_printed_pattern_is_read_as_the_same(pattern in r"[ab%_\\]{0,12}") {
            let pattern = LikePattern::parse(&pattern);
            prop_assert_eq!(LikePattern::parse(&pattern.to_string()), pattern);
        }
    }

    #[test]
    fn a_stretch_wider_than_a_word_is_found_where_it_is_and_nowhere_else() {
        let stretch = "ab_".repeat(60);
        let text = format!("{}{}-", "abx".repeat(59), "aby".repeat(60));
        for (pattern, fits_it) in [
            (format!("%{stretch}%"), true),
            (format!("%{stretch}-"), true),
            (format!("%y{stretch}%"), false),
            (format!("%x{stretch}-%"), true),
            (format!("%{stretch}-_%"), false),
        ] {
            assert_eq!(fits(&pattern, &text), fits_it, "{pattern}");
        }
    }
}
