//! What watchers of the same thing share. For each distinct filter one task follows the feed, judges each change once
//! and writes each event once; the watchers only copy. Neither waits for the other: a watcher that falls too far
//! behind finds that the ring has gone on without it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use hyperfleet_core::search::Filter;
use hyperfleet_core::{Error, Projection, Sight, Timestamp, Version, View, printed_size};
use hyperfleet_store::{Event, Follower, Held, Ring, Versioned};
use tokio::sync::watch;

use crate::app::App;

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

    /// Takes in what happens until nobody listens any more.
    async fn fill(
        self: &Arc<Self>,
        app: &App,
        key: &str,
        mut follower: Follower,
        fields: Option<Projection>,
    ) {
        loop {
            let batch = tokio::select! {
                batch = follower.next() => batch,
                () = self.head.closed() => match app.channels.close(key, self) {
                    true => return,
                    false => continue,
                },
            };
            let told = batch.and_then(|batch| {
                let view = app.rulebook.view();
                let told = batch.events.iter().map(|event| Told::new(view, fields.as_ref(), event));
                Ok((told.collect::<Result<Vec<_>, _>>()?, batch.through))
            });
            match told {
                Ok((told, through)) => {
                    self.ring().extend(told, through);
                    self.head.send_replace(through);
                }
                Err(error) => {
                    // Nobody may believe that nothing happened: everyone comes again, and finds out.
                    tracing::warn!(error = error.chain(), "cannot follow the feed for watchers");
                    self.ring().restart(None);
                    self.head.send_replace(Version::default());
                    return;
                }
            }
        }
    }
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
        let follower = app.store.follow(sight, filter, newest)?;
        let channel = Arc::new(Channel::new(newest));
        let head = channel.subscribe();
        channels.insert(key.clone(), Arc::downgrade(&channel));
        tokio::spawn({
            let (app, channel) = (app.clone(), channel.clone());
            async move {
                channel.fill(&app, &key, follower, fields).await;
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
        // Another may have taken its place.
        if channels.get(key).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(channel))) {
            channels.remove(key);
        }
        channel.ring().restart(None);
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Weak<Channel>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
