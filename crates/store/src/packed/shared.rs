//! What the rows of several resources share, word for word. A dictionary outlives the rows that it was learned from and
//! is of all tenants, so nothing may enter it that one or two resources alone have: no name, no secret. A piece is
//! therefore a stretch of text that stands exactly so in rows of [several](SEVERAL) resources, and begins and ends where
//! a string, a number or what is between them does: a string is taken whole or not at all.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::WORDS;

/// Of how many resources rows must hold a piece.
const SEVERAL: usize = 3;

/// A shorter piece saves nothing.
const SHORTEST: usize = 8;

/// Bytes of a dictionary. Above 15.5 KiB zstd takes its settings for longer texts, by which these take more.
pub(super) const MOST_WORDS: usize = 15 << 10;

/// How many places are looked at. Rows whose texts repeat themselves could otherwise take for ever.
const MOST_WORK: usize = 100_000_000;

/// A row as the search for pieces sees it.
pub(super) struct Row<'a> {
    /// A number for its resource.
    pub(super) resource: usize,
    pub(super) text: &'a str,
}

/// The words in the binary, which rare rows need, and behind them the pieces that most rows have, one to a line. The most
/// common are at the end, where they are the cheapest to point to.
pub(super) fn words(rows: &[Row<'_>]) -> Vec<u8> {
    let mut pieces: Vec<(&str, usize)> = pieces(rows).into_iter().collect();
    pieces.sort_unstable_by_key(|(piece, uses)| (Reverse(*uses), Reverse(piece.len()), *piece));
    let mut room = MOST_WORDS.saturating_sub(WORDS.len());
    let (mut chosen, mut all) = (Vec::new(), String::new());
    for (piece, _) in pieces {
        if piece.len() < room && !all.contains(piece) {
            room -= piece.len() + 1;
            chosen.push(piece);
            all.push_str(piece);
            all.push('\n');
        }
    }
    let mut words = WORDS.to_vec();
    for piece in chosen.iter().rev() {
        words.push(b'\n');
        words.extend_from_slice(piece.as_bytes());
    }
    words
}

/// The longest pieces that each row begins with, goes on with, and so on, and how many rows have them.
fn pieces<'a>(rows: &[Row<'a>]) -> HashMap<&'a str, usize> {
    let cut = Cut::new(rows);
    // Most words are of one resource alone, and to look at all of their places for each would take the longest.
    let shared: Vec<bool> = cut.places.iter().map(|places| is_shared(rows, places)).collect();
    let mut found: HashMap<&str, usize> = HashMap::new();
    let mut work = 0;
    for (row, tokens) in cut.rows.iter().enumerate() {
        let mut of_row = HashSet::new();
        let mut at = 0;
        while at < tokens.len() {
            if !shared[tokens[at].word] {
                at += 1;
                continue;
            }
            let mut places = cut.places[tokens[at].word].clone();
            let mut length = 0;
            work += places.len();
            while is_shared(rows, &places) {
                length += 1;
                work += places.len();
                let Some(next) = tokens.get(at + length) else { break };
                places.retain(|place| cut.word_at(place.row, place.token + length) == Some(next.word));
            }
            if length > 0 {
                let piece = &rows[row].text[tokens[at].start..tokens[at + length - 1].end];
                if piece.len() >= SHORTEST && of_row.insert(piece) {
                    *found.entry(piece).or_default() += 1;
                }
            }
            at += length.max(1);
            if work > MOST_WORK {
                return found;
            }
        }
    }
    found
}

