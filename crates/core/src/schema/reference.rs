//! Where a schema stands in its document, and what its references mean. References lead to places of the same document:
//! by JSON Pointer, by `$anchor`, or by the `$id` of an embedded schema as it is written there.

use serde_json::Value;

/// A value of the document.
#[derive(Debug, Clone)]
pub(super) struct SchemaLocation<'d> {
    pub(super) value: &'d Value,
    /// Where it stands, for messages: `#/components/schemas/Cluster`.
    pub(super) pointer: String,
    /// What references without a URI are relative to: the document, or the closest schema around with an `$id`.
    resource: (&'d Value, String),
}

impl<'d> SchemaLocation<'d> {
    /// The whole document.
    pub(super) fn document(document: &'d Value) -> Self {
        Self { value: document, pointer: "#".to_owned(), resource: (document, "#".to_owned()) }
    }

    /// The member with this name, or the item with this number.
    pub(super) fn child(&self, name: &str) -> Option<Self> {
        let value = match self.value {
            Value::Array(items) => items.get(name.parse::<usize>().ok()?)?,
            other => other.get(name)?,
        };
        let pointer = format!("{}/{}", self.pointer, name.replace('~', "~0").replace('/', "~1"));
        let resource = if id(value).is_some() { (value, pointer.clone()) } else { self.resource.clone() };
        Some(Self { value, pointer, resource })
    }

    /// Every value directly below, in its order.
    pub(super) fn children(&self) -> Vec<Self> {
        let names: Vec<String> = match self.value {
            Value::Array(items) => (0..items.len()).map(|i| i.to_string()).collect(),
            Value::Object(members) => members.keys().cloned().collect(),
            _ => Vec::new(),
        };
        names.iter().filter_map(|name| self.child(name)).collect()
    }

    /// The schema that a reference in this one leads to.
    pub(super) fn follow(&self, document: &'d Value, reference: &str) -> Result<Self, String> {
        let missing = || format!("the reference '{reference}' leads to nothing in this document");
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let resource = if uri.is_empty() {
            let (value, pointer) = self.resource.clone();
            Self { value, pointer, resource: self.resource.clone() }
        } else {
            let named = |place: &Self| id(place.value).is_some_and(|id| id.trim_end_matches('#') == uri);
            Self::document(document).find(named).ok_or_else(|| {
                format!("the reference '{reference}' leads to another document, and only one is read")
            })?
        };
        let fragment = decoded(fragment).ok_or_else(missing)?;
        let found = if fragment.is_empty() || fragment.starts_with('/') {
            let mut steps = fragment.split('/').skip(1);
            steps.try_fold(resource, |place, step| place.child(&step.replace("~1", "/").replace("~0", "~")))
        } else {
            let named = |value: &Value| {
                ["$anchor", "$dynamicAnchor"]
                    .iter()
                    .any(|key| value.get(key).and_then(Value::as_str) == Some(&fragment))
            };
            let within = resource.value;
            resource.find(|place| named(place.value) && std::ptr::eq(place.resource.0, within))
        };
        found.ok_or_else(missing)
    }

    /// The first place for which `wanted` holds, from here on.
    fn find(self, wanted: impl Fn(&Self) -> bool) -> Option<Self> {
        let mut open = vec![self];
        while let Some(place) = open.pop() {
            if wanted(&place) {
                return Some(place);
            }
            open.extend(place.children().into_iter().rev());
        }
        None
    }
}

fn id(value: &Value) -> Option<&str> {
    value.get("$id")?.as_str().filter(|id| !id.starts_with('#'))
}

/// The text without percent-encoding.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}
