//! A resource as a JSON object that keeps every member and number, with typed accessors. Absent members read as empty.

use hyperfleet_core::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::path::ItemPath;

/// A resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    members: Map<String, Value>,
    etag: Option<String>,
}

/// The owner of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its kind.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// Its path.
    pub href: String,
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// Whether the condition holds is unknown.
    Unknown,
}

/// A condition of a resource, or of an adapter's report. What the answer does not say is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The type, such as `Reconciled`.
    pub kind: String,
    /// Whether it holds.
    pub status: Status,
    /// Why, for machines.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// The generation that the condition is about.
    pub observed_generation: Option<i64>,
    /// When the condition first appeared.
    pub created_time: Option<Timestamp>,
    /// When it was last confirmed.
    pub last_updated_time: Option<Timestamp>,
    /// When its status last changed.
    pub last_transition_time: Option<Timestamp>,
}

impl Resource {
    /// Takes an object with an `id`.
    pub fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Object(members)
                if members.get("id").is_some_and(|id| id.as_str().is_some_and(|id| !id.is_empty())) =>
            {
                Some(Self { members, etag: None })
            }
            _ => None,
        }
    }

    pub(crate) fn with_etag(mut self, etag: Option<String>) -> Self {
        self.etag = etag;
        self
    }

    /// The entity tag, if the response had one: to be used as `If-Match`.
    pub fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    /// Its id.
    pub fn id(&self) -> &str {
        text(&self.members, "id")
    }

    /// Its kind.
    pub fn kind(&self) -> &str {
        text(&self.members, "kind")
    }

    /// Its name.
    pub fn name(&self) -> &str {
        text(&self.members, "name")
    }

    /// Its path as the server gives it.
    pub fn href(&self) -> &str {
        text(&self.members, "href")
    }

    /// Where it is.
    pub fn path(&self) -> Option<ItemPath> {
        ItemPath::of_href(self.href())
    }

    /// Its generation; 0 if absent.
    pub fn generation(&self) -> i64 {
        self.members.get("generation").and_then(Value::as_i64).unwrap_or_default()
    }

    /// Its labels, in the order of the answer.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.members.get("labels").and_then(Value::as_object).into_iter().flatten();
        labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    /// One label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.members.get("labels")?.get(key)?.as_str()
    }

    /// Its desired state.
    pub fn spec(&self) -> Option<&Value> {
        self.members.get("spec")
    }

    /// Its references: ref type and targets.
    pub fn references(&self) -> Vec<(&str, Vec<Owner>)> {
        let references = self.members.get("references").and_then(Value::as_object).into_iter().flatten();
        let targets = |value: &Value| value.as_array().into_iter().flatten().filter_map(Owner::of).collect();
        references.map(|(ref_type, value)| (ref_type.as_str(), targets(value))).collect()
    }

    /// Its owner.
    pub fn owner(&self) -> Option<Owner> {
        Owner::of(self.members.get("owner_references")?)
    }

    /// All of its conditions.
    pub fn conditions(&self) -> Vec<Condition> {
        let conditions = self.members.get("status").and_then(|status| status.get("conditions"));
        conditions.and_then(Value::as_array).into_iter().flatten().map(Condition::of).collect()
    }

    /// One condition.
    pub fn condition(&self, kind: &str) -> Option<Condition> {
        self.conditions().into_iter().find(|condition| condition.kind == kind)
    }

    /// When it was created.
    pub fn created_time(&self) -> Option<Timestamp> {
        time(self.members.get("created_time"))
    }

    /// When its desired state last changed.
    pub fn updated_time(&self) -> Option<Timestamp> {
        time(self.members.get("updated_time"))
    }

    /// When its deletion was requested.
    pub fn deleted_time(&self) -> Option<Timestamp> {
        time(self.members.get("deleted_time"))
    }

    /// The identity that created the resource.
    pub fn created_by(&self) -> &str {
        text(&self.members, "created_by")
    }

    /// The identity that changed the resource last.
    pub fn updated_by(&self) -> &str {
        text(&self.members, "updated_by")
    }

    /// The identity that requested its deletion.
    pub fn deleted_by(&self) -> &str {
        text(&self.members, "deleted_by")
    }

    /// Whether its deletion is under way.
    pub fn is_finalizing(&self) -> bool {
        self.members.get("deleted_time").is_some_and(|time| !time.is_null())
    }

    /// Every member as it came.
    pub fn raw(&self) -> &Map<String, Value> {
        &self.members
    }

    /// Every member as it came.
    pub fn into_value(self) -> Value {
        Value::Object(self.members)
    }
}

