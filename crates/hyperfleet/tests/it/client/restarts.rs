//! A server that is killed and comes back, again and again, while the client goes on as if nothing happened.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::TryStreamExt as _;
use hyperfleet_client::{ListQuery, PatchKind, Watch, WatchEvent, WatchQuery};
use tokio::task::JoinSet;

use super::relay::Relay;
use super::*;
use crate::support::{DEFAULT, any_store};

const KILLS: usize = 4;
const CALLERS: usize = 8;
/// Calls by each caller between two kills, at the least.
const EACH: usize = 5;

any_store!(
    config = DEFAULT;
    creates_are_retried_through_kills_and_happen_once,
    a_watch_resumes_through_kills_without_gaps_or_repeats,
);

async fn creates_are_retried_through_kills_and_happen_once(app: &mut App) {
    let relay = Relay::to(app).await;
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let (made, mut count) = tokio::sync::watch::channel(0);
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (client, stopping, made) = (patient(&relay.authority()), stopping.clone(), made.clone());
        callers.spawn(async move {
            let mut ids = BTreeMap::new();
            for number in 0.. {
                if *stopping.borrow() {
                    break;
                }
                let name = format!("c{caller}-{number}");
                let resource = create_cluster(&client, &name).await;
                ids.insert(name, resource.id().to_owned());
                made.send_modify(|made| *made += 1);
            }
            ids
        });
    }
    for kill in 1..=KILLS {
        count.wait_for(|made| *made >= kill * CALLERS * EACH).await.unwrap();
        relay.kill_and_restart(app).await;
    }
    let before = *count.borrow();
    count.wait_for(|made| *made > before).await.unwrap();
    stop.send_replace(true);

    let told: BTreeMap<_, _> = callers.join_all().await.into_iter().flatten().collect();
    let query = ListQuery { page_size: Some(100), ..ListQuery::default() };
    let found: Vec<Resource> =
        patient(&relay.authority()).pages(&clusters(), &query).try_collect().await.unwrap();
    assert_eq!(found.len(), told.len(), "each was made once");
    for resource in found {
        assert_eq!(told[resource.name()], resource.id(), "and is the one that was told");
    }
}

/// Type, version and id of what is told, up to the end of the last resource.
async fn events_until(watch: &mut Watch, last: &str) -> Vec<(&'static str, u64, String)> {
    let mut told = Vec::new();
    loop {
        let (kind, version, resource) = match watch.next().await.unwrap() {
            WatchEvent::Added { version, resource } => ("added", version, resource),
            WatchEvent::Modified { version, resource } => ("modified", version, resource),
            WatchEvent::Deleted { version, resource } => ("deleted", version, resource),
            WatchEvent::Bookmark { .. } => continue,
            WatchEvent::Restart => panic!("everything is kept"),
        };
        let is_last = resource.name() == last;
        told.push((kind, version, resource.id().to_owned()));
        if is_last {
            return told;
        }
    }
}

async fn a_watch_resumes_through_kills_without_gaps_or_repeats(app: &mut App) {
    let relay = Relay::to(app).await;
    let client = patient(&relay.authority());
    let query = WatchQuery { since: Some("0".to_owned()), ..WatchQuery::default() };
    let mut watch = client.watch(&clusters(), &query);
    let follower = tokio::spawn(async move { events_until(&mut watch, "the-end").await });

    let (written, mut count) = tokio::sync::watch::channel(0);
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let writer = patient(&relay.authority());
    let writing = tokio::spawn(async move {
        for number in 0.. {
            if *stopping.borrow() {
                return;
            }
            let made = create_cluster(&writer, &format!("c-{number}")).await;
            let item = made.path().unwrap();
            // A change whose answer is lost is not sent again, and a deletion may find that it was carried out.
            let patch = json!({"spec": {"number": number}});
            let _ = writer.patch(&item, &patch, PatchKind::Merge, None, false).await;
            let _ = writer.delete(&item, None, false).await;
            written.send_modify(|written| *written += 1);
        }
    });
    for kill in 1..=KILLS {
        count.wait_for(|written| *written >= kill * EACH).await.unwrap();
        relay.kill_and_restart(app).await;
    }
    let before = *count.borrow();
    count.wait_for(|written| *written > before).await.unwrap();
    stop.send_replace(true);
    writing.await.unwrap();
    create_cluster(&client, "the-end").await;

    let followed = tokio::time::timeout(DEADLINE, follower).await.unwrap().unwrap();
    // A later watch of the whole feed receives the same.
    let mut afterwards = client.watch(&clusters(), &query);
    let expected = events_until(&mut afterwards, "the-end").await;
    assert_eq!(followed, expected);
    let versions: BTreeSet<_> = followed.iter().map(|(_, version, _)| version).collect();
    assert_eq!(versions.len(), followed.len(), "no version twice");
    assert!(followed.len() > KILLS * EACH * 2, "{}", followed.len());
}
