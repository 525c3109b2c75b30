//! From tokens to the checked filter, by recursive descent: one function for each level of the grammar, loosest
//! first.
//!
//! ```text
//! disjunction = conjunction { "or" conjunction }
//! conjunction = negation { "and" negation }
//! negation    = "not" negation | "(" disjunction ")" | test
//! test        = field ( comparison literal
//!                     | [ "not" ] "in" list
//!                     | [ "not" ] ( "like" | "ilike" ) literal
//!                     | [ "not" ] "between" literal "and" literal
//!                     | "is" [ "not" ] "null" )
//! list        = "[" literal { "," literal } "]" | "(" literal { "," literal } ")"
//! ```
//!
//! Only parentheses and `not` recurse, and they are counted; a chain of `and` or `or` is a loop. Each token is
//! looked at once.

use super::check::{SourceLiteral, TestedField};
use super::error::QueryFault;
use super::lexer::{Keyword, Lexer, Token, TokenKind};
use super::tree::{Filter, Literal, Predicate, Test};
use super::{MAX_LIST, MAX_NESTING, Options, fields};
use crate::echo;

/// Reads a whole query.
pub(super) fn parse(query: &str, options: Options) -> Result<Filter, QueryFault> {
    let mut lexer = Lexer::new(query);
    let next = lexer.token();
    let mut parser = Parser { query, lexer, next, nesting: 0, options };
    let filter = parser.disjunction()?;
    match parser.next.kind {
        TokenKind::End => Ok(filter),
        TokenKind::CloseParenthesis => Err(parser.expected(&parser.next, "a `(` somewhere before this `)`")),
        _ => Err(parser.expected(&parser.next, "`and`, `or` or the end of the query")),
    }
}

struct Parser<'a> {
    query: &'a str,
    lexer: Lexer<'a>,
    /// The next token.
    next: Token,
    /// How many parentheses and `not`s are open.
    nesting: usize,
    options: Options,
}

