//! Splits a query into tokens with their byte ranges, so that a fault can point at its position. Text that is no token
//! becomes a token that carries the fault; the parser reports it when it gets there, so the first fault of a query is
//! the one reported.

use super::error::QueryFault;
use super::tree::Comparison;
use crate::Decimal;

/// The smallest part of a query that means something.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    /// Its first byte in the query.
    pub(super) start: usize,
    /// The byte behind it.
    pub(super) end: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind {
    /// A field: `labels.a`, `spec.list[0]`, `spec['a b'].c`.
    Path(Path),
    Keyword(Keyword),
    Text(String),
    Number(Decimal),
    Comparison(Comparison),
    OpenParenthesis,
    CloseParenthesis,
    OpenBracket,
    CloseBracket,
    Comma,
    /// What the lexer could not read. Nothing can be read behind it.
    Malformed(QueryFault),
    /// The end of the query.
    End,
}

/// Never without its first segment, which is no keyword.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Path {
    pub(super) root: PathSegment,
    pub(super) below: Vec<PathSegment>,
}

/// A part of a path.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PathSegment {
    pub(super) text: String,
    /// Its first byte in the query.
    pub(super) at: usize,
    /// SourceLiteral `['…']` or `[0]` and not behind a dot.
    pub(super) bracketed: bool,
}

/// A word that is no field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    And,
    Or,
    Not,
    In,
    Like,
    Ilike,
    Between,
    Is,
    Null,
    True,
    False,
}

impl Keyword {
    const ALL: [(&'static str, Self); 11] = [
        ("and", Self::And),
        ("or", Self::Or),
        ("not", Self::Not),
        ("in", Self::In),
        ("like", Self::Like),
        ("ilike", Self::Ilike),
        ("between", Self::Between),
        ("is", Self::Is),
        ("null", Self::Null),
        ("true", Self::True),
        ("false", Self::False),
    ];

    fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, keyword)| *keyword)
    }
}

/// Longer ones come before those that they start with.
const SYMBOLS: [(&str, TokenKind); 13] = [
    ("==", TokenKind::Comparison(Comparison::Equal)),
    ("!=", TokenKind::Comparison(Comparison::NotEqual)),
    ("<>", TokenKind::Comparison(Comparison::NotEqual)),
    ("<=", TokenKind::Comparison(Comparison::LessOrEqual)),
    (">=", TokenKind::Comparison(Comparison::GreaterOrEqual)),
    ("=", TokenKind::Comparison(Comparison::Equal)),
    ("<", TokenKind::Comparison(Comparison::Less)),
    (">", TokenKind::Comparison(Comparison::Greater)),
    ("(", TokenKind::OpenParenthesis),
    (")", TokenKind::CloseParenthesis),
    ("[", TokenKind::OpenBracket),
    ("]", TokenKind::CloseBracket),
    (",", TokenKind::Comma),
];

