//! Changes of the objects that an adapter made: one watch of metadata a kind.
//!
//! A watch tells *that* something moved, and to which resource it belongs. What an object is, only an observation tells.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::kinds::Place;
use super::observe::{encoded, selector};
use super::ownership::{self, ADAPTER, RESOURCE_ID, RESOURCE_KIND, TASK_RESOURCE};
use super::transport::{Call, JSON};
use super::{Kind, Kubernetes, failure};
use crate::targets::{ErrorClass, TargetError};

const LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const OBJECT: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// Objects in one answer of the list.
const PAGE: u32 = 500;
/// After this the server ends a watch, and it is begun again where it ended.
const WATCH: Duration = Duration::from_secs(240);
/// Longest silence: the server ends the watch before.
const SILENCE: Duration = Duration::from_secs(270);
/// Longest event: the metadata of one object.
const LONGEST: usize = 4 << 20;
/// Changes that nobody has taken yet. Beyond them the watches wait.
const QUEUE: usize = 1024;
/// The annotation of the event that says that all that is there was told.
const ALL_TOLD: &str = "k8s.io/initial-events-end";
/// Pauses after a failure.
const PAUSE: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(30)];

/// The resource that an object was made for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Its kind.
    pub resource_kind: Arc<str>,
    /// Its id.
    pub resource_id: Arc<str>,
    /// The declared resource of the task.
    pub task_resource: Arc<str>,
}

/// What happened to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// It was there when the watch began, applied with this hash at this generation.
    Listed {
        /// The annotation `hyperfleet.io/applied`.
        applied: Option<String>,
        /// The annotation `hyperfleet.io/generation`.
        generation: Option<i64>,
    },
    /// It is new, or moved.
    Changed,
    /// It is gone, or has lost the label of the adapter.
    Gone,
}

/// A change of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub what: What,
    /// The kind of the object.
    pub kind: Arc<Kind>,
    /// The resource that it was made for.
    pub owner: Owner,
    /// The uid of the object.
    pub uid: String,
    /// The version of the object.
    pub version: String,
}

/// Whether a watch tells all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sync {
    /// It has not begun.
    Starting,
    /// It tells all.
    Synced,
    /// It tells nothing now, and why. It goes on trying.
    Lost(TargetError),
}

