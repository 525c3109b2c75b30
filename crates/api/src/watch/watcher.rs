//! One watcher: the present state, the changes since, and then the events of its channel. It does work only when its
//! caller reads, so a stalled caller costs nothing but its position in the ring.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyperfleet_core::search::Filter;
use hyperfleet_core::{Epoch, Error, FeedPosition, Projection, Reservation, Resource, Version, printed_size};
use hyperfleet_store::{Event, EventKind, FeedSnapshot, Follower};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::channel::{CHUNK_BYTES, Channel, EncodedEvent};
use super::format::Format;
use super::metrics::Watching;
use crate::app::App;
use crate::gate::AdmittedCaller;
use crate::response_body;

/// The longest time without an event or bookmark.
const SILENCE: Duration = Duration::from_secs(10);

/// The reason of an end after which the caller should watch again.
const COME_AGAIN: &str = "HYPERFLEET-SVC-001";

/// Where a watch begins.
pub(super) enum Start {
    /// With the present state.
    Snapshot(Box<FeedSnapshot>),
    /// After a position.
    After(FeedPosition),
}

/// One watch of one caller.
pub(super) struct Watcher {
    app: App,
    format: Format,
    fields: Option<Projection>,
    stage: Stage,
    channel: Arc<Channel>,
    head: watch::Receiver<Version>,
    /// The next stage.
    follower: Option<Box<Follower>>,
    /// Events that are not sent yet.
    backlog: VecDeque<Event>,
    /// The memory of the backlog.
    reservation: Reservation,
    /// The epoch of all versions of this watch.
    epoch: Epoch,
    /// The version up to which all events are sent once the backlog is.
    through: Version,
    /// The version from which the caller can resume.
    position: Version,
    /// When a bookmark is due.
    bookmark_due: Instant,
    /// When the caller's token expires.
    until: Option<Instant>,
    roles: watch::Receiver<u64>,
    caller: AdmittedCaller,
    watching: Watching,
}

enum Stage {
    /// Sends the present state.
    Snapshot(Box<FeedSnapshot>),
    /// Catches up with the channel by its own follower.
    Missed(Box<Follower>),
    /// Follows the channel.
    Live,
    /// Has sent the last event.
    Over,
}

/// Why a watch ends.
enum End {
    /// The server stops, or the caller's scope has changed.
    ComeAgain,
    /// The caller read too slowly.
    TooSlow,
    /// Something failed.
    Failed(Error),
}

impl Watcher {
    pub(super) fn new(
        app: &App,
        caller: &AdmittedCaller,
        filter: Filter,
        fields: Option<Projection>,
        start: Start,
        (channel, head): (Arc<Channel>, watch::Receiver<Version>),
        format: Format,
    ) -> Result<Self, Error> {
        let start_position = match &start {
            Start::Snapshot(snapshot) => snapshot.position(),
            Start::After(position) => *position,
        };
        let FeedPosition { epoch, version: through } = start_position;
        let follower = Box::new(app.store.follow(caller.scope(), filter, start_position)?);
        let (stage, follower, position) = match start {
            // Objects of the present state come by version, so the watch can resume after each of them.
            Start::Snapshot(snapshot) => (Stage::Snapshot(snapshot), Some(follower), Version::default()),
            Start::After(_) => (Stage::Missed(follower), None, through),
        };
        Ok(Self {
            app: app.clone(),
            format,
            fields,
            stage,
            channel,
            head,
            follower,
            backlog: VecDeque::new(),
            reservation: app.reservation(caller),
            epoch,
            through,
            position,
            bookmark_due: Instant::now() + SILENCE,
            until: caller.remaining().and_then(|time| Instant::now().checked_add(time)),
            roles: caller.role_revisions(&app.gate),
            caller: caller.clone(),
            watching: app.watch_metrics.watching(caller)?,
        })
    }