impl Serialize for Resource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.members.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Resource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_value(value).ok_or_else(|| serde::de::Error::custom("a resource is an object with an id"))
    }
}

impl Owner {
    fn of(value: &Value) -> Option<Self> {
        let members = value.as_object()?;
        let text = |member| text(members, member).to_owned();
        Some(Self { kind: text("kind"), id: text("id"), href: text("href") })
            .filter(|owner| !owner.id.is_empty())
    }
}

impl Status {
    /// `True`, `False` or `Unknown`.
    pub fn name(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    pub(crate) fn of(text: &str) -> Self {
        match text {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Condition {
    pub(crate) fn of(value: &Value) -> Self {
        let text = |member: &str| value.get(member).and_then(Value::as_str).unwrap_or_default();
        Self {
            kind: text("type").to_owned(),
            status: Status::of(text("status")),
            reason: text("reason").to_owned(),
            message: text("message").to_owned(),
            observed_generation: value.get("observed_generation").and_then(Value::as_i64),
            created_time: time(value.get("created_time")),
            last_updated_time: time(value.get("last_updated_time")),
            last_transition_time: time(value.get("last_transition_time")),
        }
    }

    /// Whether it holds.
    pub fn is_true(&self) -> bool {
        self.status == Status::True
    }
}

pub(crate) fn text<'a>(members: &'a Map<String, Value>, member: &str) -> &'a str {
    members.get(member).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn time(value: Option<&Value>) -> Option<Timestamp> {
    Timestamp::parse(value?.as_str()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// JSON that nests a little, with the names of the members that are looked at.
    fn anything() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
            Just(json!("2026-01-31T23:59:59Z")),
        ];
        let name = prop::sample::select(vec![
            "id",
            "kind",
            "labels",
            "spec",
            "status",
            "conditions",
            "type",
            "references",
            "owner_references",
            "generation",
            "deleted_time",
            "href",
            "observed_generation",
        ]);
        leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((name.clone(), inner), 0..6).prop_map(|members| members
                    .into_iter()
                    .map(|(k, v)| (k.to_owned(), v))
                    .collect::<Map<_, _>>()
                    .into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_object_can_be_read_and_is_kept_as_it_is(mut value in anything()) {
            if let Some(members) = value.as_object_mut() {
                members.insert("id".to_owned(), "1".into());
            }
            match Resource::from_value(value.clone()) {
                Some(resource) => {
                    let _ = (resource.conditions(), resource.owner(), resource.references(), resource.path());
                    let _ = (resource.labels().count(), resource.deleted_time(), resource.generation());
                    let text = serde_json::to_string(&resource).unwrap();
                    prop_assert_eq!(serde_json::from_str::<Resource>(&text).unwrap(), resource.clone());
                    prop_assert_eq!(resource.into_value(), value);
                }
                None => prop_assert!(!value.is_object()),
            }
        }
    }

    #[test]
    fn numbers_are_kept_as_they_are() {
        let text = r#"{"id":"1","spec":{"a":9007199254740993,"b":0.10,"c":1.5e+400,"d":-0}}"#;
        let resource: Resource = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&resource).unwrap(), text);
    }
}
