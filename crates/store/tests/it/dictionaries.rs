//! Words that an installation learns from its own rows: what is packed by them is shorter, and can be read by everyone,
//! whenever they came. Every store here is a process of its own as far as dictionaries go, on SQLite too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hyperfleet_core::rules::{Outcome, Rulebook};
use hyperfleet_core::search::Scope;
use hyperfleet_core::{
    Caller, Catalog, Command, Contract, Create, EntityDescriptor, ErrorKind, Finding, Intent, MANDATORY,
    Patch, PatchBody, RawJson, ReportedStatus, ResourceId, Sight, SpecSchemas, Submission, SubmitReport,
    Tenant, Timestamp, Version,
};
use hyperfleet_store::{
    Metrics, Options, Slice, SliceStart, SslMode, Store, Target, TimelineQuery, TimelineStart,
};
use hyperfleet_testkit::Database;
use prometheus_client::registry::Registry;
use tempfile::TempDir;

const ADAPTERS: [&str; 2] = ["dns", "validator"];
const ALL: Slice = Slice { start: SliceStart::Offset(0), limit: 100, count: true };
const TIMELINE: TimelineQuery = TimelineQuery { start: TimelineStart::Offset(0), limit: 100, count: true };

/// Makes a test per store out of each `async fn name(place: Place)`.
macro_rules! on_both_stores {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() {
                super::$name(super::Place::Sqlite(tempfile::tempdir().unwrap())).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() {
                let database = hyperfleet_testkit::Postgres::shared().database().await;
                super::$name(super::Place::Postgres(database)).await;
            }
        }
    )+};
}

on_both_stores!(
    rows_are_much_shorter_once_their_words_are_learned,
    what_was_packed_by_words_learned_since_is_read_by_those_who_were_there_before,
    of_replicas_that_learn_at_once_one_is_heard_and_all_are_understood,
    what_one_resource_says_is_not_learned,
    a_dictionary_that_nobody_has_is_a_defect_of_that_row_alone,
    the_last_number_ends_it,
);

/// Where a database is.
enum Place {
    Sqlite(TempDir),
    Postgres(Database),
}

impl Place {
    async fn open(&self) -> Replica {
        let target = match self {
            Self::Sqlite(directory) => Target::Sqlite { path: Some(super::file(directory)) },
            Self::Postgres(database) => {
                Target::Postgres { url: database.url(), ssl_mode: SslMode::Disable, root_cert_file: None }
            }
        };
        let options = Options {
            target,
            max_connections: 1,
            request_timeout: Duration::from_secs(30),
            connect_attempts: 1,
            connect_interval: Duration::from_millis(1),
            queue_limit: 4096,
            migrate: true,
            // Behind the wall the table of dictionaries cannot be read.
            tenants: true,
        };
        let cluster = EntityDescriptor {
            kind: "Cluster".into(),
            plural: "clusters".into(),
            required_adapters: ADAPTERS.map(Into::into).to_vec(),
            ..EntityDescriptor::default()
        };
        let rulebook = Arc::new(Rulebook {
            catalog: Arc::new(Catalog::new(vec![cluster]).unwrap()),
            schemas: SpecSchemas::default(),
            max_member_bytes: 1 << 20,
            contract: Contract::DOCUMENTED,
            legacy_conditions: false,
            tenancy: true,
        });
        let tenant = Tenant::new(&BTreeMap::from([("org".to_owned(), "here".to_owned())]));
        let sight = Sight::new(Some(tenant), None);
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        Replica { store: Store::open(&options, rulebook, metrics).await.unwrap(), sight, registry }
    }

    /// Runs SQL behind the stores' backs, and returns the first column of the first row.
    async fn sql(&self, statement: &str) -> String {
        match self {
            Self::Sqlite(directory) => {
                let connection = rusqlite::Connection::open(super::file(directory)).unwrap();
                let mut statement = connection.prepare(statement).unwrap();
                let mut rows = statement.query(()).unwrap();
                match rows.next().unwrap().map(|row| row.get::<_, rusqlite::types::Value>(0).unwrap()) {
                    Some(rusqlite::types::Value::Integer(number)) => number.to_string(),
                    Some(rusqlite::types::Value::Real(number)) => number.to_string(),
                    Some(rusqlite::types::Value::Text(text)) => text,
                    _ => String::new(),
                }
            }
            Self::Postgres(database) => {
                let (client, connection) =
                    tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                let messages = client.simple_query(statement).await.unwrap();
                let first = messages.iter().find_map(|message| match message {
                    tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
                    _ => None,
                });
                first.unwrap_or_default().to_owned()
            }
        }
    }

