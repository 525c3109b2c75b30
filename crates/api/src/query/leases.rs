//! The parameters of the list of a group's leases.

use hyperfleet_core::{AccessScope, Contract, Error, FaultKind, check_lease_name};

use super::{Query, SliceParameters};
use crate::page_token::TokenSigner;

/// The parameters of a list of leases.
#[derive(Debug)]
pub(crate) struct LeaseListParameters {
    /// The group.
    pub(crate) group: String,
    /// The requested page.
    pub(crate) page: SliceParameters,
    /// The route that page tokens are bound to.
    pub(crate) route: String,
}

impl LeaseListParameters {
    /// Parses the parameters. Page tokens are bound to the group and to the caller's tenant.
    pub(crate) fn parse(
        raw: Option<&str>,
        contract: Contract,
        token_signer: &TokenSigner,
        scope: &AccessScope,
    ) -> Result<Self, Error> {
        let mut query = Query::new(raw, contract);
        let group = query.take("group");
        match &group {
            None => query.fault("group", "group is required: whose leases", None, "required"),
            Some(group) => query.faults.extend(check_lease_name(FaultKind::Parameter, "group", group)),
        }
        let group = group.unwrap_or_default();
        let tenant = scope.tenant().map(ToString::to_string).unwrap_or_default();
        let route = format!("leases\n{tenant}\n{group}");
        let page = SliceParameters::take(&mut query, (token_signer, &route));
        query.finish(Self { group, page, route })
    }
}
