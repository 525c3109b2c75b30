//! Parses the words that name resources: `clusters`, `cluster prod-1`, `nodepool/prod-1/workers`, an id instead of any
//! name, `--in clusters/prod-1`.

mod find;
pub(crate) mod selection;

use clap::Args;
use hyperfleet_client::{ItemPath, Kind, Resource};

use super::Session;
use super::kinds::{Kinds, singular};
use crate::commands::Failure;

pub(crate) use find::{lists_below, looks_like_an_id, pattern, quoted, resolve};

/// A kind, and the names that lead to one of it; without names all of it.
#[derive(Debug, Clone)]
pub(crate) struct NamedTarget {
    pub(crate) kind: Kind,
    /// Owners first, the own name last.
    pub(crate) path: Vec<String>,
}

/// Which resource is chosen when an active and finalizing ones share a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefer {
    Active,
    Finalizing,
}

/// A resource, with its kind and its path.
#[derive(Debug, Clone)]
pub(crate) struct FoundResource {
    pub(crate) kind: Kind,
    pub(crate) resource: Resource,
}

impl FoundResource {
    /// Where it is.
    pub(crate) fn item(&self) -> ItemPath {
        self.kind.collection().item(self.resource.id())
    }

    /// `cluster/prod-1`, for people.
    pub(crate) fn display_name(&self) -> String {
        display_name(&self.kind.kind, self.resource.name())
    }
}

/// `cluster/prod-1`, for people.
pub(crate) fn display_name(kind: &str, name: &str) -> String {
    crate::output::text::clean(&format!("{}/{name}", singular(kind))).into_owned()
}

/// The flags that name one resource.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// KIND NAME, KIND/NAME or KIND/OWNER/NAME; an id stands for any name
    #[arg(value_name = "WHAT", required = true, num_args = 1..=2)]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) within: Within,
}

impl One {
    pub(crate) async fn find(&self, session: &Session, prefer: Prefer) -> Result<FoundResource, Failure> {
        let mut all = named(session, &self.words, &self.within, prefer).await?;
        match (all.pop(), all.is_empty()) {
            (Some(one), true) => Ok(one),
            _ => Err(Failure::usage("this command takes one resource")),
        }
    }
}

/// The flag that names an owner.
#[derive(Debug, Args)]
pub(crate) struct Within {
    /// Only resources below this one, such as clusters/prod-1
    #[arg(long = "in", value_name = "KIND/NAME")]
    pub(crate) owner: Option<String>,
}

impl Within {
    /// The resource that `--in` names.
    pub(crate) async fn find(&self, session: &Session) -> Result<Option<FoundResource>, Failure> {
        let Some(word) = &self.owner else { return Ok(None) };
        let wanted = slashed(session.kinds().await?, word)?;
        resolve(session, &wanted, None, Prefer::Active).await.map(Some)
    }
}

/// The meaning of the words.
pub(crate) fn parse(kinds: &Kinds, words: &[String]) -> Result<Vec<NamedTarget>, Failure> {
    let Some((first, names)) = words.split_first() else {
        return Err(Failure::usage("specify a kind and a name"));
    };
    if first.contains('/') {
        return words.iter().map(|word| slashed(kinds, word)).collect();
    }
    if names.is_empty() {
        let kinds = first.split(',').map(|word| kinds.find(word));
        return kinds.map(|kind| Ok(NamedTarget { kind: kind?.clone(), path: Vec::new() })).collect();
    }
    let kind = kinds.find(first)?;
    names
        .iter()
        .map(|name| match name.split('/').map(str::to_owned).collect::<Vec<_>>() {
            path if path.iter().any(String::is_empty) => {
                Err(Failure::usage(format!("{name:?} is not a name")))
            }
            path => Ok(NamedTarget { kind: kind.clone(), path }),
        })
        .collect()
}

/// `KIND/NAME`, `KIND/OWNER/NAME`.
pub(crate) fn slashed(kinds: &Kinds, word: &str) -> Result<NamedTarget, Failure> {
    let mut parts = word.split('/');
    let kind = kinds.find(parts.next().unwrap_or_default())?.clone();
    let path: Vec<String> = parts.map(str::to_owned).collect();
    if path.is_empty() || path.iter().any(String::is_empty) {
        return Err(Failure::usage(format!("{word:?} is not written as KIND/NAME")));
    }
    Ok(NamedTarget { kind, path })
}

/// The resources that words name.
pub(crate) async fn named(
    session: &Session,
    words: &[String],
    within: &Within,
    prefer: Prefer,
) -> Result<Vec<FoundResource>, Failure> {
    let wanted = parse(session.kinds().await?, words)?;
    let owner = within.find(session).await?;
    let mut found = Vec::with_capacity(wanted.len());
    for wanted in &wanted {
        if wanted.path.is_empty() {
            return Err(Failure::usage(format!("a {} name is required", singular(&wanted.kind.kind))));
        }
        found.push(resolve(session, wanted, owner.as_ref(), prefer).await?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Vec<String>, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        parse(&Kinds::example(), &words)
            .map(|all| all.iter().map(|one| format!("{}:{}", one.kind.kind, one.path.join("/"))).collect())
            .map_err(|failure| failure.text)
    }

    #[test]
    fn kinds_and_names_are_parsed_in_every_notation() {
        for (words, meant) in [
            (&["clusters"][..], &["Cluster:"][..]),
            (&["clusters,nodepools"], &["Cluster:", "NodePool:"]),
            (&["cluster", "a", "b"], &["Cluster:a", "Cluster:b"]),
            (&["cluster/a", "NodePool/a/w"], &["Cluster:a", "NodePool:a/w"]),
            (&["nodepool", "a/w"], &["NodePool:a/w"]),
        ] {
            assert_eq!(parsed(words).unwrap(), meant, "{words:?}");
        }
        assert!(parsed(&["cluster/"]).unwrap_err().contains("KIND/NAME"));
        assert!(parsed(&["cluster", "a//b"]).unwrap_err().contains("is not a name"));
        assert!(parsed(&["rocket/a"]).unwrap_err().contains("no kind"));
    }
}
