//! Where objects of a kind live in the API, as the server itself tells. Kinds may appear at any time, so only what was
//! found is remembered.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::failure;
use super::transport::{Call, Transport};
use crate::targets::{ErrorClass, TargetError};

const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The place of a kind in the API.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) api_version: String,
    pub(super) kind: String,
    base: String,
    pub(super) plural: String,
    pub(super) namespaced: bool,
}

impl Place {
    /// The path of all objects, in a namespace when one is given.
    pub(super) fn objects(&self, namespace: Option<&str>) -> Result<String, TargetError> {
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => {
                Ok(format!("{}/namespaces/{}/{}", self.base, segment("namespace", namespace)?, self.plural))
            }
            None => Ok(format!("{}/{}", self.base, self.plural)),
        }
    }

    /// The path of one object.
    pub(super) fn object(&self, namespace: Option<&str>, name: &str) -> Result<String, TargetError> {
        let mut path = self.objects(namespace)?;
        let _ = write!(path, "/{}", segment("name", name)?);
        Ok(path)
    }
}

/// A name as part of a path. The server decodes the path before it splits it, so a slash would lead elsewhere.
fn segment(what: &str, name: &str) -> Result<String, TargetError> {
    let hostile = name.is_empty() || name == "." || name == ".." || name.contains(['/', '%', '?', '#']);
    if hostile || name.chars().any(char::is_control) || name.len() > 253 {
        return Err(failure::manifest(format!("metadata.{what} is not a name of an object")));
    }
    Ok(utf8_percent_encode(name, SEGMENT).to_string())
}

/// The kinds that are known.
#[derive(Debug, Default)]
pub(super) struct Kinds(RwLock<HashMap<String, Vec<Arc<Place>>>>);

impl Kinds {
    /// The place of this kind, asked for when it is not known.
    pub(super) async fn place(
        &self,
        transport: &Transport,
        api_version: &str,
        kind: &str,
    ) -> Result<Arc<Place>, TargetError> {
        if let Some(place) = self.known(api_version, kind) {
            return Ok(place);
        }
        let places = read(transport, api_version).await?;
        let found = places.iter().find(|place| place.kind == kind).cloned();
        if !places.is_empty() {
            self.0.write().unwrap_or_else(PoisonError::into_inner).insert(api_version.to_owned(), places);
        }
        found.ok_or_else(|| unknown(api_version, kind))
    }

    /// Forgets an API version that the server does not serve any more.
    pub(super) fn forget(&self, api_version: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(api_version);
    }

    fn known(&self, api_version: &str, kind: &str) -> Option<Arc<Place>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(api_version)?.iter().find(|place| place.kind == kind).cloned()
    }
}

async fn read(transport: &Transport, api_version: &str) -> Result<Vec<Arc<Place>>, TargetError> {
    let is_segment = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'.')
    };
    let base = match api_version.split_once('/') {
        None if is_segment(api_version) => format!("/api/{api_version}"),
        Some((group, version)) if is_segment(group) && is_segment(version) => {
            format!("/apis/{group}/{version}")
        }
        _ => return Err(failure::manifest("apiVersion is neither `version` nor `group/version`")),
    };
    let answer = transport.send(Call::get(&base)).await?;
    if answer.status == 404 {
        return Ok(Vec::new());
    }
    let list = answer.object(&format!("reading the kinds of {api_version}"))?;
    let resources = list["resources"].as_array().ok_or_else(|| failure::malformed("reading the kinds"))?;
    let places = resources.iter().filter_map(|resource| {
        let plural = resource["name"].as_str().filter(|name| !name.contains('/'))?;
        Some(Arc::new(Place {
            api_version: api_version.to_owned(),
            kind: resource["kind"].as_str()?.to_owned(),
            base: base.clone(),
            plural: utf8_percent_encode(plural, SEGMENT).to_string(),
            namespaced: resource["namespaced"].as_bool()?,
        }))
    });
    Ok(places.collect())
}

/// The server has no such kind, now.
pub(super) fn unknown(api_version: &str, kind: &str) -> TargetError {
    failure::error(
        ErrorClass::Terminal,
        "UnknownKind",
        format!("the server has no kind {kind} in {api_version}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_lead_elsewhere() {
        let place = Place {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            base: "/api/v1".to_owned(),
            plural: "configmaps".to_owned(),
            namespaced: true,
        };
        assert_eq!(place.object(Some("a"), "b.c").unwrap(), "/api/v1/namespaces/a/configmaps/b.c");
        assert_eq!(
            place.object(Some("a"), "system:x y").unwrap(),
            "/api/v1/namespaces/a/configmaps/system%3Ax%20y"
        );
        assert_eq!(place.objects(None).unwrap(), "/api/v1/configmaps");
        for name in [
            "",
            ".",
            "..",
            "a/status",
            "../secrets/x",
            "%2e%2e",
            "a?force=true",
            "a#b",
            "a\n",
            &"a".repeat(254),
        ] {
            assert!(place.object(Some("a"), name).is_err(), "{name:?}");
            assert!(place.object(Some(name), "a").is_err(), "{name:?}");
        }
    }
}
