//! Channels: what the watchers of one filter share. One task per filter follows the feed, evaluates each change once
//! and encodes each event once; watchers at the same position also share the bytes that they send. Neither waits for
//! the other: a watcher that falls too far behind finds that the ring no longer holds its position.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use hyperfleet_core::search::Filter;
use hyperfleet_core::{
    Epoch, Error, ErrorKind, FeedPosition, Projection, ResponseBudget, Timestamp, Version, View, printed_size,
};
use hyperfleet_store::{Buffered, Event, Follower, RingBuffer, Versioned};
use tokio::sync::watch;

use super::format::Format;
use super::quota::{Holder, Quota};
use crate::app::App;
use crate::gate::AdmittedCaller;
use crate::response_body;

/// How many channels may be open: each has a ring and evaluates every change.
const MAX_CHANNELS: usize = 1_000;

/// The most bytes that the rings of all channels hold together; each has an equal share.
const RINGS_BYTES: usize = 256 << 20;

/// The most events of one chunk.
const CHUNK_EVENTS: usize = 128;

/// The approximate size of one chunk.
pub(super) const CHUNK_BYTES: usize = 256 << 10;

/// How many chunks a channel keeps for its watchers. Watchers that keep up need one or two.
const SHARED_CHUNKS: usize = 4;

/// An event, encoded once for all watchers of a channel.
#[derive(Debug)]
pub(super) struct EncodedEvent {
    pub(super) position: FeedPosition,
    /// The time of the change; `None` for an event of the present state.
    pub(super) at: Option<Timestamp>,
    pub(super) json: Bytes,
}

impl EncodedEvent {
    /// Encodes an event.
    pub(super) fn new(
        view: View<'_>,
        fields: Option<&Projection>,
        epoch: Epoch,
        event: &Event,
    ) -> Result<Self, Error> {
        let (kind, version) = (event.kind.name(), event.version);
        let position = FeedPosition { epoch, version };
        let mut json = Vec::with_capacity(printed_size(&event.object) + 96);
        let head = format!(r#"{{"type":"{kind}","version":{version},"position":"{position}","object":"#);
        json.extend_from_slice(head.as_bytes());
        view.write(&mut json, &event.object, fields)?;
        json.push(b'}');
        Ok(Self { position, at: event.at, json: json.into() })
    }
}

impl Versioned for EncodedEvent {
    fn version(&self) -> Version {
        self.position.version
    }

    fn size(&self) -> usize {
        self.json.len() + 128
    }
}

/// Events in the format in which watchers send them.
#[derive(Debug)]
pub(super) struct Chunk {
    format: Format,
    /// The chunk holds the events after this version.
    after: Version,
    /// The chunk is complete up to this version.
    pub(super) through: Version,
    /// The time of the oldest event.
    pub(super) since: Option<Timestamp>,
    pub(super) events: usize,
    pub(super) bytes: Bytes,
}

impl Chunk {
    fn new(
        format: Format,
        after: Version,
        encoded: &[Arc<EncodedEvent>],
        mut through: Version,
        responses: &ResponseBudget,
    ) -> Self {
        let (mut bytes, mut events) = (Vec::new(), 0);
        for event in encoded {
            if bytes.len() >= CHUNK_BYTES {
                through = encoded[events - 1].position.version;
                break;
            }
            format.write(&mut bytes, event.position, &event.json);
            events += 1;
        }
        let since = encoded.first().and_then(|oldest| oldest.at);
        Self { format, after, through, since, events, bytes: response_body::held(bytes, responses) }
    }
}

/// The newest events of one filter.
#[derive(Debug)]
pub(super) struct Channel {
    epoch: Epoch,
    newest: Mutex<Newest>,
    head: watch::Sender<Version>,
    responses: ResponseBudget,
}

#[derive(Debug, Default)]
struct Newest {
    ring: RingBuffer<EncodedEvent>,
    chunks: VecDeque<Arc<Chunk>>,
}

impl Channel {
    fn new(FeedPosition { epoch, version }: FeedPosition, responses: ResponseBudget) -> Self {
        let head = watch::Sender::new(version);
        let channel = Self { epoch, newest: Mutex::default(), head, responses };
        channel.newest().ring.restart(Some(version));
        channel
    }

    /// Changes whenever there is something new.
    pub(super) fn subscribe(&self) -> watch::Receiver<Version> {
        self.head.subscribe()
    }

    /// Whether a task still fills the channel.
    pub(super) fn is_open(&self) -> bool {
        self.newest().ring.is_open()
    }

    /// Whether the ring holds every event after `position`.
    pub(super) fn reaches(&self, position: Version) -> bool {
        matches!(self.newest().ring.after(position, 0), Buffered::Items(..))
    }

    /// The events after `position`; `None` if the ring no longer holds them.
    pub(super) fn after(&self, position: Version, format: Format) -> Option<Arc<Chunk>> {
        let mut newest = self.newest();
        let fits = |chunk: &&Arc<Chunk>| chunk.after == position && chunk.format == format;
        if let Some(chunk) = newest.chunks.iter().find(fits) {
            return Some(Arc::clone(chunk));
        }
        let Buffered::Items(encoded, through) = newest.ring.after(position, CHUNK_EVENTS) else {
            return None;
        };
        let chunk = Arc::new(Chunk::new(format, position, &encoded, through, &self.responses));
        // An empty chunk is not kept, because events may follow soon.
        if chunk.events > 0 {
            newest.chunks.truncate(SHARED_CHUNKS - 1);
            newest.chunks.push_front(Arc::clone(&chunk));
        }
        Some(chunk)
    }

