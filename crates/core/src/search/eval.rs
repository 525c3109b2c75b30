//! Evaluates a filter on a resource in memory. Tests compare the translations into SQL with it, so it is as simple as
//! possible: find the field's value, compare it by type.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::OnceLock;

use serde_json::Value;

use super::tree::{
    Comparison, ConditionPart, Field, Filter, Literal, Predicate, Segment, Test, TextColumn, TimeColumn,
};
use super::{SortField, SortKey};
use crate::{Condition, Decimal, Error, Labels, Phase, References, Resource, ResourceId, Timestamp, View};

/// A resource that filters are evaluated on. Its JSON members are parsed when a filter first reads them, once for all
/// filters.
#[derive(Debug)]
pub struct Candidate<'a> {
    view: View<'a>,
    resource: &'a Resource,
    labels: OnceLock<Labels>,
    spec: OnceLock<Value>,
    conditions: OnceLock<Vec<Condition>>,
}

impl<'a> Candidate<'a> {
    /// `resource` as `view` shows it.
    pub fn new(view: View<'a>, resource: &'a Resource) -> Self {
        Self { view, resource, labels: OnceLock::new(), spec: OnceLock::new(), conditions: OnceLock::new() }
    }

    /// Its id.
    pub(super) fn id(&self) -> ResourceId {
        self.resource.id
    }

    /// The sort key of a field.
    pub(super) fn sort_key(&self, field: SortField) -> Option<SortKey> {
        match field {
            SortField::Text(column) => self.text(column).map(|text| SortKey::Text(text.into_owned())),
            SortField::Generation => Some(SortKey::Number(self.resource.generation)),
            SortField::Time(column) => self.time(column).map(|time| SortKey::Number(time.micros())),
        }
    }

    fn refers_to(&self, ref_type: &str, target: ResourceId) -> Result<bool, Error> {
        let references = self.resource.references.parse::<References>()?;
        Ok(references.get(ref_type).is_some_and(|targets| targets.contains(&target)))
    }

    /// The value of a field, if the resource has it.
    fn value(&self, field: &Field) -> Result<Option<FieldValue<'_>>, Error> {
        Ok(match field {
            Field::Text(column) => self.text(*column).map(FieldValue::Text),
            Field::Generation => Some(FieldValue::Number(self.resource.generation.into())),
            Field::Time(column) => self.time(*column).map(FieldValue::Time),
            Field::Label(key) => {
                read(&self.labels, || self.resource.labels.parse())?.get(key).map(FieldValue::text)
            }
            Field::Spec(path) => {
                spec_value(read(&self.spec, || self.resource.spec.parse())?, path).and_then(FieldValue::json)
            }
            Field::Condition { kind, part } => {
                let conditions =
                    read(&self.conditions, || Condition::parse_all(self.resource.conditions.as_str()))?;
                conditions
                    .iter()
                    .find(|condition| condition.kind == *kind)
                    .map(|c| FieldValue::part(c, *part))
            }
            Field::Tenancy(key) => {
                let value = self.resource.tenancy.as_ref().and_then(|tenant| tenant.dimension(key));
                value.map(|value| FieldValue::Text(value.into()))
            }
        })
    }

    fn text(&self, column: TextColumn) -> Option<Cow<'_, str>> {
        let resource = self.resource;
        Some(match column {
            TextColumn::Id => resource.id.to_string().into(),
            TextColumn::Name => resource.name.as_str().into(),
            TextColumn::Kind => (&*resource.kind).into(),
            TextColumn::Href => self.view.href(resource).into(),
            TextColumn::CreatedBy => resource.created.by.as_str().into(),
            TextColumn::UpdatedBy => resource.updated.by.as_str().into(),
            TextColumn::DeletedBy => match &resource.phase {
                Phase::Active => return None,
                Phase::Finalizing(deleted) => deleted.by.as_str().into(),
            },
            TextColumn::OwnerId => resource.owner()?.to_string().into(),
            TextColumn::OwnerKind => {
                resource.owner()?;
                (&*self.view.catalog.get(&resource.kind)?.parent.as_ref()?.kind).into()
            }
        })
    }

    fn time(&self, column: TimeColumn) -> Option<Timestamp> {
        match (column, &self.resource.phase) {
            (TimeColumn::CreatedTime, _) => Some(self.resource.created.at),
            (TimeColumn::UpdatedTime, _) => Some(self.resource.updated.at),
            (TimeColumn::DeletedTime, Phase::Active) => None,
            (TimeColumn::DeletedTime, Phase::Finalizing(deleted)) => Some(deleted.at),
        }
    }
}

