//! What is there. Only the server's own word that an object does not exist makes it absent.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::Value;

use super::kinds::{self, Place};
use super::ownership::{self, ADAPTER, RESOURCE_ID};
use super::transport::Call;
use super::{Kind, Kubernetes, failure};
use crate::targets::{ErrorClass, Matcher, Observation, Query, TargetError};

/// Objects in one answer.
const PAGE: u32 = 500;
/// Objects that one query may match.
const MOST: usize = 50_000;

impl Kubernetes {
    /// Asks the server which objects match: the one of the highest generation first.
    pub async fn observe(&self, query: &Query) -> Observation {
        told(self.matching(query).await)
    }

    /// Asks the server for everything of these kinds that an adapter made for a resource, in all namespaces and under
    /// any name. When one kind cannot be asked for, nothing is told of the others.
    pub async fn owned(&self, kinds: &[Kind], adapter: &str, resource_id: &str) -> Observation {
        let ours =
            [(ADAPTER.to_owned(), adapter.to_owned()), (RESOURCE_ID.to_owned(), resource_id.to_owned())];
        let mut found = Vec::new();
        for kind in kinds {
            let listed = async {
                let place = self.place(&kind.api_version, &kind.kind).await?;
                self.list(&place, None, &selector(&ours)?).await
            };
            match listed.await {
                Ok(objects) => found.extend(objects),
                Err(error) => return Observation::Unknown(error),
            }
        }
        told(Ok(found))
    }

    async fn matching(&self, query: &Query) -> Result<Vec<Value>, TargetError> {
        let place = self.place(&query.api_version, &query.kind).await?;
        let namespace = query.namespace.as_deref();
        match &query.matcher {
            Matcher::Name(name) if place.namespaced && namespace.is_none() => {
                // Checks the name, which must not add to the selector.
                place.object(None, name)?;
                self.list(
                    &place,
                    None,
                    &format!("fieldSelector={}", encoded(&format!("metadata.name={name}"))),
                )
                .await
            }
            Matcher::Name(name) => Ok(self.read(&place, namespace, name).await?.into_iter().collect()),
            Matcher::Labels(labels) => self.list(&place, namespace, &selector(labels)?).await,
        }
    }

    /// One object, or `None` when the server confirms that it is not there.
    pub(super) async fn read(
        &self,
        place: &Arc<Place>,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, TargetError> {
        if place.namespaced && namespace.is_none() {
            return Err(failure::manifest(format!("metadata.namespace is required for {}", place.kind)));
        }
        let path = place.object(namespace, name)?;
        let what = format!("reading {} {name}", place.kind);
        let answer = self.0.transport.send(Call::get(&path)).await?;
        if answer.status != 404 {
            let object = answer.object(&what)?;
            self.0.memory.saw(&object);
            return Ok(Some(object));
        }
        // A server that does not know the kind, or a proxy in front of it, says 404 too, but does not name the object.
        let status = answer.value();
        if status["kind"] == "Status" && status["reason"] == "NotFound" && status["details"]["name"] == name {
            return Ok(None);
        }
        self.0.kinds.forget(&place.api_version);
        Err(kinds::unknown(&place.api_version, &place.kind))
    }

    async fn list(
        &self,
        place: &Arc<Place>,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<Value>, TargetError> {
        let path = place.objects(namespace)?;
        let what = format!("listing {}", place.kind);
        let mut objects = Vec::new();
        let mut next = String::new();
        loop {
            let page = format!("{path}?{selector}&limit={PAGE}{next}");
            let answer = self.0.transport.send(Call::get(&page)).await?;
            if answer.status == 404 {
                self.0.kinds.forget(&place.api_version);
                return Err(kinds::unknown(&place.api_version, &place.kind));
            }
            let mut list = answer.object(&what)?;
            let items = match list.get_mut("items").map(Value::take) {
                Some(Value::Array(items)) => items,
                // How Go writes a list of nothing.
                Some(Value::Null) => Vec::new(),
                _ => return Err(failure::malformed(&what)),
            };
            for mut item in items {
                // Items of a list do not repeat what the list says.
                item["apiVersion"] = place.api_version.as_str().into();
                item["kind"] = place.kind.as_str().into();
                self.0.memory.saw(&item);
                objects.push(item);
            }
            match list["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
                None => return Ok(objects),
                Some(_) if objects.len() >= MOST => {
                    let message = format!("{what}: more than {MOST} objects match");
                    return Err(failure::error(ErrorClass::Terminal, "TooManyObjects", message));
                }
                Some(token) => next = format!("&continue={}", encoded(token)),
            }
        }
    }
}

fn told(found: Result<Vec<Value>, TargetError>) -> Observation {
    match found {
        Ok(objects) if objects.is_empty() => Observation::Absent,
        Ok(mut objects) => {
            objects.sort_by_cached_key(|object| {
                let name = |part: &str| object["metadata"][part].as_str().unwrap_or_default().to_owned();
                (Reverse(ownership::generation(object)), name("namespace"), name("name"))
            });
            Observation::Present(objects)
        }
        Err(error) => Observation::Unknown(error),
    }
}

/// A part of a query string.
pub(super) fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// A query for all of these labels. Without labels it would match everything.
pub(super) fn selector(labels: &[(String, String)]) -> Result<String, TargetError> {
    let is_word =
        |text: &str, more: &[char]| text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(&c));
    if labels.is_empty() {
        return Err(failure::manifest("a selector without labels matches everything"));
    }
    for (name, value) in labels {
        if name.is_empty() || !is_word(name, &['-', '.', '_', '/']) || !is_word(value, &['-', '.', '_']) {
            return Err(failure::manifest(format!(
                "the selector of label {name:.63} is not a label and its value"
            )));
        }
    }
    let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Ok(format!("labelSelector={}", encoded(&labels.join(","))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_matches_what_it_names_and_no_more() {
        let of = |name: &str, value: &str| selector(&[(name.to_owned(), value.to_owned())]);
        assert_eq!(of("a.b/c", "d").unwrap(), "labelSelector=a%2Eb%2Fc%3Dd");
        assert!(of("a", "").is_ok());
        for (name, value) in
            [("a", "b,c!=d"), ("a", "b=c"), ("!a", "b"), ("a,b", "c"), ("", "a"), ("a", "b&limit=1")]
        {
            assert!(of(name, value).is_err(), "{name} {value}");
        }
        assert!(selector(&[]).is_err());
    }
}