    /// A panic under this lock leaves the state unchanged.
    fn newest(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the feed until no watcher is left, or until it fails.
    async fn fill(
        self: &Arc<Self>,
        app: &App,
        key: &str,
        mut follower: Follower,
        fields: Option<&Projection>,
    ) -> Result<(), Error> {
        loop {
            let batch = tokio::select! {
                batch = follower.next() => batch?,
                () = self.head.closed() => match app.channels.close(key, self) {
                    true => return Ok(()),
                    false => continue,
                },
            };
            // In slices, so that a fast watcher can keep up with a large commit.
            let (mut slice, mut bytes, slice_bytes) = (Vec::new(), 0, self.newest().ring.slice_bytes());
            for event in &batch.events {
                let encoded = EncodedEvent::new(app.rulebook.view(), fields, self.epoch, event)?;
                bytes += encoded.size();
                slice.push(encoded);
                if bytes > slice_bytes {
                    self.push(std::mem::take(&mut slice), event.version);
                    bytes = 0;
                    tokio::task::yield_now().await;
                }
            }
            self.push(slice, batch.through);
            tokio::time::sleep(pace(self.head.receiver_count())).await;
        }
    }

    fn push(&self, encoded: Vec<EncodedEvent>, through: Version) {
        self.newest().ring.extend(encoded, through);
        self.head.send_replace(through);
    }

    /// Wakes every watcher, so that each finds the channel closed.
    fn fail(&self) {
        self.newest().end();
        self.head.send_replace(Version::default());
    }
}

impl Newest {
    fn end(&mut self) {
        self.ring.restart(None);
        self.chunks.clear();
    }
}

/// How long to gather events before waking the watchers again, because waking one costs the same for one event as for
/// ten.
fn pace(listeners: usize) -> Duration {
    Duration::from_micros(15 * listeners as u64).min(Duration::from_millis(25))
}

/// The open channels by epoch, filter and fields.
pub(crate) struct Channels {
    open: Mutex<HashMap<String, Weak<Channel>>>,
    quota: Quota,
}

impl Default for Channels {
    fn default() -> Self {
        Self { open: Mutex::default(), quota: Quota::new(MAX_CHANNELS) }
    }
}

impl Channels {
    /// The channel of a filter, confined to the caller's scope. A new one starts after `newest` and counts for the
    /// caller's quota. It lives as long as it has subscriptions.
    pub(super) fn join(
        &self,
        app: &App,
        caller: &AdmittedCaller,
        filter: Filter,
        fields: Option<Projection>,
        newest: FeedPosition,
    ) -> Result<(Arc<Channel>, watch::Receiver<Version>), Error> {
        let scope = caller.scope();
        // The confined filter includes the scope, so the key does too.
        let key = format!("{} {:?} {fields:?}", newest.epoch, scope.confine(filter.clone())?);
        let mut channels = self.lock();
        if let Some(channel) = channels.get(&key).and_then(Weak::upgrade)
            && channel.is_open()
        {
            let head = channel.subscribe();
            return Ok((channel, head));
        }
        let Some(share) = self.quota.take(Holder::of(caller)) else {
            let detail = "Too many different lists are watched. Please try again later.";
            return Err(Error::new(ErrorKind::Overloaded, detail));
        };
        let follower = app.store.follow(scope, filter, newest)?;
        let channel = Arc::new(Channel::new(newest, app.responses.clone()));
        let head = channel.subscribe();
        channels.insert(key.clone(), Arc::downgrade(&channel));
        share_rings(&channels);
        tokio::spawn({
            let (app, channel) = (app.clone(), channel.clone());
            async move {
                let _share = share;
                let filled = channel.fill(&app, &key, follower, fields.as_ref());
                let ended = AssertUnwindSafe(filled).catch_unwind().await;
                let cause = match ended {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => error.chain(),
                    Err(_) => "it panicked".to_owned(),
                };
                tracing::warn!(error = cause, "cannot follow the feed for watchers");
                channel.fail();
                app.channels.forget(&key, &channel);
            }
        });
        Ok((channel, head))
    }

    /// Removes a channel without watchers, unless one has just joined.
    fn close(&self, key: &str, channel: &Arc<Channel>) -> bool {
        let mut channels = self.lock();
        if channel.head.receiver_count() > 0 {
            return false;
        }
        channel.newest().end();
        remove(&mut channels, key, channel);
        true
    }

    /// Removes a failed channel.
    fn forget(&self, key: &str, channel: &Arc<Channel>) {
        remove(&mut self.lock(), key, channel);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Weak<Channel>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A newer channel may have replaced it.
fn remove(channels: &mut HashMap<String, Weak<Channel>>, key: &str, channel: &Arc<Channel>) {
    if channels.get(key).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(channel))) {
        channels.remove(key);
        share_rings(channels);
    }
}

/// Gives every ring its share of the memory for all of them.
fn share_rings(channels: &HashMap<String, Weak<Channel>>) {
    let share = RINGS_BYTES / channels.len().max(1);
    for channel in channels.values().filter_map(Weak::upgrade) {
        channel.newest().ring.bound(share);
    }
}
