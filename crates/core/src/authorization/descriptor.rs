//! The policy as configuration writes it, and its checks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Verb;
use super::rights::{Rights, Role, Rule};
use crate::{Catalog, nearest};

/// Stands for every verb, every kind, and any run of characters in an identity.
const ANY: &str = "*";

/// Roles and who has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyDescriptor {
    /// The roles.
    pub roles: Vec<RoleDescriptor>,
    /// Who has them.
    pub bindings: Vec<BindingDescriptor>,
    /// The role of every authenticated caller; empty for none.
    pub default_role: String,
}

/// A role: a named set of rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RoleDescriptor {
    /// Its name.
    pub name: String,
    /// The rules.
    pub rules: Vec<RuleDescriptor>,
}

/// What one rule of a role grants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuleDescriptor {
    /// `read`, `write`, `delete`, `force-delete`, `report`, or `*` for all.
    pub verbs: Vec<String>,
    /// Kinds, or `*` for all.
    pub kinds: Vec<String>,
    /// Labels that the resource must carry.
    pub labels: BTreeMap<String, String>,
}

/// Grants a role to every caller that matches an identity or a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BindingDescriptor {
    /// The role.
    pub role: String,
    /// Identities; `*` stands for any run of characters.
    pub identities: Vec<String>,
    /// Accepted values by claim; one match is enough.
    pub claims: BTreeMap<String, Vec<String>>,
}

/// A checked policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    roles: BTreeMap<String, Arc<Role>>,
    bindings: Vec<BindingDescriptor>,
    default_role: Option<String>,
}

impl Policy {
    /// Checks a policy against the configured kinds. Each fault names its path: `roles[0].rules[1].verbs[0]: …`.
    pub fn new(descriptor: &PolicyDescriptor, catalog: &Catalog) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let mut roles = BTreeMap::new();
        for (i, role) in descriptor.roles.iter().enumerate() {
            let at = format!("roles[{i}]");
            if role.name.trim().is_empty() {
                faults.push(format!("{at}.name: is required"));
            }
            let rules = role.rules.iter().enumerate();
            let rules =
                rules.map(|(j, rule)| check_rule(&format!("{at}.rules[{j}]"), rule, catalog, &mut faults));
            let checked = Role { name: role.name.as_str().into(), rules: rules.collect() };
            if roles.insert(role.name.clone(), Arc::new(checked)).is_some() {
                faults.push(format!("{at}.name: the role '{}' is there already", role.name));
            }
        }
        for (i, binding) in descriptor.bindings.iter().enumerate() {
            let at = format!("bindings[{i}]");
            check_role(&format!("{at}.role"), &binding.role, &roles, &mut faults);
            if binding.identities.is_empty() && binding.claims.values().all(Vec::is_empty) {
                faults.push(format!("{at}: names nobody: give identities or claims"));
            }
            if binding.identities.iter().any(|identity| identity.trim().is_empty()) {
                faults.push(format!("{at}.identities: an identity must not be empty"));
            }
        }
        let default_role = Some(descriptor.default_role.clone()).filter(|role| !role.is_empty());
        if let Some(role) = &default_role {
            check_role("default_role", role, &roles, &mut faults);
        }
        if faults.is_empty() {
            Ok(Self { roles, bindings: descriptor.bindings.clone(), default_role })
        } else {
            Err(faults)
        }
    }

    /// What a caller may do. `claims` are the texts of a claim, one or a list.
    pub fn rights<'c>(&self, identity: Option<&str>, claims: impl Fn(&str) -> Vec<&'c str>) -> Rights {
        let mut granted: BTreeSet<&str> = self.default_role.as_deref().into_iter().collect();
        for binding in &self.bindings {
            let known = |pattern: &String| identity.is_some_and(|identity| fits(pattern, identity));
            let claimed = |(name, values): (&String, &Vec<String>)| {
                claims(name).iter().any(|claim| values.iter().any(|value| value == claim))
            };
            if binding.identities.iter().any(known) || binding.claims.iter().any(claimed) {
                granted.insert(&binding.role);
            }
        }
        Rights::new(granted.into_iter().filter_map(|role| self.roles.get(role)).cloned().collect())
    }
}

fn check_role(at: &str, role: &str, roles: &BTreeMap<String, Arc<Role>>, faults: &mut Vec<String>) {
    if !roles.contains_key(role) {
        let hint = nearest(role, roles.keys().map(String::as_str));
        let hint = hint.map(|known| format!(": did you mean {known}?")).unwrap_or_default();
        faults.push(format!("{at}: there is no role '{role}'{hint}"));
    }
}

fn check_rule(at: &str, rule: &RuleDescriptor, catalog: &Catalog, faults: &mut Vec<String>) -> Rule {
    let mut verbs = BTreeSet::new();
    for (i, verb) in rule.verbs.iter().enumerate() {
        match Verb::parse(verb) {
            Some(verb) => drop(verbs.insert(verb)),
            None if verb == ANY => verbs.extend(Verb::ALL.map(|(_, verb)| verb)),
            None => {
                let names = Verb::ALL.map(|(name, _)| name);
                faults
                    .push(format!("{at}.verbs[{i}]: must be one of {} or *, not '{verb}'", names.join(", ")));
            }
        }
    }
    for (i, kind) in rule.kinds.iter().enumerate() {
        if kind != ANY && catalog.get(kind).is_none() {
            let kinds: Vec<&str> = catalog.kinds().map(|entity| &*entity.kind).collect();
            faults.push(format!("{at}.kinds[{i}]: must be one of {} or *, not '{kind}'", kinds.join(", ")));
        }
    }
    for (member, empty) in [("verbs", rule.verbs.is_empty()), ("kinds", rule.kinds.is_empty())] {
        if empty {
            faults.push(format!("{at}.{member}: is required, or the rule grants nothing"));
        }
    }
    let any_kind = rule.kinds.iter().any(|kind| kind == ANY);
    let kinds = if any_kind { None } else { Some(rule.kinds.iter().cloned().collect()) };
    Rule { verbs, kinds, labels: rule.labels.clone() }
}

/// Whether an identity fits a pattern in which `*` stands for any run of characters.
fn fits(pattern: &str, identity: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| identity.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_run_of_characters() {
        for (pattern, identity) in [
            ("*", ""),
            ("*", "a"),
            ("a*", "a"),
            ("*@x.com", "a@x.com"),
            ("a*c*e", "abcde"),
            ("a", "a"),
            ("a**b", "ab"),
        ] {
            assert!(fits(pattern, identity), "{identity} fits {pattern}");
        }
        for (pattern, identity) in [
            ("", "a"),
            ("a", "ab"),
            ("*@x.com", "a@x.com.evil"),
            ("a*a", "a"),
            ("ab*ba", "aba"),
            ("a*c", "ab"),
        ] {
            assert!(!fits(pattern, identity), "{identity} does not fit {pattern}");
        }
    }
}