    /// How many bytes a packed value has on average.
    async fn bytes(&self, table: &str, number: u8) -> f64 {
        let found = match self {
            Self::Sqlite(_) => format!(
                "select avg(length(packed)) from {table} where substr(packed, 1, 1) = x'{number:02x}'"
            ),
            Self::Postgres(_) => {
                format!("select avg(octet_length(packed)) from {table} where get_byte(packed, 0) = {number}")
            }
        };
        self.sql(&found).await.parse().unwrap()
    }

    /// What was learned, as text.
    async fn learned(&self) -> String {
        let hex = match self {
            Self::Sqlite(_) => "select hex(words) from dictionaries",
            Self::Postgres(_) => "select encode(words, 'hex') from dictionaries",
        };
        let hex = self.sql(hex).await;
        let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
        String::from_utf8(bytes.collect()).unwrap()
    }

    async fn keep(&self, number: u8) {
        let (words, time) = match self {
            Self::Sqlite(_) => ("x'20'", "0"),
            Self::Postgres(_) => ("'\\x20'", "now()"),
        };
        self.sql(&format!("insert into dictionaries values ({number}, {words}, {time})")).await;
    }
}

/// One of the processes on a database.
struct Replica {
    store: Store,
    sight: Sight,
    registry: Registry,
}

impl Replica {
    /// Clusters on which every adapter has reported.
    async fn clusters(&self, count: usize) -> Vec<ResourceId> {
        join_all((0..count).map(|_| self.cluster("Generation 1 is applied"))).await
    }

    async fn cluster(&self, message: &str) -> ResourceId {
        let id = ResourceId::generate();
        let create = Create {
            id,
            kind: "Cluster".into(),
            ancestors: Vec::new(),
            name: format!("name-of-{id}"),
            spec: serde_json::json!({"region": "eu-west-1", "network": {"pod_cidr": "10.128.0.0/14"}}),
            labels: [("environment".to_owned(), "production".to_owned())].into_iter().collect(),
            references: Default::default(),
        };
        self.submit(Intent::Create(create)).await;
        for adapter in ADAPTERS {
            self.report(id, adapter, message).await;
        }
        id
    }

    async fn report(&self, id: ResourceId, adapter: &str, message: &str) {
        let finding = |kind: &str| Finding {
            kind: kind.into(),
            status: ReportedStatus::True,
            reason: Some("ManifestsApplied".into()),
            message: Some(message.into()),
        };
        let data = format!(
            r#"{{"job":"{adapter}-job","of":"{id}","checks":{{"quota":"passed","permissions":"passed","network":"passed"}}}}"#
        );
        let submission = Submission {
            adapter: adapter.into(),
            observed_generation: 1,
            observed_time: Timestamp::now(),
            conditions: MANDATORY.map(finding).to_vec(),
            data: RawJson::from_stored(data),
            metadata: None,
        };
        self.submit(Intent::Report(SubmitReport { target: target(id), submission })).await;
    }

    async fn patch(&self, id: ResourceId) {
        let body = PatchBody::Merge(
            [("spec".to_owned(), serde_json::json!({"region": "eu-central-1"}))].into_iter().collect(),
        );
        self.submit(Intent::Patch(Patch { target: target(id), body, if_match: None })).await;
    }

    async fn submit(&self, intent: Intent) -> Outcome {
        let sight = self.sight.clone();
        let caller = Caller { actor: "me".to_owned(), request_id: "r".to_owned(), sight };
        self.store.execute(Command { caller, dry_run: false, intent, retry: None }).await.unwrap()
    }

    /// How many operations failed.
    fn failures(&self) -> f64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let lines = text.lines().filter(|line| line.starts_with("hyperfleet_db_errors_total"));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    async fn learn(&self) -> Option<u8> {
        self.store.learn_words().await.unwrap()
    }

    /// The messages of the reports on a resource.
    async fn messages(&self, id: ResourceId) -> Vec<String> {
        let (_, page) = self.store.reports(&self.sight, id, &ALL).await.unwrap().unwrap();
        page.items
            .iter()
            .map(|report| report.conditions[0].message.as_deref().unwrap_or_default().to_owned())
            .collect()
    }

