//! A fleet of random resources in a store, made and changed by commands alone. Two stores share the database, one for
//! each contract, so that both views are searched and the kept numbers have two writers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hyperfleet_core::rules::{ReportLimits, Rulebook};
use hyperfleet_core::search::{Direction, Scope, SortField, TimeColumn};
use hyperfleet_core::{
    AccessScope, Caller, Catalog, Command, Contract, Create, Delete, EntityDescriptor, ErrorKind, Finding,
    ForceDelete, Intent, Patch, PatchBody, RawJson, References, Reservation, Resource, ResourceId,
    SpecSchemas, Submission, SubmitReport, Timestamp,
};
use hyperfleet_store::{Backend, ListQuery, Metrics, Options, Slice, SliceStart, Start, Store};
use serde_json::{Value, json};

use super::steps::{Deed, Draft, Step, latest};

pub(super) const KINDS: [&str; 4] = ["Fleet", "Zone", "Host", "Rack"];
pub(super) const REF_TYPES: [&str; 2] = ["rack", "spare"];

fn catalog() -> Catalog {
    let kinds = json!([
        {"kind": "Fleet", "plural": "fleets", "required_adapters": ["validator", "my-dns"], "conditions": [{
            "type": "Odd 'Type'.x \\ é", "when": {"expression": "size(statuses) > 0"}, "output": {
                "status": {"expression": "size(statuses) > 1 ? 'True' : 'False'"},
                "reason": {"expression": "resource.updated_by"},
        }}]},
        {"kind": "Zone", "plural": "zones", "parent_kind": "Fleet", "on_parent_delete": "cascade",
         "required_adapters": ["validator"]},
        {"kind": "Host", "plural": "hosts", "parent_kind": "Zone", "on_parent_delete": "cascade",
         "required_adapters": ["my-dns"], "references": [
            {"ref_type": "rack", "target_kind": "Rack"}, {"ref_type": "spare", "target_kind": "Rack"}]},
        {"kind": "Rack", "plural": "racks"},
    ]);
    Catalog::new(serde_json::from_value::<Vec<EntityDescriptor>>(kinds).unwrap()).unwrap()
}

/// A store and the rules that it was opened with.
pub(super) struct OpenStore {
    pub(super) store: Store,
    pub(super) rulebook: Arc<Rulebook>,
}

pub(super) struct Fleet {
    pub(super) stores: Vec<OpenStore>,
    /// All that are there, as they were read last.
    pub(super) resources: Vec<Resource>,
}

impl Fleet {
    pub(super) async fn open(backend: Backend) -> Self {
        let options = Options {
            backend,
            max_connections: 2,
            request_timeout: Duration::from_secs(30),
            connect_attempts: 1,
            connect_interval: Duration::from_millis(1),
            queue_limit: 1_000,
            migrate: true,
            tenants: false,
        };
        let mut stores = Vec::new();
        for (_, contract) in Contract::ALL {
            let rulebook = Arc::new(Rulebook {
                catalog: Arc::new(catalog()),
                schemas: SpecSchemas::default(),
                max_member_bytes: 1 << 20,
                report_limits: ReportLimits::default(),
                contract,
                legacy_conditions: true,
                tenancy: false,
                href_prefix: "/api/hyperfleet/v1",
            });
            let store = Store::open(&options, rulebook.clone(), Metrics::default()).await.unwrap();
            stores.push(OpenStore { store, rulebook });
        }
        Self { stores, resources: Vec::new() }
    }

    /// Takes the steps all at once, so that many share a commit. Half of them go through each store.
    pub(super) async fn take(&mut self, steps: &[Step]) {
        let answers = join_all(steps.iter().enumerate().map(async |(number, step)| {
            let Some(intent) = self.intent(step).await else { return Ok(()) };
            let caller = Caller {
                actor: step.actor.to_owned(),
                request_id: "r".to_owned(),
                scope: AccessScope::everything(),
            };
            let opened = &self.stores[number % self.stores.len()];
            opened
                .store
                .execute(Command { caller, dry_run: false, intent, idempotency: None })
                .await
                .map(|_| ())
        }));
        for error in answers.await.into_iter().filter_map(Result::err) {
            assert!(!matches!(error.kind, ErrorKind::Database | ErrorKind::Internal), "{}", error.chain());
        }
        self.read().await;
    }

