//! Many writers, many watchers, and a server that is killed. One watcher sees everything from the beginning, each
//! version once; its events decide what every other watcher must have received. In the end each knows what a list
//! shows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyperfleet_testkit::eventually;
use hyperfleet_testkit::model::Kinds;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};

use super::fleet::{Fleet, initial_commands, planned_commands};
use super::watchers::{self, Begin, END, Habit, Record, View};
use super::writers::{CompletedCommand, EVERYTHING, SharedState, act};
use super::{DEADLINE, assert_none, cases, complaints, config, drawn};
use crate::support::{App, database, href, id, launch, run, text};

const WRITERS: usize = 64;

/// How many commands each gives.
const EACH: usize = 32;

/// The axe falls once in so many commands.
const PART: usize = 400;

mod watches_are_exact_through_kills {
    use super::*;

    #[test]
    fn sqlite() {
        run(LocalSet::new().run_until(async {
            trial(vec![App::sqlite(&config(&Kinds::three_levels())).await]).await;
        }));
    }

    #[test]
    fn postgres() {
        run(LocalSet::new().run_until(async { trial(on_one_database(1).await).await }));
    }

    #[test]
    fn two_servers() {
        run(LocalSet::new().run_until(async { trial(on_one_database(2).await).await }));
    }
}

async fn on_one_database(servers: usize) -> Vec<App> {
    let database = Arc::new(database().await);
    let mut apps = Vec::new();
    for _ in 0..servers {
        let launch = launch().config(config(&Kinds::three_levels()));
        apps.push(App::on_database(launch, Arc::clone(&database)).await);
    }
    apps
}

const EVERY: View = View { path: "/resources?showDeleted=true", shows: |_| true, last: "Host", members: &[] };

const VIEWS: [View; 16] = [
    EVERY,
    View { path: "/resources?showDeleted=false", shows: active, ..EVERY },
    View { path: "/resources?kind=Host&showDeleted=true", shows: |it| it["kind"] == "Host", ..EVERY },
    View { path: "/zones", shows: |it| it["kind"] == "Zone" && active(it), last: "Zone", ..EVERY },
    View { path: "/fleets?showDeleted=true", shows: |it| it["kind"] == "Fleet", last: "Fleet", ..EVERY },
    View {
        path: "/resources?search=labels.tone%3D'red'+or+name%3D'the-end'",
        shows: |it| active(it) && (it["labels"]["tone"] == "red" || end(it)),
        ..EVERY
    },
    View {
        path: "/resources?search=labels.tone%3D'red'+or+name%3D'the-end'&showDeleted=true",
        shows: |it| it["labels"]["tone"] == "red" || end(it),
        ..EVERY
    },
    View {
        path: "/resources?search=not+labels.tone+in+('red','blue')",
        shows: |it| active(it) && it["labels"]["tone"] != "red" && it["labels"]["tone"] != "blue",
        ..EVERY
    },
    View {
        path: "/resources?search=spec.size+%3E%3D+4+or+name%3D'the-end'",
        shows: |it| active(it) && (it["spec"]["size"].as_u64() >= Some(4) || end(it)),
        ..EVERY
    },
    View {
        path: "/resources?search=status.conditions.Reconciled%3D'True'+or+name%3D'the-end'",
        shows: |it| active(it) && (reconciled(it) == "True" || end(it)),
        ..EVERY
    },
    View {
        path: "/resources?showDeleted=true&search=status.conditions.Reconciled%3D'False'+and+labels.tone+is+not+null+or+name%3D'the-end'",
        shows: |it| reconciled(it) == "False" && it["labels"]["tone"].is_string() || end(it),
        ..EVERY
    },
    View {
        path: "/resources?search=deleted_time+is+not+null+or+name%3D'the-end'",
        shows: |it| !active(it) || end(it),
        ..EVERY
    },
    View {
        path: "/resources?fields=kind,name,labels",
        shows: active,
        members: &["kind", "name", "labels"],
        ..EVERY
    },
    View {
        path: "/resources?showDeleted=true&fields=name,generation,kind&search=generation%3E2+or+name%3D'the-end'",
        shows: |it| it["generation"].as_u64() > Some(2) || end(it),
        members: &["kind", "name", "generation"],
        ..EVERY
    },
    View { path: "/hosts?showDeleted=true", shows: |it| it["kind"] == "Host", ..EVERY },
    EVERY,
];

fn active(resource: &Value) -> bool {
    resource.get("deleted_time").is_none()
}

fn end(resource: &Value) -> bool {
    resource["name"] == END
}

