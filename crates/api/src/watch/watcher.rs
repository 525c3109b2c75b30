//! One watcher: the present state, what it missed since, and then what its channel tells. It works only when its caller
//! reads, so a caller that does not costs nothing but its place in the ring.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyperfleet_core::search::Filter;
use hyperfleet_core::{Error, Projection, Resource, Version};
use hyperfleet_store::{Event, EventKind, Follower, Present};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::channel::{Channel, PIECE_BYTES, Told};
use super::form::Form;
use super::metrics::Watching;
use crate::app::App;
use crate::gate::Visitor;

/// How long a watcher may hear nothing.
const SILENCE: Duration = Duration::from_secs(10);

/// What is said to someone who should go on elsewhere or later.
const COME_AGAIN: &str = "HYPERFLEET-SVC-001";

/// Where a watch begins.
pub(super) enum Start {
    /// With what is there.
    Present(Box<Present>),
    /// Behind a version.
    After(Version),
}

/// See the module.
pub(super) struct Watcher {
    app: App,
    form: Form,
    fields: Option<Projection>,
    stage: Stage,
    channel: Arc<Channel>,
    head: watch::Receiver<Version>,
    /// What the next stage begins with.
    follower: Option<Box<Follower>>,
    /// Events of its own that are yet to be written.
    backlog: VecDeque<Event>,
    /// Up to where everything is told once the backlog is.
    through: Version,
    /// From where the caller can go on.
    position: Version,
    /// When a bookmark is due.
    bookmark_due: Instant,
    /// When the caller's token is over.
    until: Option<Instant>,
    roles: watch::Receiver<u64>,
    visitor: Visitor,
    watching: Watching,
}

enum Stage {
    /// Tells the present state.
    Present(Box<Present>),
    /// Catches up with the channel, for itself.
    Missed(Box<Follower>),
    /// Follows the channel.
    Live,
    /// Has said its last word.
    Over,
}

/// Why a watch ends.
enum End {
    /// The server stops, or the caller may see something else from now on.
    ComeAgain,
    /// The caller read too slowly.
    TooSlow,
    /// Something failed.
    Failed(Error),
}

impl Watcher {
    pub(super) fn new(
        app: &App,
        visitor: &Visitor,
        filter: Filter,
        fields: Option<Projection>,
        start: Start,
        (channel, head): (Arc<Channel>, watch::Receiver<Version>),
        form: Form,
    ) -> Result<Self, Error> {
        let through = match &start {
            Start::Present(present) => present.version(),
            Start::After(version) => *version,
        };
        let follower = Box::new(app.store.follow(visitor.sight(), filter, through)?);
        let (stage, follower, position) = match start {
            // Its objects come by their versions, so each of them is a place to go on from.
            Start::Present(present) => (Stage::Present(present), Some(follower), Version::default()),
            Start::After(_) => (Stage::Missed(follower), None, through),
        };
        Ok(Self {
            app: app.clone(),
            form,
            fields,
            stage,
            channel,
            head,
            follower,
            backlog: VecDeque::new(),
            through,
            position,
            bookmark_due: Instant::now() + SILENCE,
            until: visitor.remaining().and_then(|time| Instant::now().checked_add(time)),
            roles: visitor.roles(&app.gate),
            visitor: visitor.clone(),
            watching: app.watch_metrics.watching(visitor)?,
        })
    }

    /// The next events, as they are written; `None` when there will be no more.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        if matches!(self.stage, Stage::Over) {
            return None;
        }
        let token_ends = async |until: Option<Instant>| match until {
            Some(until) => tokio::time::sleep_until(until).await,
            None => pending().await,
        };
        let told = self.told();
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
            // By keys that are withdrawn nothing more is told; whoever has others comes again, for all that was not.
            Ok(_) if !app.gate.still_knows(&self.visitor) => {
                (self.position, self.through) = (told, told);
                self.backlog.clear();
                Err(End::ComeAgain)
            }
            advanced => advanced,
        };
        let chunk = match advanced {
            Ok(chunk) => chunk,
            Err(end) => self.end(&end).into(),
        };
        // While events flow too.
        let is_even = self.backlog.is_empty() && matches!(self.stage, Stage::Missed(_) | Stage::Live);
        if is_even && Instant::now() >= self.bookmark_due {
            return Some([chunk.into(), self.bookmark()].concat().into());
        }
        Some(chunk)
    }

    /// Goes on until there is something to tell.
    async fn advance(&mut self) -> Result<Bytes, End> {
        loop {
            if !self.backlog.is_empty() {
                return Ok(self.write()?.into());
            }
            match &mut self.stage {
                Stage::Present(present) => {
                    let objects = present.next().await.map_err(End::Failed)?;
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
                    self.backlog.extend(objects.into_iter().map(event));
                }
                Stage::Missed(_) if self.channel.reaches(self.through) => self.stage = Stage::Live,
                Stage::Missed(follower) => {
                    let batch = follower.next_before(self.bookmark_due).await.map_err(End::Failed)?;
                    let Some(batch) = batch else { return Ok(self.bookmark().into()) };
                    self.reach(batch.through);
                    self.backlog.extend(batch.events);
                }
                Stage::Live => {
                    self.head.mark_unchanged();
                    let piece = self
                        .channel
                        .after(self.through, self.form)
                        .ok_or_else(|| if self.channel.is_open() { End::TooSlow } else { End::ComeAgain })?;
                    self.reach(piece.through);
                    if piece.events > 0 {
                        self.position = self.through;
                        self.watching.sent(piece.events, piece.since);
                        return Ok(piece.bytes.clone());
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

    /// The backlog was empty, so everything up to here is told. A channel may be behind someone who has just come.
    /// Up to where everything was told.
    fn told(&self) -> Version {
        if self.backlog.is_empty() && !matches!(self.stage, Stage::Present(_)) {
            return self.through;
        }
        self.position
    }

    fn reach(&mut self, through: Version) {
        self.position = self.through;
        self.through = self.through.max(through);
    }

    /// As much of the backlog as is worth writing at once.
    fn write(&mut self) -> Result<Vec<u8>, End> {
        let mut out = Vec::new();
        while out.len() < PIECE_BYTES
            && let Some(event) = self.backlog.pop_front()
        {
            let told =
                Told::new(self.app.rulebook.view(), self.fields.as_ref(), &event).map_err(End::Failed)?;
            self.watching.sent(1, told.at);
            self.form.write(&mut out, told.version, &told.json);
            self.position = told.version;
        }
        Ok(out)
    }

    fn bookmark(&mut self) -> Vec<u8> {
        self.bookmark_due = Instant::now() + SILENCE;
        self.position = self.through;
        self.say(&json!({"type": "BOOKMARK", "version": self.position.0}))
    }

    /// The last event: why, and from where to go on. From 0 means: from the present state.
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
        self.position = self.told();
        self.backlog.clear();
        self.stage = Stage::Over;
        self.say(&json!({"type": "ERROR", "version": self.position.0, "code": code}))
    }

    fn say(&self, event: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        self.form.write(&mut out, self.position, event.to_string().as_bytes());
        out
    }
}
