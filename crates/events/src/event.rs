//! The event: CloudEvents 1.0 as one JSON document, the same on every broker. It names a resource, which the subscriber
//! reads from the API. Unknown members are kept, because the envelope may grow.

use hyperfleet_core::Timestamp;
use serde_json::{Map, Value};
use uuid::Uuid;

const TYPE_PREFIX: &str = "com.redhat.hyperfleet.";
const TYPE_SUFFIX: &str = ".reconcile";

/// A CloudEvent.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Unique among the events of its source.
    pub id: String,
    /// The publisher.
    pub source: String,
    /// Its `type`, such as `com.redhat.hyperfleet.cluster.reconcile`.
    pub event_type: String,
    /// When it was made.
    pub time: Option<Timestamp>,
    /// The trace that it continues.
    pub traceparent: Option<String>,
    /// The data: the resource that the event is about.
    pub data: Value,
    /// Other members of the envelope.
    pub extensions: Map<String, Value>,
}

/// The resource that an event is about, as far as its data names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: Option<String>,
    /// Where it is.
    pub href: Option<String>,
    /// The generation that was seen when the event was made.
    pub generation: Option<i64>,
    /// Its owner, when it has one.
    pub owner: Option<Owner>,
}

/// The owner of a resource that an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: Option<String>,
    /// Where it is.
    pub href: Option<String>,
}

/// Why a message is no CloudEvent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a CloudEvent: {0}")]
pub struct NotAnEvent(String);

impl Event {
    /// A request to reconcile a resource of `kind`, made now.
    pub fn reconcile(
        source: impl Into<String>,
        kind: &str,
        data: Value,
        traceparent: Option<String>,
    ) -> Self {
        Self {
            id: Uuid::now_v7().to_string(),
            source: source.into(),
            event_type: format!("{TYPE_PREFIX}{}{TYPE_SUFFIX}", kind.to_lowercase()),
            time: Some(Timestamp::now()),
            traceparent,
            data,
            extensions: Map::new(),
        }
    }

    /// Reads a message's body.
    pub fn read(body: &[u8]) -> Result<Self, NotAnEvent> {
        // The parser's error names a position, never the text itself.
        let mut members: Map<String, Value> =
            serde_json::from_slice(body).map_err(|error| NotAnEvent(error.to_string()))?;
        match members.shift_remove("specversion") {
            Some(Value::String(version)) if version == "1.0" => {}
            Some(_) => return Err(NotAnEvent("specversion must be \"1.0\"".to_owned())),
            None => return Err(NotAnEvent("specversion is missing".to_owned())),
        }
        members.shift_remove("datacontenttype");
        let time = optional(&mut members, "time")?
            .map(|text| {
                Timestamp::parse(&text).ok_or_else(|| NotAnEvent("time must be an RFC 3339 time".to_owned()))
            })
            .transpose()?;
        Ok(Self {
            id: required(&mut members, "id")?,
            source: required(&mut members, "source")?,
            event_type: required(&mut members, "type")?,
            time,
            traceparent: optional(&mut members, "traceparent")?,
            data: members.shift_remove("data").unwrap_or_default(),
            extensions: members,
        })
    }

    /// The message's body.
    pub fn to_json(&self) -> Vec<u8> {
        let mut members = Map::new();
        let mut put = |name: &str, value: String| members.insert(name.to_owned(), Value::String(value));
        put("specversion", "1.0".to_owned());
        put("id", self.id.clone());
        put("source", self.source.clone());
        put("type", self.event_type.clone());
        if let Some(time) = self.time {
            put("time", time.to_string());
        }
        put("datacontenttype", "application/json".to_owned());
        if let Some(traceparent) = &self.traceparent {
            put("traceparent", traceparent.clone());
        }
        for (name, value) in &self.extensions {
            members.entry(name).or_insert_with(|| value.clone());
        }
        members.insert("data".to_owned(), self.data.clone());
        Value::Object(members).to_string().into_bytes()
    }

    /// The kind in the type, in lower case; `None` for other types of events.
    pub fn kind_of_type(&self) -> Option<&str> {
        let rest = self.event_type.strip_prefix(TYPE_PREFIX)?;
        let kind = rest.strip_suffix(".v1").unwrap_or(rest).strip_suffix(TYPE_SUFFIX)?;
        Some(kind).filter(|kind| !kind.is_empty() && !kind.contains('.'))
    }

    /// The resource in its data.
    pub fn resource(&self) -> Option<Subject> {
        let owner = self.data.get("owner_references").and_then(|owner| {
            let (id, kind, href) = names(owner)?;
            Some(Owner { id, kind, href })
        });
        let (id, kind, href) = names(&self.data)?;
        Some(Subject {
            id,
            kind,
            href,
            generation: self.data.get("generation").and_then(Value::as_i64),
            owner,
        })
    }
}

