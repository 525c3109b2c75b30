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

/// What a caller may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rights {
    roles: Vec<String>,
    rules: Vec<(Arc<str>, Rule)>,
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
    pub(super) fn new(roles: Vec<String>, rules: Vec<(Arc<str>, Rule)>) -> Self {
        Self { roles, rules }
    }

    /// The roles that they come from.
    pub fn roles(&self) -> &[String] {
        &self.roles
    }

    /// Whether the verb is allowed on some resource of the kind.
    pub fn on_some(&self, verb: Verb, kind: &str) -> Verdict {
        match self.rules.iter().find(|(_, rule)| rule.is_about(verb, kind)) {
            Some((role, _)) => Verdict::Granted(role.clone()),
            None => Verdict::NotThisVerb,
        }
    }

    /// Whether the verb is allowed on a resource with these labels.
    pub fn on(&self, verb: Verb, kind: &str, labels: &Labels) -> Verdict {
        let mut about = self.rules.iter().filter(|(_, rule)| rule.is_about(verb, kind)).peekable();
        if about.peek().is_none() {
            return Verdict::NotThisVerb;
        }
        match about.find(|(_, rule)| rule.covers(labels)) {
            Some((role, _)) => Verdict::Granted(role.clone()),
            None => Verdict::NotThisResource,
        }
    }

    /// Of `kinds`, the resources that may be read, as a part of a filter that is not there where all may be; `None`
    /// where nothing may be.
    pub fn readable(&self, kinds: &[&str]) -> Option<Option<Filter>> {
        let mut parts = Vec::new();
        let mut whole = 0;
        for kind in kinds {
            let rules =
                || self.rules.iter().map(|(_, rule)| rule).filter(|rule| rule.is_about(Verb::Read, kind));
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
