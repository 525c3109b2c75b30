//! A plan as SQL. PostgreSQL reuses the plan of a statement for other values, and SQLite has no statistics, so the SQL
//! leaves both planners no worse choice.

use hyperfleet_core::View;
use hyperfleet_core::search::{Direction, Filter, Order, SortField, TimeColumn};

use super::order::Anchor;
use super::plan::{AnyOf, Driver, Narrowed, Phases, Plan};
use super::predicate::Builder;
use super::{Dialect, Value};
use crate::read::lists::{ListQuery, Start};

/// A list as SQL, and the values to bind.
pub(crate) struct Select {
    /// The ids of the page, in order, in its first column, `id`.
    pub(crate) ids: String,
    /// The size of the whole result, as an expression; null if it was not requested.
    pub(crate) total: String,
    pub(crate) values: Vec<Value>,
    /// Whether one plan is good for all values.
    pub(crate) is_lasting: bool,
}

impl Plan<'_> {
    pub(crate) fn select(
        &self,
        query: &ListQuery,
        view: View<'_>,
        dialect: Dialect,
        driver: Driver,
    ) -> Select {
        let anchor = self.anchor(dialect, driver);
        let kind = self.kind_column(dialect, driver);
        let mut builder = Builder { dialect, view, kind, values: Vec::new(), reads_status: false };
        let mut wheres: Vec<String> = Vec::new();
        let is_stale = self
            .stale_before
            .map(|time| format!("updated_after <= {}", builder.bind(Value::Time(time))))
            .unwrap_or_default();
        // First, because SQLite tests in this order and the exact time must be parsed.
        if !is_stale.is_empty() && driver != Driver::Status {
            wheres.push(format!("s.{is_stale}"));
        }
        // A facet belongs to a kind, so the driver tests it.
        let is_told = |part| driver == Driver::Facets && self.is_kinds(part);
        for part in self.rest.iter().filter(|part| !is_told(part)) {
            wheres.push(match part {
                // All parts must hold, so null counts as false and an index can be used.
                Filter::Test(test) => builder.test(test),
                part => builder.filter(part),
            });
        }
        let mut leading = Vec::new();
        for (i, AnyOf { facets, .. }) in self.facets.iter().enumerate() {
            let places: Vec<String> = facets.iter().map(|facet| builder.bind(Value::Facet(*facet))).collect();
            match (driver, i) {
                (Driver::Facets, 0) => leading = places,
                _ => wheres.push(has_one_of(&places, anchor)),
            }
        }
        if wheres.is_empty() {
            wheres.push("true".to_owned());
        }
        let overlap = self.facets.first().is_some_and(|first| first.overlap);
        let from = |builder: &Builder<'_>, leading: &[String]| match driver {
            Driver::Resources => builder.led_by_resources(),
            Driver::Facets => builder.led_by_facets(leading, overlap),
            Driver::Status => builder.led_by_what_is_stale(&is_stale),
        };
        let counted = format!("{} where {}", from(&builder, &leading), wheres.join(" and "));
        let total = self.total(query.count, &mut builder, &counted);
        if let Start::After(position) = &query.start {
            wheres.push(builder.after(&query.order, position, anchor));
        }
        let (filter, order) = (wheres.join(" and "), builder.order_by(&query.order, anchor));
        let offset = if let Start::Offset(offset) = query.start { offset } else { 0 };
        // One row more tells whether there is a next page.
        let limit = query.limit.saturating_add(1);
        let page = |from: String, limit: &str| {
            format!(
                "select {} as id, {} as created_time from {from} where {filter} order by {order} limit {limit}",
                anchor.id, anchor.created_time
            )
        };
        let ids = match by_creation(&query.order) {
            // Each facet is in order, but not their union: a page of each is read, and the union is sorted.
            Some(way) if leading.len() > 1 => {
                let most = builder.number(limit.saturating_add(offset));
                let pages: Vec<String> = leading
                    .iter()
                    .enumerate()
                    .map(|(i, place)| {
                        let page = page(from(&builder, std::slice::from_ref(place)), &most);
                        format!("select * from ({page}) p{i}")
                    })
                    .collect();
                let (limit, offset) = (builder.number(limit), builder.number(offset));
                let pages = pages.join(if overlap { " union " } else { " union all " });
                format!("{pages} order by created_time {way}, id {way} limit {limit} offset {offset}")
            }
            _ => {
                let (limit, offset) = (builder.number(limit), builder.number(offset));
                page(from(&builder, &leading), &format!("{limit} offset {offset}"))
            }
        };
        Select { ids, total, values: builder.values, is_lasting: offset == 0 && !self.needs_numbers() }
    }

    /// Where the columns of the default order are read.
    fn anchor(&self, dialect: Dialect, driver: Driver) -> Anchor {
        match driver {
            Driver::Facets => Anchor { created_time: "f0.created_time", id: "f0.resource_id" },
            // SQLite keeps no statistics and would rather walk a whole kind than sort one resource. An expression is
            // in no index, so it has to sort.
            Driver::Resources
                if dialect == Dialect::Sqlite
                    && matches!(self.narrowed, Narrowed::ToReferrers | Narrowed::ToKeys) =>
            {
                Anchor { created_time: "+r.created_time", id: "+r.id" }
            }
            Driver::Resources | Driver::Status => Anchor { created_time: "r.created_time", id: "r.id" },
        }
    }

    /// The kind. For SQLite an expression where it would otherwise scan the index of a kind for each id, or sort all kinds.
    fn kind_column(&self, dialect: Dialect, driver: Driver) -> &'static str {
        let sorts = self.narrowed != Narrowed::Not || self.phases == Phases::Finalizing;
        let is_temptation = match driver {
            Driver::Resources => self.narrowed == Narrowed::ToReferrers || self.kinds.len() > 1 && !sorts,
            Driver::Facets | Driver::Status => true,
        };
        if dialect == Dialect::Sqlite && is_temptation { "+r.kind" } else { "r.kind" }
    }

    /// Commits maintain the counts of kinds and facets; any other result is counted by the statement.
    fn total(&self, count: bool, builder: &mut Builder<'_>, counted: &str) -> String {
        let column = match self.phases {
            Phases::All => "active + finalizing",
            Phases::Active => "active",
            Phases::Finalizing => "finalizing",
            Phases::Mixed => "",
        };
        let is_counted = self.is_only_kinds() && !column.is_empty();
        let counts = match (count, self.facets.as_slice()) {
            (false, _) => return "cast(null as bigint)".to_owned(),
            (true, []) if is_counted => self.counts_of_kinds(),
            (true, [facets]) if is_counted && !facets.overlap => facets.counts(),
            _ => return format!("(select count(*) from {counted})"),
        };
        let places: Vec<String> = counts.values.iter().map(|value| builder.bind(value.clone())).collect();
        counts.sum(column, &places)
    }
}