fn reconciled(resource: &Value) -> &str {
    let conditions = resource["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .filter(|it| it["type"] == "Reconciled")
        .map(|it| text(&it["status"]))
        .next()
        .unwrap_or_default()
}

/// All ways to watch; the first sees everything from the beginning.
fn habits() -> Vec<Habit> {
    let each = |number: usize| Habit {
        begin: match number % 4 {
            _ if number == 0 => Begin::Zero,
            0 | 1 => Begin::Present { cut: usize::MAX },
            2 => Begin::Listed,
            _ => Begin::Present { cut: 1 + number % 5 },
        },
        after: number * 60,
        stay: if number % 3 == 2 { 5 + number } else { usize::MAX },
        lines: number % 2 == 1,
    };
    (0..VIEWS.len()).map(each).collect()
}

async fn trial(mut apps: Vec<App>) {
    let shared = SharedState::new(Fleet::new(Kinds::three_levels()));
    let (senders, servers): (Vec<_>, Vec<_>) =
        apps.iter().map(|app| watch::channel(Some(app.api().authority().to_owned()))).unzip();
    let mut watching = JoinSet::new();
    for (number, (view, habit)) in VIEWS.into_iter().zip(habits()).enumerate() {
        let (shared, mut servers) = (Arc::clone(&shared), servers.clone());
        servers.rotate_left(number % apps.len());
        watching.spawn_local(async move { (number, watchers::watch(shared, servers, view, habit).await) });
    }
    let writers = tokio::spawn({
        let shared = Arc::clone(&shared);
        async move {
            let (mut told, _) = act(&shared, &servers, [(WRITERS, initial_commands())]).await;
            let writers =
                drawn(&prop::collection::vec(planned_commands(&shared.fleet.kinds, each()), WRITERS));
            told.extend(act(&shared, &servers, writers.into_iter().enumerate()).await.0);
            told
        }
    });
    let kills = WRITERS * each() / PART;
    let moments = drawn(&prop::collection::vec((0..PART, 0..apps.len()), kills));
    for (number, (moment, victim)) in moments.into_iter().enumerate() {
        eventually("commands", DEADLINE, async || {
            let ended = shared.ended.load(Ordering::SeqCst) >= number * PART + moment;
            (ended || writers.is_finished()).then_some(())
        })
        .await;
        senders[victim].send(None).unwrap();
        apps[victim].server.kill9();
        apps[victim].restart().await;
        senders[victim].send(Some(apps[victim].api().authority().to_owned())).unwrap();
    }
    let told = writers.await.unwrap();
    let mut path = String::new();
    for (kind, plural) in [("Fleet", "fleets"), ("Zone", "zones"), ("Host", "hosts")] {
        let made = apps[0].create_named(&format!("{path}/{plural}"), kind, END).await;
        path = href(&made).to_owned();
    }
    let mut records = tokio::time::timeout(DEADLINE, watching.join_all()).await.expect("all see the end");
    records.sort_unstable_by_key(|(number, _)| *number);
    let records: Vec<Record> = records.into_iter().map(|(_, record)| record).collect();

    let history = History::of(&records[0]);
    let mut faults: Vec<String> = apps.iter().flat_map(complaints).collect();
    faults.extend(history.faults(&told));
    for app in &apps {
        let versions = versions(app).await;
        for ((view, habit), record) in VIEWS.iter().zip(habits()).zip(&records) {
            let mut found = record.faults.clone();
            found.extend(history.judge(view, record));
            let list = app.get(&view.listed()).await.expect_status(200).json();
            found.extend(state_faults(record, &list["items"], &versions));
            faults.extend(found.into_iter().map(|fault| format!("{} {habit:?}: {fault}", view.path)));
        }
    }
    assert!(
        records.iter().any(|record| record.bookmark.is_none() && !record.present.is_empty()),
        "no watcher was cut off"
    );
    faults.truncate(20);
    assert_none(&faults);
}

fn each() -> usize {
    (cases(EACH as u32).cases as usize).max(EACH)
}

/// The version of each resource, by its id.
async fn versions(app: &App) -> BTreeMap<String, u64> {
    let list = app.get(EVERYTHING).await.expect_status(200).json();
    let mut versions = BTreeMap::new();
    for resource in list["items"].as_array().unwrap() {
        let alone = app.get(href(resource)).await.expect_status(200);
        versions.insert(id(resource).to_owned(), alone.version().unwrap());
    }
    versions
}

/// Everything that happened, by version from 1 on: type and object.
struct History<'a>(&'a Record);

impl<'a> History<'a> {
    fn of(record: &'a Record) -> Self {
        Self(record)
    }

    /// Whether it is one: each version once, nothing made twice or changed before it was made, and each acknowledged
    /// write at its version.
    fn faults(&self, told: &[CompletedCommand]) -> Vec<String> {
        let mut faults = Vec::new();
        let mut there = BTreeMap::new();
        for (number, (kind, version, object)) in self.0.changes.iter().enumerate() {
            if *version != number as u64 + 1 {
                faults.push(format!("version {version} is the event {}", number + 1));
                return faults;
            }
            let known = match kind.as_str() {
                "DELETED" => there.remove(id(object)),
                _ => there.insert(id(object), *version),
            };
            if known.is_some() != (kind != "ADDED") {
                faults.push(format!("{kind} {object} of what was there at {known:?}"));
            }
        }
        for told in told {
            let Some(reply) = told.reply.as_ref().filter(|reply| reply.status < 300) else { continue };
            let Some(version) = reply.version else { continue };
            match self.0.changes.get(version as usize - 1) {
                Some((_, _, object)) if timeless(object) == timeless(&reply.body) => {}
                other => faults.push(format!("{told:?} is {other:?}")),
            }
        }
        faults
    }

