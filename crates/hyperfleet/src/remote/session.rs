//! One call of the command line: which server it speaks to and as whom, and the one door that its requests pass.
//! A token goes to the server that it belongs to and nowhere else: who names another server by `--server` gets no
//! token of a context.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use hyperfleet_client::{Answer, Client, Page, Request, Resource, Retry, Secret, Settings, Token};
use hyperfleet_service::settings;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::contexts::{Context, Contexts};
use super::kinds::Kinds;
use crate::commands::Failure;
use crate::output::{self, age, dim, text};

const DEFAULT_SERVER: &str = "http://localhost:8000";
/// A token from a file is looked at again after this; from a command, it is asked for once in a call.
const TOKEN_TTL: Duration = Duration::from_secs(60);
/// As many fit into a page with `compatibility.contract: go-0.2` too.
const SMALL_PAGE: u64 = 100;
const HEADING: &str = "Connection";

/// Adds what every command has that speaks to a server.
pub(crate) fn arguments(command: Command) -> Command {
    command.args([
        Arg::new("server")
            .long("server")
            .value_name("URL")
            .conflicts_with("context")
            .help("The server [default: $HYPERFLEET_SERVER, the current context, http://localhost:8000]")
            .help_heading(HEADING),
        Arg::new("context")
            .long("context")
            .value_name("NAME")
            .help("A server by the name it was given at login")
            .help_heading(HEADING),
        Arg::new("token-file")
            .long("token-file")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("File with the token [default: $HYPERFLEET_TOKEN, or as the context says]")
            .help_heading(HEADING),
        Arg::new("ca-file")
            .long("ca-file")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("Authorities to trust instead of the system's, in PEM")
            .help_heading(HEADING),
        Arg::new("header")
            .long("header")
            .short('H')
            .value_name("NAME: VALUE")
            .action(ArgAction::Append)
            .help("A header of every request, such as one that names a tenant; may be given again")
            .help_heading(HEADING),
        Arg::new("request-timeout")
            .long("request-timeout")
            .value_name("DURATION")
            .value_parser(duration)
            .default_value("30s")
            .help("How long one request may take")
            .help_heading(HEADING),
        Arg::new("verbose")
            .long("verbose")
            .short('v')
            .action(ArgAction::SetTrue)
            .help("Tell each request, its status and its time on stderr")
            .help_heading(HEADING),
        Arg::new("curl")
            .long("curl")
            .action(ArgAction::SetTrue)
            .help("Print the request as a curl command instead of sending it; names are still looked up")
            .help_heading(HEADING),
    ])
}

/// A duration such as `5s` or `10m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    settings::parse_duration(text).ok_or_else(|| "a duration such as 30s, 5m or 2h".to_owned())
}

/// A call's server, and the door to it.
#[derive(Debug)]
pub(crate) struct Session {
    /// For what has no request of its own, such as watches and waiting.
    pub(crate) client: Client,
    verbose: bool,
    curl: bool,
    kinds: OnceCell<Kinds>,
    /// The server has refused larger ones.
    small_pages: Cell<bool>,
}

