//! The parameters of a list. The page token carries the criteria of the list (search, order, what is included) from
//! page to page; a parameter given beside the token must agree with it.

use std::sync::Arc;

use hyperfleet_core::search::{
    self, Direction, Filter, Options, Order, Position, Scope, SortField, TimeColumn,
};
use hyperfleet_core::{Catalog, Contract, Error, Fault, FaultKind, Projection, ResourceId, echo, nearest};
use serde::{Deserialize, Serialize};

use super::{Query, page_size};
use crate::contract::HttpContract;
use crate::page_token::{Token, TokenSigner};

/// The parameters of a list.
#[derive(Debug)]
pub(crate) struct ListParameters {
    /// The page number, from 1.
    pub(crate) page: u64,
    /// The page size.
    pub(crate) page_size: u64,
    /// The projection of each resource.
    pub(crate) fields: Option<Projection>,
    /// Whether to count all resources.
    pub(crate) count: bool,
    /// The criteria, which the page token repeats.
    pub(crate) criteria: Criteria,
    /// The search of the criteria.
    pub(crate) search: Option<Filter>,
    /// The order of the criteria.
    pub(crate) order: Order,
    /// The position after which the page starts, if a token gives one.
    pub(crate) after: Option<Position>,
}

/// The criteria of a list apart from its route. They are the same on every page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Criteria {
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    search: Option<String>,
    /// As `orderBy` takes it, with every direction.
    #[serde(rename = "o")]
    order: String,
    #[serde(rename = "d")]
    show_deleted: bool,
    /// Ref type and id, as given.
    #[serde(rename = "f", default, skip_serializing_if = "Option::is_none")]
    referring_to: Option<(String, String)>,
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
}

/// The criteria of a request.
struct RequestedCriteria {
    search: Option<String>,
    order: Option<Order>,
    show_deleted: Option<bool>,
    referring_to: Option<(String, String)>,
    kind: Option<Arc<str>>,
}

impl ListParameters {
    /// Parses the parameters. `any_kind` is for the route that serves every kind; page tokens are bound to the route
    /// beside the signer.
    pub(crate) fn parse(
        raw: Option<&str>,
        catalog: &Catalog,
        contract: Contract,
        options: Options,
        any_kind: bool,
        signer_and_route: (&TokenSigner, &str),
    ) -> Result<Self, Error> {
        let mut query = Query::new(raw, contract);
        query.word("watch", &[("true", true), ("false", false)]);
        if let Some(since) = query.take("since") {
            query.fault("since", "since has no meaning without watch=true", Some(&since), "requires");
        }
        let page = query.number("page", None);
        let page_size = page_size(&mut query);
        let order = order(&mut query);
        let fields = query.fields();
        let show_deleted = query.word("showDeleted", &[("true", true), ("false", false)]);
        let count = query.word("total", &[("exact", true), ("none", false)]).unwrap_or(true);
        let referring_to = referring_to(&mut query);
        let kind = if any_kind { kind(&mut query, catalog) } else { None };
        let given =
            RequestedCriteria { search: query.take("search"), order, show_deleted, referring_to, kind };
        let token = query.token(page, signer_and_route, |token: &Token| {
            token.after.fits(&parse_order(&token.criteria.order))
        });
        let (criteria, page, after) = match token {
            Some(token) => {
                given.agree_with(&token.criteria, &mut query);
                (token.criteria, token.page, Some(token.after))
            }
            None => (given.criteria(contract), page.unwrap_or(1), None),
        };
        let search = criteria.search.as_deref().and_then(|text| match search::parse(text, options) {
            Ok(filter) => Some(filter),
            Err(error) => {
                query.search_error = Some(error);
                None
            }
        });
        let order = parse_order(&criteria.order);
        query.finish(Self { page, page_size, fields, count, criteria, search, order, after })
    }

    /// The filter of the list: the scope of the route and the criteria.
    pub(crate) fn filter(&self, kinds: Vec<Arc<str>>, owner: Option<ResourceId>) -> Filter {
        let kinds = match &self.criteria.kind {
            Some(kind) => vec![kind.as_str().into()],
            None => kinds,
        };
        // A malformed id matches no resource, as an unknown id does.
        let referring_to = self.criteria.referring_to.as_ref().map(|(ref_type, id)| {
            (ref_type.clone(), ResourceId::parse(id).unwrap_or_else(ResourceId::generate))
        });
        let finalizing =
            self.criteria.show_deleted || self.search.as_ref().is_some_and(Filter::names_deleted_time);
        Scope { kinds, owner, finalizing, referring_to }.confine(self.search.clone())
    }
}

