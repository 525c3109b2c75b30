//! What it costs to know who calls. The same requests go in turns to a server that lets everyone do everything and to
//! one that checks tokens, tenants, roles and rates; and well-behaved callers are timed with and without one beside
//! them who asks fifty times as much as it may.

use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};
use hyperfleet_auth::dev::{DevIssuer, Grant, ISSUER_URL};
use hyperfleet_core::Timestamp;
use hyperfleet_testkit::{Database, Launch, Postgres, Server, Store};
use tempfile::TempDir;

use crate::load::{Connection, Load, Outcome};
use crate::reports::{ADAPTERS, Moves, Reports};
use crate::toll::{Asked, Toll};
use crate::workload::{CLUSTERS, Signature, Target, Verb, Workload, cluster};

/// Clusters of each server.
const FLEET: usize = 1_000;
const LOADERS: usize = 32;
/// Reads a second that a caller may make where one asks too much.
const BUDGET: u32 = 100;
/// How many times its budget that one asks.
const EXCESS: f64 = 50.0;
/// Callers beside it, each at half of its budget, over a connection of its own.
const NEIGHBOURS: usize = 16;
/// Connections of the one who asks too much.
const NOISY: usize = 8;

/// Whether anything of this is wanted on a store.
pub(crate) fn wanted(only: &str, store: &str) -> bool {
    format!("{store} access").contains(only)
}

/// Who may come in at a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Door {
    /// Everyone, for everything.
    Open,
    /// Whoever has a token and a role, as often as they like.
    Guarded,
    /// The same within the budget.
    Rationed,
}

/// A server with some clusters and reports on them.
struct House {
    server: Server,
    ids: Arc<[String]>,
    reports: Arc<Reports>,
}

/// The servers of one store.
struct Street {
    store: &'static str,
    open: House,
    guarded: House,
    rationed: House,
}

/// All servers, and what they have shown so far.
pub(crate) struct Access {
    issuer: DevIssuer,
    streets: Vec<Street>,
    /// They go with this value.
    _databases: Vec<Database>,
    _keys: TempDir,
    pub(crate) found: Toll,
}

