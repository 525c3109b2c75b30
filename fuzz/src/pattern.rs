//! The pattern of a `like`, against a second reading that tries everything: a table of which part of the pattern
//! fits which part of the text.

use std::iter::once;

use hyperfleet_core::search::{LikePattern, Piece};

/// A pattern on the first line fits the text behind it exactly when the table says so, in either case.
pub fn like(input: &str) {
    let (written, text) = input.split_once('\n').unwrap_or((input, ""));
    let pattern = LikePattern::parse(written);
    check_pieces(&pattern);
    assert_eq!(pattern.matches(text), fits(written, text), "{text:?} like {written:?}");

    let (lower_written, lower_text) = (written.to_ascii_lowercase(), text.to_ascii_lowercase());
    let folded = pattern.in_lower_case();
    check_pieces(&folded);
    assert_eq!(folded.matches(&lower_text), fits(&lower_written, &lower_text), "{text:?} ilike {written:?}");
}

/// Texts are not empty and stand alone, and so do runs.
pub(crate) fn check_pieces(pattern: &LikePattern) {
    let pieces = pattern.pieces();
    assert!(!pieces.contains(&Piece::Text(String::new())), "{pieces:?}");
    for pair in pieces.windows(2) {
        let joined = matches!(pair, [Piece::Text(_), Piece::Text(_)] | [Piece::AnyRun, Piece::AnyRun]);
        assert!(!joined, "{pieces:?}");
    }
}

/// What stands at one place of a pattern.
#[derive(Clone, Copy)]
enum Token {
    Run,
    One,
    Char(char),
}

fn places(written: &str) -> Vec<Token> {
    let chars: Vec<char> = written.chars().collect();
    let mut places = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let (place, width) = match chars[at..] {
            ['\\', c @ ('%' | '_'), ..] => (Token::Char(c), 2),
            ['%', ..] => (Token::Run, 1),
            ['_', ..] => (Token::One, 1),
            _ => (Token::Char(chars[at]), 1),
        };
        places.push(place);
        at += width;
    }
    places
}

fn fits(written: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    // Which beginnings of the text, by length, the places so far fit.
    let mut fitting: Vec<bool> = once(true).chain(text.iter().map(|_| false)).collect();
    for place in places(written) {
        fitting = match place {
            Token::Run => fitting
                .iter()
                .scan(false, |reached, fits| {
                    *reached |= fits;
                    Some(*reached)
                })
                .collect(),
            Token::One => once(false).chain(fitting[..text.len()].iter().copied()).collect(),
            Token::Char(c) => once(false)
                .chain(fitting.iter().zip(&text).map(|(fits, given)| *fits && *given == c))
                .collect(),
        };
    }
    fitting[text.len()]
}