    /// How many entries the timeline of a resource has.
    async fn entries(&self, id: ResourceId) -> usize {
        self.store.timeline(&self.sight, id, TIMELINE).await.unwrap().unwrap().1.items.len()
    }
}

fn target(id: ResourceId) -> hyperfleet_core::Target {
    hyperfleet_core::Target { kind: None, id: id.to_string(), ancestors: Vec::new() }
}

async fn rows_are_much_shorter_once_their_words_are_learned(place: Place) {
    let replica = place.open().await;
    assert_eq!(replica.learn().await, None, "there is nothing to learn from");
    replica.clusters(40).await;
    assert!(!replica.store.may_learn());
    replica.clusters(60).await;
    assert!(replica.store.may_learn());
    assert_eq!(replica.learn().await, Some(2));
    assert!(!replica.store.may_learn());

    let ids = replica.clusters(20).await;
    for table in ["changes", "reports"] {
        let (before, after) = (place.bytes(table, 1).await, place.bytes(table, 2).await);
        // By which a dictionary is worth a number.
        assert!(after * 3.0 <= before * 2.0, "{table}: {before} bytes before, {after} after");
    }
    assert_eq!(replica.learn().await, None, "the same again is no better");
    // Those who come later read both.
    let later = place.open().await;
    assert_eq!(later.messages(ids[0]).await, ["Generation 1 is applied"; 2]);
    assert_eq!(later.entries(ids[0]).await, replica.entries(ids[0]).await);
    later.clusters(1).await;
    assert_eq!(later.learn().await, None);
}

async fn what_was_packed_by_words_learned_since_is_read_by_those_who_were_there_before(place: Place) {
    let one = place.open().await;
    one.clusters(60).await;
    // A replica for each question: after the first answer it knows the words.
    let [reports, timeline, past, around, watch, behind, writes] =
        join_all((0..7).map(|_| place.open())).await.try_into().ok().unwrap();
    // Its session with the database is older than the words too.
    writes.cluster("Before").await;
    let everything = || {
        let kinds = vec!["Cluster".into()];
        Scope { kinds, owner: None, finalizing: false, referring_to: None }.confine(None)
    };
    let (_, before) = one.store.bounds().await.unwrap();
    let mut watcher = watch.store.follow(&watch.sight, everything(), before).unwrap();

    assert_eq!(one.learn().await, Some(2));
    let id = one.cluster("Generation 1 is applied").await;
    one.patch(id).await;

    assert_eq!(reports.messages(id).await, ["Generation 1 is applied"; 2]);
    assert_eq!(timeline.entries(id).await, one.entries(id).await);
    let found = past.store.past(&past.sight, id, vec![1]).await.unwrap().unwrap();
    assert_eq!(found.at[0].as_ref().unwrap().generation, 1);
    let explained = around.store.surroundings(&around.sight, id).await.unwrap().unwrap();
    assert_eq!(explained.reports.len(), 2);
    let mut versions = Vec::new();
    while watcher.position() < Version(before.0 + 4) {
        versions.extend(watcher.next().await.unwrap().events.iter().map(|event| event.version.0 - before.0));
    }
    assert_eq!(versions, [1, 2, 3, 4]);
    // One who fell behind reads for itself.
    let mut late = behind.store.follow(&behind.sight, everything(), before).unwrap();
    assert_eq!(late.next().await.unwrap().events.len(), 4);

    // To decide on a report the one before it is loaded, and what is written then is packed by the same words.
    writes.report(id, "dns", "Generation 2 is applied").await;
    assert_eq!(one.messages(id).await, ["Generation 2 is applied", "Generation 1 is applied"]);
    for replica in [&one, &reports, &timeline, &past, &around, &watch, &behind, &writes] {
        assert_eq!(replica.failures(), 0.0);
    }
    let old = match place {
        Place::Sqlite(_) => "select count(*) from changes where substr(packed, 1, 1) = x'01' and version > ",
        Place::Postgres(_) => "select count(*) from changes where get_byte(packed, 0) = 1 and version > ",
    };
    assert_eq!(place.sql(&format!("{old}{}", before.0)).await, "0");
}

async fn of_replicas_that_learn_at_once_one_is_heard_and_all_are_understood(place: Place) {
    let replicas = join_all((0..3).map(|_| place.open())).await;
    for replica in &replicas {
        replica.clusters(30).await;
    }
    let learned = join_all(replicas.iter().map(Replica::learn)).await;
    assert!(learned.iter().flatten().all(|number| *number == 2) && learned.contains(&Some(2)), "{learned:?}");
    assert_eq!(place.sql("select count(*) from dictionaries").await, "1");
    let ids = join_all(replicas.iter().map(|replica| replica.cluster("Generation 1 is applied"))).await;
    for (replica, id) in replicas.iter().flat_map(|replica| ids.iter().map(move |id| (replica, id))) {
        assert_eq!(replica.messages(*id).await, ["Generation 1 is applied"; 2]);
    }
}