    /// Compares what a watcher received with what happened.
    fn judge(&self, view: &View, record: &Record) -> Vec<String> {
        let mut faults = Vec::new();
        let (mut shown, mut expected) = (BTreeMap::new(), Vec::new());
        for (kind, version, object) in &self.0.changes {
            if record.bookmark == Some(version - 1) {
                faults.extend(differences(&present(view, &shown, record), &plain(record)));
            }
            let is_there = kind != "DELETED" && (view.shows)(object);
            let was_there = match is_there {
                true => shown.insert(id(object), (*version, object)),
                false => shown.remove(id(object)),
            };
            let kind = match (was_there.is_some(), is_there) {
                (false, false) => continue,
                (false, true) => "ADDED",
                (true, true) => "MODIFIED",
                (true, false) => "DELETED",
            };
            if *version > record.since {
                expected.push((kind.to_owned(), *version, seen(view, object)));
            }
        }
        for (version, object) in &record.present {
            let Some(version) = version else { continue };
            let (_, _, then) = &self.0.changes[*version as usize - 1];
            if seen(view, then) != timeless(object) || !(view.shows)(then) {
                faults.push(format!("at {version} was {object}"));
            }
        }
        let changes: Vec<_> = record
            .changes
            .iter()
            .map(|(kind, version, object)| (kind.clone(), *version, timeless(object)))
            .collect();
        faults.extend(differences(&expected, &changes));
        faults
    }
}

/// Where two accounts part.
fn differences<T: PartialEq + std::fmt::Debug>(expected: &[T], told: &[T]) -> Option<String> {
    let place = (0..expected.len().max(told.len())).find(|place| expected.get(*place) != told.get(*place))?;
    Some(format!("event {place}: expected {:?}, was told {:?}", expected.get(place), told.get(place)))
}

/// The present state that a view shows, in the order of versions, or as a list that tells none.
fn present(view: &View, shown: &BTreeMap<&str, (u64, &Value)>, record: &Record) -> Vec<(Option<u64>, Value)> {
    let is_list = record.present.iter().any(|(version, _)| version.is_none());
    let told = |version: u64| Some(version).filter(|_| !is_list);
    let mut present: Vec<_> =
        shown.values().map(|(version, object)| (told(*version), seen(view, object))).collect();
    present.sort_by_key(|(version, _)| *version);
    present
}

fn plain(record: &Record) -> Vec<(Option<u64>, Value)> {
    let mut plain: Vec<_> =
        record.present.iter().map(|(version, object)| (*version, timeless(object))).collect();
    if plain.iter().any(|(version, _)| version.is_none()) {
        plain.sort_unstable_by_key(|(_, object)| id(object).to_owned());
    }
    plain
}

/// What a view shows of a resource.
fn seen(view: &View, resource: &Value) -> Value {
    let resource = timeless(resource);
    let shown = |member: &str| view.members.is_empty() || member == "id" || view.members.contains(&member);
    let Value::Object(members) = resource else { return resource };
    Value::Object(members.into_iter().filter(|(member, _)| shown(member)).collect::<Map<_, _>>())
}

/// A resource without the times that reports move unheard.
fn timeless(resource: &Value) -> Value {
    let mut resource = resource.clone();
    let conditions = resource.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        condition["last_updated_time"] = json!(null);
    }
    resource
}

/// Compares the state of a watcher in the end with a list of the same, and with the versions of all resources.
fn state_faults(record: &Record, list: &Value, versions: &BTreeMap<String, u64>) -> Vec<String> {
    let begun = record.present.iter().map(|(version, object)| (id(object), (*version, timeless(object))));
    let mut state: BTreeMap<&str, (Option<u64>, Value)> = begun.collect();
    for (kind, version, object) in &record.changes {
        match kind.as_str() {
            "DELETED" => drop(state.remove(id(object))),
            _ => drop(state.insert(id(object), (Some(*version), timeless(object)))),
        }
    }
    let known: BTreeMap<_, _> = state.iter().map(|(id, (_, object))| (*id, object.clone())).collect();
    let listed: BTreeMap<_, _> =
        list.as_array().unwrap().iter().map(|object| (id(object), timeless(object))).collect();
    let mut faults = Vec::new();
    if known != listed {
        faults.push(format!("knows {known:?}, listed are {listed:?}"));
    }
    for (id, (version, _)) in state {
        if version.is_some() && versions.get(id) != version.as_ref() {
            faults.push(format!("{id} is known at {version:?}, and is at {:?}", versions.get(id)));
        }
    }
    faults
}
