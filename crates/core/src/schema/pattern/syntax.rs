//! The syntax of patterns: that of ECMA-262, with the inline flags of other dialects. A pattern either matches or it
//! does not, so captures and greediness are dropped.

use std::iter::Peekable;
use std::str::Chars;

/// How deep groups may nest.
const MAX_NESTING: usize = 50;

const DIGITS: &[(char, char)] = &[('0', '9')];
const WORD: &[(char, char)] = &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];
const SPACE: &[(char, char)] = &[
    ('\t', '\r'),
    (' ', ' '),
    ('\u{a0}', '\u{a0}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{2000}', '\u{200a}'),
    ('\u{2028}', '\u{2029}'),
    ('\u{202f}', '\u{202f}'),
    ('\u{205f}', '\u{205f}'),
    ('\u{3000}', '\u{3000}'),
    ('\u{feff}', '\u{feff}'),
];

/// A pattern.
#[derive(Debug)]
pub(super) enum Syntax {
    Char(char),
    /// Any character but a line feed.
    Any,
    Class(Class),
    Start,
    End,
    WordBoundary {
        negated: bool,
    },
    Concat(Vec<Syntax>),
    Alternation(Vec<Syntax>),
    Repeat {
        inner: Box<Syntax>,
        min: u32,
        max: Option<u32>,
    },
    Look {
        ahead: bool,
        negated: bool,
        inner: Box<Syntax>,
    },
    /// What a group matched before, once more.
    BackReference,
    /// A group with flags such as `i`.
    Flagged {
        flags: String,
        inner: Box<Syntax>,
    },
}

/// A set of characters.
#[derive(Debug, Default, Clone)]
pub(super) struct Class {
    pub(super) negated: bool,
    pub(super) ranges: Vec<(char, char)>,
    /// Unicode properties such as `\p{L}`, as the `regex` crate writes them.
    pub(super) properties: String,
}

impl Class {
    /// Whether the class has this character. Properties are left out.
    pub(super) fn has(&self, c: char) -> bool {
        self.ranges.iter().any(|&(from, to)| (from..=to).contains(&c)) != self.negated
    }

    /// Adds a class escape, `None` when the letter is not one.
    fn add_escape(&mut self, letter: char) -> Option<()> {
        let ranges = match letter.to_ascii_lowercase() {
            'd' => DIGITS,
            'w' => WORD,
            's' => SPACE,
            _ => return None,
        };
        if letter.is_ascii_lowercase() {
            self.ranges.extend(ranges);
        } else {
            let mut next = '\0';
            for &(from, to) in ranges {
                if next < from {
                    self.ranges.extend(before(from).map(|last| (next, last)));
                }
                next = after(to);
            }
            self.ranges.push((next, char::MAX));
        }
        Some(())
    }
}

/// The neighbours of an end of the ranges above, none of which lies at the end of Unicode or at surrogates.
fn before(c: char) -> Option<char> {
    char::from_u32(u32::from(c).checked_sub(1)?)
}

fn after(c: char) -> char {
    char::from_u32(u32::from(c) + 1).unwrap_or(char::MAX)
}

/// Reads a pattern. The error says what is wrong with it.
pub(super) fn parse(pattern: &str) -> Result<Syntax, String> {
    let mut parser = Parser { rest: pattern.chars().peekable(), nesting: 0 };
    let syntax = parser.alternation()?;
    if parser.rest.next().is_some() {
        return Err("a ')' closes no group".to_owned());
    }
    Ok(syntax)
}

struct Parser<'p> {
    rest: Peekable<Chars<'p>>,
    nesting: usize,
}