/// The watches; they end when this is dropped.
#[derive(Debug)]
pub struct Watches {
    /// What moved.
    pub changes: mpsc::Receiver<Change>,
    /// How the watches are.
    pub health: Health,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

/// How the watches are, for those that only ask.
#[derive(Debug, Clone)]
pub struct Health(Arc<Mutex<States>>);

type States = Vec<(Arc<Kind>, Sync)>;

impl Health {
    /// Each kind with the state of its watch.
    pub fn kinds(&self) -> States {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether all watches tell all.
    pub fn in_sync(&self) -> bool {
        self.kinds().iter().all(|(_, sync)| *sync == Sync::Synced)
    }

    fn set(&self, at: usize, sync: Sync) {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((kind, now)) = kinds.get_mut(at)
            && *now != sync
        {
            match &sync {
                Sync::Lost(error) => tracing::warn!(kind = kind.kind, %error, "the watch is lost"),
                Sync::Synced => tracing::info!(kind = kind.kind, "the watch is in sync"),
                Sync::Starting => {}
            }
            *now = sync;
        }
    }
}

impl Kubernetes {
    /// Watches everything of these kinds that the adapter made. Kinds that the server does not know yet are waited for.
    pub fn watch(&self, kinds: &[Kind], adapter: &str) -> Result<Watches, TargetError> {
        let selector = selector(&[(ADAPTER.to_owned(), adapter.to_owned())])?;
        let kinds: Vec<_> = kinds.iter().cloned().map(Arc::new).collect();
        let health = Health(Arc::new(Mutex::new(
            kinds.iter().map(|kind| (Arc::clone(kind), Sync::Starting)).collect(),
        )));
        let (sender, changes) = mpsc::channel(QUEUE);
        let tasks = kinds.into_iter().enumerate().map(|(at, kind)| {
            let watch = Watch {
                cluster: self.clone(),
                kind,
                selector: selector.clone(),
                at,
                health: health.clone(),
                changes: sender.clone(),
                objects: HashMap::new(),
                names: Vec::new(),
                streams: true,
            };
            AbortOnDropHandle::new(tokio::spawn(watch.run()))
        });
        Ok(Watches { changes, _tasks: tasks.collect(), health })
    }
}

/// The watch of one kind.
struct Watch {
    cluster: Kubernetes,
    kind: Arc<Kind>,
    selector: String,
    at: usize,
    health: Health,
    changes: mpsc::Sender<Change>,
    /// The objects that are there, because nobody tells which are missing after a gap.
    objects: HashMap<String, Owner>,
    /// Names of kinds and declared resources, each kept once.
    names: Vec<Arc<str>>,
    /// Whether the server begins a watch with what is there. Else that is listed first.
    streams: bool,
}

/// How a watch ended.
enum End {
    /// Its time was over.
    Time,
    /// The server does not remember what happened since.
    Expired,
    /// Nobody takes changes any more.
    Unused,
}

/// One watch in the way of its events.
struct Progress {
    /// The version to go on from; `None` while what is there is still being told.
    since: Option<String>,
    /// Objects that were there before and have not been told of again.
    gone: HashMap<String, Owner>,
}

/// What counts of an object. The rest, most of which tells who manages its fields, is not even kept while it is read.
#[derive(Debug, Default, Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    uid: Option<String>,
    resource_version: Option<String>,
    r#continue: Option<String>,
    labels: HashMap<String, String>,
    annotations: HashMap<String, String>,
}

#[derive(Deserialize)]
struct List {
    metadata: Metadata,
    /// Null when there is nothing.
    items: Option<Vec<Object>>,
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl Watch {
    async fn run(mut self) {
        let mut since = None;
        let mut pause = PAUSE[0];
        loop {
            match self.follow(&mut since, &mut pause).await {
                Ok(End::Unused) => return,
                Ok(End::Time) => {}
                Ok(End::Expired) => since = None,
                Err(error) => {
                    self.health.set(self.at, Sync::Lost(error));
                    tokio::time::sleep(pause.mul_f64(0.75 + fastrand::f64() / 2.0)).await;
                    pause = (pause * 2).min(PAUSE[1]);
                }
            }
        }
    }

    /// Follows one watch to its end, from where the last one ended, or from all that is there.
    async fn follow(&mut self, since: &mut Option<String>, pause: &mut Duration) -> Result<End, TargetError> {
        let place = self.cluster.place(&self.kind.api_version, &self.kind.kind).await?;
        let path = place.objects(None)?;
        let mut progress = Progress { since: since.take(), gone: HashMap::new() };
        if progress.since.is_none() && !self.streams {
            progress.since = match self.list(&place, &path).await? {
                Some(version) => Some(version),
                None => return Ok(End::Unused),
            };
        }
        let from = match &progress.since {
            Some(version) => format!("resourceVersion={}", encoded(version)),
            None => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        };
        let path = format!(
            "{path}?{}&watch=true&allowWatchBookmarks=true&timeoutSeconds={}&{from}",
            self.selector,
            WATCH.as_secs(),
        );
        let call =
            Call { method: Method::GET, path: &path, accept: OBJECT, content_type: JSON, body: Vec::new() };
        let body = match self.cluster.0.transport.stream(&format!("watching {}", self.kind.kind), call).await
        {
            Ok(body) => body,
            Err(error) if error.reason == "Expired" || error.reason == "Gone" => return Ok(End::Expired),
            // An older server, or an older etcd behind it.
            Err(error)
                if progress.since.is_none() && matches!(error.reason.as_str(), "Invalid" | "BadRequest") =>
            {
                self.streams = false;
                return Ok(End::Expired);
            }
            Err(error) => {
                // The kind may be gone, or served elsewhere by now.
                self.cluster.0.kinds.forget(&self.kind.api_version);
                *since = progress.since.filter(|_| matches!(error.class, ErrorClass::Outage { .. }));
                return Err(error);
            }
        };
        *pause = PAUSE[0];
        if progress.since.is_some() {
            self.health.set(self.at, Sync::Synced);
        } else {
            progress.gone = std::mem::take(&mut self.objects);
        }
        let end = self.read(body, &mut progress).await;
        // What was there before is there until all that is there was told.
        self.objects.extend(progress.gone);
        *since = progress.since;
        end
    }

    /// Reads all that is there, and gives the version to go on from. `None` when nobody takes changes any more.
    async fn list(&mut self, place: &Arc<Place>, path: &str) -> Result<Option<String>, TargetError> {
        let what = format!("listing {}", place.kind);
        let mut gone = std::mem::take(&mut self.objects);
        let mut next = String::new();
        loop {
            let page = format!("{path}?{}&limit={PAGE}{next}", self.selector);
            let call =
                Call { method: Method::GET, path: &page, accept: LIST, content_type: JSON, body: Vec::new() };
            let list: List =
                match self.cluster.0.transport.send(call).await.and_then(|answer| answer.parsed(&what)) {
                    Ok(list) => list,
                    Err(error) => {
                        self.objects.extend(gone);
                        return Err(error);
                    }
                };
            for object in list.items.unwrap_or_default() {
                if !self.listed(object.metadata, &mut gone).await {
                    return Ok(None);
                }
            }
            match list.metadata.r#continue.filter(|token| !token.is_empty()) {
                Some(token) => next = format!("&continue={}", encoded(&token)),
                None => {
                    let told = self.gone(gone).await;
                    return Ok(list.metadata.resource_version.filter(|_| told));
                }
            }
        }
    }

