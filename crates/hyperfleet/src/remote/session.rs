//! One call of the command line: which server it speaks to and as whom, and the one door that its requests pass.
//! A token goes to the server that it belongs to and nowhere else: who names another server by `--server` gets no
//! token of a context.

mod pages;
mod server;

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use hyperfleet_client::{Answer, Client, Request, Resource, Retry, Settings, Token};
use hyperfleet_service::settings;
use tokio::sync::OnceCell;

use super::kinds::Kinds;
use crate::commands::Failure;
use crate::output::{self, age, dim, text};

use pages::{refuses_size, shrink};
pub(crate) use server::{DEFAULT_SERVER, settings_of};
use server::{TOKEN_TTL, chosen, warn_of_open_token};

const HEADING: &str = "Connection";
/// How long somebody waits for what they did not ask for.
const PATIENCE: Duration = Duration::from_secs(1);

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

    /// Asks for something that only helps a person: once, and not for long. `None` if it did not come.
    pub(crate) async fn glance(&self, request: Request) -> Option<Answer> {
        let sent = tokio::time::timeout(PATIENCE, self.send_in(Hurry::Great, request));
        sent.await.ok()?.ok()?.accepted().ok()
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
    pub(crate) async fn send(&self, request: Request) -> Result<Answer, hyperfleet_client::Error> {
        self.send_in(Hurry::None, request).await
    }

    async fn send_in(&self, hurry: Hurry, mut request: Request) -> Result<Answer, hyperfleet_client::Error> {
        if self.small_pages.get() {
            shrink(&mut request);
        }
        let answer = self.send_as_it_is(hurry, request.clone()).await?;
        if refuses_size(&answer) && shrink(&mut request) {
            self.small_pages.set(true);
            return self.send_as_it_is(hurry, request).await;
        }
        Ok(answer)
    }

    /// Sends a request as it is, and tells of it if asked to.
    async fn send_as_it_is(
        &self,
        hurry: Hurry,
        request: Request,
    ) -> Result<Answer, hyperfleet_client::Error> {
        let asked = asked(&request);
        let started = Instant::now();
        let result = match hurry {
            Hurry::None => self.client.send(request).await,
            Hurry::Great => self.client.send_once(&request, PATIENCE).await,
        };
        if !self.verbose {
            return result;
        }
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

    /// The resource in an answer.
    pub(crate) fn resource(answer: &Answer) -> Result<Resource, Failure> {
        Ok(answer.resource()?)
    }
}

/// How much a request hurries.
#[derive(Debug, Clone, Copy)]
enum Hurry {
    None,
    /// One attempt, and a short one.
    Great,
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
