//! The frequent queries, and a fleet of 100,000 to ask them of. Each store has a test beside it that fills its
//! tables with this fleet and looks at how it answers: by which index, and how much it reads for a page.

use hyperfleet_core::search::{self, Direction, Position, Scope, SortField, SortKey, TimeColumn};
use hyperfleet_core::{AccessScope, Condition, RawJson, ResourceId, Status, Tenant, Timestamp};
use uuid::Uuid;

use crate::read::lists::{ListQuery, Start};
use crate::write::facets::Facet;

/// How many resources there are.
pub(crate) const SIZE: i64 = 100_000;
/// When the first one was made; each of the others a second after the one before it.
const CREATED: i64 = 1_767_225_600;
/// When conditions were confirmed: in the hour from here, in no order, but for the oldest.
const CONFIRMED: i64 = CREATED + 30 * 86_400;
/// So many of the oldest were confirmed a day before, and so many at least half a day before.
const FEW_DUE: i64 = 900;
const MANY_DUE: i64 = 5_000;
/// The tenant of nearly all resources, and that of about a hundred.
pub(crate) const LARGE_TENANT: &str = r#"{"org":"large"}"#;
const SMALL_TENANT: &str = r#"{"org":"small"}"#;
/// Stands for the time that is filled in for each resource.
const BLANK: i64 = 0;
/// Which resources belong to [`SMALL_TENANT`], and which few refer to the same resource.
const IS_SMALL: &str = "n % 1009 = 3";
const IS_REFERRER: &str = "n % 1009 = 5";
/// How many there are to a page.
const PAGE: usize = 20;

/// How a store writes what differs in the statements that make the fleet.
pub(crate) struct FixtureDialect {
    /// A table of the numbers from 1 to [`SIZE`], as `n`.
    pub(crate) numbers: String,
    pub(crate) id: fn(number: &str) -> String,
    pub(crate) time: fn(seconds: &str) -> String,
    pub(crate) printed_time: fn(seconds: &str) -> String,
    pub(crate) facet: fn(Facet) -> String,
    /// The column with the tenant of a status, where there is one.
    pub(crate) tenancy_of_status: Option<&'static str>,
}

/// A frequent query, and its answer.
pub(crate) struct FrequentQuery {
    pub(crate) name: String,
    pub(crate) query: ListQuery,
    /// Whose it is, if it is not a system caller's.
    pub(crate) tenant: Option<Tenant>,
    pub(crate) ids: Vec<ResourceId>,
    pub(crate) total: Option<u64>,
    /// So many are overdue, and may be looked at for that.
    pub(crate) due: i64,
    /// What it shall be found by.
    pub(crate) by: Index,
}

/// The indexes that frequent queries are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Index {
    Id,
    Name,
    Owner,
    Kind,
    Creation,
    Finalizing,
    Facet,
    Confirmed,
    Reference,
}

