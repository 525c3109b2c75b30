//! Roles: what a caller may do to which resources. Everything that no rule grants is denied.
//!
//! A policy is checked once, when it is read. The rights of a caller follow from the policy, the caller's identity and
//! the token's claims, without I/O. A list adds a filter to its search instead of deciding for each resource.

mod descriptor;
mod rights;

pub use descriptor::{BindingDescriptor, Policy, PolicyDescriptor, RoleDescriptor, RuleDescriptor};
pub use rights::{AccessDecision, Rights};

use std::fmt;

/// What can be done to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// See it, its reports and its history.
    Read,
    /// Create or change it.
    Write,
    /// Request its deletion.
    Delete,
    /// Remove it although adapters have not finished.
    ForceDelete,
    /// Report on it.
    Report,
}

impl Verb {
    /// Each with its name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("read", Self::Read),
        ("write", Self::Write),
        ("delete", Self::Delete),
        ("force-delete", Self::ForceDelete),
        ("report", Self::Report),
    ];

    /// The verb with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, verb)| *verb)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, verb)| verb == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}
