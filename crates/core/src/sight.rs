//! What a caller can see. Whatever is asked of the store is asked with someone's sight; what is out of it does not
//! exist for them, in any answer.

use std::sync::Arc;

use crate::search::Filter;
use crate::{Error, ErrorKind, Labels, Resource, Rights, Tenant, Verb, Verdict};

/// The resources that exist for someone, and what they may do to them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sight {
    tenant: Option<Tenant>,
    rights: Option<Arc<Rights>>,
}

impl Sight {
    /// The server's own: everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// That of someone who belongs to a tenant (`None` sees all tenants) and has these rights (`None` has all).
    pub fn new(tenant: Option<Tenant>, rights: Option<Arc<Rights>>) -> Self {
        Self { tenant, rights }
    }

    /// The tenant that is all there is to see.
    pub fn tenant(&self) -> Option<&Tenant> {
        self.tenant.as_ref()
    }

    /// The rights, where they are limited.
    pub fn rights(&self) -> Option<&Rights> {
        self.rights.as_deref()
    }

    /// Whether the resource exists for them.
    pub fn sees(&self, resource: &Resource) -> Result<bool, Error> {
        let at_home = self.tenant.is_none() || self.tenant == resource.tenancy;
        Ok(at_home && self.verdict(Verb::Read, resource)?.is_none_or(|verdict| verdict.is_granted()))
    }

    /// Refuses what they may not do to a resource that they see.
    pub fn permit(&self, verb: Verb, resource: &Resource) -> Result<(), Error> {
        match self.verdict(verb, resource)? {
            None | Some(Verdict::Granted(_)) => Ok(()),
            Some(Verdict::NotThisVerb) => Err(denied_verb(verb, &resource.kind)),
            Some(Verdict::NotThisResource) => Err(Error::new(
                ErrorKind::ResourceDenied,
                format!("Your roles do not allow to {verb} {} '{}'", resource.kind, resource.id),
            )),
        }
    }

    /// Refuses new labels that would allow them more than the old ones did.
    pub fn permit_relabelling(&self, before: &Resource, after: &Resource) -> Result<(), Error> {
        for (_, verb) in Verb::ALL {
            let granted =
                |of: &Resource| Ok::<_, Error>(self.verdict(verb, of)?.is_none_or(|v| v.is_granted()));
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

    /// Refuses what they may not do to any resource of any of these kinds.
    pub fn permit_on_some(&self, verb: Verb, kinds: &[&str]) -> Result<(), Error> {
        let Some(rights) = &self.rights else { return Ok(()) };
        match kinds.iter().any(|kind| rights.on_some(verb, kind).is_granted()) {
            true => Ok(()),
            false => Err(denied_verb(verb, &kinds.join(", "))),
        }
    }

    /// What `filter` means of what is in sight. Refused where the caller may see nothing of its kinds.
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
        // What is not theirs is not looked at any further.
        Ok(Filter::And([tenant, readable, Some(filter)].into_iter().flatten().collect()))
    }

    fn verdict(&self, verb: Verb, resource: &Resource) -> Result<Option<Verdict>, Error> {
        let Some(rights) = &self.rights else { return Ok(None) };
        // Labels are text, and most verdicts need not read them.
        if let Some(verdict) = rights.on_all(verb, &resource.kind) {
            return Ok(Some(verdict));
        }
        Ok(Some(rights.on(verb, &resource.kind, &resource.labels.parse::<Labels>()?)))
    }
}

fn denied_verb(verb: Verb, kind: &str) -> Error {
    Error::new(ErrorKind::ActionDenied, format!("None of your roles allows to {verb} {kind}"))
}