impl RequestedCriteria {
    fn criteria(self, contract: Contract) -> Criteria {
        let newest_first = || vec![(SortField::Time(TimeColumn::CreatedTime), Direction::Descending)];
        Criteria {
            search: self.search,
            order: print_order(&self.order.unwrap_or_else(newest_first)),
            show_deleted: self.show_deleted.unwrap_or(HttpContract::of(contract).lists_finalizing),
            referring_to: self.referring_to,
            kind: self.kind.map(|kind| kind.to_string()),
        }
    }

    /// A parameter that is given beside a token must equal the token's.
    fn agree_with(&self, carried: &Criteria, query: &mut Query) {
        let order = self.order.as_ref().map(print_order);
        let (given, kept) = (self.referring_to.as_ref(), carried.referring_to.as_ref());
        let differs = [
            ("search", self.search.is_some() && self.search != carried.search),
            ("orderBy", order.is_some_and(|order| order != carried.order)),
            ("showDeleted", self.show_deleted.is_some_and(|given| given != carried.show_deleted)),
            ("ref_type", given.is_some_and(|(ref_type, _)| kept.is_none_or(|(kept, _)| kept != ref_type))),
            ("ref_target_id", given.is_some_and(|(_, id)| kept.is_none_or(|(_, kept)| kept != id))),
            ("kind", self.kind.is_some() && self.kind.as_deref() != carried.kind.as_deref()),
        ];
        for (name, _) in differs.into_iter().filter(|(_, differs)| *differs) {
            let message =
                format!("{name} differs from that of the list that pageToken continues; leave it out");
            query.fault(name, message, None, "equal");
        }
    }
}

/// `orderBy=name desc,created_time` with `order=asc|desc` for fields without their own direction.
/// The forms `order=name` and `order=name desc` are understood as `orderBy`.
fn order(query: &mut Query) -> Option<Order> {
    let mut order_by = query.take("orderBy").map(|list| ("orderBy", list));
    let mut fallback = None;
    if let Some(order) = query.take("order") {
        match direction(order.trim()) {
            Some(direction) => fallback = Some(direction),
            None if order_by.is_none() => order_by = Some(("order", order)),
            None => {
                let message = format!("order must be asc or desc, not '{}'", echo(&order));
                let fault =
                    Fault::new(FaultKind::Parameter, "order", message).rule("enum").given(&order.into());
                query.faults.push(fault.allowed(["asc", "desc"]));
            }
        }
    }
    let Some((name, list)) = order_by else {
        return fallback.map(|way| vec![(SortField::Time(TimeColumn::CreatedTime), way)]);
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
                let names = || SortField::all().map(|(name, _)| name);
                let hint =
                    nearest(field, names()).map(|n| format!(": did you mean {n}?")).unwrap_or_default();
                let message = format!("{name}: '{}' is not a field to sort by{hint}", echo(field));
                let fault = Fault::new(FaultKind::Parameter, name, message).rule("enum").given(&field.into());
                query.faults.push(fault.allowed(names()));
            }
        }
    }
    Some(order)
}

fn direction(word: &str) -> Option<Direction> {
    match word.to_ascii_lowercase().as_str() {
        "asc" => Some(Direction::Ascending),
        "desc" => Some(Direction::Descending),
        _ => None,
    }
}

/// An order as `orderBy` takes it.
fn print_order(order: &Order) -> String {
    let name = |field| SortField::all().find(|(_, known)| *known == field).map_or("", |(name, _)| name);
    let term = |(field, way): &(SortField, Direction)| match way {
        Direction::Ascending => format!("{} asc", name(*field)),
        Direction::Descending => format!("{} desc", name(*field)),
    };
    order.iter().map(term).collect::<Vec<_>>().join(",")
}

