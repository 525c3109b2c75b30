//! The parameters of the list of a group's leases.

use hyperfleet_core::{Contract, Error, FaultKind, Sight, check_lease_name};

use super::{Query, SliceParameters};
use crate::page_token::Seal;

/// Which leases.
#[derive(Debug)]
pub(crate) struct LeaseListParameters {
    /// Of which group.
    pub(crate) group: String,
    /// Which page of them.
    pub(crate) page: SliceParameters,
    /// What its tokens are bound to.
    pub(crate) route: String,
}

impl LeaseListParameters {
    /// Reads them. Tokens are bound to the group and to the tenant that sees it.
    pub(crate) fn parse(
        raw: Option<&str>,
        contract: Contract,
        seal: &Seal,
        sight: &Sight,
    ) -> Result<Self, Error> {
        let mut query = Query::new(raw, contract);
        let group = query.take("group");
        match &group {
            None => query.fault("group", "group is required: whose leases", None, "required"),
            Some(group) => query.faults.extend(check_lease_name(FaultKind::Query, "group", group)),
        }
        let group = group.unwrap_or_default();
        let tenant = sight.tenant().map(ToString::to_string).unwrap_or_default();
        let route = format!("leases\n{tenant}\n{group}");
        let page = SliceParameters::take(&mut query, (seal, &route));
        query.finish(Self { group, page, route })
    }
}