/// Reads a query from its start to its end.
pub(super) struct Lexer<'a> {
    query: &'a str,
    /// The next byte to read.
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(query: &'a str) -> Self {
        Self { query, at: 0 }
    }

    /// The next token; at the end, [`TokenKind::End`] again and again.
    pub(super) fn token(&mut self) -> Token {
        self.take_while(char::is_whitespace);
        let start = self.at;
        let kind = self.kind().unwrap_or_else(TokenKind::Malformed);
        Token { kind, start, end: self.at }
    }

    fn kind(&mut self) -> Result<TokenKind, QueryFault> {
        match self.peek() {
            None => Ok(TokenKind::End),
            Some(c) if c.is_alphabetic() || c == '_' => self.word(),
            Some(c) if c.is_ascii_digit() => self.number(),
            Some('-') if self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number(),
            Some(c) if is_quote(c) => self.quoted(c).map(TokenKind::Text),
            Some(c) => self.symbol().ok_or_else(|| QueryFault::syntax(self.at, stray(c))),
        }
    }

    /// A keyword, or the path of a field. A keyword takes no part in a path: `in['a']` starts a list.
    fn word(&mut self) -> Result<TokenKind, QueryFault> {
        let root = self.bare_segment();
        if let Some(keyword) = Keyword::named(&root.text) {
            return Ok(TokenKind::Keyword(keyword));
        }
        let mut below = Vec::new();
        loop {
            if self.eat('.') {
                below.push(self.bare_segment());
            } else if self.eat('[') {
                below.push(self.bracketed_segment()?);
            } else {
                return Ok(TokenKind::Path(Path { root, below }));
            }
        }
    }

    /// Possibly empty: label keys such as `a..b` exist.
    fn bare_segment(&mut self) -> PathSegment {
        PathSegment { at: self.at, text: self.take_while(is_word).to_owned(), bracketed: false }
    }

    fn bracketed_segment(&mut self) -> Result<PathSegment, QueryFault> {
        let at = self.at;
        let text = match self.peek() {
            Some(quote) if is_quote(quote) => self.quoted(quote)?,
            _ => self.take_while(|c| c.is_ascii_digit()).to_owned(),
        };
        if self.at == at {
            return Err(QueryFault::syntax(at, "expected a key in quotes or the number of an element"));
        }
        if !self.eat(']') {
            return Err(QueryFault::syntax(self.at, "expected a `]` behind the key"));
        }
        Ok(PathSegment { text, at, bracketed: true })
    }

    /// A text in quotes. A doubled quote stands for one; a backslash that makes no escape is itself.
    fn quoted(&mut self, quote: char) -> Result<String, QueryFault> {
        let start = self.at;
        let mut text = String::new();
        self.bump();
        while let Some(c) = self.bump() {
            match c {
                '\\' => match self.peek().and_then(escaped) {
                    Some(meant) => {
                        self.bump();
                        text.push(meant);
                    }
                    None => text.push('\\'),
                },
                c if c == quote && !self.eat(quote) => return Ok(text),
                c => text.push(c),
            }
        }
        Err(QueryFault::syntax(start, format!("expected a closing {quote} for the text that starts here")))
    }

    /// `-12.5e3`, `4Gi`.
    fn number(&mut self) -> Result<TokenKind, QueryFault> {
        let start = self.at;
        let malformed = || {
            QueryFault::syntax(
                start,
                "expected a number such as 5, -0.5, 1e3 or 4Gi; texts and times are quoted",
            )
        };
        self.eat('-');
        self.digits();
        if self.eat('.') && !self.digits() {
            return Err(malformed());
        }
        if self.eat('e') || self.eat('E') {
            let _sign = self.eat('+') || self.eat('-');
            if !self.digits() {
                return Err(malformed());
            }
        }
        let written = &self.query[start..self.at];
        let factor = self.suffix();
        if self.peek().is_some_and(|c| is_word(c) || c == '.') {
            return Err(malformed());
        }
        let number = Decimal::parse(written)
            .ok_or_else(|| QueryFault::syntax(start, "expected a number with a smaller exponent"))?;
        Ok(TokenKind::Number(number.times(factor)))
    }

    /// How many times the number a suffix stands for: thousands, or with an `i` 1024s.
    fn suffix(&mut self) -> u64 {
        let powers = [('k', 1), ('K', 1), ('M', 2), ('G', 3), ('T', 4), ('P', 5)];
        match powers.into_iter().find(|(letter, _)| self.eat(*letter)) {
            Some((_, power)) if self.eat('i') => 1024_u64.pow(power),
            Some((_, power)) => 1000_u64.pow(power),
            None => 1,
        }
    }

    /// Whether there were any.
    fn digits(&mut self) -> bool {
        !self.take_while(|c| c.is_ascii_digit()).is_empty()
    }

    fn symbol(&mut self) -> Option<TokenKind> {
        let (written, kind) = SYMBOLS.into_iter().find(|(written, _)| self.rest().starts_with(written))?;
        self.at += written.len();
        Some(kind)
    }

    fn rest(&self) -> &'a str {
        &self.query[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn eat(&mut self, expected: char) -> bool {
        let found = self.peek() == Some(expected);
        if found {
            self.at += expected.len_utf8();
        }
        found
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !belongs(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }
}

fn is_word(c: char) -> bool {
    c.is_alphabetic() || c.is_ascii_digit() || matches!(c, '_' | '-' | '/')
}

fn is_quote(c: char) -> bool {
    matches!(c, '\'' | '"' | '`')
}

/// What a character stands for behind a backslash, if it is one of those that stand for something.
fn escaped(c: char) -> Option<char> {
    match c {
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        '\\' => Some('\\'),
        quote => is_quote(quote).then_some(quote),
    }
}

/// What to say to a character that starts no token.
fn stray(c: char) -> String {
    match c {
        '~' => "expected another operator: there are no regular expressions, use `like` with % and _".into(),
        '&' => "expected `and`".into(),
        '|' => "expected `or`".into(),
        '!' => "expected `!=` or `not`".into(),
        '.' => "expected a digit before the point, as in 0.5".into(),
        '+' => "expected a number without a plus".into(),
        '‘' | '’' | '“' | '”' => "expected a straight quote: ', \" or `".into(),
        c if c.is_alphanumeric() || c.is_ascii_punctuation() => {
            format!("`{c}` means nothing here: texts are quoted ('…'), and so are keys (spec['…'])")
        }
        c => format!("the character U+{:04X} means nothing here", u32::from(c)),
    }
}
