//! What can come next, given the words so far.

use clap::{Arg, Command};
use hyperfleet_client::{Collection, ListQuery, Page, Request, Resource};

use crate::commands::Failure;
use crate::output::format::FORMATS;
use crate::remote::Session;
use crate::remote::contexts::Contexts;
use crate::remote::kinds::singular;
use crate::remote::target::{pattern, quoted};

/// The most names that are offered.
const MAX_NAMES: u64 = 100;

/// Something that can come next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) value: String,
    pub(super) meaning: String,
}

impl Candidate {
    fn new(value: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self { value: value.into(), meaning: meaning.into() }
    }
}

/// The word to complete, and the server that knows names.
#[derive(Debug)]
pub(super) struct Question {
    /// The typed part of the word.
    pub(super) partial: String,
    pub(super) expected: Expected,
    pub(super) server: Option<String>,
    pub(super) context: Option<String>,
}

/// The candidates.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// Fixed candidates.
    Values(Vec<Candidate>),
    /// A kind, or `KIND/NAME`.
    KindOrPath,
    /// Names of a kind.
    NamesOf(String),
}

/// Reads the words behind `hyperfleet`, of which the last is being typed.
pub(super) fn question(whole: &Command, words: &[String]) -> Question {
    let (partial, before) =
        words.split_last().map_or((String::new(), &[][..]), |(last, rest)| (last.clone(), rest));
    let mut command = whole;
    let mut positionals: Vec<&str> = Vec::new();
    let mut open: Option<&Arg> = None;
    let (mut server, mut context) = (None, None);
    for word in before {
        if let Some(flag) = open.take() {
            match flag.get_long() {
                Some("server") => server = Some(word.clone()),
                Some("context") => context = Some(word.clone()),
                _ => {}
            }
        } else if word.starts_with('-') {
            open = flag(command, word).filter(|flag| takes_value(flag) && !word.contains('='));
        } else if let Some(below) = command.find_subcommand(word).filter(|_| positionals.is_empty()) {
            command = below;
        } else {
            positionals.push(word);
        }
    }
    let expected = match open {
        Some(flag) => values(flag),
        None if partial.starts_with('-') => Expected::Values(flags(command)),
        None => positional(command, &positionals),
    };
    Question { partial, expected, server, context }
}

fn takes_value(flag: &Arg) -> bool {
    flag.get_action().takes_values()
}

fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let long = word.strip_prefix("--").map(|name| name.split('=').next().unwrap_or(name));
    let short = word.strip_prefix('-').and_then(|rest| rest.chars().last());
    command.get_arguments().find(|arg| match long {
        Some(long) => arg.get_long() == Some(long),
        None => short.is_some() && arg.get_short() == short,
    })
}

fn flags(command: &Command) -> Vec<Candidate> {
    command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set())
        .filter_map(|arg| Some(Candidate::new(format!("--{}", arg.get_long()?), help(arg))))
        .collect()
}