async fn what_one_resource_says_is_not_learned(place: Place) {
    let replica = place.open().await;
    let ids = replica.clusters(60).await;
    for turn in 0..40 {
        replica.report(ids[0], "dns", "hunter2, the password of all").await;
        replica.report(ids[2], "dns", &format!("Turn {}", turn % 2)).await;
        replica.report(ids[0], "dns", "and again").await;
    }
    assert_eq!(replica.learn().await, Some(2));
    let learned = place.learned().await;
    assert!(learned.contains(r#""message":"Generation 1 is applied""#), "{learned}");
    for secret in ["hunter2", "and again", "name-of-", "Turn "].into_iter().map(str::to_owned) {
        assert!(!learned.contains(&secret), "{secret}: {learned}");
    }
    assert!(ids.iter().all(|id| !learned.contains(&id.to_string())), "{learned}");
}

async fn a_dictionary_that_nobody_has_is_a_defect_of_that_row_alone(place: Place) {
    let replica = place.open().await;
    let ids = replica.clusters(2).await;
    let damage = |table: &str, place: &Place| {
        let packed = match place {
            Place::Sqlite(_) => "cast(x'c8' || substr(packed, 2) as blob)",
            Place::Postgres(_) => "set_byte(packed, 0, 200)",
        };
        format!("update {table} set packed = {packed} where resource_id = '{}'", ids[0])
    };
    place.sql(&damage("changes", &place)).await;
    place.sql(&damage("reports", &place)).await;
    for _ in 0..2 {
        let error = replica.store.reports(&replica.sight, ids[0], &ALL).await.unwrap_err();
        assert!(error.chain().contains("dictionary 200, which is not there"), "{}", error.chain());
        assert_eq!(error.kind, ErrorKind::Internal);
        let error = replica.store.timeline(&replica.sight, ids[0], TIMELINE).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Internal);
    }
    assert_eq!(replica.messages(ids[1]).await, ["Generation 1 is applied"; 2]);
    assert!(replica.entries(ids[1]).await > 2);
}

/// One that took over before the words had reached it, for instance.
#[tokio::test(flavor = "multi_thread")]
async fn words_that_another_server_does_not_have_are_not_used_with_it() {
    let place = Place::Postgres(hyperfleet_testkit::Postgres::shared().database().await);
    let replica = place.open().await;
    replica.clusters(60).await;
    let newest = "select get_byte(packed, 0) from changes order by version desc limit 1";
    assert_eq!(replica.learn().await, Some(2));
    replica.clusters(1).await;
    assert_eq!(place.sql(newest).await, "2");
    // An older state is put back under it, without the dictionary, and no connection breaks.
    let restored = "delete from changes where version > 2; delete from dictionaries;
                    update feed set version = 2, commits = 2";
    place.sql(restored).await;
    let ids = replica.clusters(1).await;
    assert_eq!(place.sql(newest).await, "1");
    assert_eq!(replica.messages(ids[0]).await, ["Generation 1 is applied"; 2]);
    // Behind a new connection is a server that lacks it.
    replica.clusters(40).await;
    assert_eq!(replica.learn().await, Some(2));
    replica.clusters(1).await;
    assert_eq!(place.sql(newest).await, "2");
    place.sql("delete from dictionaries").await;
    let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity
               where datname = current_database() and pid <> pg_backend_pid()";
    place.sql(cut).await;
    let ids = replica.clusters(1).await;
    assert_eq!(place.sql(newest).await, "1");
    assert_eq!(replica.messages(ids[0]).await, ["Generation 1 is applied"; 2]);
}

async fn the_last_number_ends_it(place: Place) {
    let replica = place.open().await;
    replica.clusters(40).await;
    place.keep(254).await;
    assert_eq!(replica.learn().await, Some(255));
    // Words that are better than all before would need another.
    join_all((0..60).map(|_| replica.cluster("All of it is said in other words from now on"))).await;
    assert_eq!(replica.learn().await, None);
    assert_eq!(place.sql("select count(*) from dictionaries").await, "2");
}
