//! The client: server, connections, token, the context of calls, and one method for each thing that the API does. Each
//! sends a [`Request`] and parses the answer; what takes several requests is in a module of its own.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::Stream;
use http::header::{HeaderName, USER_AGENT};
use http::{HeaderMap, HeaderValue, StatusCode};
use hyperfleet_core::Timestamp;
use serde_json::Value;

use crate::error::Error;
use crate::inspect::{Decision, Diff, Explanation, GetQuery, Metadata, TimelineEntry, TimelineQuery, WhoAmI};
use crate::kinds::{self, Kind};
use crate::leases::Lease;
use crate::list::{self, ListQuery, Page};
use crate::path::{Collection, ItemPath};
use crate::report::{AdapterReport, NewReport, Reported};
use crate::request::{PatchKind, Request};
use crate::resource::Resource;
use crate::response::Response;
use crate::server_clock::ServerClock;
use crate::settings::{Origin, Retry, Settings};
use crate::token::Tokens;
use crate::transport::Transport;
use crate::wait::{self, Waited};
use crate::watch::{Watch, WatchQuery};
use crate::{curl, send};

/// A client of one server. Clones are cheap and share connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
    /// Headers of the calls made through this value.
    pub(crate) context: Arc<HeaderMap>,
}

pub(crate) struct Shared {
    pub(crate) origin: Origin,
    pub(crate) transport: Transport,
    pub(crate) tokens: Option<Tokens>,
    pub(crate) headers: HeaderMap,
    pub(crate) timeout: Duration,
    pub(crate) retry: Retry,
    pub(crate) watch_silence: Duration,
    pub(crate) clock: ServerClock,
    /// For `curl` commands.
    pub(crate) ca_file: Option<PathBuf>,
}

/// Ties calls to a trace or to the request that caused them.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// The id of the request in the server's log and problems.
    pub request_id: Option<String>,
}

