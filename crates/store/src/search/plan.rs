//! What a search is found by. The parts that all must hold are looked through for those that an index answers: facets,
//! and conditions that were not confirmed since some time. One of them leads, in the order of lists, so that a page
//! reads what it shows and little more; the rest is tested on what it finds.

use hyperfleet_core::Timestamp;
use hyperfleet_core::search::{
    Comparison, ConditionPart, Field, Filter, Literal, Predicate, Test, TextColumn, TimeColumn,
};

use crate::facets::Facet;

/// More facets than this are not worth being looked up one by one.
const MAX_FACETS: usize = 64;

/// So many are read and sorted for a page without a second thought.
pub(crate) const MANY: i64 = 1_000;

/// So many lists of facets are looked up. What else is asked of labels and conditions is read from the resource: a plan
/// with more costs more to make than it saves.
const MAX_LISTS: usize = 4;

/// The parts of a search.
pub(crate) struct Plan<'a> {
    pub(super) kinds: Vec<&'a str>,
    pub(super) phases: Phases,
    /// Of each list, the resource has one.
    pub(crate) facets: Vec<Vec<Facet>>,
    /// Some condition was last confirmed before this.
    pub(crate) stale_before: Option<Timestamp>,
    pub(super) narrowed: Narrowed,
    pub(super) rest: Vec<&'a Filter>,
}

/// Which resources by their phase, as far as that can be told without the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phases {
    All,
    Active,
    Finalizing,
    Mixed,
}

/// What leaves few to look at, whatever else is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Narrowed {
    Not,
    /// An id, a name or a referrer: so few that they are sorted.
    ToKeys,
    /// An owner, whose children are in the order of lists.
    ToChildren,
}

/// The table that a search begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    Resources,
    /// The first list of facets.
    Facets,
    Status,
}

impl<'a> Plan<'a> {
    pub(crate) fn of(filter: &'a Filter) -> Self {
        let mut parts = Vec::new();
        collect(filter, &mut parts);
        let kinds = parts.iter().find_map(|part| kinds(part)).unwrap_or_default();
        let mut plan = Self {
            kinds,
            phases: Phases::All,
            facets: Vec::new(),
            stale_before: None,
            narrowed: Narrowed::Not,
            rest: Vec::new(),
        };
        parts.into_iter().for_each(|part| plan.add(part));
        plan
    }

    fn add(&mut self, part: &'a Filter) {
        if let Filter::Test(test) = part {
            if let Some(facets) = facets(&self.kinds, test).filter(|_| self.facets.len() < MAX_LISTS) {
                self.facets.push(facets);
                return;
            }
            if let Some(phase) = phase(test) {
                self.phases = match self.phases {
                    Phases::All => phase,
                    same if same == phase => same,
                    _ => Phases::Mixed,
                };
            }
            self.stale_before = [self.stale_before, stale_before(test)].into_iter().flatten().min();
        }
        if let Filter::OfTenant(tenant) = part {
            self.facets.push(self.kinds.iter().map(|kind| Facet::tenant(kind, tenant)).collect());
            return;
        }
        self.narrowed = self.narrowed.max(narrowed(part));
        self.rest.push(part);
    }

    /// Whether it depends on numbers where to begin: how many resources have the facets, and how many are stale.
    pub(crate) fn needs_numbers(&self) -> bool {
        !self.is_narrow() && (self.facets.len() > 1 || self.stale_before.is_some())
    }

    /// Where to begin if no numbers are needed.
    pub(crate) fn begin(&self) -> Driver {
        match self.is_narrow() {
            false if !self.facets.is_empty() => Driver::Facets,
            _ => Driver::Resources,
        }
    }

    /// Whether resources are the table to begin with, whatever facets are asked for: by their keys, or by the index of
    /// the few that are on their way out.
    fn is_narrow(&self) -> bool {
        self.narrowed != Narrowed::Not || self.phases == Phases::Finalizing
    }

