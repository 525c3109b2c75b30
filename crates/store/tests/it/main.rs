//! The committer with a database that fails underneath it, point reads beside writers, and searches against the
//! evaluator in memory. What users see of the stores is tested through HTTP, with the binary.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod notifications;
mod reads;
mod replica;
mod report_times;
mod reports;
mod search;
mod writes;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hyperfleet_core::rules::{Outcome, ReportLimits, Rulebook};
use hyperfleet_core::{
    AccessScope, Caller, Catalog, Command, Contract, Create, Delete, Error, ErrorKind, Finding, Intent,
    MANDATORY, RawJson, ReportedStatus, Reservation, Resource, ResourceId, SpecSchemas, Submission,
    SubmitReport, Timestamp,
};
use hyperfleet_store::{Backend, Metrics, Options, Slice, SliceStart, Store};
use prometheus_client::registry::Registry;
use rusqlite::Connection;
use tempfile::TempDir;

struct Embedded {
    store: Store,
    registry: Registry,
    directory: TempDir,
}

impl Embedded {
    async fn open(queue_limit: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            backend: Backend::Sqlite { path: Some(file(&directory)) },
            max_connections: 1,
            request_timeout: Duration::from_secs(30),
            connect_attempts: 1,
            connect_interval: Duration::from_millis(1),
            queue_limit,
            migrate: true,
            tenants: false,
        };
        let catalog = Arc::new(Catalog::new(Catalog::default_descriptors()).unwrap());
        let rulebook = Arc::new(Rulebook {
            catalog,
            schemas: SpecSchemas::default(),
            max_member_bytes: 1 << 20,
            report_limits: ReportLimits::default(),
            contract: Contract::Documented,
            legacy_conditions: false,
            tenancy: false,
            href_prefix: "/api/hyperfleet/v1",
        });
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        Self { store: Store::open(&options, rulebook, metrics).await.unwrap(), registry, directory }
    }

    async fn create(&self, name: &str) -> Result<Box<Resource>, Error> {
        let create = Create {
            id: ResourceId::generate(),
            kind: "Cluster".into(),
            ancestors: Vec::new(),
            name: name.to_owned(),
            spec: serde_json::json!({}),
            labels: Default::default(),
            references: Default::default(),
        };
        self.execute(Intent::Create(create)).await
    }

    /// A report that says `status` of everything, made `second` seconds after the epoch.
    async fn report(&self, id: ResourceId, status: ReportedStatus, second: i64) -> Result<Outcome, Error> {
        let target = hyperfleet_core::ResourcePath { kind: None, id: id.to_string(), ancestors: Vec::new() };
        let finding = |kind: &str| Finding { kind: kind.into(), status, reason: None, message: None };
        let submission = Submission {
            adapter: "validator".into(),
            observed_generation: 1,
            observed_time: Some(Timestamp::from_micros(second * 1_000_000)),
            conditions: MANDATORY.map(finding).to_vec(),
            data: RawJson::from_stored("{}"),
            metadata: None,
        };
        self.submit(Intent::Report(SubmitReport { target, submission })).await
    }

    async fn delete(&self, id: ResourceId) -> Result<Box<Resource>, Error> {
        let target = hyperfleet_core::ResourcePath { kind: None, id: id.to_string(), ancestors: Vec::new() };
        self.execute(Intent::Delete(Delete { target, expected: None })).await
    }

    async fn submit(&self, intent: Intent) -> Result<Outcome, Error> {
        let caller =
            Caller { actor: "me".to_owned(), request_id: "r".to_owned(), scope: AccessScope::everything() };
        self.store.execute(Command { caller, dry_run: false, intent, idempotency: None }).await
    }

    async fn execute(&self, intent: Intent) -> Result<Box<Resource>, Error> {
        match self.submit(intent).await? {
            Outcome::Resource(resource) => Ok(resource),
            other => unreachable!("{other:?}"),
        }
    }

    /// How many commits the database refused.
    fn refused_commits(&self) -> usize {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let refused = |line: &&str| line.contains("operation=\"commit\"") && line.contains("\"refused\"");
        let lines =
            text.lines().filter(|line| line.starts_with("hyperfleet_db_errors_total")).filter(refused);
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum()
    }

    /// Does something to the database behind the store's back.
    fn sabotage(&self, sql: &str) {
        Connection::open(file(&self.directory)).unwrap().execute_batch(sql).unwrap();
    }
}