impl Client {
    /// A client that connects at its first call.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let origin = Origin::parse(&settings.base_url)?;
        let transport = Transport::new(&settings, &origin)?;
        let mut headers = HeaderMap::new();
        insert(&mut headers, USER_AGENT.as_str(), &settings.user_agent)?;
        for (name, value) in &settings.headers {
            insert(&mut headers, name, value)?;
        }
        let shared = Shared {
            origin,
            transport,
            tokens: settings.token.map(Tokens::new),
            headers,
            timeout: settings.timeout,
            retry: settings.retry,
            watch_silence: settings.watch_silence,
            clock: ServerClock::default(),
            ca_file: settings.ca_file,
        };
        Ok(Self { shared: Arc::new(shared), context: Arc::default() })
    }

    /// The same client, for calls in this context.
    pub fn in_context(&self, context: &Context) -> Result<Self, Error> {
        let mut headers = HeaderMap::new();
        for (name, value) in [("traceparent", &context.traceparent), ("x-request-id", &context.request_id)] {
            if let Some(value) = value {
                insert(&mut headers, name, value)?;
            }
        }
        Ok(Self { shared: self.shared.clone(), context: Arc::new(headers) })
    }

    /// The server's time, by the dates of its answers; `None` before the first.
    pub fn server_time(&self) -> Option<Timestamp> {
        self.shared.clock.now()
    }

    /// The server, without the path of the API.
    pub fn base_url(&self) -> String {
        self.shared.origin.root()
    }

    /// Sends a request and returns the answer, whatever its status. A failed attempt is repeated as the settings say if
    /// repeating is safe.
    pub async fn send(&self, request: Request) -> Result<Response, Error> {
        send::within(self, &request, self.shared.timeout).await
    }

    /// Sends a request once, whatever the settings say, for an answer that is of use only if it comes soon.
    pub async fn send_once(&self, request: &Request, timeout: Duration) -> Result<Response, Error> {
        send::attempt(self, request, timeout).await.into_result()
    }

    /// The answer, if it is a success.
    pub(crate) async fn ask(&self, request: Request) -> Result<Response, Error> {
        self.send(request).await?.accepted()
    }

    /// The command that sends this request. The token is `$HYPERFLEET_TOKEN`, and any other secret header a variable
    /// named after it.
    pub fn describe(&self, request: &Request) -> Result<String, Error> {
        curl::command(self, request)
    }

    /// One page.
    pub async fn list(&self, collection: &Collection, query: &ListQuery) -> Result<Page<Resource>, Error> {
        Page::read(&self.ask(Request::list(collection, query)).await?)
    }

    /// Every resource of a list, page after page as they are wanted.
    pub fn pages(
        &self,
        collection: &Collection,
        query: &ListQuery,
    ) -> impl Stream<Item = Result<Resource, Error>> + Send + Unpin + 'static + use<> {
        list::pages(self, collection, query)
    }

    /// Watches a list, connecting in the background.
    pub fn watch(&self, collection: &Collection, query: &WatchQuery) -> Watch {
        Watch::start(self, collection, query)
    }

    /// Reads a resource.
    pub async fn get(&self, item: &ItemPath, query: &GetQuery) -> Result<Resource, Error> {
        self.ask(Request::read(item, query)).await?.resource()
    }

    /// Waits until a condition has a status (`Reconciled=True`), or until the resource is gone (`deleted`).
    pub async fn get_waiting(
        &self,
        item: &ItemPath,
        awaited: &str,
        timeout: Duration,
    ) -> Result<Waited, Error> {
        wait::wait(self, item, awaited, timeout).await
    }

    /// A page of what happened to a resource, newest first.
    pub async fn timeline(
        &self,
        item: &ItemPath,
        query: &TimelineQuery,
    ) -> Result<Page<TimelineEntry>, Error> {
        Page::read(&self.ask(Request::timeline(item, query)).await?)
    }

    /// What differs between the ends of two generations.
    pub async fn diff(&self, item: &ItemPath, from: Option<i64>, to: Option<i64>) -> Result<Diff, Error> {
        self.ask(Request::diff(item, from, to)).await?.json()
    }

    /// Why a resource is not reconciled.
    pub async fn explain(&self, item: &ItemPath) -> Result<Explanation, Error> {
        self.ask(Request::explain(item)).await?.json()
    }

    /// Creates a resource.
    pub async fn create(
        &self,
        collection: &Collection,
        body: &Value,
        dry_run: bool,
    ) -> Result<Resource, Error> {
        self.ask(Request::create(collection, body, dry_run)).await?.resource()
    }

    /// Creates a resource with the caller's idempotency key, which is valid for 24 hours.
    pub async fn create_by_key(
        &self,
        collection: &Collection,
        body: &Value,
        key: &str,
    ) -> Result<Resource, Error> {
        self.ask(Request::create(collection, body, false).key(key)?).await?.resource()
    }

    /// Patches a resource, if it has the entity tag.
    pub async fn patch(
        &self,
        item: &ItemPath,
        body: &Value,
        kind: PatchKind,
        if_match: Option<&str>,
        dry_run: bool,
    ) -> Result<Resource, Error> {
        self.ask(Request::patch(item, body, kind, if_match, dry_run)).await?.resource()
    }

    /// Requests the deletion of a resource, if it has the entity tag.
    pub async fn delete(
        &self,
        item: &ItemPath,
        if_match: Option<&str>,
        dry_run: bool,
    ) -> Result<Option<Resource>, Error> {
        let answer = self.ask(Request::delete(item, if_match, dry_run)).await?;
        // The Go implementation answers some deletions without a body.
        if answer.status == StatusCode::NO_CONTENT { Ok(None) } else { answer.resource().map(Some) }
    }

    /// Removes a resource whose deletion is stuck, with its descendants.
    pub async fn force_delete(&self, item: &ItemPath, reason: &str, dry_run: bool) -> Result<(), Error> {
        self.ask(Request::force_delete(item, reason, dry_run)).await.map(drop)
    }

    /// All reports on a resource.
    pub async fn reports(&self, item: &ItemPath) -> Result<Vec<AdapterReport>, Error> {
        list::whole(self, Request::reports(item)).await
    }

    /// Sends a report. It is retried after a lost answer.
    pub async fn report(&self, item: &ItemPath, report: &NewReport) -> Result<Reported, Error> {
        self.report_maybe(item, report, false).await
    }

    /// Sends a report, or validates it in a dry run.
    pub async fn report_maybe(
        &self,
        item: &ItemPath,
        report: &NewReport,
        dry_run: bool,
    ) -> Result<Reported, Error> {
        let answer = self.ask(Request::report(item, report, dry_run)).await?;
        match answer.status {
            StatusCode::NO_CONTENT => Ok(Reported::Discarded),
            _ => Ok(Reported::Stored(answer.json()?)),
        }
    }

    /// The held leases of a group.
    pub async fn leases(&self, group: &str) -> Result<Vec<Lease>, Error> {
        list::whole(self, Request::leases(group)).await
    }

    /// Renews the lease with this entity tag, or takes a free one; otherwise the error is a conflict. A zero TTL releases it. It is
    /// not retried: after a lost answer, list the leases.
    pub async fn put_lease(
        &self,
        group: &str,
        name: &str,
        holder: &str,
        ttl: Duration,
        if_match: Option<&str>,
    ) -> Result<Lease, Error> {
        let answer = self.ask(Request::put_lease(group, name, holder, ttl, if_match)).await?;
        let mut lease: Lease = answer.json()?;
        lease.etag = answer.etag().map(str::to_owned);
        Ok(lease)
    }

    /// The kinds that the server has, in the order of its configuration.
    pub async fn kinds(&self) -> Result<Vec<Kind>, Error> {
        kinds::described(&self.ask(Request::get("/openapi")).await?)
    }

    /// The client's identity, as the server sees it.
    pub async fn whoami(&self) -> Result<WhoAmI, Error> {
        self.ask(Request::get("/whoami")).await?.json()
    }

    /// Whether we may do this to a kind, or to one resource.
    pub async fn authz_check(&self, verb: &str, kind: &str, id: Option<&str>) -> Result<Decision, Error> {
        self.ask(Request::authz_check(verb, kind, id)).await?.json()
    }

    /// What the server says about itself.
    pub async fn metadata(&self) -> Result<Metadata, Error> {
        self.ask(Request::get("/api/hyperfleet/metadata")).await?.json()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base_url", &self.base_url()).finish_non_exhaustive()
    }
}

/// Adds a configured header. Errors do not show the value, which may be a secret.
fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), Error> {
    let wrong = || Error::Configuration(format!("the header {name:?} cannot be sent"));
    let key = HeaderName::try_from(name).map_err(|_| wrong())?;
    let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
    value.set_sensitive(is_secret_name(key.as_str()));
    headers.insert(key, value);
    Ok(())
}

fn is_secret_name(name: &str) -> bool {
    ["auth", "token", "secret", "password", "cookie", "credential", "api-key", "apikey"]
        .iter()
        .any(|word| name.contains(word))
}
