//! Changes of the objects that an adapter made: one watch of metadata a kind.
//!
//! A watch tells *that* something moved, and to which resource it belongs. What an object is, only an observation tells.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::kinds::Place;
use super::memory::uid;
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
}

/// How a watch ended.
enum End {
    /// Its time was over.
    Time,
    /// The server does not remember what happened since: list again.
    Expired,
    /// Nobody takes changes any more.
    Unused,
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

    /// Lists unless it is known where to go on, and then follows one watch to its end.
    async fn follow(&mut self, since: &mut Option<String>, pause: &mut Duration) -> Result<End, TargetError> {
        let place = self.cluster.place(&self.kind.api_version, &self.kind.kind).await?;
        let path = place.objects(None)?;
        let mut version = match since.take() {
            Some(version) => version,
            None => match self.list(&place, &path).await? {
                Some(version) => version,
                None => return Ok(End::Unused),
            },
        };
        let what = format!("watching {}", self.kind.kind);
        let path = format!(
            "{path}?{}&watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
            self.selector,
            WATCH.as_secs(),
            encoded(&version),
        );
        let call =
            Call { method: Method::GET, path: &path, accept: OBJECT, content_type: JSON, body: Vec::new() };
        let body = match self.cluster.0.transport.stream(&what, call).await {
            Ok(body) => body,
            Err(error) if error.reason == "Expired" || error.reason == "Gone" => return Ok(End::Expired),
            Err(error) => {
                // The kind may be gone, or served elsewhere by now.
                self.cluster.0.kinds.forget(&self.kind.api_version);
                *since = Some(version).filter(|_| matches!(error.class, ErrorClass::Outage { .. }));
                return Err(error);
            }
        };
        self.health.set(self.at, Sync::Synced);
        *pause = PAUSE[0];
        let end = self.read(body, &mut version).await;
        *since = Some(version);
        end
    }

    /// Reads all that is there, and gives the version to go on from.
    async fn list(&mut self, place: &Arc<Place>, path: &str) -> Result<Option<String>, TargetError> {
        let what = format!("listing {}", place.kind);
        let (mut gone, mut next) = (std::mem::take(&mut self.objects), String::new());
        loop {
            let page = format!("{path}?{}&limit={PAGE}{next}", self.selector);
            let call =
                Call { method: Method::GET, path: &page, accept: LIST, content_type: JSON, body: Vec::new() };
            let list = match self.cluster.0.transport.send(call).await.and_then(|answer| answer.object(&what))
            {
                Ok(list) => list,
                Err(error) => {
                    // What was there before is there until a whole list says otherwise.
                    self.objects.extend(gone);
                    return Err(error);
                }
            };
            for object in list["items"].as_array().into_iter().flatten() {
                if let Some(uid) = uid(object) {
                    gone.remove(uid);
                }
                let applied = ownership::annotation(object, ownership::APPLIED).map(str::to_owned);
                let listed = What::Listed { applied, generation: ownership::generation(object) };
                if !self.tell(listed, object).await {
                    return Ok(None);
                }
            }
            let metadata = &list["metadata"];
            match (
                metadata["continue"].as_str().filter(|token| !token.is_empty()),
                metadata["resourceVersion"].as_str(),
            ) {
                (Some(token), _) => next = format!("&continue={}", encoded(token)),
                (None, Some(version)) => {
                    for (uid, owner) in gone {
                        self.cluster.0.memory.forget(&uid);
                        if !self.send(What::Gone, uid, String::new(), owner).await {
                            return Ok(None);
                        }
                    }
                    return Ok(Some(version.to_owned()));
                }
                (None, None) => return Err(failure::malformed(&what)),
            }
        }
    }

    /// Reads the events of one watch, a line each.
    async fn read(&mut self, mut body: Body, version: &mut String) -> Result<End, TargetError> {
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
                if let Some(end) = self.event(&line, version).await? {
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

    async fn event(&mut self, line: &[u8], version: &mut String) -> Result<Option<End>, TargetError> {
        let what = format!("watching {}", self.kind.kind);
        let event: Value = serde_json::from_slice(line).map_err(|_| failure::malformed(&what))?;
        let object = &event["object"];
        let told = match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => self.tell(What::Changed, object).await,
            Some("DELETED") => self.tell(What::Gone, object).await,
            Some("BOOKMARK") => true,
            Some("ERROR") if object["code"] == 410 => return Ok(Some(End::Expired)),
            Some("ERROR") => {
                let code = object["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
                return Err(failure::refused(&what, code, None, object.to_string().as_bytes()));
            }
            _ => return Err(failure::malformed(&what)),
        };
        if let Some(now) = object["metadata"]["resourceVersion"].as_str() {
            now.clone_into(version);
        }
        Ok((!told).then_some(End::Unused))
    }

    /// Sends on what happened to an object. `false` when nobody takes changes any more.
    async fn tell(&mut self, what: What, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let Some(uid) = uid(object).map(str::to_owned) else { return true };
        // An object whose labels were taken away belongs to whom it belonged to before.
        let known = self.objects.get(&uid).cloned();
        let Some(owner) = self.owner(object).or(known) else { return true };
        if what == What::Gone {
            self.objects.remove(&uid);
            self.cluster.0.memory.forget(&uid);
        } else {
            self.objects.insert(uid.clone(), owner.clone());
        }
        self.send(what, uid, metadata["resourceVersion"].as_str().unwrap_or_default().to_owned(), owner).await
    }

    async fn send(&self, what: What, uid: String, version: String, owner: Owner) -> bool {
        self.changes.send(Change { what, kind: Arc::clone(&self.kind), owner, uid, version }).await.is_ok()
    }

    fn owner(&mut self, object: &Value) -> Option<Owner> {
        let label = |name: &str| ownership::label(object, name);
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
