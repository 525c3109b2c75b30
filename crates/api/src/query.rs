//! Query parameters. An unknown one is refused, so that a misspelt `dryRun` or filter never does
//! the real thing; a blank value counts as absent; every bad parameter is reported at once.

use std::sync::Arc;

use hyperfleet_core::{
    Catalog, Contract, Error, Fault, FaultKind, Faults, Projection, ResourceId, echo, nearest,
};
use hyperfleet_store::{Direction, SortField};
use serde_json::Value;

const DEFAULT_PAGE_SIZE: u64 = 20;

/// The parameters of a request, taken one by one; what is left at the end is unknown.
pub(crate) struct Query {
    given: Vec<(String, String)>,
    known: Vec<&'static str>,
    faults: Faults,
    contract: Contract,
}

impl Query {
    /// Reads a raw query string.
    pub(crate) fn new(raw: Option<&str>, contract: Contract) -> Self {
        let given = form_urlencoded::parse(raw.unwrap_or_default().as_bytes())
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        Self { given, known: Vec::new(), faults: Faults::default(), contract }
    }

    /// The value of a parameter, unless it is blank or absent. Given twice is a fault.
    fn take(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        let mut values: Vec<String> =
            self.given.extract_if(.., |(given, _)| given == name).map(|(_, value)| value).collect();
        if values.len() > 1 {
            self.fault(name, format!("{name} is given {} times", values.len()), None, "unique");
        }
        values.retain(|value| !value.trim().is_empty());
        values.pop()
    }

    fn fault(&mut self, name: &str, message: impl Into<String>, value: Option<&str>, rule: &'static str) {
        let fault = Fault::new(FaultKind::Query, name, message).rule(rule);
        self.faults.push(match value {
            Some(value) => fault.given(&Value::from(value)),
            None => fault,
        });
    }

    fn word<T: Copy>(&mut self, name: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        let value = self.take(name)?;
        let found = words.iter().find(|(word, _)| *word == value).map(|(_, meaning)| *meaning);
        if found.is_none() {
            let allowed: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let message = format!("{name} must be {}, not '{}'", allowed.join(" or "), echo(&value));
            let fault = Fault::new(FaultKind::Query, name, message).rule("enum").given(&value.into());
            self.faults.push(fault.allowed(allowed));
        }
        found
    }

    fn number(&mut self, name: &'static str, max: Option<u64>) -> Option<u64> {
        let value = self.take(name)?;
        // A number too large to hold is still a page past the end.
        let number = match value.parse::<u64>() {
            Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow => Some(u64::MAX),
            other => other.ok(),
        };
        let good = number.filter(|n| *n >= 1 && max.is_none_or(|max| *n <= max));
        if good.is_none() {
            let rule = match max {
                Some(max) => format!("a whole number from 1 to {max}"),
                None => "a whole number of at least 1".to_owned(),
            };
            let message = format!("{name} must be {rule}, not '{}'", echo(&value));
            let constraint = match number {
                None => "format",
                Some(0) => "min",
                Some(_) => "max",
            };
            let fault = Fault::new(FaultKind::Query, name, message).given(&value.into()).rule(constraint);
            self.faults.push(fault.bounds(1, max));
        }
        good
    }

    fn fields(&mut self) -> Option<Projection> {
        let value = self.take("fields")?;
        match Projection::parse(&value) {
            Ok(projection) => Some(projection),
            Err(faults) => {
                self.faults.extend(faults);
                None
            }
        }
    }

    /// `value` if every parameter was known and good.
    fn finish<T>(mut self, value: T) -> Result<T, Error> {
        let mut unknown = std::mem::take(&mut self.given);
        if !self.contract.refuses_unknown {
            // A filter that is not understood must not be taken for none.
            unknown.retain(|(name, value)| name == "search" && !value.trim().is_empty());
        }
        for (name, _) in unknown {
            let hint = match nearest(&name, self.known.iter().copied()) {
                Some(known) => format!(": did you mean {known}?"),
                None => String::new(),
            };
            let message = format!("{} is not a parameter of this endpoint{hint}", echo(&name));
            self.fault(&echo(&name), message, None, "unknown");
        }
        self.faults.or(value)
    }
}

/// Refuses every parameter.
pub(crate) fn none(raw: Option<&str>) -> Result<(), Error> {
    Query::new(raw, Contract::DOCUMENTED).finish(())
}

/// The parameters of a file that may be cached by its fingerprint.
pub(crate) fn asset(raw: Option<&str>) -> Result<(), Error> {
    let mut query = Query::new(raw, Contract::DOCUMENTED);
    query.take("v");
    query.finish(())
}

/// The parameters of a read of one resource.
pub(crate) fn read(raw: Option<&str>, contract: Contract) -> Result<Option<Projection>, Error> {
    let mut query = Query::new(raw, contract);
    let fields = query.fields();
    query.finish(fields)
}

