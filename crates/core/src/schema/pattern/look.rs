//! Patterns with look-around. There are no captures and no back-references, so whether the rest of a pattern matches
//! depends on its place in the pattern and in the text alone: no pair of places is tried twice, and every try is a step
//! of the budget.

use super::super::budget::{Budget, Spent};
use super::syntax::{Class, Syntax};

/// The most instructions of a pattern.
const MAX_INSTRUCTIONS: usize = 20_000;

/// The most pairs of places, one bit each, that one search may have to remember.
const MAX_PLACES: usize = 1 << 21;

/// What is remembered for one step of the budget.
const PLACES_PER_STEP: usize = 512;

#[derive(Debug)]
enum Instruction {
    Char(char),
    Any,
    Class(Class),
    Start,
    End,
    WordBoundary {
        negated: bool,
    },
    /// Goes on at both places.
    Split(usize, usize),
    Jump(usize),
    /// Goes on after the inner pattern, which starts here, if that is found.
    Look {
        ahead: bool,
        negated: bool,
        after: usize,
    },
    Match,
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Program(Vec<Instruction>);

impl Program {
    pub(super) fn compile(syntax: &Syntax) -> Result<Self, String> {
        let mut program = Self(Vec::new());
        // The search starts anywhere: it takes the pattern, or leaves out one more character before it.
        program.push(Instruction::Split(3, 1))?;
        program.push(Instruction::Class(Class { negated: true, ..Class::default() }))?;
        program.push(Instruction::Jump(0))?;
        program.add(syntax, true)?;
        program.push(Instruction::Match)?;
        Ok(program)
    }

    fn push(&mut self, instruction: Instruction) -> Result<usize, String> {
        if self.0.len() == MAX_INSTRUCTIONS {
            return Err("its repetitions make it too large to be matched in bounded time".to_owned());
        }
        self.0.push(instruction);
        Ok(self.0.len() - 1)
    }

    /// Adds instructions that match in the direction of reading, or against it for what lies behind.
    fn add(&mut self, syntax: &Syntax, ahead: bool) -> Result<(), String> {
        match syntax {
            Syntax::Char(c) => self.push(Instruction::Char(*c)).map(drop),
            Syntax::Any => self.push(Instruction::Any).map(drop),
            Syntax::Class(class) if !class.properties.is_empty() => {
                Err("'\\p' cannot be combined with look-around".to_owned())
            }
            Syntax::Class(class) => self.push(Instruction::Class(class.clone())).map(drop),
            Syntax::Start => self.push(Instruction::Start).map(drop),
            Syntax::End => self.push(Instruction::End).map(drop),
            Syntax::WordBoundary { negated } => {
                self.push(Instruction::WordBoundary { negated: *negated }).map(drop)
            }
            Syntax::Concat(parts) if ahead => parts.iter().try_for_each(|part| self.add(part, ahead)),
            Syntax::Concat(parts) => parts.iter().rev().try_for_each(|part| self.add(part, ahead)),
            Syntax::Alternation(branches) => self.add_branches(branches, ahead),
            Syntax::Repeat { inner, min, max } => self.add_repeat(inner, *min, *max, ahead),
            Syntax::Look { ahead, negated, inner } => {
                let at = self.push(Instruction::Match)?;
                self.add(inner, *ahead)?;
                self.push(Instruction::Match)?;
                let after = self.0.len();
                self.0[at] = Instruction::Look { ahead: *ahead, negated: *negated, after };
                Ok(())
            }
            Syntax::BackReference | Syntax::Flagged { .. } => {
                Err("flags cannot be combined with look-around".to_owned())
            }
        }
    }

    fn add_branches(&mut self, branches: &[Syntax], ahead: bool) -> Result<(), String> {
        let mut ends = Vec::new();
        for (i, branch) in branches.iter().enumerate() {
            let split = self.push(Instruction::Match)?;
            self.add(branch, ahead)?;
            ends.push(self.push(Instruction::Match)?);
            let next = if i + 1 < branches.len() { self.0.len() } else { split + 1 };
            self.0[split] = Instruction::Split(split + 1, next);
        }
        let after = self.0.len();
        ends.into_iter().for_each(|end| self.0[end] = Instruction::Jump(after));
        Ok(())
    }

    fn add_repeat(&mut self, inner: &Syntax, min: u32, max: Option<u32>, ahead: bool) -> Result<(), String> {
        for _ in 0..min {
            self.add(inner, ahead)?;
        }
        let Some(max) = max else {
            let split = self.push(Instruction::Match)?;
            self.add(inner, ahead)?;
            self.push(Instruction::Jump(split))?;
            self.0[split] = Instruction::Split(split + 1, self.0.len());
            return Ok(());
        };
        let mut splits = Vec::new();
        for _ in min..max {
            splits.push(self.push(Instruction::Match)?);
            self.add(inner, ahead)?;
        }
        let after = self.0.len();
        splits.into_iter().for_each(|split| self.0[split] = Instruction::Split(split + 1, after));
        Ok(())
    }

    pub(super) fn matches(&self, text: &str, budget: &mut Budget) -> Result<bool, Spent> {
        self.search(0, text, 0, true, budget)
    }

    /// Whether the instructions from `start` on match the text at a position, in one direction.
    fn search(
        &self,
        start: usize,
        text: &str,
        position: usize,
        ahead: bool,
        budget: &mut Budget,
    ) -> Result<bool, Spent> {
        let places = self.0.len() * (text.len() + 1);
        if places > MAX_PLACES {
            return Err(Spent);
        }
        budget.take((places / PLACES_PER_STEP) as u64)?;
        let mut tried = vec![0_u64; places / 64 + 1];
        let mut open = vec![(start, position)];
        while let Some((at, position)) = open.pop() {
            let place = at * (text.len() + 1) + position;
            if tried[place / 64] >> (place % 64) & 1 == 1 {
                continue;
            }
            tried[place / 64] |= 1 << (place % 64);
            budget.take(1)?;
            let (before, after) = text.split_at(position);
            let next = if ahead { after.chars().next() } else { before.chars().next_back() };
            let fits = match &self.0[at] {
                Instruction::Match => return Ok(true),
                Instruction::Jump(to) => {
                    open.push((*to, position));
                    continue;
                }
                Instruction::Split(one, other) => {
                    open.extend([(*other, position), (*one, position)]);
                    continue;
                }
                Instruction::Look { ahead, negated, after } => {
                    if self.search(at + 1, text, position, *ahead, budget)? != *negated {
                        open.push((*after, position));
                    }
                    continue;
                }
                Instruction::Start => before.is_empty().then_some(0),
                Instruction::End => after.is_empty().then_some(0),
                Instruction::WordBoundary { negated } => {
                    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
                    let boundary = is_word(before.chars().next_back()) != is_word(after.chars().next());
                    (boundary != *negated).then_some(0)
                }
                Instruction::Char(c) => next.filter(|next| next == c).map(char::len_utf8),
                Instruction::Any => next.filter(|next| *next != '\n').map(char::len_utf8),
                Instruction::Class(class) => next.filter(|next| class.has(*next)).map(char::len_utf8),
            };
            if let Some(bytes) = fits {
                open.push((at + 1, if ahead { position + bytes } else { position - bytes }));
            }
        }
        Ok(false)
    }
}