impl Session {
    /// By the flags, over the environment, over the contexts.
    pub(crate) fn open(matches: &ArgMatches) -> Result<Self, Failure> {
        let word = |name: &str| matches.get_one::<String>(name).map(String::as_str);
        let mut settings = chosen(word("server"), word("context"))?;
        let flag = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        if let Some(path) = flag("token-file") {
            settings.token = Some(Token::File { path, ttl: TOKEN_TTL });
        }
        settings.ca_file = flag("ca-file").or(settings.ca_file);
        for header in matches.get_many::<String>("header").into_iter().flatten() {
            let (name, value) = header
                .split_once(':')
                .ok_or_else(|| Failure::usage("a header is written as 'Name: value'"))?;
            settings.headers.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        settings.timeout = matches.get_one("request-timeout").copied().unwrap_or(settings.timeout);
        // A person waits: what is still not there after some seconds is told rather than tried further.
        settings.retry = Retry { attempts: 4, within: Duration::from_secs(10), ..Retry::default() };
        warn_of_open_token(&settings);
        Ok(Self::new(settings, matches.get_flag("verbose"), matches.get_flag("curl"))?)
    }

    /// A session that fails at the first sign of trouble, for completion.
    pub(crate) fn hasty(
        server: Option<&str>,
        context: Option<&str>,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let mut settings = chosen(server, context)?;
        settings.timeout = patience;
        settings.retry = Retry::NEVER;
        Ok(Self::new(settings, false, false)?)
    }

    /// A session by settings of the caller's own.
    pub(crate) fn new(
        settings: Settings,
        verbose: bool,
        curl: bool,
    ) -> Result<Self, hyperfleet_client::Error> {
        Ok(Self {
            client: Client::new(settings)?,
            verbose,
            curl,
            kinds: OnceCell::new(),
            small_pages: Cell::new(false),
        })
    }

    /// Whether requests are only printed.
    pub(crate) fn prints_curl(&self) -> bool {
        self.curl
    }

    /// Asks something that the command needs to know before it can do what was asked for.
    pub(crate) async fn look(&self, request: Request) -> Result<Answer, hyperfleet_client::Error> {
        self.send(request).await?.accepted()
    }

    /// Does what was asked for. `None` if it was printed instead.
    pub(crate) async fn call(&self, request: Request) -> Result<Option<Answer>, hyperfleet_client::Error> {
        if self.curl {
            output::data(&format!("{}\n", self.client.describe(&request)?));
            return Ok(None);
        }
        self.look(request).await.map(Some)
    }

    /// Sends a request; the answer may be a refusal. Pages get smaller once the server says that they are too large.
    pub(crate) async fn send(&self, mut request: Request) -> Result<Answer, hyperfleet_client::Error> {
        if self.small_pages.get() {
            shrink(&mut request);
        }
        let answer = self.send_once(request.clone()).await?;
        if refuses_size(&answer) && shrink(&mut request) {
            self.small_pages.set(true);
            return self.send_once(request).await;
        }
        Ok(answer)
    }

    /// Sends a request as it is, and tells of it if asked to.
    async fn send_once(&self, request: Request) -> Result<Answer, hyperfleet_client::Error> {
        if !self.verbose {
            return self.client.send(request).await;
        }
        let asked = asked(&request);
        let started = Instant::now();
        let result = self.client.send(request).await;
        let outcome = match &result {
            Ok(answer) => answer.status.to_string(),
            Err(error) => text::clean(&error.to_string()).into_owned(),
        };
        self.tell(&format!("{asked} → {outcome} in {} ms", started.elapsed().as_millis()));
        result
    }

    /// A line for whoever wants to know everything.
    pub(crate) fn tell(&self, line: &str) {
        if self.verbose {
            output::talk(&dim(&format!("* {line}")));
        }
    }

    /// The kinds that the server has, asked for once.
    pub(crate) async fn kinds(&self) -> Result<&Kinds, Failure> {
        let kinds = self.kinds.get_or_try_init(async || {
            let started = Instant::now();
            let kinds = self.client.kinds().await?;
            self.tell(&format!(
                "GET /openapi → {} kinds in {} ms",
                kinds.len(),
                started.elapsed().as_millis()
            ));
            Ok::<_, hyperfleet_client::Error>(Kinds::new(kinds))
        });
        Ok(kinds.await?)
    }

    /// Every page of a list from the one that `request` asks for, until there are `limit` items.
    pub(crate) async fn pages<T: DeserializeOwned>(
        &self,
        request: Request,
        limit: Option<usize>,
    ) -> Result<Page<T>, Failure> {
        let mut whole: Page<T> = Page::read(&self.look(request.clone()).await?)?;
        let mut number = 1_u64;
        let mut last = whole.items.len();
        while last > 0 && limit.is_none_or(|limit| whole.items.len() < limit) {
            let mut request = request.clone();
            request.query.retain(|(name, _)| name != "page" && name != "pageToken");
            let token = whole.next.take();
            request = match &token {
                Some(token) => request.param("pageToken", token),
                // A server without tokens counts, and is asked by number.
                None if whole.total.is_some_and(|total| (whole.items.len() as u64) < total) => {
                    number += 1;
                    request.param("page", &number)
                }
                None => break,
            };
            let page: Page<T> = Page::read(&self.look(request).await?)?;
            if page.next.is_some() && page.next == token {
                return Err(Failure::new("the server gave a page that leads to itself"));
            }
            last = page.items.len();
            whole.next = page.next;
            whole.items.extend(page.items);
        }
        if let Some(limit) = limit {
            whole.items.truncate(limit);
        }
        Ok(whole)
    }

    /// The resource in an answer.
    pub(crate) fn resource(answer: &Answer) -> Result<Resource, Failure> {
        Ok(answer.resource()?)
    }
}

/// The server that was chosen, with what belongs to it.
fn chosen(server: Option<&str>, context: Option<&str>) -> Result<Settings, Failure> {
    let environment = settings::environment();
    let set = |name: &str| environment.get(name).filter(|value| !value.is_empty()).cloned();
    let mut settings = match (server, context, set("HYPERFLEET_SERVER")) {
        (Some(server), ..) => Settings::of(server),
        (None, Some(name), _) => settings_of(Contexts::load()?.named(name)?),
        (None, None, Some(server)) => Settings::of(server),
        (None, None, None) => {
            let contexts = Contexts::load()?;
            match &contexts.current {
                Some(name) => settings_of(contexts.named(name)?),
                None => Settings::of(DEFAULT_SERVER),
            }
        }
    };
    if let Some(token) = set("HYPERFLEET_TOKEN") {
        settings.token = Some(Token::Fixed(Secret::new(token)));
    }
    Ok(settings)
}

/// How to reach the server of a context.
pub(crate) fn settings_of(context: &Context) -> Settings {
    let token = match (&context.token_file, context.token_command.split_first()) {
        (Some(path), _) => Some(Token::File { path: path.clone(), ttl: TOKEN_TTL }),
        (None, Some((program, arguments))) => Some(Token::Command {
            program: program.into(),
            arguments: arguments.iter().map(Secret::new).collect(),
            ttl: TOKEN_TTL,
        }),
        (None, None) => None,
    };
    Settings {
        token,
        ca_file: context.ca_file.clone(),
        headers: context.headers.clone().into_iter().collect(),
        ..Settings::of(&context.server)
    }
}

/// A token without encryption can be read by everyone on the way.
fn warn_of_open_token(settings: &Settings) {
    let Some(rest) = settings.base_url.trim().strip_prefix("http://") else { return };
    let loopback = ["localhost", "127.", "[::1]"].iter().any(|host| rest.starts_with(host));
    if settings.token.is_some() && !loopback {
        output::talk(&format!(
            "{} the token goes to this server without encryption",
            output::bold("warning:")
        ));
    }
}

/// Whether what is wrong with a request is the size of its page.
fn refuses_size(answer: &Answer) -> bool {
    let faults =
        |problem: Value| problem.get("errors").and_then(Value::as_array).cloned().unwrap_or_default();
    answer.status.as_u16() == 400
        && answer.json().is_ok_and(|problem| faults(problem).iter().any(|fault| fault["field"] == "size"))
}

/// Asks for no more than every server gives in one page; whether that is less than before.
fn shrink(request: &mut Request) -> bool {
    let size = request.query.iter_mut().find(|(name, _)| name == "size");
    match size.filter(|(_, size)| size.parse::<u64>().is_ok_and(|size| size > SMALL_PAGE)) {
        Some((_, size)) => {
            *size = SMALL_PAGE.to_string();
            true
        }
        None => false,
    }
}

/// A request on one line.
fn asked(request: &Request) -> String {
    let query: Vec<String> = request.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    text::clean(&format!("{} {}{query}", request.method, request.path)).into_owned()
}

/// A duration as a person would say it, for talk.
pub(crate) fn spoken(duration: Duration) -> String {
    age::span(duration)
}
