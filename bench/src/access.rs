//! The cost of access control. The same requests go in turns to a server without access control and to one with tokens,
//! tenants, roles and rate limits. And well-behaved callers are timed alone and beside one that floods the server.

use std::sync::Arc;
use std::thread;

use anyhow::{Result, bail};
use hyperfleet_auth::dev::{DevIssuer, Grant, ISSUER_URL};
use hyperfleet_core::Timestamp;
use hyperfleet_testkit::{Launch, Postgres};

use crate::fleet::{self, Fleet, Plan, Reported};
use crate::load::Load;
use crate::options::Options;
use crate::reports::{ADAPTERS, Change};
use crate::results::Results;
use crate::workload::{Signature, Workload};

/// Clusters of each server.
const CLUSTERS: usize = 1_000;
const CONNECTIONS: usize = 32;
/// Reads a second that a caller may make on the server with the flood.
const BUDGET: u32 = 100;
/// How many times its budget the flood requests.
const EXCESS: f64 = 50.0;
/// Well-behaved callers, each at half of its budget over a connection of its own.
const NEIGHBOURS: usize = 16;
const FLOOD_CONNECTIONS: usize = 8;

/// The servers of one store.
struct Servers<'a> {
    store: &'static str,
    /// Without access control.
    open: Fleet<'a>,
    /// With access control and rate limits that nobody reaches.
    guarded: Fleet<'a>,
    /// With access control and [`BUDGET`].
    limited: Fleet<'a>,
}

/// Measures access control on the stores that are wanted.
pub(crate) async fn measure(
    options: &Options,
    launch: &Launch,
    postgres: &Postgres,
    results: &mut Results,
) -> Result<()> {
    let keys = tempfile::tempdir()?;
    let issuer = DevIssuer::open(keys.path(), ISSUER_URL)?;
    let mut all = Vec::new();
    for (store, postgres) in fleet::stores(postgres) {
        if options.wants(&format!("{store} access")) {
            eprintln!("{store}: starting servers with and without access control");
            let open =
                Plan { adapters: ADAPTERS.len(), reported: Reported::All, ..Plan::new(postgres, CLUSTERS) };
            let guarded = |reads| {
                let (config, headers) = (config(&issuer, reads), signed(&issuer, "bench")?);
                anyhow::Ok(Plan { config, headers, ..open.clone() })
            };
            let jwt = launch.clone().env("HYPERFLEET_SERVER_JWT_ENABLED", "true");
            all.push(Servers {
                store,
                open: Fleet::start(launch, &open).await?,
                guarded: Fleet::start(&jwt, &guarded(UNREACHED)?).await?,
                limited: Fleet::start(&jwt, &guarded(BUDGET)?).await?,
            });
        }
    }
    for round in 1..=options.rounds {
        for servers in &all {
            eprintln!("{} access: round {round} of {}", servers.store, options.rounds);
            servers.compare(&issuer, &options.load(CONNECTIONS), results)?;
            servers.flood(&issuer, &options.load(NEIGHBOURS), results)?;
        }
    }
    Ok(())
}

impl Servers<'_> {
    /// The same requests without and with access control.
    fn compare(&self, issuer: &DevIssuer, load: &Load, results: &mut Results) -> Result<()> {
        let callers = [
            ("no access control", &self.open, Signature::new([String::new()])),
            ("access", &self.guarded, Signature::new([signed(issuer, "bench")?])),
        ];
        for request in ["get", "report changing"] {
            for (name, fleet, signature) in &callers {
                let workload = match request {
                    "get" => Workload::Gets(Arc::clone(&fleet.ids)),
                    _ => Workload::Reports(Change::Content, Arc::clone(&fleet.reports)),
                };
                let target = fleet.target(Workload::Signed(signature.clone(), Box::new(workload)))?;
                let row = format!("{} {name} {request} @{CONNECTIONS}", self.store);
                results.add_load(&row, &load.run(&target)?);
            }
        }
        Ok(())
    }

    /// Well-behaved callers alone, then beside the flood.
    fn flood(&self, issuer: &DevIssuer, load: &Load, results: &mut Results) -> Result<()> {
        let target = |signature| {
            let gets = Workload::Gets(Arc::clone(&self.limited.ids));
            self.limited.target(Workload::Signed(signature, Box::new(gets)))
        };
        let callers = (0..NEIGHBOURS).map(|number| signed(issuer, &format!("neighbour-{number}")));
        let neighbours = target(Signature::new(callers.collect::<Result<Vec<_>>>()?))?;
        let mut caller = Signature::new([signed(issuer, "flood")?]);
        caller.may_exceed_rate_limit = true;
        let flood = target(caller)?;
        let rate = NEIGHBOURS as f64 * f64::from(BUDGET) / 2.0;
        let quiet = Load { rate: Some(rate), ..*load };
        let loud = Load { connections: FLOOD_CONNECTIONS, rate: Some(f64::from(BUDGET) * EXCESS), ..*load };
        let alone = quiet.run(&neighbours)?;
        let (beside, flood) = thread::scope(|scope| {
            let flood = scope.spawn(|| loud.run(&flood));
            let beside = quiet.run(&neighbours)?;
            match flood.join() {
                Ok(flood) => Ok((beside, flood?)),
                Err(_) => bail!("the thread of the flood panicked"),
            }
        })?;
        let store = self.store;
        for (row, outcome) in
            [("neighbours alone", alone), ("neighbours beside a flood", beside), ("flood", flood)]
        {
            results.add_load(&format!("{store} {row}"), &outcome);
        }
        Ok(())
    }
}

/// A rate limit that no load reaches.
const UNREACHED: u32 = 1_000_000;

/// The headers of a caller with that name.
fn signed(issuer: &DevIssuer, name: &str) -> Result<String> {
    let token = issuer.mint(&Grant::new(format!("{name}@example.com")), Timestamp::now())?;
    Ok(format!("authorization: Bearer {token}\r\nx-org: bench\r\nx-project: access\r\n"))
}

/// The binding that applies is a wildcard behind others that do not, as in a configuration that has grown.
fn config(issuer: &DevIssuer, reads: u32) -> String {
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
    writes: {{per_second: {UNREACHED}, burst: {UNREACHED}}}
    reports: {{per_second: {UNREACHED}, burst: {UNREACHED}}}
"
    );
    issuer.snippet(&Grant::new("bench"), None) + &access
}