impl Access {
    /// Starts the servers and fills them.
    pub(crate) async fn start(stores: &[&'static str], launch: &Launch, postgres: &Postgres) -> Result<Self> {
        let keys = tempfile::tempdir()?;
        let issuer = DevIssuer::open(keys.path(), ISSUER_URL)?;
        let (mut streets, mut databases) = (Vec::new(), Vec::new());
        for &store in stores {
            eprintln!("{store}: starting servers with and without access control");
            let mut at = Vec::new();
            for _ in 0..3 {
                at.push(match store {
                    "sqlite" => Store::Sqlite,
                    _ => {
                        databases.push(postgres.database().await);
                        Store::Postgres(databases.last().context("a database")?.url())
                    }
                });
            }
            let mut house =
                async |door| House::start(&issuer, launch, at.pop().context("a store")?, door).await;
            streets.push(Street {
                store,
                open: house(Door::Open).await?,
                guarded: house(Door::Guarded).await?,
                rationed: house(Door::Rationed).await?,
            });
        }
        Ok(Self { issuer, streets, _databases: databases, _keys: keys, found: Toll::default() })
    }

    /// One round of the same requests to the open door and to the guarded one.
    pub(crate) fn round(&mut self, load: &Load) -> Result<()> {
        let Self { issuer, streets, found, .. } = self;
        let signature = Signature::of([signed(issuer, "bench@example.com")?]);
        for street in streets {
            for asked in [Asked::Get, Asked::Report] {
                for (guarded, house) in [(false, &street.open), (true, &street.guarded)] {
                    let signature = if guarded { signature.clone() } else { Signature::none() };
                    let outcome = load.run(&house.target(asked, signature)?)?;
                    complain(street.store, &outcome);
                    found.add(street.store, asked, load.connections, guarded, &outcome);
                }
            }
        }
        Ok(())
    }

    /// One round of neighbours by themselves, and beside the one who asks too much.
    pub(crate) fn neighbours(&mut self, load: &Load) -> Result<()> {
        let Self { issuer, streets, found, .. } = self;
        let names = (0..NEIGHBOURS).map(|number| signed(issuer, &format!("neighbour-{number}@example.com")));
        let neighbours = Signature::of(names.collect::<Result<Vec<_>>>()?);
        let noisy = Signature::of([signed(issuer, "noisy@example.com")?]).or_refused();
        let quiet_rate = NEIGHBOURS as f64 * f64::from(BUDGET) / 2.0;
        let quiet = Load { connections: NEIGHBOURS, rate: Some(quiet_rate), ..*load };
        let loud = Load { connections: NOISY, rate: Some(f64::from(BUDGET) * EXCESS), ..*load };
        for Street { store, rationed, .. } in streets {
            let alone = quiet.run(&rationed.target(Asked::Get, neighbours.clone())?)?;
            let beside = rationed.target(Asked::Get, noisy.clone())?;
            let (disturbed, noise) = thread::scope(|scope| {
                let noise = scope.spawn(|| loud.run(&beside));
                let disturbed = quiet.run(&rationed.target(Asked::Get, neighbours.clone())?)?;
                match noise.join() {
                    Ok(noise) => Ok((disturbed, noise?)),
                    Err(_) => bail!("the thread of the one who asks too much panicked"),
                }
            })?;
            [&alone, &disturbed, &noise].into_iter().for_each(|outcome| complain(store, outcome));
            found.add_neighbours(store, &alone, &disturbed, &noise);
        }
        Ok(())
    }
}

impl House {
    async fn start(issuer: &DevIssuer, launch: &Launch, at: Store, door: Door) -> Result<Self> {
        let mut launch = launch.clone().store(at).config(config(issuer, door));
        let mut headers = String::new();
        if door != Door::Open {
            launch = launch.env("HYPERFLEET_SERVER_JWT_ENABLED", "true");
            headers = signed(issuer, "bench@example.com")?;
        }
        let server = launch.start().await?;
        let (ids, newest) = fill(&server, &headers).await?;
        let reports = Arc::new(Reports::new(ids.clone(), &newest)?);
        let house = Self { server, ids: ids.into(), reports };
        house.report_first(&headers).await?;
        Ok(house)
    }

    fn target(&self, asked: Asked, signature: Signature) -> Result<Target> {
        let what = match asked {
            Asked::Get => Workload::Clusters { verb: Verb::Get, ids: Arc::clone(&self.ids) },
            Asked::Report => Workload::Reports { moves: Moves::Content, reports: Arc::clone(&self.reports) },
        };
        let workload = Workload::Signed(signature, Box::new(what));
        Ok(Target { address: self.server.api().authority().parse()?, process: None, workload })
    }

