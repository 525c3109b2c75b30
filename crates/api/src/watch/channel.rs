//! What watchers of the same thing share. For each distinct filter one task follows the feed, judges each change once
//! and writes each event once; watchers that are at the same place also share the bytes that they send. Neither waits
//! for the other: a watcher that falls too far behind finds that the ring has gone on without it.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use hyperfleet_core::search::Filter;
use hyperfleet_core::{Error, ErrorKind, Projection, Timestamp, Version, View, printed_size};
use hyperfleet_store::{Event, Follower, Held, Ring, SLICE_BYTES, Versioned};
use tokio::sync::watch;

use super::form::Form;
use super::places::{Holder, Places};
use crate::app::App;
use crate::gate::Visitor;

/// How many different lists may be watched at a time: each has a ring and judges every change.
const MAX_CHANNELS: usize = 1_000;

/// How many events are sent at once.
const PIECE_EVENTS: usize = 128;

/// How much is sent at once, about.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// The places at which watchers find the bytes that another has made. Those who keep up are at one or two.
const PIECES: usize = 4;

/// An event as it is written.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) version: Version,
    /// When; `None` of what is only told to be there.
    pub(super) at: Option<Timestamp>,
    pub(super) json: Bytes,
}

impl Told {
    /// Writes an event.
    pub(super) fn new(view: View<'_>, fields: Option<&Projection>, event: &Event) -> Result<Self, Error> {
        let (kind, version) = (event.kind.name(), event.version);
        let mut json = Vec::with_capacity(printed_size(&event.object) + 64);
        json.extend_from_slice(format!(r#"{{"type":"{kind}","version":{version},"object":"#).as_bytes());
        view.write(&mut json, &event.object, fields)?;
        json.push(b'}');
        Ok(Self { version, at: event.at, json: json.into() })
    }
}

impl Versioned for Told {
    fn version(&self) -> Version {
        self.version
    }

    fn size(&self) -> usize {
        self.json.len() + 128
    }
}

/// Events as they are sent.
#[derive(Debug)]
pub(super) struct Piece {
    form: Form,
    /// What came after this version.
    after: Version,
    /// Up to this one nothing else did.
    pub(super) through: Version,
    /// When the oldest of them happened.
    pub(super) since: Option<Timestamp>,
    pub(super) events: usize,
    pub(super) bytes: Bytes,
}

impl Piece {
    fn new(form: Form, after: Version, told: &[Arc<Told>], mut through: Version) -> Self {
        let (mut bytes, mut events) = (Vec::new(), 0);
        for event in told {
            if bytes.len() >= PIECE_BYTES {
                through = told[events - 1].version;
                break;
            }
            form.write(&mut bytes, event.version, &event.json);
            events += 1;
        }
        let since = told.first().and_then(|oldest| oldest.at);
        Self { form, after, through, since, events, bytes: bytes.into() }
    }
}

/// The newest events of one filter.
#[derive(Debug)]
pub(super) struct Channel {
    newest: Mutex<Newest>,
    head: watch::Sender<Version>,
}

#[derive(Debug, Default)]
struct Newest {
    ring: Ring<Told>,
    pieces: VecDeque<Arc<Piece>>,
}

impl Channel {
    fn new(newest: Version) -> Self {
        let channel = Self { newest: Mutex::default(), head: watch::Sender::new(newest) };
        channel.newest().ring.restart(Some(newest));
        channel
    }

    /// Changes whenever there is something new.
    pub(super) fn subscribe(&self) -> watch::Receiver<Version> {
        self.head.subscribe()
    }

    /// Whether it is still filled.
    pub(super) fn is_open(&self) -> bool {
        self.newest().ring.is_open()
    }

    /// Whether it knows all that happened after `position`.
    pub(super) fn reaches(&self, position: Version) -> bool {
        matches!(self.newest().ring.after(position, 0), Held::Items(..))
    }

    /// What happened after `position`; `None` where it does not go back that far.
    pub(super) fn after(&self, position: Version, form: Form) -> Option<Arc<Piece>> {
        let mut newest = self.newest();
        let fits = |piece: &&Arc<Piece>| piece.after == position && piece.form == form;
        if let Some(piece) = newest.pieces.iter().find(fits) {
            return Some(Arc::clone(piece));
        }
        let Held::Items(told, through) = newest.ring.after(position, PIECE_EVENTS) else { return None };
        let piece = Arc::new(Piece::new(form, position, &told, through));
        // Of nothing there may soon be more.
        if piece.events > 0 {
            newest.pieces.truncate(PIECES - 1);
            newest.pieces.push_front(Arc::clone(&piece));
        }
        Some(piece)
    }

    /// A panic while it is held leaves it as it was.
    fn newest(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what happens until nobody listens any more, or it cannot.
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
            // In slices, so that whoever reads well can keep up with a large commit.
            let (mut slice, mut bytes) = (Vec::new(), 0);
            for event in &batch.events {
                let told = Told::new(app.rulebook.view(), fields, event)?;
                bytes += told.size();
                slice.push(told);
                if bytes > SLICE_BYTES {
                    self.tell(std::mem::take(&mut slice), event.version);
                    bytes = 0;
                    tokio::task::yield_now().await;
                }
            }
            self.tell(slice, batch.through);
            tokio::time::sleep(pace(self.head.receiver_count())).await;
        }
    }

    fn tell(&self, told: Vec<Told>, through: Version) {
        self.newest().ring.extend(told, through);
        self.head.send_replace(through);
    }

    /// Nobody may believe that nothing happens: everyone who listens comes again, and finds out.
    fn fail(&self) {
        self.newest().end();
        self.head.send_replace(Version::default());
    }
}

impl Newest {
    fn end(&mut self) {
        self.ring.restart(None);
        self.pieces.clear();
    }
}

/// How long to let events gather before so many are woken again: to wake someone costs the same for one as for ten.
fn pace(listeners: usize) -> Duration {
    Duration::from_micros(15 * listeners as u64).min(Duration::from_millis(25))
}

/// The channels that are listened to, by what they are about.
pub(crate) struct Channels {
    open: Mutex<HashMap<String, Weak<Channel>>>,
    places: Places,
}

impl Default for Channels {
    fn default() -> Self {
        Self { open: Mutex::default(), places: Places::new(MAX_CHANNELS) }
    }
}

impl Channels {
    /// The channel of a filter, as far as it is in sight; a new one begins behind `newest` and takes a place of
    /// whoever came first. The subscription keeps it.
    pub(super) fn join(
        &self,
        app: &App,
        visitor: &Visitor,
        filter: Filter,
        fields: Option<Projection>,
        newest: Version,
    ) -> Result<(Arc<Channel>, watch::Receiver<Version>), Error> {
        let sight = visitor.sight();
        // What is confined to a sight tells the sight too.
        let key = format!("{:?} {fields:?}", sight.confine(filter.clone())?);
        let mut channels = self.lock();
        if let Some(channel) = channels.get(&key).and_then(Weak::upgrade)
            && channel.is_open()
        {
            let head = channel.subscribe();
            return Ok((channel, head));
        }
        let Some(place) = self.places.take(Holder::of(visitor)) else {
            let detail = "Too many different lists are watched. Please try again later.";
            return Err(Error::new(ErrorKind::Overloaded, detail));
        };
        let follower = app.store.follow(sight, filter, newest)?;
        let channel = Arc::new(Channel::new(newest));
        let head = channel.subscribe();
        channels.insert(key.clone(), Arc::downgrade(&channel));
        tokio::spawn({
            let (app, channel) = (app.clone(), channel.clone());
            async move {
                let _place = place;
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

    /// Forgets a channel that nobody listens to, unless somebody has just come.
    fn close(&self, key: &str, channel: &Arc<Channel>) -> bool {
        let mut channels = self.lock();
        if channel.head.receiver_count() > 0 {
            return false;
        }
        channel.newest().end();
        remove(&mut channels, key, channel);
        true
    }

    /// Forgets a channel that is over.
    fn forget(&self, key: &str, channel: &Arc<Channel>) {
        remove(&mut self.lock(), key, channel);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Weak<Channel>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Another may have taken its place.
fn remove(channels: &mut HashMap<String, Weak<Channel>>, key: &str, channel: &Arc<Channel>) {
    if channels.get(key).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(channel))) {
        channels.remove(key);
    }
}