/// The statements that make the fleet: four fifths clusters, one fifth node pools.
pub(crate) fn fill(dialect: &FixtureDialect) -> Vec<String> {
    let FixtureDialect { numbers, id, time, printed_time, facet, tenancy_of_status } = dialect;
    let tenancy = format!("case when {IS_SMALL} then '{SMALL_TENANT}' else '{LARGE_TENANT}' end");
    let and = |text: &str| tenancy_of_status.map_or_else(String::new, |_| format!(", {text}"));
    let owner = format!("case when n % 5 = 0 then {} end", id("case when n % 100 = 0 then 1 else n - 1 end"));
    let (created, confirmed) = (
        format!("{CREATED} + n"),
        format!(
            "{CONFIRMED} + case when n <= {FEW_DUE} then -86400 when n <= {MANY_DUE} then -43200
                                else n * 7919 % 3600 end"
        ),
    );
    let conditions = |status| {
        let printed = RawJson::from_value(&conditions(status)).as_str().to_owned();
        format!("replace('{printed}', '{}', {})", Timestamp::from_micros(BLANK), printed_time(&confirmed))
    };
    let mut statements = vec![
        format!(
            "insert into resources
                 (id, kind, name, owner_id, ancestors, generation, spec, labels, refs, created_time, created_by,
                  updated_time, updated_by, deleted_time, deleted_by, tenancy)
             select {id}, case when n % 5 = 0 then 'NodePool' else 'Cluster' end, 'resource-' || n, {owner},
                    coalesce(cast({owner} as text), ''), 1,
                    '{{\"region\":\"eu-west-1\",\"version\":\"4.17\",\"nodes\":3,\"network\":{{\"pod_cidr\":\"10.128.0.0/14\"}}}}',
                    '{{\"environment\":\"' || case when n % 4 = 1 then 'production' else 'staging' end
                        || '\",\"era\":\"' || case when n <= 10000 then 'early' else 'late' end
                        || '\",\"team\":\"' || case when n % 5003 = 1 then 'few' else 'fleet' end || '\"}}',
                    '{{}}', {created}, 'someone', {created}, 'someone',
                    case when n % 997 = 0 then {created} end, case when n % 997 = 0 then 'someone' end,
                    {tenancy}
             from {numbers}",
            id = id("n"),
            created = time(&created),
        ),
        format!(
            "insert into resource_status (resource_id, version, conditions, pending_since, updated_after{column})
             select {id}, n, case when n % 2003 = 0 then {false} else {true} end,
                    case when n % 2003 = 0 then {created} end, {confirmed}{tenancy}
             from {numbers}",
            column = and(tenancy_of_status.unwrap_or_default()),
            tenancy = and(&tenancy),
            id = id("n"),
            created = time(&created),
            confirmed = time(&confirmed),
            r#true = conditions(Status::True),
            r#false = conditions(Status::False),
        ),
        // Few refer to one resource, and very many to another.
        format!(
            "insert into resource_references (source_id, ref_type, target_id)
             select {}, 'peer', {} from {numbers} where {IS_REFERRER} or n % 2 = 0",
            id("n"),
            id(&format!("case when {IS_REFERRER} then 7 else 8 end")),
        ),
        format!("update feed set version = {SIZE}"),
        "insert into kind_counts (kind, active, finalizing, pending_active, pending_finalizing)
         select r.kind, count(case when r.deleted_time is null then 1 end), count(r.deleted_time),
                count(case when r.deleted_time is null then s.pending_since end),
                count(case when r.deleted_time is not null then s.pending_since end)
         from resources r join resource_status s on s.resource_id = r.id group by r.kind"
            .to_owned(),
    ];
    for (of_kind, part) in facets() {
        statements.push(format!(
            "insert into resource_facets (facet, created_time, resource_id)
             select {}, {}, {} from {numbers} where {part}",
            facet(of_kind),
            time(&created),
            id("n"),
        ));
    }
    statements.push(
        "insert into facet_counts (facet, active, finalizing)
         select f.facet, count(case when r.deleted_time is null then 1 end), count(r.deleted_time)
         from resource_facets f join resources r on r.id = f.resource_id group by f.facet"
            .to_owned(),
    );
    statements
}

fn conditions(status: Status) -> Vec<Condition> {
    let since = Timestamp::from_micros(CREATED * 1_000_000);
    let condition = |kind: &str| Condition {
        kind: kind.to_owned(),
        status,
        reason: "AllAdaptersReported".to_owned(),
        message: "All required adapters have reported on this generation of the resource".to_owned(),
        observed_generation: 1,
        created_time: since,
        last_updated_time: Timestamp::from_micros(BLANK),
        last_transition_time: since,
    };
    ["Reconciled", "LastKnownReconciled", "ValidatorSuccessful"].map(condition).to_vec()
}

/// Every facet of the fleet, and which resources have it.
fn facets() -> Vec<(Facet, String)> {
    let labels = [
        ("environment", [("production", "n % 4 = 1"), ("staging", "n % 4 <> 1")]),
        ("era", [("early", "n <= 10000"), ("late", "n > 10000")]),
        ("team", [("few", "n % 5003 = 1"), ("fleet", "n % 5003 <> 1")]),
    ];
    let mut facets = Vec::new();
    for (kind, is) in [("Cluster", "n % 5 <> 0"), ("NodePool", "n % 5 = 0")] {
        for (key, values) in labels {
            for (value, has) in values {
                facets.push((Facet::label(kind, key, value), format!("{is} and {has}")));
            }
        }
        for (tenant, has) in
            [(SMALL_TENANT, IS_SMALL.to_owned()), (LARGE_TENANT, format!("not ({IS_SMALL})"))]
        {
            let facet = Facet::tenant(kind, &Tenant::from_stored(tenant));
            facets.push((facet, format!("{is} and {has}")));
        }
        for Condition { kind: condition, .. } in conditions(Status::True) {
            for (status, has) in [("True", "n % 2003 <> 0"), ("False", "n % 2003 = 0")] {
                facets.push((Facet::condition(kind, &condition, status), format!("{is} and {has}")));
            }
        }
    }
    facets
}

/// The resource with this number.
fn id(number: i64) -> ResourceId {
    Uuid::from_u128(0x019b_7600_0000_7000_8000_0000_0000_0000 | number as u128).into()
}

/// A search, and the numbers of the resources that match it.
struct ExpectedSearch {
    name: &'static str,
    search: String,
    matches: fn(i64) -> bool,
    by: Index,
    finalizing: bool,
    owner: Option<i64>,
    /// Those that refer to the resource with this number.
    target: Option<i64>,
    tenant: Option<&'static str>,
    due: i64,
    /// Behind the resource with this number.
    after: Option<i64>,
    count: bool,
}

