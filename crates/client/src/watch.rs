//! An endless watch: the changes of a list, once and in order, across broken connections, restarted servers and expired
//! tokens. A task reads the stream and resumes after the last version. Cancelling [`Watch::next`] loses no event.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::FutureExt as _;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, StatusCode};
use http_body_util::{BodyExt as _, Collected, Limited};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::client::Client;
use crate::error::{Error, Problem};
use crate::path::Collection;
use crate::request::Request;
use crate::resource::Resource;
use crate::response::Response;
use crate::retry::at_least;
use crate::send::{self, asked};
use crate::settings::Retry;
use crate::transport::Body;

pub(crate) const NDJSON: &str = "application/x-ndjson";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The longest line: an event with one resource.
const MAX_LINE: usize = 16 << 20;
/// The longest body of a refusal.
const MAX_REFUSAL: usize = 1 << 20;
/// Buffered events.
const BUFFER: usize = 16;
/// The error code for a version that is no longer kept.
const VERSION_EXPIRED: &str = "HYPERFLEET-VAL-004";

/// A watch reconnects without end.
const BACK_OFF: Retry = Retry {
    attempts: u32::MAX,
    first_pause: Duration::from_millis(500),
    longest_pause: Duration::from_secs(30),
    within: Duration::MAX,
};

/// What to watch of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchQuery {
    /// The filter language.
    pub search: Option<String>,
    /// Changes after this position of a list; without it the current state comes first.
    pub since: Option<String>,
    /// Only these members.
    pub fields: Option<String>,
    /// Whether to include finalizing resources.
    pub show_deleted: bool,
    /// Which kind, on the list of all.
    pub kind: Option<String>,
}

/// A change of a list. Versions grow.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// A resource came into the list.
    Added {
        /// The version of the change.
        version: u64,
        /// The resource afterwards.
        resource: Resource,
    },
    /// A resource of the list changed.
    Modified {
        /// The version of the change.
        version: u64,
        /// The resource afterwards.
        resource: Resource,
    },
    /// A resource left the list, or is gone.
    Deleted {
        /// The version of the change.
        version: u64,
        /// The resource as it was last.
        resource: Resource,
    },
    /// Everything up to this version was delivered.
    Bookmark {
        /// The version.
        version: u64,
    },
    /// The server no longer keeps what came after the last version, or its database was restored. The current state
    /// follows, as [`Self::Added`].
    Restart,
}

/// A watch. It ends when it is dropped.
#[derive(Debug)]
pub struct Watch {
    events: mpsc::Receiver<Result<WatchEvent, Error>>,
    link: watch::Receiver<Link>,
    _task: JoinSet<()>,
}

/// The state of the connection.
#[derive(Debug, Clone)]
enum Link {
    Opening,
    Up,
    Down(Error),
}

impl Watch {
    /// Watches a list, connecting in the background.
    pub(crate) fn start(client: &Client, collection: &Collection, query: &WatchQuery) -> Self {
        let (out, events) = mpsc::channel(BUFFER);
        let (state, link) = watch::channel(Link::Opening);
        let task = WatchTask {
            client: client.clone(),
            request: Request::watch(collection, &WatchQuery { since: None, ..query.clone() }),
            first_since: query.since.clone(),
            position: query.since.clone(),
            out,
            state,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(task.run());
        Self { events, link, _task: tasks }
    }

    /// The next event. The watch reconnects after transient failures without an error. A refusal is an error, after which the
    /// watch is retried; [`Error::NoWatch`] is final.
    pub async fn next(&mut self) -> Result<WatchEvent, Error> {
        match self.events.recv().await {
            Some(event) => event,
            // The task ends only for this reason.
            None => Err(Error::NoWatch),
        }
    }

    /// Whether the watch is connected.
    pub fn is_connected(&self) -> bool {
        matches!(*self.link.borrow(), Link::Up)
    }

    /// Why there is no connection, if one was lost or refused.
    pub fn trouble(&self) -> Option<Error> {
        match &*self.link.borrow() {
            Link::Down(error) => Some(error.clone()),
            Link::Opening | Link::Up => None,
        }
    }
}

/// One line of the stream.
#[derive(Debug, Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    version: u64,
    /// Where to resume from; an older server has none.
    #[serde(default)]
    position: Option<String>,
    #[serde(default)]
    object: Option<Value>,
    #[serde(default)]
    code: Option<String>,
}