/// The parsed JSON member, which is parsed when it is read first.
fn read<T>(parsed: &OnceLock<T>, parse: impl FnOnce() -> Result<T, Error>) -> Result<&T, Error> {
    if let Some(value) = parsed.get() {
        return Ok(value);
    }
    let value = parse()?;
    Ok(parsed.get_or_init(|| value))
}

/// The value at a path below a spec. A null is no value.
pub fn spec_value<'v>(spec: &'v Value, path: &[Segment]) -> Option<&'v Value> {
    descend(spec, path).filter(|value| !value.is_null())
}

fn descend<'v>(spec: &'v Value, path: &[Segment]) -> Option<&'v Value> {
    path.iter().try_fold(spec, |value, segment| match value {
        Value::Object(members) => members.get(&segment.key),
        Value::Array(items) => items.get(segment.index?),
        _ => None,
    })
}

/// The value of a field.
enum FieldValue<'a> {
    Text(Cow<'a, str>),
    Number(Decimal),
    Bool(bool),
    Time(Timestamp),
    /// A list or an object, which no literal compares with.
    Structure,
}

impl<'a> FieldValue<'a> {
    fn text(text: &'a String) -> Self {
        Self::Text(text.into())
    }

    /// A null is no value.
    fn json(value: &'a Value) -> Option<Self> {
        match value {
            Value::Null => None,
            Value::Bool(bool) => Some(Self::Bool(*bool)),
            Value::Number(number) => Decimal::parse_any(number.as_str()).map(Self::Number),
            Value::String(text) => Some(Self::text(text)),
            Value::Array(_) | Value::Object(_) => Some(Self::Structure),
        }
    }

    fn part(condition: &'a Condition, part: ConditionPart) -> Self {
        match part {
            ConditionPart::Status => Self::Text(condition.status.name().into()),
            ConditionPart::Reason => Self::text(&condition.reason),
            ConditionPart::Message => Self::text(&condition.message),
            ConditionPart::ObservedGeneration => Self::Number(condition.observed_generation.into()),
            ConditionPart::LastUpdatedTime => Self::Time(condition.last_updated_time),
            ConditionPart::LastTransitionTime => Self::Time(condition.last_transition_time),
        }
    }

    /// Compares with a literal; `None` if that has another type.
    fn compare(&self, literal: &Literal) -> Option<Ordering> {
        match (self, literal) {
            (Self::Text(text), Literal::Text(literal)) => Some((**text).cmp(literal)),
            (Self::Number(number), Literal::Number(literal)) => Some(number.cmp(literal)),
            (Self::Bool(bool), Literal::Bool(literal)) => Some(bool.cmp(literal)),
            (Self::Time(time), Literal::Time(literal)) => Some(time.cmp(literal)),
            _ => None,
        }
    }

    fn passes(&self, predicate: &Predicate) -> bool {
        match predicate {
            Predicate::Compare(comparison, literal) => {
                self.compare(literal).is_some_and(|order| comparison.holds(order))
            }
            Predicate::In { values, negated } => {
                let mut comparable = values.iter().filter_map(|literal| self.compare(literal)).peekable();
                comparable.peek().is_some() && comparable.any(Ordering::is_eq) != *negated
            }
            Predicate::Like { pattern, ignores_case, negated } => match self {
                Self::Text(text) if *ignores_case => pattern.matches(&text.to_ascii_lowercase()) != *negated,
                Self::Text(text) => pattern.matches(text) != *negated,
                _ => false,
            },
            Predicate::Between { low, high, negated } => match (self.compare(low), self.compare(high)) {
                (Some(low), Some(high)) => (low.is_ge() && high.is_le()) != *negated,
                _ => false,
            },
            Predicate::IsNull { negated } => *negated,
        }
    }
}

impl Comparison {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl Filter {
    /// Whether the candidate matches. Fails only if a stored member is not valid.
    pub fn matches(&self, candidate: &Candidate<'_>) -> Result<bool, Error> {
        match self {
            Self::And(parts) => {
                for part in parts {
                    if !part.matches(candidate)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Or(parts) => {
                for part in parts {
                    if part.matches(candidate)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Not(inner) => Ok(!inner.matches(candidate)?),
            Self::Test(Test { field, predicate }) => Ok(match candidate.value(field)? {
                Some(value) => value.passes(predicate),
                None => *predicate == Predicate::IsNull { negated: false },
            }),
            Self::RefersTo { ref_type, target } => candidate.refers_to(ref_type, *target),
            Self::OfTenant(tenant) => Ok(candidate.resource.tenancy.as_ref() == Some(tenant)),
        }
    }
}
