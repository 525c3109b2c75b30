//! The events of a watch, in either format. A stream is read only on request, so that a test can be a client that does
//! not read.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use serde_json::Value;

/// A watch sends a bookmark more often than this, even on a busy machine.
const SILENCE: Duration = Duration::from_secs(60);

/// An open watch on a connection of its own, which is closed when this value is dropped.
#[derive(Debug)]
pub struct Stream {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
    /// What was read and is no whole event yet.
    read: Vec<u8>,
    /// What stands between two events.
    end: &'static [u8],
    _connection: SendRequest<Full<Bytes>>,
}

/// One event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// As it was written, without the line ends behind it.
    pub text: String,
    /// The `id:` line, of server-sent events.
    pub id: Option<String>,
    /// What it says.
    pub json: Value,
}

impl Stream {
    pub(crate) fn new(connection: SendRequest<Full<Bytes>>, response: Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        let lines = head.headers.get("content-type").is_some_and(|kind| kind == "application/x-ndjson");
        Self {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
            read: Vec::new(),
            end: if lines { b"\n" } else { b"\n\n" },
            _connection: connection,
        }
    }

    /// The first value of a header, when it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The next event; `None` when the server ended the answer, and an error when the connection broke.
    pub async fn next(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(event) = self.take()? {
                return Ok(Some(event));
            }
            let frame = tokio::time::timeout(SILENCE, self.body.frame()).await;
            match frame.with_context(|| format!("nothing was said for {SILENCE:?}"))? {
                Some(frame) => self.read.extend_from_slice(frame?.data_ref().map_or(&[], |data| data)),
                None if self.read.is_empty() => return Ok(None),
                None => bail!("ended within {:?}", String::from_utf8_lossy(&self.read)),
            }
        }
    }

    /// The next event.
    ///
    /// # Panics
    /// When there is none.
    pub async fn event(&mut self) -> Event {
        self.next().await.expect("the watch must go on").expect("the watch must not end")
    }

    /// The next event that is no bookmark.
    ///
    /// # Panics
    /// When there is none.
    pub async fn change(&mut self) -> Event {
        loop {
            let event = self.event().await;
            if event.kind() != "BOOKMARK" {
                return event;
            }
        }
    }

    /// All events up to the next bookmark, and its version.
    ///
    /// # Panics
    /// When there is no bookmark.
    pub async fn until_bookmark(&mut self) -> (Vec<Event>, u64) {
        let mut events = Vec::new();
        loop {
            let event = self.event().await;
            if event.kind() == "BOOKMARK" {
                return (events, event.version());
            }
            events.push(event);
        }
    }

    /// All events that are still to come, when the server ends the watch.
    ///
    /// # Panics
    /// When the connection breaks, or the watch goes on.
    pub async fn rest(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let all = async {
            while let Some(event) = self.next().await.expect("the watch must end in good order") {
                events.push(event);
            }
        };
        tokio::time::timeout(SILENCE * 2, all).await.expect("the watch must end");
        events
    }

    /// A whole event out of what was read.
    fn take(&mut self) -> Result<Option<Event>> {
        let ends = self.read.windows(self.end.len()).position(|window| window == self.end);
        let Some(length) = ends else { return Ok(None) };
        let rest = self.read.split_off(length + self.end.len());
        let mut text = std::mem::replace(&mut self.read, rest);
        text.truncate(length);
        let text = String::from_utf8(text)?;
        let (mut id, mut data) = (None, None);
        if self.end.len() == 1 {
            data = Some(text.as_str());
        } else {
            for line in text.lines() {
                match line.split_once(": ") {
                    Some(("id", value)) => id = Some(value.to_owned()),
                    Some(("data", value)) if data.is_none() => data = Some(value),
                    _ => bail!("an unexpected line: {line}"),
                }
            }
        }
        let json = serde_json::from_str(data.unwrap_or_default());
        let json = json.with_context(|| format!("not JSON: {text}"))?;
        Ok(Some(Event { id, json, text }))
    }
}

impl Event {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub fn kind(&self) -> &str {
        self.json["type"].as_str().unwrap_or_default()
    }

    /// The version; 0 when it has none.
    pub fn version(&self) -> u64 {
        self.json["version"].as_u64().unwrap_or_default()
    }

    /// The object; null when it has none.
    pub fn object(&self) -> &Value {
        &self.json["object"]
    }
}