    /// Every adapter reports on every cluster, so that no measured report is the first of its kind.
    async fn report_first(&self, headers: &str) -> Result<()> {
        let address = self.server.api().authority().parse()?;
        let loaders: Vec<_> = (0..LOADERS)
            .map(|loader| {
                let mut reporter = self.reports.reporter(Moves::Content, loader, LOADERS);
                let signature = Signature::of([headers.to_owned()]);
                tokio::spawn(async move {
                    let mut connection = Connection::open(address).await?;
                    let mut request = Vec::new();
                    for pair in reporter.own() {
                        signature.sign(loader, reporter.report(pair), &mut request);
                        let status = connection.exchange(&request).await?;
                        ensure!(status == 201, "a report: {}", connection.text());
                    }
                    Ok(())
                })
            })
            .collect();
        for loader in loaders {
            loader.await??;
        }
        Ok(())
    }
}

fn complain(store: &str, outcome: &Outcome) {
    if let Some(error) = &outcome.first_error {
        eprintln!("{store} access, first of {} errors: {error}", outcome.errors);
    }
}

/// The headers of a caller by that name.
fn signed(issuer: &DevIssuer, identity: &str) -> Result<String> {
    let token = issuer.mint(&Grant::new(identity), Timestamp::now())?;
    Ok(format!("authorization: Bearer {token}\r\nx-org: bench\r\nx-project: access\r\n"))
}

/// The role is bound by a wildcard behind others that do not fit, as in a configuration that has grown.
fn config(issuer: &DevIssuer, door: Door) -> String {
    let adapters = ADAPTERS.join(", ");
    let kinds =
        format!("entities:\n  - {{kind: Cluster, plural: clusters, required_adapters: [{adapters}]}}\n");
    let (reads, most) = match door {
        Door::Open => return kinds,
        Door::Guarded => (1_000_000, 1_000_000),
        Door::Rationed => (BUDGET, 1_000_000),
    };
    let access = format!(
        "  tenant:
    enabled: true
    dimensions:
      - {{header: X-Org, key: org, required: true}}
      - {{header: X-Project, key: project}}
  authorization:
    enabled: true
    roles:
      - {{name: viewer, rules: [{{verbs: [read], kinds: ['*']}}]}}
      - {{name: operator, rules: [{{verbs: [read, write, report], kinds: [Cluster]}}]}}
      - {{name: owner, rules: [{{verbs: ['*'], kinds: ['*'], labels: {{team: others}}}}]}}
    bindings:
      - {{role: owner, identities: [ann@example.com, bob@example.com], claims: {{groups: [owners]}}}}
      - {{role: operator, identities: ['*@example.com']}}
    default_role: viewer
  rate_limit:
    enabled: true
    reads: {{per_second: {reads}, burst: {reads}}}
    writes: {{per_second: {most}, burst: {most}}}
    reports: {{per_second: {most}, burst: {most}}}
"
    );
    issuer.snippet(&Grant::new("bench"), None) + &access + &kinds
}

/// Makes the clusters; gives their ids, and when the newest was made.
async fn fill(server: &Server, headers: &str) -> Result<(Vec<String>, String)> {
    let address = server.api().authority().parse()?;
    let loaders: Vec<_> = (0..LOADERS)
        .map(|loader| {
            let headers = headers.to_owned();
            tokio::spawn(async move {
                let mut connection = Connection::open(address).await?;
                let mut made = Vec::new();
                for number in (loader..FLEET).step_by(LOADERS) {
                    let body = cluster(&format!("preloaded-{number}"));
                    let request = format!(
                        "POST {CLUSTERS} HTTP/1.1\r\nhost: bench\r\n{headers}content-type: application/json\r\n\
                         content-length: {}\r\n\r\n{body}",
                        body.len()
                    );
                    let status = connection.exchange(request.as_bytes()).await?;
                    ensure!(status == 201, "loading a cluster: {}", connection.text());
                    let body: serde_json::Value = serde_json::from_slice(connection.body())?;
                    let text = |member: &str| body[member].as_str().map(str::to_owned).context("no text");
                    made.push((text("created_time")?, text("id")?));
                }
                Ok(made)
            })
        })
        .collect();
    let mut made: Vec<(String, String)> = Vec::with_capacity(FLEET);
    for loader in loaders {
        made.extend(loader.await??);
    }
    let newest = made.iter().map(|(time, _)| time.clone()).max().context("no clusters")?;
    Ok((made.into_iter().map(|(_, id)| id).collect(), newest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_chosen_by_its_name_and_not_by_that_of_a_request() {
        assert!(
            wanted("", "sqlite") && wanted("access", "sqlite") && wanted("postgresql access", "postgresql")
        );
        assert!(
            !wanted("sqlite access", "postgresql") && !wanted("get", "sqlite") && !wanted("report", "sqlite")
        );
    }
}