fn file(directory: &TempDir) -> std::path::PathBuf {
    Path::join(directory.path(), "fleet.db")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_statement_fails_its_request_and_the_next_one_works() {
    let embedded = Embedded::open(64).await;
    embedded.sabotage("alter table changes rename to lost");
    let error = embedded.create("one").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Database);
    assert!(!error.detail.contains("changes"), "{}", error.detail);
    assert!(error.chain().contains("changes"), "{}", error.chain());

    embedded.sabotage("alter table lost rename to changes");
    let created = embedded.create("one").await.unwrap();
    assert_eq!(created.version.0, 1, "a refused write takes no version");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_poisonous_command_does_not_cost_its_neighbours_their_commit() {
    let embedded = Embedded::open(64).await;
    embedded.sabotage(
        "create trigger poison before insert on resources when new.name = 'poison'
         begin select raise(abort, 'poisoned'); end",
    );
    let names: Vec<String> =
        (0..32).map(|i| if i == 16 { "poison".to_owned() } else { format!("cluster-{i}") }).collect();
    let answers = join_all(names.iter().map(|name| embedded.create(name))).await;
    for (name, answer) in names.iter().zip(answers) {
        match name.as_str() {
            "poison" => assert_eq!(answer.unwrap_err().kind, ErrorKind::Database),
            name => assert_eq!(answer.unwrap().name, name),
        }
    }
    assert_eq!(embedded.create("after").await.unwrap().version.0, 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_batch_can_delete_a_name_and_use_it_again() {
    let embedded = Embedded::open(256).await;
    for _ in 0..20 {
        let names: Vec<String> = (0..20).map(|i| format!("cluster-{i}")).collect();
        let made = join_all(names.iter().map(|name| embedded.create(name))).await;
        let ids: Vec<_> = made.into_iter().map(|made| made.unwrap().id).collect();
        // Deletions and creations wait together, so that most share a commit.
        let again = names.iter().zip(&ids).map(async |(name, id)| {
            let (deleted, created) = tokio::join!(embedded.delete(*id), embedded.create(name));
            deleted.unwrap();
            if let Ok(created) = created {
                embedded.delete(created.id).await.unwrap();
            }
        });
        join_all(again).await;
    }
    assert_eq!(embedded.refused_commits(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_sheds_and_everything_taken_is_answered() {
    let embedded = Embedded::open(1).await;
    let names: Vec<String> = (0..200).map(|i| format!("cluster-{i}")).collect();
    let answers = join_all(names.iter().map(|name| embedded.create(name))).await;
    let shed = answers.iter().filter(|a| matches!(a, Err(e) if e.kind == ErrorKind::Overloaded)).count();
    let done = answers.iter().filter(|a| a.is_ok()).count();
    assert_eq!(shed + done, names.len());
    assert!(shed > 0 && done > 0, "{shed} shed, {done} done");
}

/// Reports that wait while others are committed share a commit, which may turn a status and turn it back.
#[tokio::test]
async fn a_status_that_turns_and_turns_back_in_one_commit_holds_since_the_second_turn() {
    let embedded = Embedded::open(100).await;
    let id = embedded.create("turning").await.unwrap().id;
    embedded.report(id, ReportedStatus::True, 1).await.unwrap();
    let names: Vec<String> = (0..20).map(|n| format!("filler-{n}")).collect();
    let fillers = join_all(names.iter().map(|name| embedded.create(name)));
    let turns = join_all([
        embedded.report(id, ReportedStatus::False, 2),
        embedded.report(id, ReportedStatus::True, 3),
    ]);
    let (made, turned) = tokio::join!(fillers, turns);
    assert!(made.iter().all(Result::is_ok) && turned.iter().all(Result::is_ok));

    let kept = embedded
        .store
        .reports(
            &AccessScope::everything(),
            id,
            &Slice { start: SliceStart::Offset(0), limit: 10, count: true },
            &Reservation::default(),
        )
        .await
        .unwrap()
        .unwrap()
        .1
        .items
        .remove(0);
    let since: Vec<i64> = kept.conditions.iter().map(|c| c.last_transition_time.micros()).collect();
    assert_eq!(since, [3_000_000; 3]);
    assert_eq!(kept.last_report_time.micros(), 3_000_000);
}
