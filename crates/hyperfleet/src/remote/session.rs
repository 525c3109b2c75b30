//! One call of the command line: its server, its token, and the functions that every request passes. A token goes only
//! to the server that it belongs to: `--server` takes no token of a context.

mod pages;
mod server;

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use hyperfleet_client::{Client, Page, Request, Resource, Response, Retry, Settings, Token};
use hyperfleet_service::settings;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use super::kinds::Kinds;
use crate::commands::Failure;
use crate::output::{self, dim, text};

use pages::{refuses_size, shrink};
pub(crate) use server::{DEFAULT_SERVER, settings_of};
use server::{TOKEN_TTL, chosen, warn_of_open_token};

/// Time for a request that only adds a suggestion.
const PATIENCE: Duration = Duration::from_secs(1);

// The flags of every command that uses a server. A doc comment would become the help of these commands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// The server [default: $HYPERFLEET_SERVER, the current context, http://localhost:8000]
    #[arg(long, value_name = "URL", conflicts_with = "context")]
    pub(crate) server: Option<String>,
    /// A server by the name it was given at login
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// File with the token [default: $HYPERFLEET_TOKEN, or as the context says]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificate authorities in PEM, instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// A header of every request, such as one that names a tenant; may be given again
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// How long one request may take
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    request_timeout: Duration,
    /// Tell each request, its status and its time on stderr
    #[arg(long, short)]
    verbose: bool,
    /// Print the request as a curl command instead of sending it; names are still looked up
    #[arg(long)]
    curl: bool,
}

/// A header such as `X-Org: blue`.
pub(crate) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("a header is written as 'Name: value'")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// A duration such as `5s` or `10m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    settings::parse_duration(text).ok_or_else(|| "a duration such as 30s, 5m or 2h".to_owned())
}

/// The server of a call.
#[derive(Debug)]
pub(crate) struct Session {
    /// For watches and waits, which send several requests.
    pub(crate) client: Client,
    verbose: bool,
    curl: bool,
    kinds: OnceCell<Kinds>,
    /// The server has refused larger pages.
    small_pages: Cell<bool>,
}

impl Session {
    /// Chooses the server by flags, then environment, then contexts.
    pub(crate) fn open(connection: &Connection) -> Result<Self, Failure> {
        let mut settings = chosen(connection.server.as_deref(), connection.context.as_deref())?;
        if let Some(path) = connection.token_file.clone() {
            settings.token = Some(Token::File { path, ttl: TOKEN_TTL });
        }
        settings.ca_file = connection.ca_file.clone().or(settings.ca_file);
        settings.headers.extend(connection.header.iter().cloned());
        settings.timeout = connection.request_timeout;
        // A user waits, so a server that does not answer is an error after some seconds.
        settings.retry = Retry { attempts: 4, within: Duration::from_secs(10), ..Retry::default() };
        warn_of_open_token(&settings);
        Ok(Self::new(settings, connection.verbose, connection.curl)?)
    }

    /// A session without retries, for completion.
    pub(crate) fn for_completion(
        server: Option<&str>,
        context: Option<&str>,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let mut settings = chosen(server, context)?;
        settings.timeout = patience;
        settings.retry = Retry::NEVER;
        Ok(Self::new(settings, false, false)?)
    }

    /// A session by other settings.
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

    /// Sends a request whose answer the command needs before it can act.
    pub(crate) async fn fetch(&self, request: Request) -> Result<Response, hyperfleet_client::Error> {
        self.send(request).await?.accepted()
    }

    /// Sends a request that only adds a suggestion: once, with a short timeout. `None` if it fails.
    pub(crate) async fn try_fetch(&self, request: Request) -> Option<Response> {
        let sent = tokio::time::timeout(PATIENCE, self.send_in(Effort::Once, request));
        sent.await.ok()?.ok()?.accepted().ok()
    }

    /// Every page of a list from the one that `request` asks for, until there are `limit` items.
    pub(crate) async fn pages<T: DeserializeOwned>(
        &self,
        request: Request,
        limit: Option<usize>,
    ) -> Result<Page<T>, Failure> {
        pages::all(self, request, limit).await
    }

    /// Sends the request that the user asked for. `None` if `--curl` printed it instead.
    pub(crate) async fn call(&self, request: Request) -> Result<Option<Response>, hyperfleet_client::Error> {
        if self.curl {
            output::data(&format!("{}\n", self.client.describe(&request)?));
            return Ok(None);
        }
        self.fetch(request).await.map(Some)
    }

    /// Sends a request; the answer may be a refusal. Pages get smaller once the server says that they are too large.
    pub(crate) async fn send(&self, request: Request) -> Result<Response, hyperfleet_client::Error> {
        self.send_in(Effort::Retried, request).await
    }

    async fn send_in(
        &self,
        effort: Effort,
        mut request: Request,
    ) -> Result<Response, hyperfleet_client::Error> {
        if self.small_pages.get() {
            shrink(&mut request);
        }
        let answer = self.send_as_it_is(effort, request.clone()).await?;
        if refuses_size(&answer) && shrink(&mut request) {
            self.small_pages.set(true);
            return self.send_as_it_is(effort, request).await;
        }
        Ok(answer)
    }

    /// Sends a request unchanged, and prints it with `--verbose`.
    async fn send_as_it_is(
        &self,
        effort: Effort,
        request: Request,
    ) -> Result<Response, hyperfleet_client::Error> {
        let asked = asked(&request);
        let started = Instant::now();
        let result = match effort {
            Effort::Retried => self.client.send(request).await,
            Effort::Once => self.client.send_once(&request, PATIENCE).await,
        };
        if !self.verbose {
            return result;
        }
        let outcome = match &result {
            Ok(answer) => answer.status.to_string(),
            Err(error) => text::clean(&error.to_string()).into_owned(),
        };
        self.log_request(&format!("{asked} → {outcome} in {} ms", started.elapsed().as_millis()));
        result
    }

    /// A line of `--verbose`.
    pub(crate) fn log_request(&self, line: &str) {
        if self.verbose {
            output::message(&dim(&format!("* {line}")));
        }
    }

    /// The kinds of the server, read once.
    pub(crate) async fn kinds(&self) -> Result<&Kinds, Failure> {
        let kinds = self.kinds.get_or_try_init(async || {
            let started = Instant::now();
            let kinds = self.client.kinds().await?;
            self.log_request(&format!(
                "GET /openapi → {} kinds in {} ms",
                kinds.len(),
                started.elapsed().as_millis()
            ));
            Ok::<_, hyperfleet_client::Error>(Kinds::new(kinds))
        });
        Ok(kinds.await?)
    }

    /// The resource in an answer.
    pub(crate) fn resource(answer: &Response) -> Result<Resource, Failure> {
        Ok(answer.resource()?)
    }
}

/// How often and how long a request is tried.
#[derive(Debug, Clone, Copy)]
enum Effort {
    Retried,
    /// One attempt with a short timeout.
    Once,
}

/// A request on one line.
fn asked(request: &Request) -> String {
    let query: Vec<String> = request.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    text::clean(&format!("{} {}{query}", request.method, request.path)).into_owned()
}
