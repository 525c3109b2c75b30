//! Query parameters. An unknown one is refused, so that a misspelt `dryRun` never executes the command; a blank value
//! counts as absent; every faulty parameter is reported at once.

mod history;
mod leases;
mod list;
mod slice;
mod wait;
mod watch;

use std::collections::HashMap;

use hyperfleet_core::search::SearchError;
use hyperfleet_core::{Contract, Error, Fault, FaultKind, Faults, Projection, echo, nearest};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::contract::HttpContract;
use crate::page_token::TokenSigner;

pub(crate) use history::{DiffParameters, TimelineParameters, TimelineToken};
pub(crate) use leases::LeaseListParameters;
pub(crate) use list::{Criteria, ListParameters};
pub(crate) use slice::SliceParameters;
pub(crate) use wait::{Awaited, Wait};
pub(crate) use watch::{WatchParameters, is_watch};

const DEFAULT_PAGE_SIZE: u64 = 20;

/// The parameters of a request, taken one by one; the remaining ones are unknown.
pub(crate) struct Query {
    given: Vec<(String, String)>,
    /// The parameters as given.
    order: Vec<String>,
    known: Vec<&'static str>,
    faults: Faults,
    /// The error of the search, with its position.
    search_error: Option<SearchError>,
    contract: Contract,
}

impl Query {
    /// Reads a raw query string.
    pub(crate) fn new(raw: Option<&str>, contract: Contract) -> Self {
        let given: Vec<(String, String)> = form_urlencoded::parse(raw.unwrap_or_default().as_bytes())
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        let order = given.iter().map(|(name, _)| echo(name)).collect();
        Self { given, order, known: Vec::new(), faults: Faults::default(), search_error: None, contract }
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
        let fault = Fault::new(FaultKind::Parameter, name, message).rule(rule);
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
            let fault = Fault::new(FaultKind::Parameter, name, message).rule("enum").given(&value.into());
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
            let fault = Fault::new(FaultKind::Parameter, name, message).given(&value.into()).rule(constraint);
            self.faults.push(fault.bounds(1, max));
        }
        good
    }

    /// The content of the page token, if it is valid for this route and `page` is not given beside it.
    fn token<T: DeserializeOwned>(
        &mut self,
        page: Option<u64>,
        (token_signer, route): (&TokenSigner, &str),
        fits: impl FnOnce(&T) -> bool,
    ) -> Option<T> {
        let text = self.take("pageToken")?;
        let token = token_signer.verify(&text, route).filter(fits);
        if token.is_none() {
            let message = "pageToken must be the next_page_token of a page of this very list, unaltered";
            self.fault("pageToken", message, Some(&text), "format");
        } else if let Some(page) = page {
            let message = "page and pageToken exclude each other: the token knows where to go on";
            self.fault("page", message, Some(&page.to_string()), "exclusive");
        }
        token
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

    /// `value` if every parameter was known and valid.
    fn finish<T>(mut self, value: T) -> Result<T, Error> {
        let mut unknown = std::mem::take(&mut self.given);
        if !HttpContract::of(self.contract).refuses_unknown {
            // A misspelt filter must not be ignored.
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
        match self.search_error {
            // As the only error it shows the position; among others it is one of the faults.
            Some(error) if self.faults.is_empty() => return Err(error.into()),
            Some(error) => self.faults.push(error.fault().clone()),
            None => {}
        }
        let mut places = HashMap::new();
        for (place, name) in self.order.iter().enumerate() {
            places.entry(name.as_str()).or_insert(place);
        }
        self.faults.sort_by_field(|field| places.get(field).copied().unwrap_or(usize::MAX));
        self.faults.or(value)
    }
}

/// Refuses every parameter, where the contract does.
pub(crate) fn none(raw: Option<&str>, contract: Contract) -> Result<(), Error> {
    Query::new(raw, contract).finish(())
}

/// The parameters of a file that may be cached by its fingerprint.
pub(crate) fn asset(raw: Option<&str>) -> Result<(), Error> {
    let mut query = Query::new(raw, Contract::Documented);
    query.take("v");
    query.finish(())
}

/// The parameters of a read of one resource.
#[derive(Debug, Default)]
pub(crate) struct ReadParameters {
    /// The requested projection.
    pub(crate) fields: Option<Projection>,
    /// The generation to read from history.
    pub(crate) generation: Option<i64>,
    /// The condition to wait for.
    pub(crate) wait: Option<Wait>,
}

impl ReadParameters {
    /// Parses the parameters.
    pub(crate) fn parse(raw: Option<&str>, contract: Contract) -> Result<Self, Error> {
        if raw.is_none() {
            return Ok(Self::default());
        }
        let mut query = Query::new(raw, contract);
        let fields = query.fields();
        let generation = query.generation("generation");
        let wait = wait::wait(&mut query);
        if let (Some(generation), Some(_)) = (generation, &wait) {
            let message = "generation and waitFor exclude each other: the past does not change any more";
            query.fault("generation", message, Some(&generation.to_string()), "exclusive");
        }
        query.finish(Self { fields, generation, wait })
    }
}

/// The parameters of a write: whether it is a dry run.
pub(crate) fn write(raw: Option<&str>, contract: Contract) -> Result<bool, Error> {
    if raw.is_none() {
        return Ok(false);
    }
    let mut query = Query::new(raw, contract);
    let dry_run = query.word("dryRun", &[("true", true), ("false", false)]).unwrap_or(false);
    query.finish(dry_run)
}

/// The names of the parameter for the page size.
fn page_size_names(contract: Contract) -> Vec<&'static str> {
    if HttpContract::of(contract).has_page_size { vec!["pageSize", "size"] } else { vec!["size"] }
}

fn page_size(query: &mut Query) -> u64 {
    let contract = HttpContract::of(query.contract);
    let max = Some(contract.max_page_size);
    let page_size = if contract.has_page_size { query.number("pageSize", max) } else { None };
    let size = query.number("size", max);
    if let (Some(page_size), Some(size)) = (page_size, size)
        && page_size != size
    {
        let message = format!("pageSize ({page_size}) and size ({size}) mean the same and differ");
        query.fault("size", message, Some(&size.to_string()), "equal");
    }
    page_size.or(size).unwrap_or(DEFAULT_PAGE_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_parameter_gets_a_suggestion() {
        let error = write(Some("dryrun=true"), Contract::Documented).unwrap_err();
        assert_eq!(error.code(), "HYPERFLEET-VAL-004");
        assert!(error.detail.contains("did you mean dryRun?"), "{}", error.detail);
    }
}