    /// Where to begin to have the least to look at: with the rarest facets, which become the first, or with what is
    /// stale if that is less. `stale` need not be counted beyond the number of the rarest, nor beyond [`MANY`].
    pub(crate) fn begin_with_fewest(&mut self, counts: Vec<i64>, stale: Option<i64>) -> Driver {
        let mut counted: Vec<_> = counts.into_iter().zip(std::mem::take(&mut self.facets)).collect();
        counted.sort();
        let fewest = counted.first().map_or(MANY, |(count, _)| MANY.min(*count));
        self.facets.extend(counted.into_iter().map(|(_, facets)| facets));
        match stale {
            Some(stale) if stale < fewest => Driver::Status,
            _ => self.begin(),
        }
    }

    /// Whether the kinds and the phase are all that `rest` asks for.
    pub(super) fn is_only_kinds(&self) -> bool {
        self.rest.iter().all(|part| match part {
            Filter::Test(test) => phase(test).is_some() || self.is_kinds(part),
            _ => false,
        })
    }

    pub(super) fn is_kinds(&self, part: &Filter) -> bool {
        kinds(part).is_some_and(|kinds| kinds == self.kinds)
    }
}

/// The parts that all must hold.
fn collect<'a>(filter: &'a Filter, parts: &mut Vec<&'a Filter>) {
    match filter {
        Filter::And(inner) => inner.iter().for_each(|part| collect(part, parts)),
        part => parts.push(part),
    }
}

/// The values that a field is one of.
fn one_of(predicate: &Predicate) -> Option<Vec<&str>> {
    match predicate {
        Predicate::Compare(Comparison::Equal, literal) => Some(vec![text(literal)?]),
        Predicate::In { values, negated: false } => values.iter().map(text).collect(),
        _ => None,
    }
}

fn text(literal: &Literal) -> Option<&str> {
    match literal {
        Literal::Text(text) => Some(text),
        _ => None,
    }
}

fn kinds(part: &Filter) -> Option<Vec<&str>> {
    match part {
        Filter::Test(Test { field: Field::Text(TextColumn::Kind), predicate }) => one_of(predicate),
        _ => None,
    }
}

fn facets(kinds: &[&str], Test { field, predicate }: &Test) -> Option<Vec<Facet>> {
    let values = one_of(predicate)?;
    if kinds.is_empty() || kinds.len() * values.len() > MAX_FACETS {
        return None;
    }
    let facet = |kind: &str, value: &str| match field {
        Field::Label(key) => Some(Facet::label(kind, key, value)),
        Field::Condition { kind: condition, part: ConditionPart::Status } => {
            Some(Facet::condition(kind, condition, value))
        }
        _ => None,
    };
    let all = kinds.iter().flat_map(|kind| values.iter().map(move |value| facet(kind, value)));
    let mut facets = all.collect::<Option<Vec<_>>>()?;
    facets.sort();
    facets.dedup();
    Some(facets)
}

fn phase(test: &Test) -> Option<Phases> {
    match test {
        Test { field: Field::Time(TimeColumn::DeletedTime), predicate: Predicate::IsNull { negated } } => {
            Some(if *negated { Phases::Finalizing } else { Phases::Active })
        }
        _ => None,
    }
}

fn narrowed(part: &Filter) -> Narrowed {
    match part {
        Filter::RefersTo { .. } => Narrowed::ToKeys,
        Filter::Test(Test { field: Field::Text(column), predicate }) if one_of(predicate).is_some() => {
            match column {
                TextColumn::Id | TextColumn::Name => Narrowed::ToKeys,
                TextColumn::OwnerId => Narrowed::ToChildren,
                _ => Narrowed::Not,
            }
        }
        _ => Narrowed::Not,
    }
}

fn stale_before(test: &Test) -> Option<Timestamp> {
    match test {
        Test {
            field: Field::Condition { part: ConditionPart::LastUpdatedTime, .. },
            predicate:
                Predicate::Compare(
                    Comparison::Less | Comparison::LessOrEqual | Comparison::Equal,
                    Literal::Time(time),
                )
                | Predicate::Between { high: Literal::Time(time), negated: false, .. },
        } => Some(*time),
        _ => None,
    }
}