/// The task that reads the stream.
struct WatchTask {
    client: Client,
    request: Request,
    /// The position that the caller gave.
    first_since: Option<String>,
    /// The position of the last delivered event.
    position: Option<String>,
    out: mpsc::Sender<Result<WatchEvent, Error>>,
    state: watch::Sender<Link>,
}

/// Why a connection ended.
enum End {
    /// The watch was dropped.
    Dropped,
    /// The server no longer keeps the last version.
    Expired,
    /// A failure; reconnect.
    Failed(Error),
    /// The server has no watch.
    NoWatch,
}

impl WatchTask {
    async fn run(mut self) {
        let mut pauses = BACK_OFF.pauses();
        loop {
            let before = self.position.clone();
            // A server in this process runs, and may panic, in this task.
            let end = AssertUnwindSafe(self.follow()).catch_unwind().await;
            let end = end.unwrap_or_else(|_| {
                End::Failed(Error::unreachable(&self.request.path, "reading it panicked"))
            });
            if self.position != before {
                pauses = BACK_OFF.pauses();
            }
            let (event, error) = match end {
                End::Dropped => return,
                End::NoWatch => (Some(Err(Error::NoWatch)), Error::NoWatch),
                End::Expired => {
                    self.position = None;
                    let error = Error::unreachable(
                        &self.request.path,
                        "the server no longer keeps the last received version",
                    );
                    (Some(Ok(WatchEvent::Restart)), error)
                }
                End::Failed(error) if error.is_transient() => (None, error),
                End::Failed(error) => (Some(Err(error.clone())), error),
            };
            let is_final = matches!(error, Error::NoWatch);
            let pause = at_least(error.retry_after(), pauses.next().unwrap_or(BACK_OFF.longest_pause));
            tracing::debug!(watch = self.request.path, %error, ?pause, "the watch lost its connection");
            self.state.send_replace(Link::Down(error));
            if let Some(event) = event
                && (self.out.send(event).await.is_err() || is_final)
            {
                return;
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Reads one connection to its end.
    async fn follow(&mut self) -> End {
        let (response, url) = match self.open().await {
            Ok(opened) => opened,
            Err(end) => return end,
        };
        self.state.send_replace(Link::Up);
        let mut body = response.into_body();
        let mut buffer = BytesMut::new();
        let silence = self.client.shared.watch_silence;
        loop {
            let data = match tokio::time::timeout(silence, body.frame()).await {
                Err(_) => return End::Failed(Error::TimedOut { url: url.clone(), after: silence }),
                // The rest of the buffer is half an event, which will be sent again.
                Ok(None) => return End::Failed(Error::unreachable(url, "the stream ended")),
                Ok(Some(Err(fault))) => return End::Failed(Error::unreachable(url, fault)),
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            };
            let mut searched = buffer.len();
            buffer.extend_from_slice(&data);
            while let Some(end) = buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let line = buffer.split_to(searched + end + 1);
                searched = 0;
                if let Err(end) = self.deliver(&line, &url).await {
                    return end;
                }
            }
            if buffer.len() > MAX_LINE {
                let why = format!("an event is longer than {MAX_LINE} bytes");
                return End::Failed(Error::malformed(url, why));
            }
        }
    }

    /// Opens a stream after the last position.
    async fn open(&self) -> Result<(http::Response<Body>, String), End> {
        let mut request = self.request.clone();
        match (&self.position, &self.first_since) {
            (Some(position), first) if first.as_ref() == Some(position) => {
                request = request.param("since", position);
            }
            (Some(position), _) => {
                let position = HeaderValue::from_str(position)
                    .map_err(|fault| End::Failed(Error::malformed(self.request.path.as_str(), fault)))?;
                request = request.header(LAST_EVENT_ID, position);
            }
            (None, _) => {}
        }
        let url = send::url(&self.client, &request).map_err(End::Failed)?;
        let url = asked(&request, &url);
        let timeout = self.client.shared.timeout;
        let late = |_| End::Failed(Error::TimedOut { url: url.clone(), after: timeout });
        let response =
            tokio::time::timeout(timeout, send::exchange(&self.client, &request)).await.map_err(late)?;
        let response = response.map_err(|outcome| match outcome.into_result() {
            Err(error) => End::Failed(error),
            Ok(answer) => End::Failed(answer.malformed("no stream")),
        })?;
        let media_type =
            response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match response.status() {
            StatusCode::OK if media_type == NDJSON => Ok((response, url)),
            // A list, from a server that ignores the parameter.
            StatusCode::OK if media_type == "application/json" => Err(End::NoWatch),
            StatusCode::NOT_ACCEPTABLE => Err(End::NoWatch),
            StatusCode::OK => {
                let why = format!("a watch of the type {media_type:?}");
                Err(End::Failed(Error::malformed(url, why)))
            }
            _ => Err(self.refused(response, url, timeout).await),
        }
    }

    async fn refused(&self, response: http::Response<Body>, url: String, timeout: Duration) -> End {
        let (head, body) = response.into_parts();
        let body = tokio::time::timeout(timeout, Limited::new(body, MAX_REFUSAL).collect()).await;
        // Without a readable body the status decides.
        let body = body.ok().and_then(Result::ok).map(Collected::to_bytes).unwrap_or_default();
        let answer = Response { asked: url, status: head.status, headers: head.headers, body };
        let problem = Problem::of(&answer);
        let about_since = problem.concerns("since") || problem.concerns("Last-Event-ID");
        match answer.status {
            StatusCode::BAD_REQUEST if problem.concerns("watch") => End::NoWatch,
            StatusCode::GONE => End::Expired,
            StatusCode::BAD_REQUEST if about_since && self.position.is_some() => End::Expired,
            _ => match answer.accepted() {
                Err(error) => End::Failed(error),
                Ok(answer) => End::Failed(answer.malformed("no stream")),
            },
        }
    }

    /// Delivers one event.
    async fn deliver(&mut self, line: &[u8], url: &str) -> Result<(), End> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let malformed =
            |source: Box<dyn std::error::Error + Send + Sync>| End::Failed(Error::malformed(url, source));
        let line: Line = serde_json::from_slice(line).map_err(|fault| malformed(fault.into()))?;
        let version = line.version;
        // Version 0 is no position to resume from.
        let position = line.position.or_else(|| (version > 0).then(|| version.to_string()));
        let resource = || {
            let object = line.object.clone().and_then(Resource::from_value);
            let etag = position.as_ref().map(|position| format!("\"{position}\""));
            object
                .map(|object| object.with_etag(etag))
                .ok_or_else(|| malformed("an event without its object".into()))
        };
        let event = match line.kind.as_str() {
            "ADDED" => Some(WatchEvent::Added { version, resource: resource()? }),
            "MODIFIED" => Some(WatchEvent::Modified { version, resource: resource()? }),
            "DELETED" => Some(WatchEvent::Deleted { version, resource: resource()? }),
            "BOOKMARK" => Some(WatchEvent::Bookmark { version }),
            "ERROR" if line.code.as_deref() == Some(VERSION_EXPIRED) => return Err(End::Expired),
            "ERROR" => {
                self.position = position.or(self.position.take());
                return Err(End::Failed(Error::unreachable(url, "the server asked to come again")));
            }
            // Types of later releases are ignored.
            _ => None,
        };
        if let Some(event) = event {
            self.out.send(Ok(event)).await.map_err(|_| End::Dropped)?;
        }
        self.position = position.or(self.position.take());
        Ok(())
    }
}