/// The parameters of a write: whether it is a dry run.
pub(crate) fn write(raw: Option<&str>, contract: Contract) -> Result<bool, Error> {
    let mut query = Query::new(raw, contract);
    let dry_run = query.word("dryRun", &[("true", true), ("false", false)]).unwrap_or(false);
    query.finish(dry_run)
}

/// The parameters of a list.
#[derive(Debug)]
pub(crate) struct ListParameters {
    /// Which page, from 1.
    pub(crate) page: u64,
    /// How many to a page.
    pub(crate) page_size: u64,
    /// The order asked for.
    pub(crate) order: Vec<(SortField, Direction)>,
    /// Only these parts of each resource.
    pub(crate) fields: Option<Projection>,
    /// Finalizing resources too.
    pub(crate) show_deleted: bool,
    /// Whether to count.
    pub(crate) count: bool,
    /// Only resources that refer to this one: ref type and id. An id of another form refers to nothing.
    pub(crate) referring_to: Option<(String, Option<ResourceId>)>,
    /// Only this kind, where the route serves any.
    pub(crate) kind: Option<Arc<str>>,
}

impl ListParameters {
    /// Reads them. `any_kind` is for the route that serves every kind.
    pub(crate) fn parse(
        raw: Option<&str>,
        catalog: &Catalog,
        contract: Contract,
        any_kind: bool,
    ) -> Result<Self, Error> {
        let mut query = Query::new(raw, contract);
        let page = query.number("page", None).unwrap_or(1);
        let page_size = page_size(&mut query);
        let order = order(&mut query);
        let fields = query.fields();
        let show_deleted = query
            .word("showDeleted", &[("true", true), ("false", false)])
            .unwrap_or(contract.lists_finalizing);
        let count = query.word("total", &[("exact", true), ("none", false)]).unwrap_or(true);
        let referring_to = referring_to(&mut query);
        let kind = if any_kind { kind(&mut query, catalog) } else { None };
        query.finish(Self { page, page_size, order, fields, show_deleted, count, referring_to, kind })
    }
}

/// The parameters of the list of reports on a resource.
#[derive(Debug)]
pub(crate) struct ReportListParameters {
    /// Which page, from 1.
    pub(crate) page: u64,
    /// How many to a page.
    pub(crate) page_size: u64,
    /// Whether to count.
    pub(crate) count: bool,
}

impl ReportListParameters {
    /// Reads them.
    pub(crate) fn parse(raw: Option<&str>, contract: Contract) -> Result<Self, Error> {
        let mut query = Query::new(raw, contract);
        let page = query.number("page", None).unwrap_or(1);
        let page_size = page_size(&mut query);
        let count = query.word("total", &[("exact", true), ("none", false)]).unwrap_or(true);
        query.finish(Self { page, page_size, count })
    }
}

fn page_size(query: &mut Query) -> u64 {
    let rules = query.contract.page;
    let page_size = if rules.page_size { query.number("pageSize", Some(rules.max)) } else { None };
    let size = query.number("size", Some(rules.max));
    if let (Some(page_size), Some(size)) = (page_size, size)
        && page_size != size
    {
        let message = format!("pageSize ({page_size}) and size ({size}) mean the same and differ");
        query.fault("size", message, Some(&size.to_string()), "equal");
    }
    page_size.or(size).unwrap_or(DEFAULT_PAGE_SIZE)
}

/// `orderBy=name desc,created_time` with `order=asc|desc` for fields without their own direction.
/// The forms `order=name` and `order=name desc` are understood as `orderBy`.
fn order(query: &mut Query) -> Vec<(SortField, Direction)> {
    let mut order_by = query.take("orderBy").map(|list| ("orderBy", list));
    let mut fallback = None;
    if let Some(order) = query.take("order") {
        match direction(order.trim()) {
            Some(direction) => fallback = Some(direction),
            None if order_by.is_none() => order_by = Some(("order", order)),
            None => {
                let message = format!("order must be asc or desc, not '{}'", echo(&order));
                let fault = Fault::new(FaultKind::Query, "order", message).rule("enum").given(&order.into());
                query.faults.push(fault.allowed(["asc", "desc"]));
            }
        }
    }
    let Some((name, list)) = order_by else {
        return vec![(SortField::CreatedTime, fallback.unwrap_or(Direction::Descending))];
    };
    let mut order = Vec::new();
    for term in list.split(',') {
        let words: Vec<&str> = term.split_whitespace().collect();
        let (field, way) = match words.as_slice() {
            [field] => (*field, fallback.unwrap_or(Direction::Ascending)),
            [field, way] if direction(way).is_some() => {
                (*field, direction(way).unwrap_or(Direction::Ascending))
            }
            _ => {
                let message = format!("{name}: '{}' is not a field with an optional asc or desc", echo(term));
                query.fault(name, message, Some(term), "format");
                continue;
            }
        };
        match SortField::parse(field) {
            Some(sort) if order.iter().any(|(other, _)| *other == sort) => {
                query.fault(name, format!("{name}: {field} is named twice"), Some(field), "unique");
            }
            Some(sort) => order.push((sort, way)),
            None => {
                let names = SortField::ALL.map(|(name, _)| name);
                let hint = nearest(field, names).map(|n| format!(": did you mean {n}?")).unwrap_or_default();
                let message = format!("{name}: '{}' is not a field to sort by{hint}", echo(field));
                let fault = Fault::new(FaultKind::Query, name, message).rule("enum").given(&field.into());
                query.faults.push(fault.allowed(names));
            }
        }
    }
    order
}