    /// The next chunk of events; `None` at the end of the watch.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        if matches!(self.stage, Stage::Over) {
            return None;
        }
        let token_ends = async |until: Option<Instant>| match until {
            Some(until) => tokio::time::sleep_until(until).await,
            None => pending().await,
        };
        let sent_version = self.sent_version();
        let app = self.app.clone();
        let mut roles = self.roles.clone();
        let advanced = tokio::select! {
            biased;
            () = app.shutdown.begun() => Err(End::ComeAgain),
            _ = roles.changed() => Err(End::ComeAgain),
            () = token_ends(self.until) => Err(End::ComeAgain),
            advanced = self.advance() => advanced,
        };
        let advanced = match advanced {
            // A token whose key was withdrawn ends the watch; a caller with a new token can resume.
            Ok(_) if !app.gate.still_accepts(&self.caller) => {
                (self.position, self.through) = (sent_version, sent_version);
                self.backlog.clear();
                Err(End::ComeAgain)
            }
            advanced => advanced,
        };
        let chunk = match advanced {
            Ok(chunk) => chunk,
            Err(end) => self.end(&end).into(),
        };
        // Bookmarks are also due while events flow.
        let is_even = self.backlog.is_empty() && matches!(self.stage, Stage::Missed(_) | Stage::Live);
        if is_even && Instant::now() >= self.bookmark_due {
            return Some([chunk.into(), self.bookmark()].concat().into());
        }
        Some(chunk)
    }

    /// Advances until there is something to send.
    async fn advance(&mut self) -> Result<Bytes, End> {
        loop {
            if !self.backlog.is_empty() {
                return self.write();
            }
            match &mut self.stage {
                Stage::Snapshot(snapshot) => {
                    let objects = snapshot.next().await.map_err(End::Failed)?;
                    if objects.is_empty() {
                        self.stage = self.follower.take().map_or(Stage::Over, Stage::Missed);
                        self.position = self.through;
                        return Ok(self.bookmark().into());
                    }
                    let event = |object: Arc<Resource>| Event {
                        kind: EventKind::Added,
                        version: object.version,
                        at: None,
                        object,
                    };
                    self.keep(objects.into_iter().map(event))?;
                }
                Stage::Missed(_) if self.channel.reaches(self.through) => self.stage = Stage::Live,
                Stage::Missed(follower) => {
                    let batch = follower.next_before(self.bookmark_due).await.map_err(End::Failed)?;
                    let Some(batch) = batch else { return Ok(self.bookmark().into()) };
                    self.reach(batch.through);
                    self.keep(batch.events)?;
                }
                Stage::Live => {
                    self.head.mark_unchanged();
                    let chunk = self
                        .channel
                        .after(self.through, self.format)
                        .ok_or_else(|| if self.channel.is_open() { End::TooSlow } else { End::ComeAgain })?;
                    self.reach(chunk.through);
                    if chunk.events > 0 {
                        self.position = self.through;
                        self.watching.sent(chunk.events, chunk.since, self.app.store.now());
                        return Ok(chunk.bytes.clone());
                    }
                    tokio::select! {
                        _ = self.head.changed() => {}
                        () = tokio::time::sleep_until(self.bookmark_due) => return Ok(self.bookmark().into()),
                    }
                }
                Stage::Over => return Ok(Bytes::new()),
            }
        }
    }

    /// All events up to this version are sent. A channel may be behind a watcher that has just joined.
    fn sent_version(&self) -> Version {
        if self.backlog.is_empty() && !matches!(self.stage, Stage::Snapshot(_)) {
            return self.through;
        }
        self.position
    }

    fn reach(&mut self, through: Version) {
        self.position = self.through;
        self.through = self.through.max(through);
    }

    /// Keeps events until they are sent, if there is memory for them.
    fn keep(&mut self, events: impl IntoIterator<Item = Event>) -> Result<(), End> {
        self.backlog.extend(events);
        let bytes = self.backlog.iter().map(|event| printed_size(&event.object)).sum();
        self.reservation.reserve(bytes).map_err(|_| End::TooSlow)
    }

    /// One chunk of the backlog.
    fn write(&mut self) -> Result<Bytes, End> {
        let mut out = Vec::new();
        while out.len() < CHUNK_BYTES
            && let Some(event) = self.backlog.pop_front()
        {
            let encoded =
                EncodedEvent::new(self.app.rulebook.view(), self.fields.as_ref(), self.epoch, &event)
                    .map_err(End::Failed)?;
            self.watching.sent(1, encoded.at, self.app.store.now());
            self.format.write(&mut out, encoded.position, &encoded.json);
            self.position = encoded.position.version;
        }
        if self.backlog.is_empty() {
            self.reservation.hold(0);
        }
        Ok(response_body::held(out, &self.app.responses))
    }

    fn bookmark(&mut self) -> Vec<u8> {
        self.bookmark_due = Instant::now() + SILENCE;
        self.position = self.through;
        self.say(json!({"type": "BOOKMARK", "version": self.position.0}))
    }

    /// The last event: the reason of the end, and the version to resume from. Version 0 means the present state.
    fn end(&mut self, end: &End) -> Vec<u8> {
        let code = match end {
            End::ComeAgain => COME_AGAIN,
            End::TooSlow => {
                self.watching.cut_off();
                COME_AGAIN
            }
            End::Failed(error) => {
                tracing::warn!(error = error.chain(), "a watch failed");
                error.code()
            }
        };
        self.position = self.sent_version();
        self.backlog.clear();
        self.stage = Stage::Over;
        self.say(json!({"type": "ERROR", "version": self.position.0, "code": code}))
    }

    /// An event without an object. A watch cannot resume from version 0.
    fn say(&self, mut event: Value) -> Vec<u8> {
        let position = FeedPosition { epoch: self.epoch, version: self.position };
        if position.version != Version::default() {
            event["position"] = position.to_string().into();
        }
        let mut out = Vec::new();
        self.format.write(&mut out, position, event.to_string().as_bytes());
        out
    }
}
