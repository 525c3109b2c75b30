//! Authentication, tenancy, authorization and rate limits: the sections `server.jwt`, `server.tenant`, `server.authorization` and
//! `server.rate_limit`.

use http::HeaderName;
use hyperfleet_auth::{Dimension, IssuerConfig, Tenancy};
use hyperfleet_core::{Catalog, Policy, PolicyDescriptor};
use hyperfleet_service::settings::{Fault, Faults, Settings};
use serde::Deserialize;

use super::structured::{self, SettingFault};
use crate::gate::{Budget, Budgets};

/// Authentication, tenancy, authorization and rate limits.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// The issuers of tokens; `None` turns authentication off.
    pub issuers: Option<Vec<IssuerConfig>>,
    /// The headers that name the tenant; `None` without tenants.
    pub tenancy: Option<Tenancy>,
    /// Roles; `None` turns authorization off.
    pub policy: Option<Policy>,
    /// The rate limits of each caller; `None` sets no limit.
    pub budgets: Option<Budgets>,
}

/// An entry of `server.tenant.dimensions`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DimensionDescriptor {
    header: String,
    key: String,
    required: bool,
}

/// Reads the four sections. Faults go to `faults`.
pub(super) fn read(settings: &Settings, catalog: Option<&Catalog>, faults: &mut Faults) -> Access {
    Access {
        issuers: issuers(settings, faults),
        tenancy: tenancy(settings, faults),
        policy: catalog.and_then(|catalog| policy(settings, catalog, faults)),
        budgets: settings.bool("server.rate_limit.enabled").then(|| Budgets {
            reads: budget(settings, "reads"),
            writes: budget(settings, "writes"),
            reports: budget(settings, "reports"),
        }),
    }
}

fn issuers(settings: &Settings, faults: &mut Faults) -> Option<Vec<IssuerConfig>> {
    const PATH: &str = "server.jwt.configs";
    if !settings.bool("server.jwt.enabled") {
        return None;
    }
    let mut found = Vec::new();
    let issuers: Vec<IssuerConfig> =
        structured::entries(settings, PATH, |_| Some("must be text"), &mut found);
    if found.is_empty() {
        let fault = |fault: hyperfleet_auth::ConfigFault| {
            (format!("{PATH}[{}].{}", fault.index, fault.field), fault.message)
        };
        found.extend(hyperfleet_auth::check(&issuers).into_iter().map(fault));
    }
    report(settings, PATH, found, faults);
    Some(issuers)
}

fn tenancy(settings: &Settings, faults: &mut Faults) -> Option<Tenancy> {
    const PATH: &str = "server.tenant.dimensions";
    if !settings.bool("server.tenant.enabled") {
        return None;
    }
    let rules = |member: &str| match member {
        "required" => Some("must be true or false"),
        "header" | "key" => Some("must be text"),
        _ => None,
    };
    let mut found: Vec<SettingFault> = Vec::new();
    let entries: Vec<DimensionDescriptor> = structured::entries(settings, PATH, rules, &mut found);
    let mut dimensions: Vec<Dimension> = Vec::new();
    for (i, entry) in entries.into_iter().enumerate() {
        let mut fault =
            |member: &str, rule: &str| found.push((format!("{PATH}[{i}].{member}"), rule.to_owned()));
        let good_key = !entry.key.is_empty()
            && entry.key.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        if !good_key {
            fault("key", "must have letters, digits, '.', '_' and '-', and at least one");
        }
        let Ok(header) = entry.header.parse::<HeaderName>() else {
            fault("header", "must be the name of a header");
            continue;
        };
        if dimensions.iter().any(|other| other.key == entry.key || other.header == header) {
            fault("key", "must not be that of another dimension, and neither must its header");
        }
        dimensions.push(Dimension { header, key: entry.key, required: entry.required });
    }
    if dimensions.is_empty() && found.is_empty() {
        found.push((PATH.to_owned(), "must name at least one dimension".to_owned()));
    }
    report(settings, PATH, found, faults);
    let system_header = settings.some_text("server.tenant.system_header").and_then(|name| {
        let header: Option<HeaderName> = name.parse().ok();
        match &header {
            None => {
                faults.push(settings.fault("server.tenant.system_header", "must be the name of a header"));
            }
            Some(header) if dimensions.iter().any(|dimension| dimension.header == *header) => {
                let rule =
                    "must not be the header of a dimension: its value would make callers part of the system";
                faults.push(settings.fault("server.tenant.system_header", rule));
            }
            Some(_) => {}
        }
        header
    });
    Some(Tenancy { system_header, dimensions })
}

fn policy(settings: &Settings, catalog: &Catalog, faults: &mut Faults) -> Option<Policy> {
    const PATH: &str = "server.authorization";
    if !settings.bool("server.authorization.enabled") {
        return None;
    }
    let rules = |member: &str| match member {
        "name" | "role" => Some("must be text"),
        "verbs" | "kinds" | "identities" => Some("must be a list of text"),
        "rules" => Some("must be a list of mappings"),
        "labels" => Some("must be a mapping of text to text"),
        "claims" => Some("must be a mapping of claims to lists of text"),
        _ => None,
    };
    let mut found = Vec::new();
    let descriptor = PolicyDescriptor {
        roles: structured::entries(settings, "server.authorization.roles", rules, &mut found),
        bindings: structured::entries(settings, "server.authorization.bindings", rules, &mut found),
        default_role: settings.text("server.authorization.default_role").to_owned(),
    };
    let policy = match Policy::new(&descriptor, catalog) {
        Ok(policy) => Some(policy),
        Err(messages) => {
            if found.is_empty() {
                let fault = |message: String| match message.split_once(": ") {
                    Some((place, rule)) => (format!("{PATH}.{place}"), rule.to_owned()),
                    None => (PATH.to_owned(), message),
                };
                found.extend(messages.into_iter().map(fault));
            }
            None
        }
    };
    report(settings, "server.authorization.roles", found, faults);
    policy
}

fn budget(settings: &Settings, budget_kind: &str) -> Budget {
    let number = |name: &str| settings.integer(&format!("server.rate_limit.{budget_kind}.{name}"));
    Budget { per_second: number("per_second"), burst: number("burst") }
}

fn report(settings: &Settings, path: &str, found: Vec<SettingFault>, faults: &mut Faults) {
    let source = settings.source(path);
    for (path, rule) in found {
        faults.push(Fault { path, source: source.clone(), rule, given: None });
    }
}