fn expected_search(name: &'static str, search: &str, by: Index, matches: fn(i64) -> bool) -> ExpectedSearch {
    let search = search.to_owned();
    ExpectedSearch {
        name,
        search,
        matches,
        by,
        finalizing: false,
        owner: None,
        target: None,
        tenant: None,
        due: 0,
        after: None,
        count: true,
    }
}

impl ExpectedSearch {
    fn and_finalizing(self) -> Self {
        Self { finalizing: true, ..self }
    }

    fn below(self, owner: i64) -> Self {
        Self { owner: Some(owner), ..self }
    }

    fn referring_to(self, target: i64) -> Self {
        Self { target: Some(target), ..self }
    }

    fn with_due(self, due: i64) -> Self {
        Self { due, ..self }
    }

    /// The same for a tenant that owns nearly every resource. It cannot count by intersecting two long lists: that would read one of
    /// them whole.
    fn within_large(self) -> Self {
        let count = self.count && (self.by != Index::Facet || self.search.is_empty());
        Self { tenant: Some(LARGE_TENANT), count, ..self }
    }

    /// The same for a tenant with fewer resources than are due.
    fn within_small(self) -> Self {
        let by = if self.due > 0 { Index::Facet } else { self.by };
        Self { tenant: Some(SMALL_TENANT), by, due: 0, ..self }
    }

    fn after(self, number: i64) -> Self {
        Self { after: Some(number), ..self }
    }

    fn uncounted(self) -> Self {
        Self { count: false, ..self }
    }

    fn ask(self, kinds: &[&str]) -> FrequentQuery {
        let of_kind = |n: i64| kinds.contains(&if n % 5 == 0 { "NodePool" } else { "Cluster" });
        let at_home = |n: i64| self.tenant.is_none_or(|tenant| (tenant == SMALL_TENANT) == (n % 1009 == 3));
        let is_in =
            |n: &i64| of_kind(*n) && at_home(*n) && (self.matches)(*n) && (self.finalizing || n % 997 != 0);
        let all: Vec<i64> = (1..=SIZE).rev().filter(is_in).collect();
        let behind = |n: &&i64| self.after.is_none_or(|after| **n < after);
        let search = (!self.search.is_empty())
            .then(|| search::parse(&self.search, search::Options::default()).expect("it is well formed"));
        let scope = Scope {
            kinds: kinds.iter().map(|kind| (*kind).into()).collect(),
            owner: self.owner.map(id),
            finalizing: self.finalizing,
            referring_to: self.target.map(|target| ("peer".to_owned(), id(target))),
        };
        let access = AccessScope::new(self.tenant.map(Tenant::from_stored), None);

        let after = |number: i64| {
            let created = (CREATED + number) * 1_000_000;
            Start::After(Position { keys: vec![Some(SortKey::Number(created))], id: id(number) })
        };
        FrequentQuery {
            name: format!("{} of {} in {}", self.name, kinds.join(" and "), self.tenant.unwrap_or("all")),
            query: ListQuery {
                filter: access.confine(scope.confine(search)).expect("no rights are asked for"),
                order: vec![(SortField::Time(TimeColumn::CreatedTime), Direction::Descending)],
                start: self.after.map_or(Start::Offset(0), after),
                limit: PAGE as u64,
                count: self.count,
            },
            tenant: self.tenant.map(Tenant::from_stored),
            ids: all.iter().filter(behind).take(PAGE).map(|n| id(*n)).collect(),
            total: self.count.then_some(all.len() as u64),
            due: self.due,
            by: self.by,
        }
    }
}

/// Every frequent query, of one kind and of all, and each of these within a tenant.
pub(crate) fn frequent_queries() -> Vec<FrequentQuery> {
    const BOTH: [&str; 2] = ["Cluster", "NodePool"];
    let mut frequent = Vec::new();
    for kinds in [&BOTH[..1], &BOTH] {
        let whole = if kinds.len() == 1 { Index::Kind } else { Index::Creation };
        frequent.extend(expected_searches(whole).into_iter().map(|search| search.ask(kinds)));
        frequent.extend(
            expected_searches(Index::Facet).into_iter().map(|search| search.within_large().ask(kinds)),
        );
        frequent.extend(
            expected_searches(Index::Facet).into_iter().map(|search| search.within_small().ask(kinds)),
        );
    }
    for kinds in [&BOTH[1..], &BOTH] {
        frequent.extend(children().into_iter().map(|search| search.ask(kinds)));
        frequent.extend(children().into_iter().map(|search| search.within_large().ask(kinds)));
    }
    frequent
}