fn direction(word: &str) -> Option<Direction> {
    match word.to_ascii_lowercase().as_str() {
        "asc" => Some(Direction::Ascending),
        "desc" => Some(Direction::Descending),
        _ => None,
    }
}

fn referring_to(query: &mut Query) -> Option<(String, Option<ResourceId>)> {
    match (query.take("ref_type"), query.take("ref_target_id")) {
        // No ref type holds U+0000, and PostgreSQL takes no text that does.
        (Some(ref_type), Some(_)) if ref_type.contains('\0') => Some((String::new(), None)),
        (Some(ref_type), Some(id)) => Some((ref_type, ResourceId::parse(&id))),
        (None, None) => None,
        (given, _) => {
            let (lacking, other) =
                if given.is_some() { ("ref_target_id", "ref_type") } else { ("ref_type", "ref_target_id") };
            query.fault(lacking, format!("{lacking} is required together with {other}"), None, "required");
            None
        }
    }
}

fn kind(query: &mut Query, catalog: &Catalog) -> Option<Arc<str>> {
    let value = query.take("kind")?;
    let found = catalog.get(&value).map(|entity| entity.kind.clone());
    if found.is_none() {
        let kinds: Vec<&str> = catalog.kinds().map(|e| &*e.kind).collect();
        let message = format!("kind must be one of {}, not '{}'", kinds.join(", "), echo(&value));
        let fault = Fault::new(FaultKind::Query, "kind", message).rule("enum").given(&value.into());
        query.faults.push(fault.allowed(kinds));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(raw: &str) -> Result<ListParameters, Error> {
        let catalog = Catalog::new(Catalog::default_descriptors()).unwrap();
        ListParameters::parse(Some(raw), &catalog, Contract::DOCUMENTED, true)
    }

    fn faults(raw: &str) -> Vec<String> {
        parse(raw).unwrap_err().faults.into_iter().map(|f| f.field).collect()
    }

    #[test]
    fn the_forms_of_an_order_mean_what_the_contract_says() {
        use Direction::{Ascending, Descending};
        for (raw, expected) in [
            ("", vec![(SortField::CreatedTime, Descending)]),
            ("order=asc", vec![(SortField::CreatedTime, Ascending)]),
            ("orderBy=name", vec![(SortField::Name, Ascending)]),
            ("orderBy=name&order=desc", vec![(SortField::Name, Descending)]),
            ("order=name", vec![(SortField::Name, Ascending)]),
            ("order=name%20desc", vec![(SortField::Name, Descending)]),
            (
                "orderBy=name+DESC,generation&order=asc",
                vec![(SortField::Name, Descending), (SortField::Generation, Ascending)],
            ),
            ("orderBy=&order=", vec![(SortField::CreatedTime, Descending)]),
        ] {
            assert_eq!(parse(raw).unwrap().order, expected, "{raw}");
        }
    }

    #[test]
    fn every_bad_parameter_is_reported_at_once() {
        assert_eq!(
            faults(
                "page=0&pageSize=501&orderBy=nmae&showDeleted=yes&total=some&ref_type=x&kind=Nope&serach=1"
            ),
            ["page", "pageSize", "orderBy", "showDeleted", "total", "ref_target_id", "kind", "serach"]
        );
        assert_eq!(faults("pageSize=5&size=6"), ["size"]);
        assert_eq!(faults("page=1&page=2"), ["page"]);
        assert_eq!(faults("page=-1"), ["page"]);
        assert_eq!(faults("page=1.5"), ["page"]);
        assert_eq!(faults("orderBy=name,name"), ["orderBy"]);
        assert_eq!(faults("orderBy=name&order=sideways"), ["order"]);
    }

    #[test]
    fn blank_is_absent_and_equal_sizes_agree() {
        let list = parse("page=&pageSize=7&size=7&total=none").unwrap();
        assert_eq!((list.page, list.page_size, list.count), (1, 7, false));
        assert_eq!(parse("page=99999999999999999999999").unwrap().page, u64::MAX);
    }

    #[test]
    fn a_misspelt_parameter_is_told_the_right_one() {
        let error = write(Some("dryrun=true"), Contract::DOCUMENTED).unwrap_err();
        assert_eq!(error.code(), "HYPERFLEET-VAL-004");
        assert!(error.detail.contains("did you mean dryRun?"), "{}", error.detail);
    }
}
