//! What one caller may do, and the verdicts that follow from it.

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

/// A name for what someone may do.
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

/// Whether something is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A rule of this role grants it.
    Granted(Arc<str>),
    /// A rule grants the verb on this kind, but not for this resource.
    NotThisResource,
    /// No rule grants the verb on this kind.
    NotThisVerb,
}

impl Verdict {
    /// Whether it is allowed.
    pub fn is_granted(&self) -> bool {
        matches!(self, Self::Granted(_))
    }
}

impl Rights {
    pub(super) fn new(roles: Vec<Arc<Role>>) -> Self {
        Self { roles }
    }

    /// The names of the roles that they come from.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        self.roles.iter().map(|role| &*role.name)
    }

    /// The rules about a verb on a kind, each with its role.
    fn about(&self, verb: Verb, kind: &str) -> impl Iterator<Item = (&Role, &Rule)> {
        let rules = self.roles.iter().flat_map(|role| role.rules.iter().map(move |rule| (&**role, rule)));
        rules.filter(move |(_, rule)| rule.is_about(verb, kind))
    }

    /// Whether the verb is allowed on some resource of the kind.
    pub fn on_some(&self, verb: Verb, kind: &str) -> Verdict {
        match self.about(verb, kind).next() {
            Some((role, _)) => Verdict::Granted(role.name.clone()),
            None => Verdict::NotThisVerb,
        }
    }

    /// The verdict on every resource of the kind, where it is the same whatever their labels are.
    pub(crate) fn on_all(&self, verb: Verb, kind: &str) -> Option<Verdict> {
        match self.about(verb, kind).find(|(_, rule)| rule.labels.is_empty()) {
            Some((role, _)) => Some(Verdict::Granted(role.name.clone())),
            None => self.about(verb, kind).next().is_none().then_some(Verdict::NotThisVerb),
        }
    }

    /// Whether the verb is allowed on a resource with these labels.
    pub fn on(&self, verb: Verb, kind: &str, labels: &Labels) -> Verdict {
        let mut about = self.about(verb, kind).peekable();
        if about.peek().is_none() {
            return Verdict::NotThisVerb;
        }
        match about.find(|(_, rule)| rule.covers(labels)) {
            Some((role, _)) => Verdict::Granted(role.name.clone()),
            None => Verdict::NotThisResource,
        }
    }

    /// Of `kinds`, the resources that may be read, as a part of a filter that is not there where all may be; `None`
    /// where nothing may be.
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