/// `whole` is what everything is found by.
fn expected_searches(whole: Index) -> Vec<ExpectedSearch> {
    const DONE: &str = "status.conditions.Reconciled = 'True'";
    const NOT_DONE: &str = "status.conditions.Reconciled = 'False'";
    const PRODUCTION: &str = "labels.environment = 'production'";
    let stale = |when: i64| {
        let before = Timestamp::from_micros((CONFIRMED + when) * 1_000_000);
        format!("status.conditions.Reconciled.last_updated_time < '{before}'")
    };
    let both = |one: &str, other: &str| format!("{one} and {other}");
    let due = |when: i64| both(DONE, &stale(when));
    vec![
        expected_search("everything", "", whole, |_| true),
        expected_search("everything, deep down", "", whole, |_| true).after(SIZE / 2),
        expected_search("a name", NAMED, Index::Name, |n| n == 77_777),
        expected_search("an id", &format!("id = '{}'", id(77_777)), Index::Id, |n| n == 77_777),
        expected_search("the finalizing", FINALIZING, Index::Finalizing, |n| n % 997 == 0).and_finalizing(),
        expected_search("a label of many", PRODUCTION, Index::Facet, |n| n % 4 == 1),
        expected_search("a label of many, deep down", PRODUCTION, Index::Facet, |n| n % 4 == 1)
            .after(SIZE / 2),
        expected_search("a label of few", "labels.team = 'few'", Index::Facet, |n| n % 5003 == 1),
        expected_search("a label of the oldest", "labels.era = 'early'", Index::Facet, |n| n <= 10_000),
        expected_search("two values of a label", "labels.era in ['early', 'late']", Index::Facet, |_| true),
        expected_search("the done", DONE, Index::Facet, |n| n % 2003 != 0),
        expected_search("the not done", NOT_DONE, Index::Facet, |n| n % 2003 == 0),
        expected_search("the not done with a label", &both(PRODUCTION, NOT_DONE), Index::Facet, |n| {
            n % 4 == 1 && n % 2003 == 0
        }),
        // To count two lists of many that overlap is to read one of them.
        expected_search("the done with a label", &both(DONE, PRODUCTION), Index::Facet, |n| {
            n % 4 == 1 && n % 2003 != 0
        })
        .uncounted(),
        expected_search("either of two", &format!("labels.team = 'few' or {NOT_DONE}"), Index::Facet, |n| {
            n % 5003 == 1 || n % 2003 == 0
        }),
        expected_search("either of two of many", &format!("{PRODUCTION} or {DONE}"), Index::Facet, |n| {
            n % 4 == 1 || n % 2003 != 0
        })
        .uncounted(),
        expected_search("a name with a label", &both(PRODUCTION, NAMED), Index::Name, |n| n == 77_777),
        expected_search(
            "the finalizing with a label",
            &both(PRODUCTION, FINALIZING),
            Index::Finalizing,
            |n| n % 4 == 1 && n % 997 == 0,
        )
        .and_finalizing(),
        expected_search("the referrers", "", Index::Reference, is_referrer).referring_to(7),
        expected_search("the referrers with a label", PRODUCTION, Index::Reference, |n| {
            n % 4 == 1 && is_referrer(n)
        })
        .referring_to(7),
        expected_search("nothing due", &due(-200_000), Index::Confirmed, |_| false).and_finalizing(),
        expected_search("few due, the oldest", &due(-80_000), Index::Confirmed, |n| n <= FEW_DUE)
            .with_due(FEW_DUE)
            .and_finalizing(),
        expected_search("the stale, all of them old", &stale(-80_000), Index::Confirmed, |n| n <= FEW_DUE)
            .with_due(FEW_DUE),
        expected_search("many due, the oldest", &due(-3_600), Index::Confirmed, is_among_many_due)
            .with_due(MANY_DUE)
            .and_finalizing(),
        expected_search("many due, the oldest, uncounted", &due(-3_600), Index::Confirmed, is_among_many_due)
            .with_due(MANY_DUE)
            .and_finalizing()
            .uncounted(),
        expected_search("many stale", &stale(-3_600), Index::Confirmed, |n| n <= MANY_DUE).with_due(MANY_DUE),
        // To count them is to look at them all. That it is more than a tenth is counted.
        expected_search("everything due", &due(200_000), Index::Facet, |n| n % 2003 != 0)
            .with_due(SIZE / 10)
            .and_finalizing()
            .uncounted(),
    ]
}

fn is_among_many_due(n: i64) -> bool {
    n <= MANY_DUE && n % 2003 != 0
}

fn is_referrer(n: i64) -> bool {
    n % 1009 == 5
}

const FINALIZING: &str = "deleted_time is not null";
const NAMED: &str = "name = 'resource-77777'";

fn children() -> Vec<ExpectedSearch> {
    let is_child = |n| n % 100 == 0;
    vec![
        expected_search("the children", "", Index::Owner, is_child).below(1),
        expected_search("an owner", &format!("owner_id = '{}'", id(1)), Index::Owner, is_child),
    ]
}
