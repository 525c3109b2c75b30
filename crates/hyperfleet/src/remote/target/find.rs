//! From names to resources. A name that several have is never guessed: the error lists them.

use hyperfleet_client::{Collection, Kind, ListQuery, Page, Request, Resource};

use super::{FoundResource, NamedTarget, Prefer, display_name};
use crate::commands::{Exit, Failure};
use crate::output::text::clean;
use crate::remote::Session;
use crate::remote::kinds::singular;
use crate::remote::owners::Owners;

/// Resources of one name that an error lists.
const MAX_LISTED: u64 = 20;
/// Candidates for a suggestion.
const MAX_NEAR: u64 = 500;

/// The lists of a kind below an owner, at any depth.
pub(crate) async fn lists_below(
    session: &Session,
    kind: &Kind,
    owner: &FoundResource,
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
    wanted: &NamedTarget,
    owner: Option<&FoundResource>,
    prefer: Prefer,
) -> Result<FoundResource, Failure> {
    let kinds = session.kinds().await?;
    let Some((name, owners)) = wanted.path.split_last() else {
        return Err(Failure::usage(format!("a {} name is required", singular(&wanted.kind.kind))));
    };
    let mut chain = Vec::new();
    let mut kind = &wanted.kind;
    for owner in owners.iter().rev() {
        kind = kinds.parent(kind).ok_or_else(|| {
            Failure::usage(format!("a {} has no owner, so {owner:?} cannot be one", kind.kind))
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
    owner: Option<&FoundResource>,
    name: &str,
    prefer: Prefer,
) -> Result<FoundResource, Failure> {
    let lists = match owner {
        Some(owner) => lists_below(session, kind, owner).await?,
        None => vec![kind.collection()],
    };
    let mut candidates = Vec::new();
    for list in &lists {
        if looks_like_an_id(name) {
            match session.fetch(Request::get(list.item(name).to_string())).await {
                Ok(answer) => {
                    return Ok(FoundResource { kind: kind.clone(), resource: Session::resource(&answer)? });
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
        let page: Page<Resource> = Page::read(&session.fetch(Request::list(list, &query)).await?)?;
        candidates.extend(page.items);
    }
    let preferred: Vec<&Resource> =
        candidates.iter().filter(|one| one.is_finalizing() == (prefer == Prefer::Finalizing)).collect();
    match (preferred.as_slice(), candidates.as_slice()) {
        ([one], _) => Ok(FoundResource { kind: kind.clone(), resource: (*one).clone() }),
        ([], [one]) => Ok(FoundResource { kind: kind.clone(), resource: one.clone() }),
        ([], []) => {
            let place = owner.map(|owner| format!(" in {}", owner.display_name())).unwrap_or_default();
            let meant = meant(session, &lists, name).await;
            let meant = meant.map(|meant| format!("; did you mean {}?", clean(&meant))).unwrap_or_default();
            Err(Failure::with(
                Exit::NotFound,
                format!("there is no {}{place}{meant}", display_name(&kind.kind, name)),
            ))
        }
        _ => Err(ambiguous(session, kind, name, &candidates).await),
    }
}

/// A similar name. A misspelling leaves the front or the end of a name as it is, so few candidates are fetched.
async fn meant(session: &Session, lists: &[Collection], name: &str) -> Option<String> {
    if session.prints_curl() {
        return None;
    }
    let third = name.chars().count() / 3;
    let place = |number: usize| name.char_indices().nth(number).map(|(at, _)| at).filter(|_| third > 0);
    let (front, end) = (&name[..place(third)?], &name[place(name.chars().count() - third)?..]);
    let query = ListQuery {
        search: Some(format!("name like {} or name like {}", pattern("", front, "%"), pattern("%", end, ""))),
        fields: Some("name".to_owned()),
        page_size: Some(MAX_NEAR),
        ..ListQuery::default()
    };
    // The suggestion is optional: without it the error still names the missing resource.
    let answer = session.try_fetch(Request::list(lists.first()?, &query)).await?;
    let near = Page::<Resource>::read(&answer).ok()?.items;
    // prod-2 is no misspelling of prod-1.
    let letters = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
    let others = near.iter().map(Resource::name).filter(|other| letters(other) != letters(name));
    hyperfleet_core::nearest(name, others).map(str::to_owned)
}

/// A pattern of the filter language that means the text itself, with something around it.
pub(crate) fn pattern(before: &str, text: &str, behind: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    quoted(&format!("{before}{text}{behind}"))
}

async fn ambiguous(session: &Session, kind: &Kind, name: &str, candidates: &[Resource]) -> Failure {
    let mut text =
        format!("{} is ambiguous; name one by its path or its id:", display_name(&kind.kind, name));
    // Without the owners' names the list still has the ids.
    let owners = Owners::of(session, candidates).await.unwrap_or_default();
    for one in candidates {
        let state = if one.is_finalizing() { ", being deleted" } else { "" };
        text.push_str(&format!("\n  {} (id {}{state})", owners.path_of(one), clean(one.id())));
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

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        assert_eq!(quoted(r"a' or name!='\"), r"'a'' or name!=''\\'");
    }
}