fn is_shared(rows: &[Row<'_>], places: &[Place]) -> bool {
    let mut resources = [0; SEVERAL];
    let mut count = 0;
    for place in places {
        let resource = rows[place.row].resource;
        if !resources[..count].contains(&resource) {
            resources[count] = resource;
            count += 1;
            if count == SEVERAL {
                return true;
            }
        }
    }
    false
}

/// Rows, cut into tokens, of which equal ones have the same number.
struct Cut {
    rows: Vec<Vec<Token>>,
    /// Where each of them stands.
    places: Vec<Vec<Place>>,
}

struct Token {
    word: usize,
    start: usize,
    end: usize,
}

#[derive(Clone, Copy)]
struct Place {
    row: usize,
    token: usize,
}

impl Cut {
    fn new(rows: &[Row<'_>]) -> Self {
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut cut = Self { rows: Vec::with_capacity(rows.len()), places: Vec::new() };
        for (row, Row { text, .. }) in rows.iter().enumerate() {
            let mut tokens = Vec::new();
            let mut start = 0;
            while start < text.len() {
                let end = start + token_length(&text.as_bytes()[start..]);
                let word = *numbers.entry(&text[start..end]).or_insert(cut.places.len());
                if word == cut.places.len() {
                    cut.places.push(Vec::new());
                }
                cut.places[word].push(Place { row, token: tokens.len() });
                tokens.push(Token { word, start, end });
                start = end;
            }
            cut.rows.push(tokens);
        }
        cut
    }

    fn word_at(&self, row: usize, token: usize) -> Option<usize> {
        self.rows[row].get(token).map(|token| token.word)
    }
}

/// How long the first token of a text is: a string with its quotes, a number or name, or what stands between those. It
/// ends between characters, because those of several bytes have none that could end one.
fn token_length(text: &[u8]) -> usize {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.' | 0x80..);
    let Some(first) = text.first() else { return 0 };
    if *first != b'"' {
        let same = |byte: &&u8| **byte != b'"' && is_word(byte) == is_word(first);
        return text.iter().take_while(same).count();
    }
    let mut escaped = false;
    let closing = text[1..].iter().position(|byte| {
        let closes = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    });
    closing.map_or(text.len(), |closing| closing + 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn learned(rows: &[Row<'_>]) -> String {
        String::from_utf8(words(rows).split_off(WORDS.len())).unwrap()
    }

    /// Of how many resources rows hold a text.
    fn spread(rows: &[Row<'_>], text: &str) -> usize {
        rows.iter()
            .filter(|row| row.text.contains(text))
            .map(|row| row.resource)
            .collect::<HashSet<_>>()
            .len()
    }

    #[test]
    fn what_one_or_two_resources_say_is_not_learned_however_often_they_say_it() {
        let said = |resource: usize, turn: usize| {
            let secret = if resource < 2 { "hunter2-of-two" } else { "one of many" };
            format!(
                r#"[{{"type":"Available","message":"Generation {turn} is applied","token":"{secret}","name":"cluster-{resource}"}}]"#
            )
        };
        let texts: Vec<(usize, String)> = (0..40).map(|n| (n % 10, said(n % 10, n / 10))).collect();
        let rows: Vec<Row<'_>> =
            texts.iter().map(|(resource, text)| Row { resource: *resource, text }).collect();
        let learned = learned(&rows);
        assert!(
            learned.contains(r#""message":"Generation 1 is applied","token":"one of many","name":"#),
            "{learned}"
        );
        assert!(!learned.contains("hunter2") && !learned.contains("cluster-"), "{learned}");
    }

    #[test]
    fn a_pair_that_one_resource_alone_has_is_not_learned_even_if_both_its_halves_are_known() {
        let texts: Vec<(usize, String)> = (0..8)
            .map(|n| {
                (
                    n,
                    format!(
                        r#"{{"region":"eu-west-{}","password":"{}"}}"#,
                        n % 2,
                        if n == 7 { "eu-west-0" } else { "unset, as it should be" }
                    ),
                )
            })
            .collect();
        let rows: Vec<Row<'_>> =
            texts.iter().map(|(resource, text)| Row { resource: *resource, text }).collect();
        let learned = learned(&rows);
        assert!(learned.contains(r#""eu-west-0","password":"unset, as it should be"}"#), "{learned}");
        assert!(!learned.contains(r#""password":"eu-west-0""#), "{learned}");
    }

    #[test]
    fn rows_that_repeat_themselves_do_not_take_for_ever() {
        let texts: Vec<String> = (0..40).map(|n| format!("[{}{n}]", "1,".repeat(8000))).collect();
        let rows: Vec<Row<'_>> =
            texts.iter().enumerate().map(|(resource, text)| Row { resource, text }).collect();
        assert!(words(&rows).len() <= MOST_WORDS);
    }

    /// Of which nothing is shared, so that there is nothing to look for.
    #[test]
    fn two_resources_that_repeat_themselves_do_not_take_for_ever() {
        let text = format!("[{}1]", "1,".repeat(4_000));
        let rows: Vec<Row<'_>> = (0..200).map(|n| Row { resource: n % 2, text: &text }).collect();
        assert!(pieces(&rows).is_empty());
    }

    #[test]
    fn a_string_is_one_token_whatever_is_in_it() {
        for (text, length) in [
            (r#""a\"b, c" "#, 9),
            (r#""a\\" "#, 5),
            (r#"":""#, 3),
            (r#""open"#, 5),
            ("1.5e+3,", 6),
            (",{[:\"a\"", 4),
            ("ä,", 2),
        ] {
            assert_eq!(token_length(text.as_bytes()), length, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_piece_stands_in_rows_of_several_resources_and_all_have_room(
            texts in prop::collection::vec((0_usize..6, r#"[\[{]("(some|other|words|that ä|are|long enough)"[:,]|[0-9]{1,3},|true,){0,12}[\]}]"#), 0..60),
        ) {
            let rows: Vec<Row<'_>> =
                texts.iter().map(|(resource, text)| Row { resource: *resource, text }).collect();
            let words = words(&rows);
            prop_assert!(words.len() <= MOST_WORDS && words.starts_with(WORDS));
            for piece in std::str::from_utf8(&words[WORDS.len()..]).unwrap().split('\n').skip(1) {
                prop_assert!(spread(&rows, piece) >= SEVERAL, "{piece}");
            }
        }
    }
}
