//! `kill -9` under load: every acknowledged write is there afterwards, and no write is partial.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyperfleet_testkit::{Answer, Client, eventually};
use serde_json::{Value, json};

use super::installation::{Installation, Rows};
use super::{CLUSTERS, DEADLINE, cluster, create_cluster};
use crate::support::both_stores;

const ROUNDS: usize = 3;
const WRITERS: usize = 6;
/// Acknowledged writes before the axe falls in a round.
const ACKNOWLEDGED: usize = 120;

both_stores!(start = Installation::migrated; an_acknowledged_write_survives_kill_9_and_no_write_is_partial);

async fn an_acknowledged_write_survives_kill_9_and_no_write_is_partial(installation: &Installation) {
    let mut server = installation.serve().discard_logs().start().await.unwrap();
    let mut known = Vec::new();
    for round in 0..ROUNDS {
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                tokio::spawn(write(server.api(), format!("w{round}-{writer}"), Arc::clone(&acknowledged)))
            })
            .collect();
        eventually("writes", DEADLINE, async || {
            (acknowledged.load(Ordering::Relaxed) >= ACKNOWLEDGED).then_some(())
        })
        .await;
        server.kill9();
        for writer in writers {
            known.extend(writer.await.unwrap());
        }

        server.restart().await.unwrap();
        let api = server.api();
        for resource in &known {
            resource.check(&api).await;
        }
        check_tables(installation).await;
        let newest = known.iter().map(|resource| resource.version).max().unwrap();
        let next = version(&create_cluster(&api, &format!("after-{round}")).await);
        assert!(next > newest, "version {next} was given out after {newest} was acknowledged");
    }
}

/// What a writer was told about a resource.
#[derive(Debug)]
struct WrittenResource {
    path: String,
    fate: Fate,
    generation: i64,
    version: i64,
    n: i64,
    /// A write to it was sent and not answered: it may have happened or not.
    unsure: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Active,
    Finalizing,
    Gone,
}

impl WrittenResource {
    fn of(answer: &Answer) -> Self {
        let body = answer.json();
        Self {
            path: body["href"].as_str().unwrap().to_owned(),
            fate: if body.get("deleted_time").is_some() { Fate::Finalizing } else { Fate::Active },
            generation: body["generation"].as_i64().unwrap(),
            version: version(answer),
            n: body["spec"]["n"].as_i64().unwrap(),
            unsure: false,
        }
    }

    async fn check(&self, api: &Client) {
        let answer = api.get(&self.path).await;
        if answer.status == 404 {
            let allowed = self.fate == Fate::Gone || (self.fate == Fate::Finalizing && self.unsure);
            assert!(allowed, "an acknowledged resource is lost: {self:?}");
            return;
        }
        let found = Self::of(&answer.expect_status(200));
        let facts = |known: &Self| (known.fate, known.generation, known.version, known.n);
        if self.unsure {
            assert!(found.version >= self.version && self.fate != Fate::Gone, "{self:?} became {found:?}");
            assert!((0..=1).contains(&(found.generation - self.generation)), "{self:?} became {found:?}");
            assert!((0..=1).contains(&(found.n - self.n)), "{self:?} became {found:?}");
        } else {
            assert_eq!(facts(&found), facts(self), "{self:?} became {found:?}");
        }
    }
}

fn version(answer: &Answer) -> i64 {
    answer.version().unwrap() as i64
}

/// Writes until the server is gone, and returns what it was told.
async fn write(api: Client, name: String, acknowledged: Arc<AtomicUsize>) -> Vec<WrittenResource> {
    let mut writer = Writer { api, acknowledged, known: Vec::new() };
    for turn in 0.. {
        if writer.live(&format!("{name}-{turn}"), turn).await.is_none() {
            break;
        }
    }
    writer.known
}

struct Writer {
    api: Client,
    acknowledged: Arc<AtomicUsize>,
    known: Vec<WrittenResource>,
}

impl Writer {
    /// A cluster with a pool, through one of three lives. Nothing when the server went away.
    async fn live(&mut self, name: &str, turn: usize) -> Option<()> {
        let cluster = self.create(CLUSTERS, &cluster(name)).await?;
        let pools = format!("{}/nodepools", self.known[cluster].path);
        let pool =
            self.create(&pools, &json!({"kind": "NodePool", "name": "pool", "spec": {"n": 0}})).await?;
        for _ in 0..3 {
            self.patch(cluster).await?;
        }
        self.patch(pool).await?;
        match turn % 3 {
            0 => self.delete(pool, &[pool]).await,
            1 => {
                self.delete(cluster, &[cluster, pool]).await?;
                self.force_delete(cluster, &[cluster, pool]).await
            }
            _ => Some(()),
        }
    }

    async fn create(&mut self, path: &str, body: &Value) -> Option<usize> {
        let answer = self.api.post(path).json(body).send().await.ok()?;
        self.known.push(WrittenResource::of(&answer.expect_status(201)));
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        Some(self.known.len() - 1)
    }

    async fn patch(&mut self, at: usize) -> Option<()> {
        self.touch(&[at]);
        let WrittenResource { path, n, .. } = &self.known[at];
        let answer = self.api.patch(path).json(&json!({"spec": {"n": n + 1}})).send().await.ok()?;
        self.settle(at, WrittenResource::of(&answer.expect_status(200)))
    }