/// Parses the output of [`print_order`].
fn parse_order(text: &str) -> Order {
    let term = |term: &str| {
        let (field, way) = term.split_once(' ')?;
        Some((SortField::parse(field)?, direction(way)?))
    };
    text.split(',').filter_map(term).collect()
}

fn referring_to(query: &mut Query) -> Option<(String, String)> {
    match (query.take("ref_type"), query.take("ref_target_id")) {
        // No ref type holds U+0000, and PostgreSQL takes no text that does.
        (Some(ref_type), Some(_)) if ref_type.contains('\0') => Some((String::new(), String::new())),
        (Some(ref_type), Some(id)) => Some((ref_type, id)),
        (None, None) => None,
        (given, _) => {
            let (lacking, other) =
                if given.is_some() { ("ref_target_id", "ref_type") } else { ("ref_type", "ref_target_id") };
            query.fault(lacking, format!("{lacking} is required together with {other}"), None, "required");
            None
        }
    }
}

pub(super) fn kind(query: &mut Query, catalog: &Catalog) -> Option<Arc<str>> {
    let value = query.take("kind")?;
    let found = catalog.get(&value).map(|entity| entity.kind.clone());
    if found.is_none() {
        let kinds: Vec<&str> = catalog.kinds().map(|e| &*e.kind).collect();
        let message = format!("kind must be one of {}, not '{}'", kinds.join(", "), echo(&value));
        let fault = Fault::new(FaultKind::Parameter, "kind", message).rule("enum").given(&value.into());
        query.faults.push(fault.allowed(kinds));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperfleet_core::search::TextColumn;

    fn parse(raw: &str) -> Result<ListParameters, Error> {
        let catalog = Catalog::new(Catalog::default_descriptors()).unwrap();
        let token_signer = TokenSigner::new(&[7; 64]);
        ListParameters::parse(
            Some(raw),
            &catalog,
            Contract::Documented,
            Options::default(),
            true,
            (&token_signer, "/clusters"),
        )
    }

    fn faults(raw: &str) -> Vec<String> {
        parse(raw).unwrap_err().faults.into_iter().map(|f| f.field).collect()
    }

    #[test]
    fn the_forms_of_an_order_mean_what_the_contract_says() {
        use Direction::{Ascending, Descending};
        for (raw, expected) in [
            ("", vec![(SortField::Time(TimeColumn::CreatedTime), Descending)]),
            ("order=asc", vec![(SortField::Time(TimeColumn::CreatedTime), Ascending)]),
            ("orderBy=name", vec![(SortField::Text(TextColumn::Name), Ascending)]),
            ("orderBy=name&order=desc", vec![(SortField::Text(TextColumn::Name), Descending)]),
            ("order=name", vec![(SortField::Text(TextColumn::Name), Ascending)]),
            ("order=name%20desc", vec![(SortField::Text(TextColumn::Name), Descending)]),
            (
                "orderBy=name+DESC,generation&order=asc",
                vec![(SortField::Text(TextColumn::Name), Descending), (SortField::Generation, Ascending)],
            ),
            ("orderBy=&order=", vec![(SortField::Time(TimeColumn::CreatedTime), Descending)]),
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
            ["page", "pageSize", "orderBy", "showDeleted", "total", "kind", "serach", "ref_target_id"]
        );
        assert_eq!(faults("pageSize=5&size=6"), ["size"]);
        assert_eq!(faults("page=1&page=2"), ["page"]);
        assert_eq!(faults("page=-1"), ["page"]);
        assert_eq!(faults("page=1.5"), ["page"]);
        assert_eq!(faults("orderBy=name,name"), ["orderBy"]);
        assert_eq!(faults("orderBy=name&order=sideways"), ["order"]);
    }

    #[test]
    fn faults_come_in_the_order_of_the_parameters() {
        let raw = "total=z&zork=1&showDeleted=q&search=(&order=up&page=0";
        assert_eq!(faults(raw), ["total", "zork", "showDeleted", "search", "order", "page"]);
    }

    #[test]
    fn blank_is_absent_and_equal_sizes_agree() {
        let list = parse("page=&pageSize=7&size=7&total=none").unwrap();
        assert_eq!((list.page, list.page_size, list.count), (1, 7, false));
        assert_eq!(parse("page=99999999999999999999999").unwrap().page, u64::MAX);
    }
}
