//! The checked filter. Every field exists, every literal has the type of its field, and no part of it is text that is
//! parsed again, so a translation to SQL cannot be injected.
//!
//! Logic is two-valued. A test of a field that the resource does not have is false, whatever its predicate, except
//! [`Predicate::IsNull`]; so is a test of a spec value whose type is not the literal's.

use super::LikePattern;
use crate::{Decimal, ResourceId, Tenant, Timestamp};

/// Which resources are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// Resources that match all of these.
    And(Vec<Filter>),
    /// Resources that match any of these.
    Or(Vec<Filter>),
    /// Resources that do not match this.
    Not(Box<Filter>),
    /// Resources whose field passes a test.
    Test(Test),
    /// Resources that refer to a resource. It comes from a parameter; no query can express it.
    RefersTo {
        /// By this ref type.
        ref_type: String,
        /// To this one.
        target: ResourceId,
    },
    /// Resources of a tenant. It comes from the access scope; no query can express it.
    OfTenant(Tenant),
}

impl Filter {
    /// The one resource with this id.
    pub fn with_id(id: ResourceId) -> Self {
        let predicate = Predicate::Compare(Comparison::Equal, Literal::Text(id.to_string()));
        Self::Test(Test { field: Field::Text(TextColumn::Id), predicate })
    }

    /// The kinds that a scope names.
    pub fn kinds(&self) -> Vec<&str> {
        match self {
            Self::And(parts) => {
                parts.iter().map(Self::kinds).find(|kinds| !kinds.is_empty()).unwrap_or_default()
            }
            Self::Test(Test {
                field: Field::Text(TextColumn::Kind),
                predicate: Predicate::In { values, negated: false },
            }) => values
                .iter()
                .filter_map(
                    |literal| if let Literal::Text(text) = literal { Some(text.as_str()) } else { None },
                )
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Whether `deleted_time` is named anywhere: such a search is about finalizing resources too.
    pub fn names_deleted_time(&self) -> bool {
        match self {
            Self::And(parts) | Self::Or(parts) => parts.iter().any(Self::names_deleted_time),
            Self::Not(inner) => inner.names_deleted_time(),
            Self::Test(test) => test.field == Field::Time(TimeColumn::DeletedTime),
            Self::RefersTo { .. } | Self::OfTenant(_) => false,
        }
    }
}

/// A predicate on one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// The field.
    pub field: Field,
    /// The predicate.
    pub predicate: Predicate,
}

/// Something that a resource may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// A text that every list can show.
    Text(TextColumn),
    /// The resource's generation.
    Generation,
    /// A time of the resource, such as its creation.
    Time(TimeColumn),
    /// The label with this key.
    Label(String),
    /// The value at this path below the spec. A JSON null is no value.
    Spec(Vec<Segment>),
    /// A part of the condition of this type.
    Condition {
        /// The condition's type.
        kind: String,
        /// Which part.
        part: ConditionPart,
    },
    /// The tenant's value of this dimension.
    Tenancy(String),
}

/// What the values of a field are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataType {
    /// Texts, compared by code point.
    Text,
    /// Whole numbers.
    Integer,
    /// Moments.
    Time,
    /// Whatever JSON has; each value has its own type.
    Json,
}

impl Field {
    /// What its values are. The literals of a [`Test`] are of the same type; those of a spec field may be
    /// texts, numbers or booleans.
    pub fn data_type(&self) -> DataType {
        match self {
            Self::Text(_) | Self::Label(_) | Self::Tenancy(_) => DataType::Text,
            Self::Generation => DataType::Integer,
            Self::Time(_) => DataType::Time,
            Self::Spec(_) => DataType::Json,
            Self::Condition { part, .. } => match part {
                ConditionPart::Status | ConditionPart::Reason | ConditionPart::Message => DataType::Text,
                ConditionPart::ObservedGeneration => DataType::Integer,
                ConditionPart::LastUpdatedTime | ConditionPart::LastTransitionTime => DataType::Time,
            },
        }
    }
}

/// The plain texts of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the member of the resource that it is named after")]
pub enum TextColumn {
    Id,
    Name,
    Kind,
    Href,
    CreatedBy,
    UpdatedBy,
    DeletedBy,
    OwnerId,
    OwnerKind,
}

impl TextColumn {
    /// Each with its name.
    pub const ALL: [(&'static str, Self); 9] = [
        ("id", Self::Id),
        ("name", Self::Name),
        ("kind", Self::Kind),
        ("href", Self::Href),
        ("created_by", Self::CreatedBy),
        ("updated_by", Self::UpdatedBy),
        ("deleted_by", Self::DeletedBy),
        ("owner_id", Self::OwnerId),
        ("owner_kind", Self::OwnerKind),
    ];
}

/// The times of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the member of the resource that it is named after")]
pub enum TimeColumn {
    CreatedTime,
    UpdatedTime,
    DeletedTime,
}

impl TimeColumn {
    /// Each with its name.
    pub const ALL: [(&'static str, Self); 3] = [
        ("created_time", Self::CreatedTime),
        ("updated_time", Self::UpdatedTime),
        ("deleted_time", Self::DeletedTime),
    ];
}

/// The parts of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the member of the condition that it is named after")]
pub enum ConditionPart {
    Status,
    Reason,
    Message,
    ObservedGeneration,
    LastUpdatedTime,
    LastTransitionTime,
}

impl ConditionPart {
    /// Each with its name.
    pub const ALL: [(&'static str, Self); 6] = [
        ("status", Self::Status),
        ("reason", Self::Reason),
        ("message", Self::Message),
        ("observed_generation", Self::ObservedGeneration),
        ("last_updated_time", Self::LastUpdatedTime),
        ("last_transition_time", Self::LastTransitionTime),
    ];
}

/// One step down into a spec: the member `key` of an object, or the element `index` of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The member's key.
    pub key: String,
    /// The same as the place in a list, from 0: where `key` is a whole number without zeros to spare. Lists
    /// have no other elements, and none at or beyond 2^31.
    pub index: Option<usize>,
}

impl Segment {
    /// The step to `key`.
    pub fn new(key: impl Into<String>) -> Self {
        let key = key.into();
        let spare = key.starts_with('0') && key.len() > 1;
        let digits = key.bytes().all(|b| b.is_ascii_digit()) && !spare;
        let index = digits.then(|| key.parse::<usize>().ok()).flatten().filter(|n| *n <= i32::MAX as usize);
        Self { key, index }
    }
}

/// A predicate on a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Predicate {
    /// The value compares like this with the literal. Booleans are compared for equality only.
    Compare(Comparison, Literal),
    /// The value is one of these, or none of them. There is at least one.
    In {
        /// The literals; for a spec field of any types.
        values: Vec<Literal>,
        /// `not in`: none of them, but of the type of one.
        negated: bool,
    },
    /// The text fits the pattern, or does not.
    Like {
        /// The pattern; in lower case when case does not matter.
        pattern: LikePattern,
        /// `ilike`: ASCII letters count as equal in both cases.
        ignores_case: bool,
        /// `not like`.
        negated: bool,
    },
    /// The value is within these bounds, both included, or outside. Both are of one type, and not booleans.
    Between {
        /// The lower bound.
        low: Literal,
        /// The upper bound.
        high: Literal,
        /// `not between`.
        negated: bool,
    },
    /// The resource does not have the field, or has it.
    IsNull {
        /// `is not null`.
        negated: bool,
    },
}

/// A comparison of a value with a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A value written in the query.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Literal {
    Text(String),
    Number(Decimal),
    Bool(bool),
    Time(Timestamp),
}
