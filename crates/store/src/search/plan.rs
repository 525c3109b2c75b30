//! What a search is found by. The parts that all must hold are looked through for those that an index answers: facets,
//! and conditions that were not confirmed since some time. They become joins in the order of lists, so that a page
//! reads what it shows and no more; the rest is tested on what they find.

use hyperfleet_core::search::{
    Comparison, ConditionPart, Field, Filter, Literal, Predicate, Test, TextColumn, TimeColumn,
};
use hyperfleet_core::{Timestamp, View};

use super::order::Anchor;
use super::predicate::Builder;
use super::{Dialect, Value};
use crate::facets::Facet;
use crate::list::{ListQuery, Start};

/// More facets than this are not worth being looked up one by one.
const MAX_FACETS: usize = 64;

/// The parts of a search.
pub(crate) struct Plan<'a> {
    kinds: Vec<&'a str>,
    phases: Phases,
    /// Of each list, the resource has one.
    pub(crate) facets: Vec<Vec<Facet>>,
    /// Some condition was last confirmed before this.
    pub(crate) stale_before: Option<Timestamp>,
    /// Whether an id, a name, an owner or a referrer narrows the search down already.
    pub(crate) is_narrow: bool,
    rest: Vec<&'a Filter>,
}

/// Which resources by their phase, as far as that can be told without the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phases {
    All,
    Active,
    Finalizing,
    Mixed,
}

/// The table that a search begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    /// Whichever the database thinks best.
    Any,
    Resources,
    Facets,
    Status,
}

/// The clauses of a statement, and the values to bind.
pub(crate) struct Select {
    pub(crate) from: String,
    pub(crate) filter: String,
    pub(crate) order: String,
    /// The size of the whole result, as an expression; null if it was not asked for.
    pub(crate) total: String,
    pub(crate) limit: String,
    pub(crate) values: Vec<Value>,
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
            is_narrow: false,
            rest: Vec::new(),
        };
        parts.into_iter().for_each(|part| plan.add(part));
        plan
    }

    fn add(&mut self, part: &'a Filter) {
        if let Filter::Test(test) = part {
            if let Some(facets) = facets(&self.kinds, test) {
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
            self.is_narrow |= is_narrow(test);
            self.stale_before = [self.stale_before, stale_before(test)].into_iter().flatten().min();
        }
        self.is_narrow |= matches!(part, Filter::RefersTo { .. });
        self.rest.push(part);
    }

    /// Whether the kinds and the phase are all that `rest` asks for.
    fn is_only_kinds(&self) -> bool {
        self.rest.iter().all(|part| match part {
            Filter::Test(test) => phase(test).is_some() || kinds(part).is_some_and(|k| k == self.kinds),
            _ => false,
        })
    }

    pub(crate) fn select(
        &self,
        query: &ListQuery,
        view: View<'_>,
        dialect: Dialect,
        driver: Driver,
    ) -> Select {
        let mut builder = Builder { dialect, view, values: Vec::new(), reads_status: false };
        let mut wheres: Vec<String> = Vec::new();
        for part in &self.rest {
            wheres.push(match part {
                // All parts must hold, so null is as good as false here, and an index can be used.
                Filter::Test(test) => builder.test(test),
                part => builder.filter(part),
            });
        }
        if let Some(time) = self.stale_before {
            wheres.push(format!("s.confirmed_after <= {}", builder.bind(Value::Time(time))));
        }
        let (from, anchor) = self.from(&mut builder, driver);
        let total = self.total(query, &mut builder, &from, &wheres.join(" and "));
        if let Start::After(position) = &query.start {
            wheres.push(builder.after(&query.order, position, anchor));
        }
        let order = builder.order_by(&query.order, anchor);
        let offset = if let Start::Offset(offset) = query.start { offset } else { 0 };
        let number = |n: u64| Value::Integer(i64::try_from(n).unwrap_or(i64::MAX));
        // One more than is shown tells whether there is a next page.
        let limit = builder.bind(number(query.limit.saturating_add(1)));
        let limit = format!("limit {limit} offset {}", builder.bind(number(offset)));
        Select { from, filter: wheres.join(" and "), order, total, limit, values: builder.values }
    }

    /// The tables, in the order in which they are to be read.
    fn from(&self, builder: &mut Builder<'_>, driver: Driver) -> (String, Anchor) {
        // SQLite takes this word for an order that it must keep.
        let join = if driver == Driver::Any { "join" } else { "cross join" };
        let mut from = match driver {
            Driver::Status => format!("resource_status s {join} resources r on r.id = s.resource_id"),
            Driver::Facets => String::new(),
            Driver::Any | Driver::Resources => "resources r".to_owned(),
        };
        for (i, facets) in self.facets.iter().enumerate() {
            let places: Vec<String> = facets.iter().map(|facet| builder.bind(Value::Facet(*facet))).collect();
            let is = match places.as_slice() {
                [place] => format!("f{i}.facet = {place}"),
                places => format!("f{i}.facet in ({})", places.join(", ")),
            };
            if from.is_empty() {
                from = format!("resource_facets f0 {join} resources r on {is} and r.id = f0.resource_id");
            } else {
                from.push_str(&format!(
                    " {join} resource_facets f{i} on {is} and f{i}.created_time = r.created_time
                       and f{i}.resource_id = r.id"
                ));
            }
        }
        if builder.reads_status && driver != Driver::Status {
            from.push_str(&format!(" {join} resource_status s on s.resource_id = r.id"));
        }
        let by_facets = !self.facets.is_empty() && matches!(driver, Driver::Any | Driver::Facets);
        let anchor = match by_facets {
            true => Anchor { created_time: "f0.created_time", id: "f0.resource_id" },
            false => Anchor { created_time: "r.created_time", id: "r.id" },
        };
        (from, anchor)
    }

    /// Whole kinds and single facets are counted already; anything else has to be counted now.
    fn total(&self, query: &ListQuery, builder: &mut Builder<'_>, from: &str, filter: &str) -> String {
        let column = match self.phases {
            Phases::All => "active + finalizing",
            Phases::Active => "active",
            Phases::Finalizing => "finalizing",
            Phases::Mixed => "",
        };
        let kept = self.is_only_kinds() && !column.is_empty();
        let (table, key, values): (&str, &str, Vec<Value>) = match (query.count, self.facets.as_slice()) {
            (false, _) => return "cast(null as bigint)".to_owned(),
            (true, []) if kept => {
                ("kind_counts", "kind", self.kinds.iter().map(|k| Value::Text((*k).to_owned())).collect())
            }
            (true, [facets]) if kept => {
                ("facet_counts", "facet", facets.iter().map(|facet| Value::Facet(*facet)).collect())
            }
            _ => return format!("(select count(*) from {from} where {filter})"),
        };
        let places: Vec<String> = values.into_iter().map(|value| builder.bind(value)).collect();
        let sum = format!("cast(coalesce(sum({column}), 0) as bigint)");
        format!("(select {sum} from {table} where {key} in ({}))", places.join(", "))
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

fn is_narrow(test: &Test) -> bool {
    let key = matches!(test.field, Field::Text(TextColumn::Id | TextColumn::Name | TextColumn::OwnerId));
    key && one_of(&test.predicate).is_some()
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