impl<'a> Parser<'a> {
    fn disjunction(&mut self) -> Result<Filter, QueryFault> {
        let first = self.conjunction()?;
        if !self.at(Keyword::Or) {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.eat(Keyword::Or) {
            parts.push(self.conjunction()?);
        }
        Ok(Filter::Or(parts))
    }

    fn conjunction(&mut self) -> Result<Filter, QueryFault> {
        let first = self.negation()?;
        if !self.at(Keyword::And) {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.eat(Keyword::And) {
            parts.push(self.negation()?);
        }
        Ok(Filter::And(parts))
    }

    fn negation(&mut self) -> Result<Filter, QueryFault> {
        match self.next.kind {
            TokenKind::Keyword(Keyword::Not) => {
                self.nested(|parser| Ok(Filter::Not(Box::new(parser.negation()?))))
            }
            TokenKind::OpenParenthesis => self.nested(|parser| {
                let inner = parser.disjunction()?;
                parser.expect(&TokenKind::CloseParenthesis, "`and`, `or` or `)`")?;
                Ok(inner)
            }),
            _ => self.test(),
        }
    }

    /// What follows the next token, one level deeper.
    fn nested(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<Filter, QueryFault>,
    ) -> Result<Filter, QueryFault> {
        let opening = self.take();
        if self.nesting == MAX_NESTING {
            let message = format!("expected at most {MAX_NESTING} levels of parentheses and `not`");
            return Err(QueryFault::too_much(opening.start, MAX_NESTING, message));
        }
        self.nesting += 1;
        let filter = inner(self)?;
        self.nesting -= 1;
        Ok(filter)
    }

    fn test(&mut self) -> Result<Filter, QueryFault> {
        let subject = self.subject()?;
        let negated = self.eat(Keyword::Not);
        let operator = self.take();
        let predicate = match operator.kind {
            TokenKind::Comparison(comparison) if !negated => subject.compared(comparison, self.literal()?)?,
            TokenKind::Keyword(Keyword::In) => subject.among(self.list()?, negated)?,
            TokenKind::Keyword(word @ (Keyword::Like | Keyword::Ilike)) => {
                subject.like(operator.start, self.literal()?, word == Keyword::Ilike, negated)?
            }
            TokenKind::Keyword(Keyword::Between) => {
                let low = self.literal()?;
                self.expect(&TokenKind::Keyword(Keyword::And), "`and` between the two bounds")?;
                subject.between(low, self.literal()?, negated)?
            }
            TokenKind::Keyword(Keyword::Is) if !negated => {
                let negated = self.eat(Keyword::Not);
                let null = if negated { "`null`" } else { "`null` or `not null`" };
                self.expect(&TokenKind::Keyword(Keyword::Null), null)?;
                Predicate::IsNull { negated }
            }
            _ if negated => return Err(self.expected(&operator, "`in`, `like`, `ilike` or `between`")),
            _ => return Err(self.expected(&operator, "an operator such as =, <, in, like, between or is")),
        };
        Ok(Filter::Test(Test { field: subject.field, predicate }))
    }

    fn subject(&mut self) -> Result<TestedField<'a>, QueryFault> {
        let Token { kind, start, end } = &self.next;
        let TokenKind::Path(path) = kind else {
            return Err(match kind {
                TokenKind::Text(_) | TokenKind::Number(_) => {
                    self.expected(&self.next, "a field: it stands left, and the value right")
                }
                _ => self.expected(&self.next, "a field, `not` or `(`"),
            });
        };
        let field = fields::resolve(path, *end, self.options)?;
        let name = &self.query[*start..*end];
        self.take();
        Ok(TestedField { field, name })
    }

    fn list(&mut self) -> Result<Vec<SourceLiteral>, QueryFault> {
        let (close, or_close) = match self.take() {
            Token { kind: TokenKind::OpenBracket, .. } => (TokenKind::CloseBracket, "`,` or `]`"),
            Token { kind: TokenKind::OpenParenthesis, .. } => (TokenKind::CloseParenthesis, "`,` or `)`"),
            other => return Err(self.expected(&other, "a list such as ['a', 'b']")),
        };
        let mut list = vec![self.literal()?];
        while self.next.kind != close {
            self.expect(&TokenKind::Comma, or_close)?;
            if list.len() == MAX_LIST {
                let message = format!("expected at most {MAX_LIST} values in a list");
                return Err(QueryFault::too_much(self.next.start, MAX_LIST, message));
            }
            list.push(self.literal()?);
        }
        self.take();
        Ok(list)
    }

    fn literal(&mut self) -> Result<SourceLiteral, QueryFault> {
        let token = self.take();
        let at = token.start;
        let value = match token.kind {
            TokenKind::Text(text) => Literal::Text(text),
            TokenKind::Number(number) => Literal::Number(number),
            TokenKind::Keyword(Keyword::True) => Literal::Bool(true),
            TokenKind::Keyword(Keyword::False) => Literal::Bool(false),
            TokenKind::Keyword(Keyword::Null) => {
                return Err(QueryFault::syntax(
                    at,
                    "expected a value: ask for none with `is null` or `is not null`",
                ));
            }
            TokenKind::Path(_) => {
                return Err(self.expected(&token, "a value: texts are quoted, as in 'text'"));
            }
            _ => return Err(self.expected(&token, "a value such as 'text', 5 or true")),
        };
        Ok(SourceLiteral { value, at })
    }

    /// The next token, which is then behind.
    fn take(&mut self) -> Token {
        std::mem::replace(&mut self.next, self.lexer.token())
    }

    fn at(&self, keyword: Keyword) -> bool {
        self.next.kind == TokenKind::Keyword(keyword)
    }

    fn eat(&mut self, keyword: Keyword) -> bool {
        let found = self.at(keyword);
        if found {
            self.take();
        }
        found
    }

    fn expect(&mut self, kind: &TokenKind, described: &str) -> Result<(), QueryFault> {
        let found = self.take();
        if found.kind == *kind { Ok(()) } else { Err(self.expected(&found, described)) }
    }

    /// The fault of an unexpected token.
    fn expected(&self, found: &Token, described: &str) -> QueryFault {
        let written = match &found.kind {
            TokenKind::Malformed(query_fault) => return query_fault.clone(),
            TokenKind::End => "the end of the query".to_owned(),
            _ => format!("`{}`", echo(&self.query[found.start..found.end])),
        };
        QueryFault::syntax(found.start, format!("expected {described}, not {written}"))
    }
}
