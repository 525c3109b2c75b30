//! Plans of searches. Of the parts that must all hold, an index answers facets and conditions that were not updated since
//! some time. One of them drives the statement, in the order of lists, so that a page reads little more than it shows; the
//! other parts are tested on the rows that it finds.

use hyperfleet_core::Timestamp;
use hyperfleet_core::search::{
    Comparison, ConditionPart, Field, Filter, Literal, Predicate, Test, TextColumn, TimeColumn,
};

use super::Value;
use crate::read::lists::ListQuery;
use crate::write::facets::Facet;

/// More facets are not looked up one by one.
const MAX_FACETS: usize = 64;

/// Stale resources are all read and sorted for every page, so they drive the statement only if they are at most one in so
/// many of the resources that another driver would read.
const SHARE_FOR_A_PAGE: i64 = 10;
/// For a total another driver reads all of its resources, and stale resources are read twice.
const SHARE_FOR_A_TOTAL: i64 = 2;

/// The most lists of facets that are looked up, because planning more joins costs more than they save. Further labels and
/// conditions are tested on the resource.
const MAX_LISTS: usize = 4;

/// Counts of resources that every commit maintains, of some kinds or facets.
pub(crate) struct MaintainedCounts {
    pub(crate) table: &'static str,
    pub(crate) key: &'static str,
    pub(crate) values: Vec<Value>,
}

impl MaintainedCounts {
    /// The sum of a column as an expression, with the values bound at these places.
    pub(crate) fn sum(&self, column: &str, places: &[String]) -> String {
        let (table, key, places) = (self.table, self.key, places.join(", "));
        format!("(select cast(coalesce(sum({column}), 0) as bigint) from {table} where {key} in ({places}))")
    }
}

/// The parts of a search.
pub(crate) struct Plan<'a> {
    pub(super) kinds: Vec<&'a str>,
    pub(super) phases: Phases,
    /// Of each list, the resource has one.
    pub(super) facets: Vec<AnyOf>,
    /// Some condition was last updated before this.
    pub(crate) stale_before: Option<Timestamp>,
    /// Stale resources drive the statement if they are at most one in so many of those that another driver would read.
    pub(crate) share: i64,
    pub(super) narrowed: Narrowed,
    pub(super) rest: Vec<&'a Filter>,
}

/// Facets of which a resource has at least one.
pub(super) struct AnyOf {
    pub(super) facets: Vec<Facet>,
    /// Whether a resource may have several of them, and would be found as often.
    pub(super) overlap: bool,
}

/// The phases of the resources, as far as top-level parts determine them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phases {
    All,
    Active,
    Finalizing,
    Mixed,
}

/// Parts that leave few resources, whatever the other parts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Narrowed {
    Not,
    /// Resources that refer to one; they are sorted.
    ToReferrers,
    /// An id or a name; the resources are few and sorted.
    ToKeys,
    /// An owner, whose children are in the order of lists.
    ToChildren,
}

/// The table that drives a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    Resources,
    /// The first list of facets.
    Facets,
    Status,
}

impl<'a> Plan<'a> {
    pub(crate) fn of(query: &'a ListQuery) -> Self {
        let mut parts = Vec::new();
        collect(&query.filter, &mut parts);
        let kinds = parts.iter().find_map(|part| kinds(part)).unwrap_or_default();
        let mut plan = Self {
            kinds,
            phases: Phases::All,
            facets: Vec::new(),
            stale_before: None,
            share: if query.count { SHARE_FOR_A_TOTAL } else { SHARE_FOR_A_PAGE },
            narrowed: Narrowed::Not,
            rest: Vec::new(),
        };
        parts.into_iter().for_each(|part| plan.add(part));
        plan
    }

