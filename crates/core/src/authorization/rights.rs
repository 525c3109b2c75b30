//! The rights of a caller, and the access decisions that follow from them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Verb;
use crate::Labels;
use crate::search::{Comparison, Field, Filter, Literal, Predicate, Test, TextColumn};

/// What a rule grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) verbs: BTreeSet<Verb>,
    /// `None` is every kind.
    pub(super) kinds: Option<BTreeSet<String>>,
    pub(super) labels: BTreeMap<String, String>,
}

impl Rule {
    fn is_about(&self, verb: Verb, kind: &str) -> bool {
        self.verbs.contains(&verb) && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind))
    }

    fn covers(&self, labels: &Labels) -> bool {
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

/// A named set of rules.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) name: Arc<str>,
    pub(super) rules: Vec<Rule>,
}

/// What a caller may do. Made for every request, so it shares the roles with the policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rights {
    roles: Vec<Arc<Role>>,
}

/// Whether a verb is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessDecision {
    /// A rule of this role grants it.
    Granted(Arc<str>),
    /// A rule grants the verb on this kind, but not for this resource.
    NotThisResource,
    /// No rule grants the verb on this kind.
    NotThisVerb,
}

impl AccessDecision {
    /// Whether it is allowed.
    pub(crate) fn is_granted(&self) -> bool {
        matches!(self, Self::Granted(_))
    }
}

impl Rights {
    pub(super) fn new(roles: Vec<Arc<Role>>) -> Self {
        Self { roles }
    }

    /// The names of the roles that grant these rights.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        self.roles.iter().map(|role| &*role.name)
    }

    /// The rules about a verb on a kind, each with its role.
    fn about(&self, verb: Verb, kind: &str) -> impl Iterator<Item = (&Role, &Rule)> {
        let rules = self.roles.iter().flat_map(|role| role.rules.iter().map(move |rule| (&**role, rule)));
        rules.filter(move |(_, rule)| rule.is_about(verb, kind))
    }

    /// Whether the verb is allowed on some resource of the kind.
    pub fn on_some(&self, verb: Verb, kind: &str) -> AccessDecision {
        match self.about(verb, kind).next() {
            Some((role, _)) => AccessDecision::Granted(role.name.clone()),
            None => AccessDecision::NotThisVerb,
        }
    }

    /// The decision on all resources of a kind, if it does not depend on labels.
    pub(crate) fn on_all(&self, verb: Verb, kind: &str) -> Option<AccessDecision> {
        match self.about(verb, kind).find(|(_, rule)| rule.labels.is_empty()) {
            Some((role, _)) => Some(AccessDecision::Granted(role.name.clone())),
            None => self.about(verb, kind).next().is_none().then_some(AccessDecision::NotThisVerb),
        }
    }

    /// Whether the verb is allowed on a resource with these labels.
    pub fn on(&self, verb: Verb, kind: &str, labels: &Labels) -> AccessDecision {
        let mut about = self.about(verb, kind).peekable();
        if about.peek().is_none() {
            return AccessDecision::NotThisVerb;
        }
        match about.find(|(_, rule)| rule.covers(labels)) {
            Some((role, _)) => AccessDecision::Granted(role.name.clone()),
            None => AccessDecision::NotThisResource,
        }
    }

    /// A filter for the readable resources of `kinds`: `Some(None)` if all are readable, `None` if none is.
    pub fn readable(&self, kinds: &[&str]) -> Option<Option<Filter>> {
        let mut parts = Vec::new();
        let mut whole = 0;
        for kind in kinds {
            let rules = || self.about(Verb::Read, kind).map(|(_, rule)| rule);
            let is_kind = || is(Field::Text(TextColumn::Kind), kind);
            if rules().any(|rule| rule.labels.is_empty()) {
                whole += 1;
                parts.push(is_kind());
                continue;
            }
            for rule in rules() {
                let labels = rule.labels.iter().map(|(key, value)| is(Field::Label(key.clone()), value));
                parts.push(Filter::And(std::iter::once(is_kind()).chain(labels).collect()));
            }
        }
        match parts.len() {
            0 => None,
            _ if whole == kinds.len() => Some(None),
            1 => Some(parts.pop()),
            _ => Some(Some(Filter::Or(parts))),
        }
    }
}

fn is(field: Field, value: &str) -> Filter {
    let predicate = Predicate::Compare(Comparison::Equal, Literal::Text(value.to_owned()));
    Filter::Test(Test { field, predicate })
}
