//! Random histories over three levels of kinds, done by the rules on the strict store and by the independent model
//! of the testkit, which knows the published contract and nothing of this crate. After every step both must have
//! given the same answer and hold the same resources, conditions and reports; the store must have written
//! exactly what changed; a rehearsal must have foretold it; and computing everything anew must find nothing to do.
//! Commands that share a commit must lead where the same commands lead one by one, and so must a committer that
//! remembers what was reported on. From what is there in the end, undoing must lead to all that was.

mod older;
mod translate;
mod world;

use hyperfleet_core::rules::{ReportLimits, Rulebook};
use hyperfleet_core::{AccessScope, Caller, Catalog, Command, Contract, Intent, ResourceId, SpecSchemas};
use hyperfleet_testkit::model::{Kinds, Model, Operation, operations};
use older::Older;
use proptest::prelude::*;
use proptest::sample::subsequence;
use world::World;

use crate::cases;

/// The longest history.
const STEPS: usize = 60;

/// Adapters that a kind may come to require. Some are required elsewhere, some have reported without being asked.
const ADAPTERS: [&str; 6] = ["validator", "b", "observer", "a", "my-dns", "dns"];

/// One thing that happens.
#[derive(Debug, Clone)]
enum Event {
    /// A request.
    Asked(Operation),
    /// A restart with other required adapters for the n-th kind.
    Restarted(usize, Vec<&'static str>),
}

fn rulebook(kinds: &Kinds, legacy_conditions: bool) -> Rulebook {
    let descriptors = serde_json::from_value(kinds.entities_json()).unwrap();
    Rulebook {
        catalog: Catalog::new(descriptors).unwrap().into(),
        schemas: SpecSchemas::default(),
        max_member_bytes: 1 << 20,
        report_limits: ReportLimits::default(),
        contract: Contract::Documented,
        legacy_conditions,
        tenancy: false,
        href_prefix: "/api/hyperfleet/v1",
    }
}

/// Computes the conditions of resources anew.
fn recompute(ids: Vec<ResourceId>) -> Command {
    let caller = Caller {
        actor: "system@hyperfleet.local".to_owned(),
        request_id: "restart".to_owned(),
        scope: AccessScope::everything(),
    };
    Command { caller, dry_run: false, intent: Intent::Recompute(ids), idempotency: None }
}

/// Histories in batches: mostly single commands, sometimes some that one commit carries.
fn batches() -> impl Strategy<Value = Vec<Vec<Operation>>> {
    let sizes = prop::collection::vec(prop_oneof![3 => Just(1), 1 => 2..8_usize], STEPS);
    (operations(&Kinds::three_levels(), STEPS), sizes).prop_map(|(mut operations, sizes)| {
        let mut batches = Vec::new();
        for size in sizes {
            let rest = operations.split_off(size.min(operations.len()));
            batches.push(std::mem::replace(&mut operations, rest));
        }
        batches.retain(|batch| !batch.is_empty());
        batches
    })
}

/// Histories with restarts between them.
fn restarts() -> impl Strategy<Value = Vec<Event>> {
    let adapters = subsequence(ADAPTERS.to_vec(), 0..3).prop_shuffle();
    let restart = (0..8_usize, adapters).prop_map(|(kind, adapters)| Event::Restarted(kind, adapters));
    let operations = operations(&Kinds::three_levels(), STEPS);
    (operations, prop::collection::vec((0..STEPS, restart), 1..8)).prop_map(|(operations, restarts)| {
        let mut events: Vec<Event> = operations.into_iter().map(Event::Asked).collect();
        for (place, restart) in restarts {
            events.insert(place.min(events.len()), restart);
        }
        events
    })
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn the_rules_do_what_the_contract_says_whatever_the_history(batches in batches()) {
        let kinds = Kinds::three_levels();
        let mut world = World::new(rulebook(&kinds, false), Model::new(kinds));
        batches.iter().for_each(|batch| world.live_through(batch));
        world.check_past();
    }

    #[test]
    fn the_rules_do_what_the_contract_says_with_the_older_conditions_too(batches in batches()) {
        let kinds = Kinds::three_levels();
        let mut world = World::new(rulebook(&kinds, true), Model::with_legacy_conditions(kinds));
        batches.iter().for_each(|batch| world.live_through(batch));
        world.check_past();
    }

    #[test]
    fn the_rules_do_what_the_contract_says_when_other_adapters_are_required(events in restarts()) {
        let kinds = Kinds::three_levels();
        let older = Older::new(rulebook(&kinds, true));
        let mut world = World::beside(older, rulebook(&kinds, false), Model::new(kinds));
        for event in events {
            match event {
                Event::Asked(operation) => world.live_through(&[operation]),
                Event::Restarted(kind, adapters) => world.restart(kind, &adapters),
            }
        }
        world.check_past();
    }
}