/// The tables, in the order in which they are to be read.
impl Builder<'_> {
    /// `cross join` fixes the order of the tables in SQLite.
    fn join(&self) -> &'static str {
        if self.dialect == Dialect::Sqlite { "cross join" } else { "join" }
    }

    fn led_by_resources(&self) -> String {
        "resources r".to_owned() + &self.status()
    }

    /// Resources with one of these facets. The creation time is not compared, because PostgreSQL multiplies the selectivity of
    /// correlated columns, expects next to no rows and chooses a plan that reads all of them.
    fn led_by_facets(&self, places: &[String], overlap: bool) -> String {
        let (join, is) = (self.join(), is_one_of("f0", places));
        let led = match overlap && places.len() > 1 {
            true => format!(
                "(select distinct created_time, resource_id from resource_facets f0 where {is}) f0
                 {join} resources r on r.id = f0.resource_id"
            ),
            false => format!("resource_facets f0 {join} resources r on {is} and r.id = f0.resource_id"),
        };
        led + &self.status()
    }

    /// Stale rows and their resources. The offsets keep PostgreSQL from reordering the join.
    fn led_by_what_is_stale(&self, is_stale: &str) -> String {
        match self.dialect {
            Dialect::Postgres => format!(
                "(select * from resource_status where {is_stale} offset 0) s
                 cross join lateral (select * from resources where id = s.resource_id limit 1 offset 0) r"
            ),
            Dialect::Sqlite => {
                format!("resource_status s cross join resources r on s.{is_stale} and r.id = s.resource_id")
            }
        }
    }

    fn status(&self) -> String {
        let join = format!(" {} resource_status s on s.resource_id = r.id", self.join());
        if self.reads_status { join } else { String::new() }
    }

    /// A number of the page. For PostgreSQL it is a literal, because a generic plan expects a bound limit to be a tenth of the
    /// table and starts workers.
    fn number(&mut self, number: u64) -> String {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        match self.dialect {
            Dialect::Postgres => number.to_string(),
            Dialect::Sqlite => self.bind(Value::Integer(number)),
        }
    }
}

fn is_one_of(alias: &str, places: &[String]) -> String {
    match places {
        [place] => format!("{alias}.facet = {place}"),
        places => format!("{alias}.facet in ({})", places.join(", ")),
    }
}

/// Whether a resource has one of these facets. The offset makes PostgreSQL look up each resource instead of planning a join
/// with a wrong estimate.
fn has_one_of(places: &[String], Anchor { created_time, id }: Anchor) -> String {
    format!(
        "exists (select 1 from resource_facets f where {} and f.created_time = {created_time}
                 and f.resource_id = {id} limit 1 offset 0)",
        is_one_of("f", places)
    )
}

/// Which way an order goes that is by creation alone.
fn by_creation(order: &Order) -> Option<&'static str> {
    match order.as_slice() {
        [(SortField::Time(TimeColumn::CreatedTime), Direction::Ascending)] => Some("asc"),
        [(SortField::Time(TimeColumn::CreatedTime), Direction::Descending)] => Some("desc"),
        _ => None,
    }
}
