//! A filter written as a query, in any of the ways that mean the same.

use hyperfleet_core::search::{
    Comparison, ConditionPart, Field, Filter, LikePattern, Literal, Piece, Predicate, Segment, Test,
    TextColumn, TimeColumn,
};

/// Chooses between ways to write the same, one after the other.
pub(super) struct Spelling(fastrand::Rng);

impl Spelling {
    pub(super) fn seeded(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    fn choose<T: Copy>(&mut self, ways: &[T]) -> T {
        ways[self.0.usize(..ways.len())]
    }

    fn keyword(&mut self, word: &str) -> String {
        match self.choose(&[0, 1, 2]) {
            0 => word.to_owned(),
            1 => word.to_uppercase(),
            _ => word[..1].to_uppercase() + &word[1..],
        }
    }

    fn gap(&mut self) -> &'static str {
        self.choose(&[" ", "  ", "\n", "\t "])
    }

    fn optional_gap(&mut self) -> &'static str {
        self.choose(&["", " "])
    }

    pub(super) fn filter(&mut self, filter: &Filter) -> String {
        match filter {
            Filter::And(parts) => {
                self.chain("and", parts, |part| matches!(part, Filter::And(_) | Filter::Or(_)))
            }
            Filter::Or(parts) => self.chain("or", parts, |part| matches!(part, Filter::Or(_))),
            Filter::Not(inner) => {
                let bare = !matches!(**inner, Filter::And(_) | Filter::Or(_)) && self.choose(&[true, false]);
                let inner = self.filter(inner);
                let not = self.keyword("not");
                if bare {
                    format!("{not}{}{inner}", self.gap())
                } else {
                    format!("{not}{}({inner})", self.optional_gap())
                }
            }
            Filter::Test(test) => self.test(test),
            Filter::RefersTo { .. } | Filter::OfTenant(_) => panic!("no query can say this"),
        }
    }

    fn chain(&mut self, word: &str, parts: &[Filter], needs_parentheses: impl Fn(&Filter) -> bool) -> String {
        let mut text = String::new();
        for (i, part) in parts.iter().enumerate() {
            if i > 0 {
                text += &format!("{}{}{}", self.gap(), self.keyword(word), self.gap());
            }
            let written = self.filter(part);
            let wrapped = needs_parentheses(part) || self.choose(&[true, false, false, false]);
            text += &if wrapped { format!("({written}{})", self.optional_gap()) } else { written };
        }
        text
    }

    fn test(&mut self, Test { field, predicate }: &Test) -> String {
        let field = self.field(field);
        let negated = |pen: &mut Self, negated: bool| {
            let not = if negated { pen.keyword("not") + pen.gap() } else { String::new() };
            format!("{field}{}{not}", pen.gap())
        };
        match predicate {
            Predicate::Compare(comparison, literal) => {
                let operator = match comparison {
                    Comparison::Equal => self.choose(&["=", "=="]),
                    Comparison::NotEqual => self.choose(&["!=", "<>"]),
                    Comparison::Less => "<",
                    Comparison::LessOrEqual => "<=",
                    Comparison::Greater => ">",
                    Comparison::GreaterOrEqual => ">=",
                };
                format!(
                    "{field}{}{operator}{}{}",
                    self.optional_gap(),
                    self.optional_gap(),
                    self.literal(literal)
                )
            }
            Predicate::In { values, negated: not } => {
                let (open, close) = self.choose(&[("[", "]"), ("(", ")")]);
                let values: Vec<String> = values.iter().map(|value| self.literal(value)).collect();
                let separator = format!("{},{}", self.optional_gap(), self.optional_gap());
                let subject = negated(self, *not);
                format!(
                    "{subject}{}{}{open}{}{close}",
                    self.keyword("in"),
                    self.optional_gap(),
                    values.join(&separator)
                )
            }
            Predicate::Like { pattern, ignores_case, negated: not } => {
                let subject = negated(self, *not);
                let word = self.keyword(if *ignores_case { "ilike" } else { "like" });
                let pattern = self.text(&self::pattern(pattern));
                format!("{subject}{word}{}{pattern}", self.optional_gap())
            }
            Predicate::Between { low, high, negated: not } => {
                let subject = negated(self, *not);
                let (between, and) = (self.keyword("between"), self.keyword("and"));
                let (low, high) = (self.literal(low), self.literal(high));
                format!("{subject}{between}{}{low}{}{and}{}{high}", self.gap(), self.gap(), self.gap())
            }
            Predicate::IsNull { negated: not } => {
                let (is, null) = (self.keyword("is"), self.keyword("null"));
                let not = if *not { self.keyword("not") + self.gap() } else { String::new() };
                format!("{field}{}{is}{}{not}{null}", self.gap(), self.gap())
            }
        }
    }

    fn field(&mut self, field: &Field) -> String {
        match field {
            Field::Text(column) => name(&TextColumn::ALL, column),
            Field::Generation => "generation".to_owned(),
            Field::Time(column) => name(&TimeColumn::ALL, column),
            Field::Label(key) => format!("labels{}", self.whole_key(key)),
            Field::Tenancy(key) => format!("tenancy{}", self.whole_key(key)),
            Field::Spec(path) => {
                "spec".to_owned() + &path.iter().map(|segment| self.segment(segment)).collect::<String>()
            }
            Field::Condition { kind, part } => {
                let kind = self.segment(&Segment::new(kind.as_str()));
                let part = match part {
                    ConditionPart::Status if self.choose(&[true, false]) => String::new(),
                    part => self.segment(&Segment::new(name(&ConditionPart::ALL, part))),
                };
                format!("status.conditions{kind}{part}")
            }
        }
    }

    fn whole_key(&mut self, key: &str) -> String {
        if self.choose(&[true, false]) { format!(".{key}") } else { format!("[{}]", self.text(key)) }
    }

    fn segment(&mut self, segment: &Segment) -> String {
        let key = &segment.key;
        let bare = key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '/'));
        match self.choose(&[0, 1, 2]) {
            0 if bare => format!(".{key}"),
            1 if segment.index.is_some() => format!("[{key}]"),
            _ => format!("[{}]", self.text(key)),
        }
    }

    fn literal(&mut self, literal: &Literal) -> String {
        match literal {
            Literal::Text(text) => self.text(text),
            Literal::Number(number) => number.to_string(),
            Literal::Bool(value) => self.keyword(&value.to_string()),
            Literal::Time(time) => self.text(&time.to_string()),
        }
    }

    fn text(&mut self, text: &str) -> String {
        let quote = self.choose(&['\'', '"', '`']);
        let mut written = String::from(quote);
        for c in text.chars() {
            match c {
                c if c == quote => {
                    written.push(self.choose(&['\\', quote]));
                    written.push(quote);
                }
                '\\' => written += "\\\\",
                '\n' => written += self.choose(&["\n", "\\n"]),
                c => written.push(c),
            }
        }
        written.push(quote);
        written
    }
}

fn name<T: PartialEq>(all: &[(&str, T)], wanted: &T) -> String {
    all.iter().find(|(_, known)| known == wanted).unwrap().0.to_owned()
}

fn pattern(pattern: &LikePattern) -> String {
    let pieces = pattern.pieces().iter().map(|piece| match piece {
        Piece::Text(text) => text.replace('%', "\\%").replace('_', "\\_"),
        Piece::AnyRun => "%".to_owned(),
        Piece::AnyOne => "_".to_owned(),
    });
    pieces.collect()
}
