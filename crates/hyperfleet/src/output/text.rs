//! Foreign text on its way to a terminal: nothing in it may move the cursor, change the colours or turn the
//! reading direction, and its width is counted in columns, not in characters.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

/// The text on one line: characters that a terminal would act on, or that hide text, are escaped.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().any(acts) { Cow::Owned(escaped(text, |_| false)) } else { Cow::Borrowed(text) }
}

/// The same, but line feeds are kept.
pub(crate) fn clean_lines(text: &str) -> Cow<'_, str> {
    let stays = |c: char| c == '\n' || c == '\t';
    if text.chars().any(|c| acts(c) && !stays(c)) {
        Cow::Owned(escaped(text, stays))
    } else {
        Cow::Borrowed(text)
    }
}

/// How many columns it takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text on lines of so many columns, broken between words where there are any.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => *line = format!("{line} {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Control characters, and format characters that reorder or hide the text around them.
pub(crate) fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            c if !acts(c) || stays(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(clean("a\x1b[31mb\nc\u{202e}d\u{9b}e"), "a\\u{1b}[31mb\\nc\\u{202e}d\\u{9b}e");
        assert_eq!(clean_lines("a\n\tb\x07"), "a\n\tb\\u{7}");
        assert!(matches!(clean("héllo 世界"), Cow::Borrowed(_)));
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!((width("abc"), width("世界"), width("e\u{301}")), (3, 4, 1));
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("ab cd  efg 世界 x", 5), ["ab cd", "efg", "世界", "x"]);
        assert_eq!(wrapped("too-long a", 4), ["too-long", "a"]);
        assert!(wrapped(" ", 4).is_empty());
    }

    proptest! {
        #[test]
        fn no_control_character_is_left(text in any::<String>()) {
            prop_assert!(!clean(&text).chars().any(acts));
            prop_assert!(!clean_lines(&text).chars().any(|c| acts(c) && c != '\n' && c != '\t'));
        }
    }
}