type Names = (String, Option<String>, Option<String>);

fn names(of: &Value) -> Option<Names> {
    let text = |name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
    Some((text("id").filter(|id| !id.is_empty())?, text("kind"), text("href")))
}

fn optional(members: &mut Map<String, Value>, name: &str) -> Result<Option<String>, NotAnEvent> {
    match members.shift_remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(NotAnEvent(format!("{name} must be text"))),
    }
}

fn required(members: &mut Map<String, Value>, name: &str) -> Result<String, NotAnEvent> {
    match optional(members, name)? {
        Some(text) if !text.is_empty() => Ok(text),
        _ => Err(NotAnEvent(format!("{name} is missing"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn event() -> Event {
        let data = json!({"id": "p1", "kind": "NodePool", "href": "/n/p1", "generation": 2,
                          "owner_references": {"id": "c1", "kind": "Cluster", "href": "/c/c1"}});
        Event::reconcile("hyperfleet-sentinel", "NodePool", data, Some("00-a-b-01".to_owned()))
    }

    #[test]
    fn an_event_is_written_as_the_contract_shows_it_and_reads_back_the_same() {
        let event = event();
        let written: Value = serde_json::from_slice(&event.to_json()).unwrap();
        assert_eq!(
            written,
            json!({"specversion": "1.0", "id": event.id, "source": "hyperfleet-sentinel",
                   "type": "com.redhat.hyperfleet.nodepool.reconcile", "time": event.time.unwrap().to_string(),
                   "datacontenttype": "application/json", "traceparent": "00-a-b-01",
                   "data": {"id": "p1", "kind": "NodePool", "href": "/n/p1", "generation": 2,
                            "owner_references": {"id": "c1", "kind": "Cluster", "href": "/c/c1"}}})
        );
        assert_eq!(Event::read(&event.to_json()), Ok(event));
    }

    #[test]
    fn the_resource_and_its_owner_are_read_out_of_the_data() {
        let subject = event().resource().unwrap();
        assert_eq!((subject.id.as_str(), subject.generation), ("p1", Some(2)));
        assert_eq!(subject.owner.unwrap().id, "c1");
        assert_eq!(Event { data: json!({"name": "x"}), ..event() }.resource(), None);
    }

    #[test]
    fn the_kind_is_read_out_of_the_type_with_and_without_a_version() {
        for (event_type, kind) in [
            ("com.redhat.hyperfleet.nodepool.reconcile", Some("nodepool")),
            ("com.redhat.hyperfleet.nodepool.reconcile.v1", Some("nodepool")),
            ("com.redhat.hyperfleet.nodepool.reconcile.v2", None),
            ("com.redhat.hyperfleet.reconcile", None),
            ("org.example.created", None),
        ] {
            let event = Event { event_type: event_type.to_owned(), ..event() };
            assert_eq!(event.kind_of_type(), kind, "{event_type}");
        }
    }

    #[test]
    fn unknown_members_and_large_numbers_are_kept_as_they_are() {
        let body = br#"{"specversion":"1.0","id":"1","source":"s","type":"t","comexample":{"a":1},
                        "data":{"n":123456789012345678901234567890.10}}"#;
        let again = Event::read(&Event::read(body).unwrap().to_json()).unwrap();
        assert_eq!(again.extensions["comexample"], json!({"a": 1}));
        assert_eq!(again.data["n"].to_string(), "123456789012345678901234567890.10");
    }

    #[test]
    fn a_body_that_is_no_cloud_event_is_refused_with_the_reason() {
        for (body, why) in [
            ("", "EOF while parsing a value at line 1 column 0"),
            ("[]", "invalid type: sequence, expected a map at line 1 column 0"),
            ("{}", "specversion is missing"),
            (r#"{"specversion":"0.3"}"#, "specversion must be \"1.0\""),
            (r#"{"specversion":"1.0","source":"s","type":"t"}"#, "id is missing"),
            (r#"{"specversion":"1.0","id":"1","source":"","type":"t"}"#, "source is missing"),
            (r#"{"specversion":"1.0","id":1,"source":"s","type":"t"}"#, "id must be text"),
            (
                r#"{"specversion":"1.0","id":"1","source":"s","type":"t","time":"now"}"#,
                "time must be an RFC 3339 time",
            ),
        ] {
            assert_eq!(Event::read(body.as_bytes()).unwrap_err().0, why, "{body}");
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Event::read(&body);
        }
    }
}