impl Parser<'_> {
    fn eat(&mut self, expected: char) -> bool {
        self.rest.next_if_eq(&expected).is_some()
    }

    /// Whether the text goes on like this; then it is taken.
    fn eat_all(&mut self, expected: &str) -> bool {
        let mut ahead = self.rest.clone();
        let fits = expected.chars().all(|c| ahead.next() == Some(c));
        if fits {
            self.rest = ahead;
        }
        fits
    }

    fn alternation(&mut self) -> Result<Syntax, String> {
        let mut branches = vec![self.concat()?];
        while self.eat('|') {
            branches.push(self.concat()?);
        }
        match branches.pop() {
            Some(only) if branches.is_empty() => Ok(only),
            last => Ok(Syntax::Alternation(branches.into_iter().chain(last).collect())),
        }
    }

    fn concat(&mut self) -> Result<Syntax, String> {
        let mut parts = Vec::new();
        while let Some(&c) = self.rest.peek() {
            if c == '|' || c == ')' {
                break;
            }
            self.rest.next();
            let part = match c {
                '(' if self.eat('?') => match self.special_group()? {
                    Group::Whole(group) => group,
                    Group::Flags(_) if !parts.is_empty() => {
                        return Err("flags must stand at the start of a group".to_owned());
                    }
                    Group::Flags(flags) => {
                        let inner = Box::new(self.alternation()?);
                        parts.push(Syntax::Flagged { flags, inner });
                        break;
                    }
                },
                '(' => self.group()?,
                _ => self.atom(c)?,
            };
            parts.push(self.repeated(part)?);
        }
        Ok(Syntax::Concat(parts))
    }

    fn group(&mut self) -> Result<Syntax, String> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(format!("groups are nested deeper than {MAX_NESTING} levels"));
        }
        let inner = self.alternation()?;
        if !self.eat(')') {
            return Err("a group is not closed".to_owned());
        }
        self.nesting -= 1;
        Ok(inner)
    }

    /// What follows `(?`.
    fn special_group(&mut self) -> Result<Group, String> {
        for (start, ahead, negated) in
            [("=", true, false), ("!", true, true), ("<=", false, false), ("<!", false, true)]
        {
            if self.eat_all(start) {
                let inner = Box::new(self.group()?);
                return Ok(Group::Whole(Syntax::Look { ahead, negated, inner }));
            }
        }
        if self.eat(':') {
            return self.group().map(Group::Whole);
        }
        if self.eat_all("P<") || self.eat('<') {
            self.group_name()?;
            return self.group().map(Group::Whole);
        }
        let mut flags = String::new();
        while let Some(flag) = self.rest.next_if(|c| "imsUx-".contains(*c)) {
            flags.push(flag);
        }
        if flags.is_empty() || flags.contains('x') {
            return Err("a group starts with '(?' and something unknown".to_owned());
        }
        match self.rest.next() {
            Some(')') => Ok(Group::Flags(flags)),
            Some(':') => {
                let inner = Box::new(self.group()?);
                Ok(Group::Whole(Syntax::Flagged { flags, inner }))
            }
            _ => Err("a group starts with '(?' and something unknown".to_owned()),
        }
    }

    /// What follows `<`.
    fn group_name(&mut self) -> Result<(), String> {
        while self.rest.next_if(|c| c.is_alphanumeric() || *c == '_' || *c == '$').is_some() {}
        if self.eat('>') { Ok(()) } else { Err("the name of a group is not closed by '>'".to_owned()) }
    }

    fn atom(&mut self, c: char) -> Result<Syntax, String> {
        Ok(match c {
            '.' => Syntax::Any,
            '^' => Syntax::Start,
            '$' => Syntax::End,
            '[' => Syntax::Class(self.class()?),
            '*' | '+' | '?' => return Err(format!("there is nothing for '{c}' to repeat")),
            '\\' => self.escape()?,
            _ => Syntax::Char(c),
        })
    }

    /// Adds the quantifier that follows, if one does.
    fn repeated(&mut self, inner: Syntax) -> Result<Syntax, String> {
        let (min, max) = match self.rest.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => match self.counts()? {
                Some(counts) => return self.finish_repeat(inner, counts),
                None => return Ok(inner),
            },
            _ => return Ok(inner),
        };
        self.rest.next();
        self.finish_repeat(inner, (min, max))
    }

    fn finish_repeat(&mut self, inner: Syntax, (min, max): (u32, Option<u32>)) -> Result<Syntax, String> {
        self.eat('?');
        if let Some(&c @ ('*' | '+' | '?')) = self.rest.peek() {
            return Err(format!("there is nothing for '{c}' to repeat"));
        }
        Ok(Syntax::Repeat { inner: Box::new(inner), min, max })
    }

    /// `{2}`, `{2,}`, `{2,5}` or `{,5}`. Any other brace stands for itself.
    fn counts(&mut self) -> Result<Option<(u32, Option<u32>)>, String> {
        let mut ahead = self.rest.clone();
        ahead.next();
        let mut text = String::new();
        loop {
            match ahead.next() {
                Some('}') => break,
                Some(c) if c.is_ascii_digit() || c == ',' => text.push(c),
                _ => return Ok(None),
            }
        }
        let number = |text: &str| text.parse::<u32>().map_err(|_| format!("'{{{text}}}' repeats too often"));
        let counts = match text.split_once(',') {
            _ if text.is_empty() || text == "," => return Ok(None),
            None => (number(&text)?, Some(number(&text)?)),
            Some((_, max)) if max.contains(',') => return Ok(None),
            Some((min, "")) => (number(min)?, None),
            Some(("", max)) => (0, Some(number(max)?)),
            Some((min, max)) => (number(min)?, Some(number(max)?)),
        };
        if counts.1.is_some_and(|max| max < counts.0) {
            return Err(format!("'{{{text}}}' has its bounds the wrong way round"));
        }
        self.rest = ahead;
        Ok(Some(counts))
    }

    /// What follows a backslash outside a class.
    fn escape(&mut self) -> Result<Syntax, String> {
        let Some(&c) = self.rest.peek() else { return Err("a '\\' ends the pattern".to_owned()) };
        let mut class = Class::default();
        if class.add_escape(c).is_some() {
            self.rest.next();
            return Ok(Syntax::Class(class));
        }
        match c {
            'p' | 'P' => {
                class.properties = self.property()?;
                Ok(Syntax::Class(class))
            }
            'b' | 'B' => {
                self.rest.next();
                Ok(Syntax::WordBoundary { negated: c == 'B' })
            }
            'A' | 'z' => {
                self.rest.next();
                Ok(if c == 'A' { Syntax::Start } else { Syntax::End })
            }
            '1'..='9' => {
                while self.rest.next_if(char::is_ascii_digit).is_some() {}
                Ok(Syntax::BackReference)
            }
            'k' => {
                self.rest.next();
                if !self.eat('<') {
                    return Err("'\\k' names no group".to_owned());
                }
                self.group_name()?;
                Ok(Syntax::BackReference)
            }
            _ => self.escaped_char().map(Syntax::Char),
        }
    }

    /// `p{Letter}` or `pL`.
    fn property(&mut self) -> Result<String, String> {
        let mut text = String::from('\\');
        text.extend(self.rest.next());
        match self.rest.next() {
            Some('{') => {
                text.push('{');
                while let Some(c) = self.rest.next_if(|c| c.is_ascii_alphanumeric() || "_= -".contains(*c)) {
                    text.push(c);
                }
                text.push('}');
                if self.eat('}') { Ok(text) } else { Err("'\\p{' is not closed".to_owned()) }
            }
            Some(c) if c.is_ascii_alphabetic() => {
                text.push(c);
                Ok(text)
            }
            _ => Err("'\\p' names no property".to_owned()),
        }
    }

    /// The character that an escape stands for, in a class and outside of one.
    fn escaped_char(&mut self) -> Result<char, String> {
        let c = self.rest.next().ok_or("a '\\' ends the pattern")?;
        Ok(match c {
            't' => '\t',
            'n' => '\n',
            'v' => '\u{b}',
            'f' => '\u{c}',
            'r' => '\r',
            '0' if !self.rest.peek().is_some_and(char::is_ascii_digit) => '\0',
            'c' => match self.rest.next() {
                Some(letter) if letter.is_ascii_alphabetic() => char::from(letter as u8 % 32),
                _ => return Err("'\\c' takes a letter".to_owned()),
            },
            'x' => self.code_point(2)?,
            'u' => self.code_point(4)?,
            'U' => self.code_point(8)?,
            _ if c.is_alphanumeric() => return Err(format!("'\\{c}' is not a known escape")),
            _ => c,
        })
    }

    /// `41`, `{41}`, or two halves of a surrogate pair.
    fn code_point(&mut self, digits: usize) -> Result<char, String> {
        let wrong = || "an escape names no character".to_owned();
        let unit = self.hexadecimal(digits).ok_or_else(wrong)?;
        let code = if (0xd800..0xdc00).contains(&unit) && self.eat_all("\\u") {
            let low = self.hexadecimal(4).filter(|low| (0xdc00..0xe000).contains(low)).ok_or_else(wrong)?;
            0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
        } else {
            unit
        };
        char::from_u32(code).ok_or_else(wrong)
    }

    fn hexadecimal(&mut self, digits: usize) -> Option<u32> {
        let braces = self.eat('{');
        let mut text = String::new();
        while text.len() < if braces { 8 } else { digits } {
            match self.rest.next_if(char::is_ascii_hexdigit) {
                Some(digit) => text.push(digit),
                None => break,
            }
        }
        let complete = if braces { self.eat('}') } else { text.len() == digits };
        complete.then(|| u32::from_str_radix(&text, 16).ok()).flatten()
    }

    /// What follows `[`.
    fn class(&mut self) -> Result<Class, String> {
        let mut class = Class { negated: self.eat('^'), ..Class::default() };
        loop {
            let from = match self.rest.next() {
                None => return Err("a '[' is not closed".to_owned()),
                Some(']') => return Ok(class),
                Some(c) => self.class_char(c, &mut class)?,
            };
            let mut ahead = self.rest.clone();
            let is_range = ahead.next() == Some('-') && !matches!(ahead.next(), Some(']') | None);
            let Some(from) = from else { continue };
            if !is_range {
                class.ranges.push((from, from));
                continue;
            }
            self.eat('-');
            let end = self.rest.next().ok_or("a '[' is not closed")?;
            match self.class_char(end, &mut class)? {
                Some(to) if from <= to => class.ranges.push((from, to)),
                Some(_) => return Err("a range of characters ends before it starts".to_owned()),
                None => return Err("a range of characters ends in a class".to_owned()),
            }
        }
    }

    /// A character of a class; `None` when it stood for several, which are added.
    fn class_char(&mut self, c: char, class: &mut Class) -> Result<Option<char>, String> {
        if c != '\\' {
            return Ok(Some(c));
        }
        match self.rest.peek() {
            Some('b') => {
                self.rest.next();
                Ok(Some('\u{8}'))
            }
            Some('p' | 'P') => {
                class.properties += &self.property()?;
                Ok(None)
            }
            Some(&letter) if class.add_escape(letter).is_some() => {
                self.rest.next();
                Ok(None)
            }
            _ => self.escaped_char().map(Some),
        }
    }
}

enum Group {
    Whole(Syntax),
    Flags(String),
}
