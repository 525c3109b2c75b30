//! Paths of lists and resources, nested to any depth. Segments are encoded, so that any text stays one segment.

use std::fmt::{self, Write as _};

/// The path of the API.
pub const BASE: &str = "/api/hyperfleet/v1";

/// A list of resources: `clusters`, `clusters/{id}/nodepools`, `resources`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Collection(String);

/// One resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ItemPath(String);

impl Collection {
    /// All of a kind, by its plural.
    pub fn of(plural: &str) -> Self {
        Self(encoded(plural))
    }

    /// Resources of every kind.
    pub fn any() -> Self {
        Self::of("resources")
    }

    /// One of them.
    #[must_use]
    pub fn item(&self, id: &str) -> ItemPath {
        ItemPath(format!("{}/{}", self.0, encoded(id)))
    }
}

impl ItemPath {
    /// The resource at an `href` of the API.
    pub fn of_href(href: &str) -> Option<Self> {
        let path = href.strip_prefix(BASE)?.strip_prefix('/')?;
        let segments: Vec<&str> = path.split('/').collect();
        // It came from a server: only what the API itself would write is taken.
        let plain = |segment: &&str| {
            let known = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
            !segment.is_empty() && segment.chars().all(known) && segment.chars().any(|c| c != '.')
        };
        (segments.len().is_multiple_of(2) && segments.iter().all(plain)).then(|| Self(path.to_owned()))
    }

    /// The list of a kind below this resource.
    #[must_use]
    pub fn below(&self, plural: &str) -> Collection {
        Collection(format!("{}/{}", self.0, encoded(plural)))
    }

    /// The reports on it.
    pub fn statuses(&self) -> String {
        self.part("statuses")
    }

    /// A route that belongs to it.
    pub(crate) fn part(&self, name: &str) -> String {
        format!("{self}/{name}")
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0)
    }
}

impl fmt::Display for ItemPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0)
    }
}

/// One segment of a path, or one word of a query. What would not be a segment (nothing, or dots that lead upwards even
/// when they are encoded) gets a space behind it, so that it names nothing instead of something else.
pub(crate) fn encoded(segment: &str) -> String {
    let mut out = query_encoded(segment);
    if matches!(segment, "" | "." | "..") {
        out.push_str("%20");
    }
    out
}

/// Everything but what RFC 3986 calls unreserved as `%XX`.
pub(crate) fn query_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_nest_to_any_depth() {
        let cluster = Collection::of("clusters").item("c 1");
        assert_eq!(cluster.to_string(), "/clusters/c%201");
        assert_eq!(
            cluster.below("nodepools").item("n/1").statuses(),
            "/clusters/c%201/nodepools/n%2F1/statuses"
        );
        assert_eq!(Collection::any().to_string(), "/resources");
    }

    #[test]
    fn an_href_is_taken_only_in_the_form_that_the_api_writes() {
        let taken = |href: &str| ItemPath::of_href(href).map(|path| path.to_string());
        for good in ["/clusters/1", "/clusters/1/nodepools/2"] {
            assert_eq!(taken(&format!("{BASE}{good}")).as_deref(), Some(good));
        }
        for bad in
            ["/clusters", "/clusters/", "/clusters/..", "/clusters/a%2Fb", "/clusters/1?x=y", "//h/x", ""]
        {
            assert_eq!(taken(&format!("{BASE}{bad}")), None, "{bad}");
        }
        assert_eq!(taken("https://elsewhere.example/clusters/1"), None);
    }

    proptest! {
        #[test]
        fn whatever_is_typed_stays_one_segment(id in ".*", plural in "[a-z]+") {
            let path = Collection::of(&plural).item(&id).to_string();
            let segments: Vec<&str> = path.split('/').collect();
            prop_assert_eq!(segments.len(), 3);
            prop_assert!(segments[2].bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~%".contains(&b)), "{}", path);
            prop_assert!(!matches!(segments[2].replace("%2E", ".").as_str(), "" | "." | ".."));
        }
    }
}