    fn add(&mut self, part: &'a Filter) {
        let is_looked_up = self.facets.len() < MAX_LISTS || matches!(part, Filter::OfTenant(_));
        if let Some(facets) = any_of(&self.kinds, part).filter(|_| is_looked_up) {
            self.facets.push(facets);
            return;
        }
        if let Filter::Test(test) = part {
            if let Some(phase) = phase(test) {
                self.phases = match self.phases {
                    Phases::All => phase,
                    same if same == phase => same,
                    _ => Phases::Mixed,
                };
            }
            self.stale_before = [self.stale_before, stale_before(test)].into_iter().flatten().min();
        }
        self.narrowed = self.narrowed.max(narrowed(part));
        self.rest.push(part);
    }

    /// Whether the driver depends on counts: of resources with the facets, and of stale resources.
    pub(crate) fn needs_numbers(&self) -> bool {
        !self.is_narrow() && (self.facets.len() > 1 || self.stale_before.is_some())
    }

    /// The driver if no counts are needed.
    pub(crate) fn begin(&self) -> Driver {
        match self.is_narrow() {
            false if !self.facets.is_empty() => Driver::Facets,
            _ => Driver::Resources,
        }
    }

    /// Whether resources drive the statement, whatever the facets are: by their keys, or by the index of finalizing ones.
    fn is_narrow(&self) -> bool {
        self.narrowed != Narrowed::Not || self.phases == Phases::Finalizing
    }

    /// The counts of each list of facets, or of the kinds if there is none.
    pub(crate) fn numbers(&self) -> Vec<MaintainedCounts> {
        match self.facets.as_slice() {
            [] => vec![self.counts_of_kinds()],
            lists => lists.iter().map(AnyOf::counts).collect(),
        }
    }

    /// The most stale resources that still drive the statement, by the counts of the other drivers.
    pub(crate) fn most_stale(&self, numbers: &[i64]) -> i64 {
        numbers.iter().min().map_or(0, |fewest| fewest / self.share)
    }

    /// The driver that reads the least: the rarest facets, which become the first, or stale resources. `stale` need not be
    /// counted beyond [`Self::most_stale`] and one.
    pub(crate) fn begin_with_fewest(&mut self, numbers: Vec<i64>, stale: Option<i64>) -> Driver {
        let most_stale = self.most_stale(&numbers);
        let mut counted: Vec<_> = numbers.into_iter().zip(std::mem::take(&mut self.facets)).collect();
        counted.sort_by_key(|(number, _)| *number);
        self.facets.extend(counted.into_iter().map(|(_, facets)| facets));
        match stale {
            Some(stale) if stale <= most_stale => Driver::Status,
            _ => self.begin(),
        }
    }

    pub(super) fn counts_of_kinds(&self) -> MaintainedCounts {
        let kinds = self.kinds.iter().map(|kind| Value::Text((*kind).to_owned()));
        MaintainedCounts { table: "kind_counts", key: "kind", values: kinds.collect() }
    }

    /// Whether `rest` tests only kinds and phase.
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

impl AnyOf {
    pub(super) fn counts(&self) -> MaintainedCounts {
        let facets = self.facets.iter().map(|facet| Value::Facet(*facet));
        MaintainedCounts { table: "facet_counts", key: "facet", values: facets.collect() }
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

/// The facets of which a part requires one, if it requires nothing else.
fn any_of(kinds: &[&str], part: &Filter) -> Option<AnyOf> {
    let (mut facets, overlap) = match part {
        Filter::Test(test) => (facets(kinds, test)?, false),
        Filter::OfTenant(_) if kinds.is_empty() => return None,
        Filter::OfTenant(tenant) => (kinds.iter().map(|kind| Facet::tenant(kind, tenant)).collect(), false),
        Filter::Or(parts) => {
            let lists =
                parts.iter().map(|part| Some(any_of(kinds, part)?.facets)).collect::<Option<Vec<_>>>()?;
            (lists.concat(), true)
        }
        _ => return None,
    };
    facets.sort();
    facets.dedup();
    (!overlap || facets.len() <= MAX_FACETS).then_some(AnyOf { facets, overlap })
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
    all.collect()
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
        Filter::RefersTo { .. } => Narrowed::ToReferrers,
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
