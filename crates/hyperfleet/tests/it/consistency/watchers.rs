//! Watchers of a fleet with many writers. Each has its own query, loses its server or leaves it, resumes from the last
//! version that it saw, and records its events.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyperfleet_testkit::{Client, Event, Stream, eventually};
use serde_json::Value;

use super::DEADLINE;
use super::writers::{Connection, ServerAddress, SharedState};
use crate::support::{BASE, text, watched};

/// Whatever breaks a connection.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The name of what is made last, by which a watcher knows that it has seen everything.
pub(super) const END: &str = "the-end";

/// What a watcher watches.
#[derive(Clone, Copy)]
pub(super) struct View {
    /// The list, with its query.
    pub(super) path: &'static str,
    /// What the list shows, said of a whole resource; `END` is among it.
    pub(super) shows: fn(&Value) -> bool,
    /// The kind of the last thing made that it shows.
    pub(super) last: &'static str,
    /// The members that it shows; all where there are none.
    pub(super) members: &'static [&'static str],
}

impl View {
    /// The path of the whole list.
    pub(super) fn listed(&self) -> String {
        format!("{BASE}{}{}pageSize=500", self.path, if self.path.contains('?') { '&' } else { '?' })
    }
}

/// How a watcher watches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habit {
    pub(super) begin: Begin,
    /// Begins when the writers have come to so many commands.
    pub(super) after: usize,
    /// Leaves after so many changes and comes back.
    pub(super) stay: usize,
    /// Asks for lines, and names the last version by a header.
    pub(super) lines: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Begin {
    /// With all that is kept.
    Zero,
    /// With the present state; the connection is lost on purpose after so many objects of it.
    Present { cut: usize },
    /// Behind the version of a list.
    Listed,
}

/// What a watcher was told.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// From behind which version its changes come.
    pub(super) since: u64,
    /// The objects that it began with, with their versions, which a list does not tell.
    pub(super) present: Vec<(Option<u64>, Value)>,
    /// The version of them all, if all of them came.
    pub(super) bookmark: Option<u64>,
    /// Type, version and object of each change.
    pub(super) changes: Vec<(String, u64, Value)>,
    pub(super) faults: Vec<String>,
}

struct Watcher {
    view: View,
    habit: Habit,
    servers: Vec<Connection>,
    record: Record,
    /// The last version that it saw.
    position: Option<u64>,
}

/// Watches until the end of the fleet comes by.
pub(super) async fn watch(
    shared: Arc<SharedState>,
    servers: Vec<ServerAddress>,
    view: View,
    habit: Habit,
) -> Record {
    eventually("the moment to begin", DEADLINE, async || {
        (shared.ended.load(Ordering::SeqCst) >= habit.after).then_some(())
    })
    .await;
    let servers = servers.iter().map(Connection::to).collect();
    let mut watcher = Watcher { view, habit, servers, record: Record::default(), position: None };
    while !watcher.sit().await {
        // Another server must be able to go on where this one ended.
        watcher.servers.rotate_left(1);
    }
    watcher.record
}

impl Watcher {
    /// Watches through one connection. Whether the end was seen.
    async fn sit(&mut self) -> bool {
        let client = self.servers[0].client().await;
        match self.follow(&client).await {
            Ok(ended) => ended,
            Err(fault) => {
                self.servers[0].lost(&fault).await;
                false
            }
        }
    }

    async fn follow(&mut self, client: &Client) -> Result<bool> {
        if self.position.is_none() && self.habit.begin == Begin::Listed {
            let list = client.get(&self.view.listed()).send().await?.expect_status(200).json();
            self.position = list["version"].as_u64();
            self.record.since = self.position.unwrap_or_default();
            self.record.bookmark = self.position;
            let items = list["items"].as_array().unwrap().iter();
            self.record.present = items.map(|item| (None, item.clone())).collect();
        }
        let begins = self.position.is_none() && matches!(self.habit.begin, Begin::Present { .. });
        let mut stream = self.open(client).await?;
        if begins && !self.take_present(&mut stream).await? {
            return Ok(false);
        }
        for _ in 0..self.habit.stay {
            let Some(event) = stream.next().await? else {
                self.record.faults.push("ended without a word".to_owned());
                return Ok(false);
            };
            if self.take(&event) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn open(&self, client: &Client) -> Result<Stream> {
        let since = match (self.position, self.habit.begin) {
            (None, Begin::Zero) => Some(0),
            (position, _) => position,
        };
        let mut path = format!("{BASE}{}", watched(self.view.path));
        if let Some(since) = since.filter(|_| !self.habit.lines) {
            path += &format!("&since={since}");
        }
        let mut call = client.get(&path);
        if self.habit.lines {
            call = call.header("accept", "application/x-ndjson");
            if let Some(since) = since {
                call = call.header("last-event-id", since);
            }
        }
        let stream = call.open().await?;
        assert_eq!(stream.status, 200, "{path} after {since:?}");
        Ok(stream)
    }

    /// The present state as far as it comes. Whether all of it came.
    async fn take_present(&mut self, stream: &mut Stream) -> Result<bool> {
        let Begin::Present { cut } = self.habit.begin else { return Ok(true) };
        while self.record.present.len() < cut {
            let Some(event) = stream.next().await? else { return Ok(false) };
            let version = event.version();
            if self
                .position
                .is_some_and(|position| version < position || event.kind() == "ADDED" && version == position)
            {
                self.record.faults.push(format!("{} behind {:?}", event.json, self.position));
            }
            self.position = Some(version);
            self.record.since = version;
            match event.kind() {
                "BOOKMARK" => {
                    self.record.bookmark = Some(version);
                    return Ok(true);
                }
                "ADDED" => self.record.present.push((Some(version), event.object().clone())),
                _ => self.record.faults.push(format!("{} in the present state", event.json)),
            }
        }
        Ok(false)
    }

    /// Notes a change. Whether it was the last one.
    fn take(&mut self, event: &Event) -> bool {
        let (kind, version) = (event.kind(), event.version());
        let position = self.position.unwrap_or_default();
        if version < position || (kind != "BOOKMARK" && version == position) || kind == "ERROR" {
            self.record.faults.push(format!("{} after {position}", event.json));
        }
        self.position = Some(version);
        if !matches!(kind, "ADDED" | "MODIFIED" | "DELETED") {
            return false;
        }
        let object = event.object();
        self.record.changes.push((kind.to_owned(), version, object.clone()));
        object["name"] == END && text(&object["kind"]) == self.view.last
    }
}