    /// Reads all of them, by a list and one by one.
    async fn read(&mut self) {
        let scope = Scope { kinds: KINDS.map(Into::into).to_vec(), finalizing: true, ..Scope::default() };
        let query = ListQuery {
            filter: scope.confine(None),
            order: vec![(SortField::Time(TimeColumn::CreatedTime), Direction::Ascending)],
            start: Start::Offset(0),
            limit: 100_000,
            count: true,
        };
        let store = &self.stores[0].store;
        let page = store.list(&AccessScope::everything(), query, &Reservation::default()).await.unwrap();
        assert_eq!(page.total, Some(page.items.len() as u64));
        for resource in &page.items {
            assert_eq!(
                store.get(&AccessScope::everything(), resource.id).await.unwrap().as_deref(),
                Some(resource)
            );
        }
        self.resources = page.items;
    }

    async fn intent(&self, step: &Step) -> Option<Intent> {
        let target = self.resources.get(step.target.index(self.resources.len().max(1)));
        let named = |resource: &Resource| hyperfleet_core::ResourcePath {
            kind: None,
            id: resource.id.to_string(),
            ancestors: Vec::new(),
        };
        Some(match &step.deed {
            Deed::Create(draft) => return self.create(step, draft),
            Deed::Patch { spec, labels } => {
                let body = [("spec", json!(spec)), ("labels", json!(labels))];
                let body = body.map(|(member, value)| (member.to_owned(), value));
                let body = PatchBody::Merge(body.into_iter().collect());
                Intent::Patch(Patch {
                    target: named(target?),
                    expected: None,
                    body: body.into(),
                    checked: None,
                })
            }
            Deed::Report { adapter, behind, findings, time } => {
                let submission = Submission {
                    adapter: (*adapter).into(),
                    observed_generation: (target?.generation - behind).max(1),
                    observed_time: Some(*time),
                    conditions: findings.clone(),
                    data: RawJson::from_stored("{}"),
                    metadata: None,
                };
                Intent::Report(SubmitReport { target: named(target?), submission })
            }
            Deed::Confirm { report, later } => {
                let slice = Slice { start: SliceStart::Offset(0), limit: 10, count: false };
                let stored = self.stores[0]
                    .store
                    .reports(&AccessScope::everything(), target?.id, &slice, &Reservation::default())
                    .await
                    .unwrap()?
                    .1
                    .items;
                let stored = if stored.is_empty() { return None } else { report.get(&stored) };
                let later = Timestamp::from_micros(stored.last_report_time.micros() + later * 1_000_000);
                let finding = |c: &hyperfleet_core::ReportedCondition| Finding {
                    kind: c.kind.clone(),
                    status: c.status,
                    reason: c.reason.clone(),
                    message: c.message.clone(),
                };
                let submission = Submission {
                    adapter: stored.adapter.clone(),
                    observed_generation: stored.observed_generation,
                    observed_time: Some(later.min(latest())),
                    conditions: stored.conditions.iter().map(finding).collect(),
                    data: stored.data.clone(),
                    metadata: None,
                };
                Intent::Report(SubmitReport { target: named(target?), submission })
            }
            Deed::Delete => Intent::Delete(Delete { target: named(target?), expected: None }),
            Deed::ForceDelete => {
                let reason = "stuck".to_owned();
                Intent::ForceDelete(ForceDelete { target: named(target?), expected: None, reason })
            }
        })
    }

    /// Below an owner of the right kind, if there is one.
    fn create(&self, step: &Step, draft: &Draft) -> Option<Intent> {
        let of_kind = |kind: &str| -> Vec<&Resource> {
            self.resources.iter().filter(|r| *r.kind == *kind && r.is_active()).collect()
        };
        let catalog = &self.stores[0].rulebook.catalog;
        let entity = catalog.get(KINDS[draft.kind.index(KINDS.len())])?;
        let mut ancestors = Vec::new();
        if let Some(parent) = &entity.parent {
            let owners = of_kind(&parent.kind);
            let owner = if owners.is_empty() { return None } else { step.target.get(&owners) };
            let ids = owner.ancestors.iter().chain([&owner.id]).map(ToString::to_string);
            ancestors = catalog.lineage(entity).iter().map(|entity| entity.kind.clone()).zip(ids).collect();
        }
        let mut references = References::new();
        let racks = of_kind("Rack");
        for (rule, rack) in entity.references.iter().zip(&draft.racks).filter(|_| !racks.is_empty()) {
            references.insert(rule.ref_type.clone(), vec![rack.get(&racks).id]);
        }
        Some(Intent::Create(Create {
            id: ResourceId::generate(),
            kind: entity.kind.clone(),
            ancestors,
            name: draft.name.clone(),
            spec: Value::Object(draft.spec.clone()),
            labels: draft.labels.clone(),
            references,
        }))
    }
}