fn help(arg: &Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

fn values(flag: &Arg) -> Expected {
    match flag.get_long().unwrap_or_default() {
        "in" | "kind" => Expected::KindOrPath,
        "output" if flag.get_possible_values().is_empty() => {
            // The help names those that the command has.
            let named = |format: &&&str| help(flag).contains(**format);
            Expected::Values(FORMATS.iter().filter(named).map(|format| Candidate::new(*format, "")).collect())
        }
        // Of `events tail` it is a duration.
        "for" if flag.get_default_values().is_empty() => Expected::Values(Vec::new()),
        "for" => Expected::Values(
            ["condition=Reconciled", "condition=Reconciled=False", "delete"]
                .map(|what| Candidate::new(what, ""))
                .to_vec(),
        ),
        "context" => Expected::Values(contexts()),
        _ => Expected::Values(possible(flag)),
    }
}

fn possible(arg: &Arg) -> Vec<Candidate> {
    arg.get_possible_values()
        .iter()
        .map(|value| {
            Candidate::new(value.get_name(), value.get_help().map(ToString::to_string).unwrap_or_default())
        })
        .collect()
}

fn contexts() -> Vec<Candidate> {
    let contexts = Contexts::load().unwrap_or_default();
    contexts.all.into_iter().map(|(name, context)| Candidate::new(name, context.server)).collect()
}

fn positional(command: &Command, given: &[&str]) -> Expected {
    let below: Vec<Candidate> = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .map(|below| {
            Candidate::new(below.get_name(), below.get_about().map(ToString::to_string).unwrap_or_default())
        })
        .collect();
    if !below.is_empty() {
        return Expected::Values(if given.is_empty() { below } else { Vec::new() });
    }
    let mut places = command.get_positionals();
    let Some(arg) = places.next() else { return Expected::Values(Vec::new()) };
    match (arg.get_id().as_str(), given) {
        ("words", []) => Expected::KindOrPath,
        ("words", [first, ..]) if first.contains('/') => Expected::KindOrPath,
        ("words", [kind, ..]) => Expected::NamesOf((*kind).to_owned()),
        ("name", []) => Expected::Values(contexts()),
        ("method", []) => Expected::Values(
            ["GET", "POST", "PUT", "PATCH", "DELETE"].map(|method| Candidate::new(method, "")).to_vec(),
        ),
        (_, []) => Expected::Values(possible(arg)),
        _ => Expected::Values(Vec::new()),
    }
}

/// Asks the server.
pub(super) async fn ask(
    session: &Session,
    expected: &Expected,
    partial: &str,
) -> Result<Vec<Candidate>, Failure> {
    let kinds = session.kinds().await?;
    match expected {
        Expected::Values(candidates) => Ok(candidates.clone()),
        Expected::KindOrPath => match partial.split_once('/') {
            Some((word, rest)) => {
                let kind = kinds.find(word)?;
                let (owners, name) =
                    rest.rsplit_once('/').map_or(("", rest), |(owners, name)| (owners, name));
                let list = match owners.rsplit('/').next().filter(|owner| !owner.is_empty()) {
                    Some(owner) => match kinds.parent(kind) {
                        Some(parent) => {
                            let owner = names(session, &parent.collection(), owner, true).await?;
                            match owner.first() {
                                Some(owner) => parent.collection().item(owner.id()).below(&kind.plural),
                                None => return Ok(Vec::new()),
                            }
                        }
                        None => return Ok(Vec::new()),
                    },
                    None => kind.collection(),
                };
                let prefix = &partial[..partial.len() - name.len()];
                let found = names(session, &list, name, false).await?;
                Ok(found.iter().map(|one| Candidate::new(format!("{prefix}{}", one.name()), "")).collect())
            }
            None => Ok(kinds
                .all()
                .iter()
                .flat_map(|kind| {
                    [
                        Candidate::new(&kind.plural, &kind.kind),
                        Candidate::new(singular(&kind.kind), &kind.kind),
                    ]
                })
                .collect()),
        },
        Expected::NamesOf(word) => {
            let kind = kinds.find(word)?;
            let found = names(session, &kind.collection(), partial, false).await?;
            Ok(found.iter().map(|one| Candidate::new(one.name(), "")).collect())
        }
    }
}

/// Resources whose name is this, or begins with it.
async fn names(
    session: &Session,
    list: &Collection,
    name: &str,
    exact: bool,
) -> Result<Vec<Resource>, Failure> {
    let search = match (name, exact) {
        (name, true) => Some(format!("name={}", quoted(name))),
        ("", false) => None,
        (name, false) => Some(format!("name like {}", pattern("", name, "%"))),
    };
    let query = ListQuery {
        search,
        order_by: Some("name".to_owned()),
        page_size: Some(MAX_NAMES),
        fields: Some("name".to_owned()),
        ..ListQuery::default()
    };
    Ok(Page::read(&session.fetch(Request::list(list, &query)).await?)?.items)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &[&str]) -> Question {
        let mut whole = <crate::cli::Cli as clap::CommandFactory>::command();
        whole.build();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        question(&whole, &words)
    }

    fn known(words: &[&str]) -> Vec<String> {
        match asked(words).expected {
            Expected::Values(candidates) => candidates.into_iter().map(|one| one.value).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn commands_flags_and_their_values_come_from_the_command_line_itself() {
        assert!(known(&[""]).contains(&"get".to_owned()));
        assert!(!known(&[""]).contains(&"__complete".to_owned()));
        assert!(known(&["get", "--sh"]).contains(&"--show-deleted".to_owned()));
        assert_eq!(known(&["completion", ""]), ["bash", "fish", "powershell", "zsh"]);
        assert_eq!(known(&["get", "-o", ""]), FORMATS);
        assert_eq!(known(&["why", "-o", ""]), ["table", "json", "yaml", "jsonpath="]);
        assert_eq!(known(&["report", "cluster", "x", "--available", ""]), ["true", "false", "unknown"]);
        assert_eq!(known(&["context", ""]), ["list", "use", "remove", "current", "help"]);
    }

    #[test]
    fn kinds_and_names_are_asked_for_where_resources_are_named() {
        assert_eq!(asked(&["get", ""]).expected, Expected::KindOrPath);
        assert_eq!(asked(&["get", "-w", "nodepools", "--in", "clu"]).expected, Expected::KindOrPath);
        assert_eq!(asked(&["describe", "cluster", "pr"]).expected, Expected::NamesOf("cluster".to_owned()));
        assert_eq!(asked(&["wait", "cluster/a", "clu"]).expected, Expected::KindOrPath);
        assert_eq!(asked(&["events", "tail", "--kind", ""]).expected, Expected::KindOrPath);
        let names = asked(&["events", "publish", "cluster", "pr"]).expected;
        assert_eq!(names, Expected::NamesOf("cluster".to_owned()));
    }

    #[test]
    fn the_server_is_the_one_that_was_named() {
        let question = asked(&["get", "--server", "http://x", "--context", "c", "clusters", ""]);
        assert_eq!((question.server.as_deref(), question.context.as_deref()), (Some("http://x"), Some("c")));
        assert_eq!(question.expected, Expected::NamesOf("clusters".to_owned()));
    }
}