    /// Reads the events of one watch, a line each.
    async fn read(&mut self, mut body: Body, progress: &mut Progress) -> Result<End, TargetError> {
        let mut line = Vec::new();
        loop {
            let frame = match tokio::time::timeout(SILENCE, body.frame()).await {
                Err(_) => return Err(failure::timeout(SILENCE)),
                Ok(None) => return Ok(End::Time),
                Ok(Some(frame)) => frame.map_err(|_| failure::broken_off())?,
            };
            let Ok(data) = frame.into_data() else { continue };
            let mut rest = &data[..];
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                line.extend_from_slice(&rest[..end]);
                rest = &rest[end + 1..];
                if let Some(end) = self.event(&line, progress).await? {
                    return Ok(end);
                }
                line.clear();
            }
            if line.len() + rest.len() > LONGEST {
                return Err(failure::broken_off());
            }
            line.extend_from_slice(rest);
        }
    }

    async fn event(&mut self, line: &[u8], progress: &mut Progress) -> Result<Option<End>, TargetError> {
        let what = format!("watching {}", self.kind.kind);
        let malformed = |_| failure::malformed(&what);
        let event: Event<'_> = serde_json::from_slice(line).map_err(malformed)?;
        if event.r#type == "ERROR" {
            let status: Value = serde_json::from_str(event.object.get()).map_err(malformed)?;
            let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
            let refused = || failure::refused(&what, code, None, event.object.get().as_bytes());
            return if code == 410 { Ok(Some(End::Expired)) } else { Err(refused()) };
        }
        let Object { metadata } = serde_json::from_str(event.object.get()).map_err(malformed)?;
        let version = metadata.resource_version.clone();
        let all_told = metadata.annotations.get(ALL_TOLD).is_some_and(|told| told == "true");
        let told = match event.r#type {
            "ADDED" if progress.since.is_none() => self.listed(metadata, &mut progress.gone).await,
            "ADDED" | "MODIFIED" => self.tell(What::Changed, metadata).await,
            "DELETED" => self.tell(What::Gone, metadata).await,
            "BOOKMARK" if progress.since.is_none() && all_told => {
                progress.since = Some(String::new());
                self.health.set(self.at, Sync::Synced);
                self.gone(std::mem::take(&mut progress.gone)).await
            }
            _ => true,
        };
        if let (Some(since), Some(version)) = (&mut progress.since, version) {
            *since = version;
        }
        Ok((!told).then_some(End::Unused))
    }

    async fn listed(&mut self, metadata: Metadata, gone: &mut HashMap<String, Owner>) -> bool {
        if let Some(uid) = &metadata.uid {
            gone.remove(uid);
        }
        let annotation = |name: &str| metadata.annotations.get(name).cloned();
        let generation = annotation(ownership::GENERATION).and_then(|generation| generation.parse().ok());
        self.tell(What::Listed { applied: annotation(ownership::APPLIED), generation }, metadata).await
    }

    async fn gone(&self, gone: HashMap<String, Owner>) -> bool {
        for (uid, owner) in gone {
            self.cluster.0.memory.forget(&uid);
            if !self.send(What::Gone, uid, String::new(), owner).await {
                return false;
            }
        }
        true
    }

    /// Sends on what happened to an object. `false` when nobody takes changes any more.
    async fn tell(&mut self, what: What, metadata: Metadata) -> bool {
        // An object whose labels were taken away belongs to whom it belonged to before.
        let owner = self.owner(&metadata.labels);
        let Some(uid) = metadata.uid else { return true };
        let Some(owner) = owner.or_else(|| self.objects.get(&uid).cloned()) else { return true };
        if what == What::Gone {
            self.objects.remove(&uid);
            self.cluster.0.memory.forget(&uid);
        } else {
            self.objects.insert(uid.clone(), owner.clone());
        }
        self.send(what, uid, metadata.resource_version.unwrap_or_default(), owner).await
    }

    async fn send(&self, what: What, uid: String, version: String, owner: Owner) -> bool {
        self.changes.send(Change { what, kind: Arc::clone(&self.kind), owner, uid, version }).await.is_ok()
    }

    fn owner(&mut self, labels: &HashMap<String, String>) -> Option<Owner> {
        let label = |name: &str| labels.get(name).map(String::as_str);
        let resource_id = label(RESOURCE_ID)?;
        let kind = label(RESOURCE_KIND).unwrap_or_default();
        let task = label(TASK_RESOURCE).unwrap_or_default();
        Some(Owner {
            resource_id: resource_id.into(),
            resource_kind: self.name(kind),
            task_resource: self.name(task),
        })
    }

    /// There are few of these names, and many objects.
    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.iter().find(|known| ***known == *name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        if self.names.len() < 64 {
            self.names.push(Arc::clone(&name));
        }
        name
    }
}
