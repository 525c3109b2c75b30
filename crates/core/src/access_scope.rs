//! The access scope of a caller: tenant and rights. Every query of the store carries one; resources outside it do not
//! exist for the caller.

use std::sync::Arc;

use crate::search::Filter;
use crate::{AccessDecision, Error, ErrorKind, Labels, Resource, Rights, Tenant, Verb};

/// The resources that a caller may see, and what the caller may do to them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessScope {
    tenant: Option<Tenant>,
    rights: Option<Arc<Rights>>,
}

impl AccessScope {
    /// The scope of the server itself.
    pub fn everything() -> Self {
        Self::default()
    }

    /// The scope of a caller with a tenant (`None` sees all tenants) and rights (`None` has all).
    pub fn new(tenant: Option<Tenant>, rights: Option<Arc<Rights>>) -> Self {
        Self { tenant, rights }
    }

    /// The tenant that the caller is confined to.
    pub fn tenant(&self) -> Option<&Tenant> {
        self.tenant.as_ref()
    }

    /// The rights, where they are limited.
    pub fn rights(&self) -> Option<&Rights> {
        self.rights.as_deref()
    }

    /// Whether the caller may see the resource.
    pub fn sees(&self, resource: &Resource) -> Result<bool, Error> {
        let same_tenant = self.tenant.is_none() || self.tenant == resource.tenancy;
        Ok(same_tenant && self.decision(Verb::Read, resource)?.is_none_or(|decision| decision.is_granted()))
    }

    /// Refuses a verb that the caller may not apply to a visible resource.
    pub fn permit(&self, verb: Verb, resource: &Resource) -> Result<(), Error> {
        match self.decision(verb, resource)? {
            None | Some(AccessDecision::Granted(_)) => Ok(()),
            Some(AccessDecision::NotThisVerb) => Err(denied_verb(verb, &resource.kind)),
            Some(AccessDecision::NotThisResource) => Err(Error::new(
                ErrorKind::ResourceDenied,
                format!("Your roles do not allow to {verb} {} '{}'", resource.kind, resource.id),
            )),
        }
    }

    /// Refuses new labels that would grant the caller more than the old ones.
    pub(crate) fn permit_relabelling(&self, before: &Resource, after: &Resource) -> Result<(), Error> {
        for (_, verb) in Verb::ALL {
            let granted =
                |of: &Resource| Ok::<_, Error>(self.decision(verb, of)?.is_none_or(|v| v.is_granted()));
            if granted(after)? && !granted(before)? {
                return Err(Error::new(
                    ErrorKind::ResourceDenied,
                    format!(
                        "With these labels your roles would allow to {verb} {} '{}'",
                        after.kind, after.id
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Refuses a verb that the caller may not apply to any resource of these kinds.
    pub fn permit_on_some(&self, verb: Verb, kinds: &[&str]) -> Result<(), Error> {
        let Some(rights) = &self.rights else { return Ok(()) };
        match kinds.iter().any(|kind| rights.on_some(verb, kind).is_granted()) {
            true => Ok(()),
            false => Err(denied_verb(verb, &kinds.join(", "))),
        }
    }

    /// `filter`, confined to visible resources. Refused if the caller may read nothing of its kinds.
    pub fn confine(&self, filter: Filter) -> Result<Filter, Error> {
        let tenant = self.tenant.clone().map(Filter::OfTenant);
        let readable = match &self.rights {
            Some(rights) => {
                let kinds = filter.kinds();
                let readable = rights.readable(&kinds);
                readable.ok_or_else(|| denied_verb(Verb::Read, &kinds.join(", ")))?
            }
            None => None,
        };
        // Tenant and rights come first, because the filter must not evaluate hidden resources.
        Ok(Filter::And([tenant, readable, Some(filter)].into_iter().flatten().collect()))
    }

    fn decision(&self, verb: Verb, resource: &Resource) -> Result<Option<AccessDecision>, Error> {
        let Some(rights) = &self.rights else { return Ok(None) };
        // Most decisions do not depend on labels, so they are parsed only if one does.
        if let Some(decision) = rights.on_all(verb, &resource.kind) {
            return Ok(Some(decision));
        }
        Ok(Some(rights.on(verb, &resource.kind, &resource.labels.parse::<Labels>()?)))
    }
}

fn denied_verb(verb: Verb, kind: &str) -> Error {
    Error::new(ErrorKind::ActionDenied, format!("None of your roles allows to {verb} {kind}"))
}
