//! What watchers of the same thing share. For each distinct filter one task follows the feed, judges each change once
//! and writes each event once; the watchers only copy. Neither waits for the other: a watcher that falls too far
//! behind finds that the ring has gone on without it.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use hyperfleet_core::search::Filter;
use hyperfleet_core::{Error, ErrorKind, Projection, Sight, Timestamp, Version, View, printed_size};
use hyperfleet_store::{Event, Follower, Held, Ring, SLICE_BYTES, Versioned};
use tokio::sync::watch;

use crate::app::App;

/// How many different lists may be watched at a time: each has a ring and judges every change.
const MAX_CHANNELS: usize = 1_000;

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

/// The newest events of one filter.
#[derive(Debug)]
pub(super) struct Channel {
    ring: Mutex<Ring<Told>>,
    head: watch::Sender<Version>,
}

impl Channel {
    fn new(newest: Version) -> Self {
        let mut ring = Ring::default();
        ring.restart(Some(newest));
        Self { ring: Mutex::new(ring), head: watch::Sender::new(newest) }
    }

    /// Changes whenever there is something new.
    pub(super) fn subscribe(&self) -> watch::Receiver<Version> {
        self.head.subscribe()
    }

    /// Whether it is still filled.
    pub(super) fn is_open(&self) -> bool {
        self.ring().is_open()
    }

    /// What happened after `position`.
    pub(super) fn after(&self, position: Version, limit: usize) -> Held<Told> {
        self.ring().after(position, limit)
    }

    /// A panic while the ring is held leaves it as it was.
    fn ring(&self) -> MutexGuard<'_, Ring<Told>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.ring().extend(told, through);
        self.head.send_replace(through);
    }

    /// Nobody may believe that nothing happens: everyone who listens comes again, and finds out.
    fn fail(&self) {
        self.ring().restart(None);
        self.head.send_replace(Version::default());
    }
}

/// How long to let events gather before so many are woken again: to wake someone costs the same for one as for ten.
fn pace(listeners: usize) -> Duration {
    Duration::from_micros(10 * listeners as u64).min(Duration::from_millis(25))
}

/// The channels that are listened to, by what they are about.
#[derive(Default)]
pub(crate) struct Channels(Mutex<HashMap<String, Weak<Channel>>>);

impl Channels {
    /// The channel of a filter, as far as it is in sight; a new one begins behind `newest`. The subscription keeps it.
    pub(super) fn join(
        &self,
        app: &App,
        sight: &Sight,
        filter: Filter,
        fields: Option<Projection>,
        newest: Version,
    ) -> Result<(Arc<Channel>, watch::Receiver<Version>), Error> {
        // What is confined to a sight tells the sight too.
        let key = format!("{:?} {fields:?}", sight.confine(filter.clone())?);
        let mut channels = self.lock();
        if let Some(channel) = channels.get(&key).and_then(Weak::upgrade)
            && channel.is_open()
        {
            let head = channel.subscribe();
            return Ok((channel, head));
        }
        if channels.len() >= MAX_CHANNELS {
            let detail = "Too many different lists are watched. Please try again later.";
            return Err(Error::new(ErrorKind::Overloaded, detail));
        }
        let follower = app.store.follow(sight, filter, newest)?;
        let channel = Arc::new(Channel::new(newest));
        let head = channel.subscribe();
        channels.insert(key.clone(), Arc::downgrade(&channel));
        tokio::spawn({
            let (app, channel) = (app.clone(), channel.clone());
            async move {
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
        channel.ring().restart(None);
        remove(&mut channels, key, channel);
        true
    }

    /// Forgets a channel that is over.
    fn forget(&self, key: &str, channel: &Arc<Channel>) {
        remove(&mut self.lock(), key, channel);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Weak<Channel>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Another may have taken its place.
fn remove(channels: &mut HashMap<String, Weak<Channel>>, key: &str, channel: &Arc<Channel>) {
    if channels.get(key).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(channel))) {
        channels.remove(key);
    }
}
