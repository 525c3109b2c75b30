//! From text to a template, one character at a time, without going back.

use std::iter::Peekable;
use std::str::Chars;

use serde_json::Value;

use super::{Choice, Comparison, Fault, Operand, Part, Path, Step, Test};

/// Bound on nested ranges, because parsing them is recursive.
const MAX_DEPTH: usize = 32;

/// The parts of a whole template.
pub(super) fn template(text: &str) -> Result<Vec<Part>, Fault> {
    let mut reader = Reader { left: text.chars().peekable(), depth: 0 };
    let (parts, ended) = reader.parts()?;
    if ended { Err(fault("{end} without {range …}")) } else { Ok(parts) }
}

fn fault(text: impl Into<String>) -> Fault {
    Fault(text.into())
}

struct Reader<'a> {
    left: Peekable<Chars<'a>>,
    depth: usize,
}

impl Reader<'_> {
    /// Parts up to the end of the text or `{end}`, and which of the two it was.
    fn parts(&mut self) -> Result<(Vec<Part>, bool), Fault> {
        let mut parts = Vec::new();
        let mut text = String::new();
        while let Some(c) = self.left.next() {
            if c != '{' {
                text.push(c);
                continue;
            }
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            self.blanks();
            if let Some(quote @ ('"' | '\'')) = self.left.peek().copied() {
                self.left.next();
                let literal = self.quoted(quote)?;
                self.close()?;
                parts.push(Part::Text(literal));
                continue;
            }
            let word = self.word();
            match word.as_str() {
                "end" => {
                    self.close()?;
                    return Ok((parts, true));
                }
                "range" => {
                    self.blanks();
                    let path = self.path(String::new(), false)?;
                    self.close()?;
                    parts.push(Part::Range(path, self.inner()?));
                }
                _ => {
                    let path = self.path(word, false)?;
                    self.close()?;
                    parts.push(Part::Pick(path));
                }
            }
        }
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok((parts, false))
    }

    fn inner(&mut self) -> Result<Vec<Part>, Fault> {
        self.deeper()?;
        let (parts, ended) = self.parts()?;
        self.depth -= 1;
        if ended { Ok(parts) } else { Err(fault("{range …} without {end}")) }
    }

    fn deeper(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(fault("too deeply nested")) } else { Ok(()) }
    }

    /// The rest of a path whose first name may have been read already.
    fn path(&mut self, first: String, in_filter: bool) -> Result<Path, Fault> {
        let mut path = Path::default();
        if first.is_empty() {
            match self.left.peek() {
                Some('$') => {
                    path.from_root = true;
                    self.left.next();
                }
                Some('@') => {
                    self.left.next();
                }
                _ => {}
            }
        } else {
            path.steps.push(Step::Member(first));
        }
        loop {
            match self.left.peek() {
                Some('.') => {
                    self.left.next();
                    if self.left.peek() == Some(&'.') {
                        self.left.next();
                        path.steps.push(Step::Descend);
                    }
                    match self.left.peek() {
                        Some('*') => {
                            self.left.next();
                            path.steps.push(Step::All);
                        }
                        Some('[') => {}
                        _ => match self.word() {
                            // `{.}` is the value itself.
                            name if name.is_empty() => {}
                            name => path.steps.push(Step::Member(name)),
                        },
                    }
                }
                Some('[') => {
                    self.left.next();
                    path.steps.push(self.bracket()?);
                }
                Some('*') if path.steps.is_empty() && !in_filter => {
                    self.left.next();
                    path.steps.push(Step::All);
                }
                _ => return Ok(path),
            }
        }
    }

    /// What stands between `[` and `]`.
    fn bracket(&mut self) -> Result<Step, Fault> {
        self.blanks();
        let step = match self.left.peek() {
            Some('*') => {
                self.left.next();
                Step::All
            }
            Some('?') => {
                self.left.next();
                self.expect('(', "an opening parenthesis after ?")?;
                self.deeper()?;
                let test = self.test()?;
                self.depth -= 1;
                self.blanks();
                self.expect(')', "a closing parenthesis of the filter")?;
                Step::Filter(test)
            }
            _ => self.union_or_slice()?,
        };
        self.blanks();
        self.expect(']', "a closing bracket behind the index")?;
        Ok(step)
    }

    fn union_or_slice(&mut self) -> Result<Step, Fault> {
        let mut choices = Vec::new();
        loop {
            self.blanks();
            match self.left.peek().copied() {
                Some(quote @ ('"' | '\'')) => {
                    self.left.next();
                    choices.push(Choice::Name(self.quoted(quote)?));
                }
                _ => {
                    let number = self.integer()?;
                    self.blanks();
                    if choices.is_empty() && self.left.peek() == Some(&':') {
                        return self.slice(number);
                    }
                    let number = number.ok_or_else(|| {
                        fault("an index, a name in quotes, * or ?(…) must stand in brackets")
                    })?;
                    choices.push(Choice::Index(number));
                }
            }
            self.blanks();
            if self.left.peek() != Some(&',') {
                return Ok(Step::Union(choices));
            }
            self.left.next();
        }
    }

    fn slice(&mut self, from: Option<i64>) -> Result<Step, Fault> {
        self.left.next();
        let to = self.integer()?;
        let mut step = 1;
        if self.left.peek() == Some(&':') {
            self.left.next();
            step = self.integer()?.unwrap_or(1);
        }
        if step == 0 { Err(fault("a slice cannot step by 0")) } else { Ok(Step::Slice(from, to, step)) }
    }

    fn test(&mut self) -> Result<Test, Fault> {
        let left = self.operand()?;
        self.blanks();
        let comparison = match self.left.peek() {
            Some(')') => return Ok(Test { left, right: None }),
            Some('=') => {
                self.left.next();
                self.expect('=', "== (a single = compares nothing)")?;
                Comparison::Equal
            }
            Some('!') => {
                self.left.next();
                self.expect('=', "!=")?;
                Comparison::Unequal
            }
            Some('<') => {
                self.left.next();
                self.or_equal(Comparison::Less, Comparison::LessOrEqual)
            }
            Some('>') => {
                self.left.next();
                self.or_equal(Comparison::Greater, Comparison::GreaterOrEqual)
            }
            _ => {
                return Err(fault(
                    "a filter compares by ==, !=, <, <=, > or >=, or asks whether a path is there",
                ));
            }
        };
        let right = self.operand()?;
        Ok(Test { left, right: Some((comparison, right)) })
    }

    fn or_equal(&mut self, without: Comparison, with: Comparison) -> Comparison {
        if self.left.peek() == Some(&'=') {
            self.left.next();
            with
        } else {
            without
        }
    }

    fn operand(&mut self) -> Result<Operand, Fault> {
        self.blanks();
        match self.left.peek().copied() {
            Some(quote @ ('"' | '\'')) => {
                self.left.next();
                self.quoted(quote).map(|text| Operand::Literal(text.into()))
            }
            Some('@' | '$' | '.' | '[') => self.path(String::new(), true).map(Operand::Path),
            _ => {
                let mut word = String::new();
                while let Some(c) =
                    self.left.peek().copied().filter(|c| c.is_ascii_alphanumeric() || "+-.".contains(*c))
                {
                    word.push(c);
                    self.left.next();
                }
                match serde_json::from_str::<Value>(&word) {
                    Ok(literal) => Ok(Operand::Literal(literal)),
                    Err(_) => Err(fault(format!(
                        "a value in quotes, a number, true, false, null or a path is expected, not {word:?}"
                    ))),
                }
            }
        }
    }

    /// A name without quotes; a backslash takes the meaning from what follows it.
    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.left.peek().copied() {
            if c == '\\' {
                self.left.next();
                word.extend(self.left.next());
            } else if c.is_whitespace() || ".[]{}()'\"=!<>,:*@$?".contains(c) {
                break;
            } else {
                word.push(c);
                self.left.next();
            }
        }
        word
    }

    fn quoted(&mut self, quote: char) -> Result<String, Fault> {
        let mut text = String::new();
        loop {
            match self.left.next() {
                None => return Err(fault("a quote that is not closed")),
                Some(c) if c == quote => return Ok(text),
                Some('\\') => match self.left.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some(other) => text.push(other),
                    None => return Err(fault("a quote that is not closed")),
                },
                Some(c) => text.push(c),
            }
        }
    }

    fn integer(&mut self) -> Result<Option<i64>, Fault> {
        self.blanks();
        let mut digits = String::new();
        while let Some(c) = self.left.peek().copied().filter(|c| c.is_ascii_digit() || *c == '-') {
            digits.push(c);
            self.left.next();
        }
        if digits.is_empty() {
            return Ok(None);
        }
        digits.parse().map(Some).map_err(|_| fault(format!("{digits} is not an index")))
    }

    fn blanks(&mut self) {
        while self.left.next_if(|c| c.is_whitespace()).is_some() {}
    }

    fn expect(&mut self, wanted: char, what: &str) -> Result<(), Fault> {
        match self.left.next() {
            Some(c) if c == wanted => Ok(()),
            _ => Err(fault(format!("expected {what}"))),
        }
    }

    fn close(&mut self) -> Result<(), Fault> {
        self.blanks();
        match self.left.next() {
            Some('}') => Ok(()),
            None => Err(fault("a closing brace is missing")),
            Some(c) => Err(fault(format!("{c:?} cannot stand after a path"))),
        }
    }
}
