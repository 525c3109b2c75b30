//! Which kinds of resources the server has, by its own description.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::path::{BASE, Collection};
use crate::response::Response;

/// A kind of resources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kind {
    /// Its name.
    pub kind: String,
    /// Its name in paths.
    pub plural: String,
    /// The kind of its owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_kind: Option<String>,
}

impl Kind {
    /// All resources of this kind.
    pub fn collection(&self) -> Collection {
        Collection::of(&self.plural)
    }

    fn new(kind: &str, plural: &str, parent_kind: Option<&str>) -> Self {
        Self { kind: kind.to_owned(), plural: plural.to_owned(), parent_kind: parent_kind.map(str::to_owned) }
    }
}

/// The kinds in the description of a server.
pub(crate) fn described(answer: &Response) -> Result<Vec<Kind>, Error> {
    let mut document: Value = answer.json()?;
    match document.get_mut("x-hyperfleet-kinds").map(Value::take) {
        Some(kinds) => serde_json::from_value(kinds).map_err(|fault| answer.malformed(fault)),
        None => Ok(usual(&document)),
    }
}

/// The kinds of a server that does not list them: those that every one of these has, as far as it describes their paths.
fn usual(document: &Value) -> Vec<Kind> {
    let described = |kind: &Kind| {
        let paths = document.get("paths").and_then(Value::as_object);
        paths.is_some_and(|paths| {
            paths.keys().any(|path| path.trim_start_matches(BASE).trim_matches('/') == kind.plural)
        })
    };
    let usual = [Kind::new("Cluster", "clusters", None), Kind::new("NodePool", "nodepools", Some("Cluster"))];
    usual.into_iter().filter(described).collect()
}