    async fn delete(&mut self, at: usize, all: &[usize]) -> Option<()> {
        self.touch(all);
        self.api.delete(&self.known[at].path).send().await.ok()?.expect_status(202);
        for &at in all {
            let now = self.api.get(&self.known[at].path).send().await.ok()?.expect_status(200);
            assert_eq!(WrittenResource::of(&now).fate, Fate::Finalizing);
            self.settle(at, WrittenResource::of(&now));
        }
        Some(())
    }

    async fn force_delete(&mut self, at: usize, all: &[usize]) -> Option<()> {
        self.touch(all);
        let path = format!("{}/force-delete", self.known[at].path);
        let answer = self.api.post(&path).json(&json!({"reason": "stuck"})).send().await.ok()?;
        answer.expect_status(204);
        for &at in all {
            self.known[at].fate = Fate::Gone;
            self.known[at].unsure = false;
        }
        Some(())
    }

    fn touch(&mut self, all: &[usize]) {
        for &at in all {
            self.known[at].unsure = true;
        }
    }

    fn settle(&mut self, at: usize, now: WrittenResource) -> Option<()> {
        self.known[at] = now;
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        Some(())
    }
}

/// What must hold between the tables whatever happened.
async fn check_tables(installation: &Installation) {
    let [feed, changes, status, resources, kept, counted] = installation
        .snapshot([
            "select version from feed",
            &format!(
                "select version, resource_id, {} from changes order by version",
                installation.hex("body")
            ),
            "select resource_id, version, conditions from resource_status",
            "select id, owner_id, generation, spec from resources",
            "select kind, active, finalizing from kind_counts where active + finalizing > 0 order by kind",
            "select kind, sum(case when deleted_time is null then 1 else 0 end),
                 sum(case when deleted_time is null then 0 else 1 end)
             from resources group by kind order by kind",
        ])
        .await;
    let versions: Vec<i64> = changes.iter().map(|row| row[0].parse().unwrap()).collect();
    let newest: i64 = feed[0][0].parse().unwrap();
    assert_eq!(versions, (1..=newest).collect::<Vec<_>>(), "one change per version, without gaps");

    assert_eq!(kept, counted, "the counts of the kinds are kept right");

    let told = histories(&changes);
    let status: HashMap<&str, (&str, &str)> =
        status.iter().map(|row| (&*row[0], (&*row[1], &*row[2]))).collect();
    let rows: HashMap<&str, &Vec<String>> = resources.iter().map(|row| (&*row[0], row)).collect();
    assert_eq!(status.len(), rows.len());
    for (&id, row) in &rows {
        let (version, conditions) = status[id];
        let history = &told[id];
        assert_eq!(version, history.version, "the newest change of {id} gave it its version");
        assert_ne!(conditions, "[]", "{id} has conditions");
        assert!(row[1].is_empty() || rows.contains_key(&*row[1]), "{id} lost its owner");
        assert_eq!(row[2], history.generation.to_string(), "history explains the generation of {id}");
        let spec: Value = serde_json::from_str(&row[3]).unwrap();
        assert_eq!(spec["n"], history.n, "history explains the spec of {id}");
    }
    for (id, history) in told.iter().filter(|(id, _)| !rows.contains_key(**id)) {
        assert_eq!(history.last_action, "force_deleted", "{id} is gone and history says why");
    }
}

/// What the changes of one resource add up to.
#[derive(Default)]
struct History<'a> {
    version: &'a str,
    generation: i64,
    n: i64,
    last_action: String,
}

/// Retells every resource's life from the changes alone.
fn histories<'a>(changes: &'a Rows) -> HashMap<&'a str, History<'a>> {
    let mut told: HashMap<&str, History<'_>> = HashMap::new();
    for row in changes {
        let [version, id, body] = row.as_slice() else { unreachable!("three columns were asked for") };
        let history = told.entry(id).or_default();
        history.version = version;
        let entries: Vec<Value> = serde_json::from_str(&entries(body)).unwrap();
        assert!(!entries.is_empty(), "version {version} says nothing");
        for entry in &entries {
            let action = entry["action"].as_str().unwrap();
            match action {
                "created" | "deletion_requested" => history.generation += 1,
                "spec_changed" => {
                    history.generation += 1;
                    let step = json!([{"path": "spec.n", "from": history.n, "to": history.n + 1}]);
                    assert_eq!(entry["changes"], step, "version {version}");
                    history.n += 1;
                }
                _ => {}
            }
            history.last_action = action.to_owned();
        }
    }
    told
}

/// The entries of a compressed change, from its hexadecimal digits.
fn entries(hex: &str) -> String {
    const DICTIONARY: &[u8] = include_bytes!("../../../../store/src/codec/dictionary.txt");
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let body: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    let mut decompressor = zstd::bulk::Decompressor::with_dictionary(DICTIONARY).unwrap();
    let text = decompressor.decompress(&body[1..], 1 << 20).unwrap();
    String::from_utf8(text).unwrap().split('\0').next().unwrap().to_owned()
}
