//! What a person means by the words that they type: `clusters`, `cluster prod-1`, `nodepool/prod-1/workers`, an id in
//! place of any name, `--in clusters/prod-1`. A name that several have is never guessed: the error lists them.

use clap::{Arg, ArgAction, ArgMatches};
use hyperfleet_client::{Collection, ItemPath, Kind, ListQuery, Page, Request, Resource};

use super::Session;
use super::kinds::{Kinds, singular};
use super::owners::Owners;
use crate::commands::{Exit, Failure};

/// As many of one name are listed in an error.
const MAX_LISTED: u64 = 20;

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
    let wanted = parse(session.kinds().await?, &words)?;
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

/// The lists that hold what of a kind is below an owner, however deep.
pub(crate) async fn lists_below(
    session: &Session,
    kind: &Kind,
    owner: &Found,
) -> Result<Vec<Collection>, Failure> {
    let kinds = session.kinds().await?;
    let mut chain = vec![kind];
    loop {
        match chain.last().and_then(|kind| kinds.parent(kind)) {
            Some(parent) if parent.kind == owner.kind.kind => break,
            Some(parent) => chain.push(parent),
            None => return Err(misfit(kind, &owner.kind)),
        }
    }
    let mut items = vec![owner.item()];
    while let Some(step) = chain.pop() {
        let lists: Vec<Collection> = items.iter().map(|item| item.below(&step.plural)).collect();
        if chain.is_empty() {
            return Ok(lists);
        }
        items.clear();
        for list in &lists {
            let query = ListQuery {
                fields: Some("id".to_owned()),
                show_deleted: true,
                page_size: Some(500),
                ..ListQuery::default()
            };
            let page: Page<Resource> = session.pages(Request::list(list, &query), None).await?;
            items.extend(page.items.iter().map(|resource| list.item(resource.id())));
        }
    }
    Ok(Vec::new())
}

fn misfit(kind: &Kind, owner: &Kind) -> Failure {
    Failure::usage(format!("a {} does not belong to a {}", kind.kind, owner.kind))
}

/// The resource that names lead to.
pub(crate) async fn resolve(
    session: &Session,
    wanted: &Wanted,
    owner: Option<&Found>,
    prefer: Prefer,
) -> Result<Found, Failure> {
    let kinds = session.kinds().await?;
    let Some((name, owners)) = wanted.path.split_last() else {
        return Err(Failure::usage(format!("which {}? Say a name", singular(&wanted.kind.kind))));
    };
    let mut chain = Vec::new();
    let mut kind = &wanted.kind;
    for owner in owners.iter().rev() {
        kind = kinds.parent(kind).ok_or_else(|| {
            Failure::usage(format!("a {} belongs to nothing, so {owner:?} cannot be its owner", kind.kind))
        })?;
        chain.push((kind, owner));
    }
    let mut owner = owner.cloned();
    for (kind, name) in chain.into_iter().rev() {
        owner = Some(find(session, kind, owner.as_ref(), name, Prefer::Active).await?);
    }
    find(session, &wanted.kind, owner.as_ref(), name, prefer).await
}

/// One of a kind by its name or id, below an owner or anywhere.
async fn find(
    session: &Session,
    kind: &Kind,
    owner: Option<&Found>,
    name: &str,
    prefer: Prefer,
) -> Result<Found, Failure> {
    let lists = match owner {
        Some(owner) => lists_below(session, kind, owner).await?,
        None => vec![kind.collection()],
    };
    let mut candidates = Vec::new();
    for list in &lists {
        if looks_like_an_id(name) {
            match session.look(Request::get(list.item(name).to_string())).await {
                Ok(answer) => {
                    return Ok(Found { kind: kind.clone(), resource: Session::resource(&answer)? });
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        let query = ListQuery {
            search: Some(format!("name={}", quoted(name))),
            show_deleted: true,
            page_size: Some(MAX_LISTED),
            ..ListQuery::default()
        };
        let page: Page<Resource> = Page::read(&session.look(Request::list(list, &query)).await?)?;
        candidates.extend(page.items);
    }
    let preferred: Vec<&Resource> =
        candidates.iter().filter(|one| one.is_finalizing() == (prefer == Prefer::Finalizing)).collect();
    match (preferred.as_slice(), candidates.as_slice()) {
        ([one], _) => Ok(Found { kind: kind.clone(), resource: (*one).clone() }),
        ([], [one]) => Ok(Found { kind: kind.clone(), resource: one.clone() }),
        ([], []) => {
            let place = owner.map(|owner| format!(" in {}", owner.called())).unwrap_or_default();
            Err(Failure::with(Exit::NotFound, format!("there is no {}{place}", called(&kind.kind, name))))
        }
        _ => Err(ambiguous(session, kind, name, &candidates).await),
    }
}

async fn ambiguous(session: &Session, kind: &Kind, name: &str, candidates: &[Resource]) -> Failure {
    let mut text =
        format!("{} could be any of these; say which, by its path or its id:", called(&kind.kind, name));
    // The list is for help only: without the owners' names it still has the ids.
    let owners = Owners::of(session, candidates).await.unwrap_or_default();
    for one in candidates {
        let state = if one.is_finalizing() { ", being deleted" } else { "" };
        text.push_str(&format!(
            "\n  {} (id {}{state})",
            owners.path_of(one),
            crate::output::text::clean(one.id())
        ));
    }
    Failure::usage(text)
}

/// A string of the filter language.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Whether a text has the form of an id; a name may have it too.
pub(crate) fn looks_like_an_id(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
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

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        assert_eq!(quoted(r"a' or name!='\"), r"'a'' or name!=''\\'");
    }
}
