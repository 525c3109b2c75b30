//! What a person means by the words that they type: `clusters`, `cluster prod-1`, `nodepool/prod-1/workers`, an id in
//! place of any name, `--in clusters/prod-1`.

mod find;
pub(crate) mod selection;

use clap::{Arg, ArgAction, ArgMatches};
use hyperfleet_client::{ItemPath, Kind, Resource};

use super::Session;
use super::kinds::{Kinds, singular};
use crate::commands::Failure;

pub(crate) use find::{lists_below, looks_like_an_id, pattern, quoted, resolve};

/// A kind, and the names that lead to one of it; without names all of it.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) kind: Kind,
    /// Owners first, the own name last.
    pub(crate) path: Vec<String>,
}

/// Which one is meant when an active resource and finalizing ones have a name in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefer {
    Active,
    Finalizing,
}

/// A resource, with its kind and its place.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) kind: Kind,
    pub(crate) resource: Resource,
}

impl Found {
    /// Where it is.
    pub(crate) fn item(&self) -> ItemPath {
        self.kind.collection().item(self.resource.id())
    }

    /// `cluster/prod-1`, for people.
    pub(crate) fn called(&self) -> String {
        called(&self.kind.kind, self.resource.name())
    }
}

/// `cluster/prod-1`, for people.
pub(crate) fn called(kind: &str, name: &str) -> String {
    crate::output::text::clean(&format!("{}/{name}", singular(kind))).into_owned()
}

/// The words that name resources.
pub(crate) fn words(help: &'static str) -> Arg {
    Arg::new("what").value_name("WHAT").action(ArgAction::Append).num_args(1..).required(true).help(help)
}

/// The words that name one resource.
pub(crate) fn one() -> Arg {
    words("KIND NAME, KIND/NAME or KIND/OWNER/NAME; an id stands for any name").num_args(1..=2)
}

/// `--in`.
pub(crate) fn within() -> Arg {
    Arg::new("in")
        .long("in")
        .value_name("KIND/NAME")
        .help("Only what belongs to this one, such as clusters/prod-1")
}

/// What the words mean.
pub(crate) fn parse(kinds: &Kinds, words: &[String]) -> Result<Vec<Wanted>, Failure> {
    let Some((first, names)) = words.split_first() else {
        return Err(Failure::usage("say what: a kind, and a name"));
    };
    if first.contains('/') {
        return words.iter().map(|word| slashed(kinds, word)).collect();
    }
    if names.is_empty() {
        let kinds = first.split(',').map(|word| kinds.find(word));
        return kinds.map(|kind| Ok(Wanted { kind: kind?.clone(), path: Vec::new() })).collect();
    }
    let kind = kinds.find(first)?;
    names
        .iter()
        .map(|name| match name.split('/').map(str::to_owned).collect::<Vec<_>>() {
            path if path.iter().any(String::is_empty) => Err(Failure::usage(format!("{name:?} is no name"))),
            path => Ok(Wanted { kind: kind.clone(), path }),
        })
        .collect()
}

/// `KIND/NAME`, `KIND/OWNER/NAME`.
pub(crate) fn slashed(kinds: &Kinds, word: &str) -> Result<Wanted, Failure> {
    let mut parts = word.split('/');
    let kind = kinds.find(parts.next().unwrap_or_default())?.clone();
    let path: Vec<String> = parts.map(str::to_owned).collect();
    if path.is_empty() || path.iter().any(String::is_empty) {
        return Err(Failure::usage(format!("{word:?} is not written as KIND/NAME")));
    }
    Ok(Wanted { kind, path })
}

/// The one resource that a command is about.
pub(crate) async fn single(
    session: &Session,
    matches: &ArgMatches,
    prefer: Prefer,
) -> Result<Found, Failure> {
    let mut all = several(session, matches, prefer).await?;
    match (all.pop(), all.is_empty()) {
        (Some(one), true) => Ok(one),
        _ => Err(Failure::usage("this works on one resource at a time")),
    }
}

/// The resources that a command is about, each by its name.
pub(crate) async fn several(
    session: &Session,
    matches: &ArgMatches,
    prefer: Prefer,
) -> Result<Vec<Found>, Failure> {
    let words: Vec<String> = matches.get_many("what").into_iter().flatten().cloned().collect();
    named(session, matches, &words, prefer).await
}

/// The resources that words name.
async fn named(
    session: &Session,
    matches: &ArgMatches,
    words: &[String],
    prefer: Prefer,
) -> Result<Vec<Found>, Failure> {
    let wanted = parse(session.kinds().await?, words)?;
    let owner = owner(session, matches).await?;
    let mut found = Vec::with_capacity(wanted.len());
    for wanted in &wanted {
        if wanted.path.is_empty() {
            return Err(Failure::usage(format!("which {}? Say a name", singular(&wanted.kind.kind))));
        }
        found.push(resolve(session, wanted, owner.as_ref(), prefer).await?);
    }
    Ok(found)
}

/// The resource that `--in` names.
pub(crate) async fn owner(session: &Session, matches: &ArgMatches) -> Result<Option<Found>, Failure> {
    let Ok(Some(word)) = matches.try_get_one::<String>("in") else { return Ok(None) };
    let wanted = slashed(session.kinds().await?, word)?;
    resolve(session, &wanted, None, Prefer::Active).await.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds() -> Kinds {
        let kind = |kind: &str, plural: &str, parent: Option<&str>| Kind {
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            parent_kind: parent.map(str::to_owned),
        };
        Kinds::new(vec![kind("Cluster", "clusters", None), kind("NodePool", "nodepools", Some("Cluster"))])
    }

    fn said(words: &[&str]) -> Result<Vec<String>, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        parse(&kinds(), &words)
            .map(|all| all.iter().map(|one| format!("{}:{}", one.kind.kind, one.path.join("/"))).collect())
            .map_err(|failure| failure.text)
    }

    #[test]
    fn kinds_and_names_are_said_in_many_ways() {
        for (words, meant) in [
            (&["clusters"][..], &["Cluster:"][..]),
            (&["clusters,nodepools"], &["Cluster:", "NodePool:"]),
            (&["cluster", "a", "b"], &["Cluster:a", "Cluster:b"]),
            (&["cluster/a", "NodePool/a/w"], &["Cluster:a", "NodePool:a/w"]),
            (&["nodepool", "a/w"], &["NodePool:a/w"]),
        ] {
            assert_eq!(said(words).unwrap(), meant, "{words:?}");
        }
        assert!(said(&["cluster/"]).unwrap_err().contains("KIND/NAME"));
        assert!(said(&["cluster", "a//b"]).unwrap_err().contains("is no name"));
        assert!(said(&["rocket/a"]).unwrap_err().contains("no kind"));
    }
}
