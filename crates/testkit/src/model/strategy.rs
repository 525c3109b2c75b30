//! Random histories. The weights are chosen so that reconciliation, mixed generations, waiting deletions and
//! completion upwards happen in most histories, and every row of every table now and then.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::Union;

use super::kinds::{Kind, Kinds, OnParentDelete};
use super::operation::{
    AdapterChoice, Available, FinalizedChoice, GenerationChoice, Mandatory, NameChoice, ObservedChoice,
    Operation, ReportChoice, Target,
};

/// A second and a half.
const LONGEST_STEP: u32 = 1_500_000;

/// Histories of 1 to `max_len` steps over these kinds. Against a real server keep `max_len` at 100 or below: report
/// times grow by up to a second and a half a step, and a server stores its own time instead of one that lies ahead.
pub fn operations(kinds: &Kinds, max_len: usize) -> impl Strategy<Value = Vec<Operation>> + use<> {
    let max_len = max_len.max(1);
    let scene = prop_oneof![
        2 => vec(create(kinds), 2..6),
        4 => vec(operation(kinds), 1..8),
        3 => reconciliation(),
        3 => teardown(),
    ];
    vec(scene, 1..=max_len.div_ceil(4)).prop_map(move |scenes| {
        let mut history: Vec<Operation> = scenes.into_iter().flatten().collect();
        history.truncate(max_len);
        history
    })
}

/// One resource gets a new generation and what its adapters make of it.
fn reconciliation() -> impl Strategy<Value = Vec<Operation>> {
    let report = |target| {
        prop_oneof![
            3 => progress(target),
            2 => disagreement(target),
        ]
        .prop_map(Operation::Report)
    };
    (working_target(), any::<bool>()).prop_flat_map(move |(target, patched)| {
        vec(report(target), 2..7).prop_map(move |mut steps| {
            if patched {
                steps.insert(0, Operation::PatchSpec { target, changing: true });
            }
            steps
        })
    })
}

/// A tree is deleted, and its adapters let go of it in any order.
fn teardown() -> impl Strategy<Value = Vec<Operation>> {
    let root = prop_oneof![
        4 => (0..4usize).prop_map(Target::ActiveOwner),
        1 => (0..8usize).prop_map(Target::Active),
    ];
    let report = || finalization().prop_map(Operation::Report);
    (root.prop_map(Operation::Delete), vec(report(), 1..30)).prop_map(|(delete, mut steps)| {
        steps.insert(0, delete);
        steps
    })
}

fn operation(kinds: &Kinds) -> impl Strategy<Value = Operation> + use<> {
    prop_oneof![
        4 => create(kinds),
        3 => (working_target(), prop::bool::weighted(0.8))
            .prop_map(|(target, changing)| Operation::PatchSpec { target, changing }),
        1 => (any_target(), 0..3u8).prop_map(|(target, tier)| Operation::PatchLabels { target, tier }),
        2 => (any_target(), option::of(referred_target()))
            .prop_map(|(target, to)| Operation::PatchReference { target, to }),
        12 => report().prop_map(Operation::Report),
        2 => any_target().prop_map(Operation::Delete),
        1 => (prop_oneof![finalizing_target(), any_target()], prop::bool::weighted(0.9))
            .prop_map(|(target, reasoned)| Operation::ForceDelete { target, reasoned }),
    ]
}

fn create(kinds: &Kinds) -> impl Strategy<Value = Operation> + use<> {
    // Owners come by themselves below what needs them, and each restricted child stops deletions.
    let weight = |kind: &Kind| match kind.parent {
        Some((_, OnParentDelete::Cascade)) if is_leaf(kinds, kind) => 6,
        Some((_, OnParentDelete::Cascade)) => 2,
        _ => 1,
    };
    let kind = kinds.all().iter().map(|kind| (weight(kind), Just(kind.name.clone()).boxed()));
    let kind = Union::new_weighted(kind.collect());
    let name = prop_oneof![
        9 => Just(NameChoice::Fresh),
        1 => (0..8usize).prop_map(NameChoice::OfSibling),
    ];
    let parent = prop_oneof![
        8 => (0..3usize).prop_map(Target::Active),
        1 => any_target(),
    ];
    (kind, parent, name, option::of(referred_target()))
        .prop_map(|(kind, parent, name, reference)| Operation::Create { kind, parent, name, reference })
}

fn is_leaf(kinds: &Kinds, kind: &Kind) -> bool {
    kinds.all().iter().all(|other| other.parent.as_ref().is_none_or(|(parent, _)| *parent != kind.name))
}

/// Mostly the few oldest resources, so that something happens to them more than once.
fn working_target() -> impl Strategy<Value = Target> {
    prop_oneof![
        6 => (0..3usize).prop_map(Target::Active),
        3 => (0..32usize).prop_map(Target::Living),
    ]
}

fn finalizing_target() -> impl Strategy<Value = Target> {
    prop_oneof![
        4 => (0..4usize).prop_map(Target::FinalizingOwner),
        2 => (0..8usize).prop_map(Target::FinalizingLeaf),
        1 => (0..8usize).prop_map(Target::Finalizing),
    ]
}

fn referred_target() -> impl Strategy<Value = Target> {
    prop_oneof![
        4 => (0..8usize).prop_map(Target::Active),
        2 => (0..8usize).prop_map(Target::Gone),
        1 => (0..8usize).prop_map(Target::Finalizing),
    ]
}

fn any_target() -> impl Strategy<Value = Target> {
    prop_oneof![
        6 => working_target(),
        3 => finalizing_target(),
        2 => (0..8usize).prop_map(Target::Gone),
    ]
}

fn report() -> impl Strategy<Value = ReportChoice> {
    prop_oneof![
        2 => working_target().prop_flat_map(progress),
        2 => finalization(),
        2 => working_target().prop_flat_map(disagreement),
        3 => anything(),
    ]
}

/// A required adapter gets the current generation done.
fn progress(target: Target) -> impl Strategy<Value = ReportChoice> {
    (1..LONGEST_STEP, texts()).prop_map(move |(micros, texts)| {
        let observed = ObservedChoice::Newer(micros);
        texts.on(ReportChoice { observed, ..ReportChoice::new(target, Available::True) })
    })
}

/// A required adapter lets go of a resource that is being deleted.
fn finalization() -> impl Strategy<Value = ReportChoice> {
    (finalizing_target(), 1..LONGEST_STEP, status()).prop_map(|(target, micros, available)| ReportChoice {
        observed: ObservedChoice::Newer(micros),
        ..ReportChoice::new(target, available)
    })
}

/// Required adapters say different things of different generations.
fn disagreement(target: Target) -> impl Strategy<Value = ReportChoice> {
    let generation = prop_oneof![
        3 => Just(GenerationChoice::Current),
        2 => Just(GenerationChoice::Older),
        3 => Just(GenerationChoice::AsStored),
    ];
    let available = prop_oneof![3 => Just(Available::True), 2 => Just(Available::False)];
    (0..4usize, generation, available, observed_choice(), texts()).prop_map(
        move |(number, generation, available, observed, texts)| {
            texts.on(ReportChoice {
                adapter: AdapterChoice::Required(number),
                generation,
                observed,
                ..ReportChoice::new(target, available)
            })
        },
    )
}

/// Any report at all, the invalid included.
fn anything() -> impl Strategy<Value = ReportChoice> {
    let adapter = prop_oneof![
        2 => Just(AdapterChoice::NextRequired),
        3 => (0..4usize).prop_map(AdapterChoice::Required),
        2 => (0..4usize).prop_map(AdapterChoice::Foreign),
    ];
    let generation = prop_oneof![
        5 => Just(GenerationChoice::Current),
        2 => Just(GenerationChoice::Older),
        2 => Just(GenerationChoice::AsStored),
        2 => Just(GenerationChoice::Future),
        1 => Just(GenerationChoice::Zero),
    ];
    let finalized = prop_oneof![
        4 => Just(FinalizedChoice::Absent),
        4 => status().prop_map(FinalizedChoice::Says),
        2 => Just(FinalizedChoice::WhenFinalizing),
    ];
    let missing = prop_oneof![
        6 => Just(Vec::new()),
        1 => prop::sample::subsequence(vec![Mandatory::Available, Mandatory::Applied, Mandatory::Health], 1..=3),
    ];
    let said = (status(), finalized, missing, option::of(status()), texts());
    (any_target(), adapter, generation, observed_choice(), said).prop_map(
        |(target, adapter, generation, observed, (available, finalized, missing, progressing, texts))| {
            texts.on(ReportChoice {
                adapter,
                generation,
                observed,
                finalized,
                missing,
                progressing,
                ..ReportChoice::new(target, available)
            })
        },
    )
}

fn status() -> impl Strategy<Value = Available> {
    prop_oneof![Just(Available::True), Just(Available::False), Just(Available::Unknown)]
}

fn observed_choice() -> impl Strategy<Value = ObservedChoice> {
    prop_oneof![
        8 => (1..LONGEST_STEP).prop_map(ObservedChoice::Newer),
        2 => Just(ObservedChoice::Equal),
        1 => Just(ObservedChoice::EqualButFiner),
        2 => (1..LONGEST_STEP).prop_map(ObservedChoice::Older),
    ]
}

/// The parts of a report that no rule decides by. Few values, so that reports that repeat the last one are common.
#[derive(Clone, Debug)]
struct Texts {
    reason: Option<u8>,
    message: Option<u8>,
    data: Option<u8>,
    metadata: Option<u8>,
}

impl Texts {
    fn on(self, report: ReportChoice) -> ReportChoice {
        let Self { reason, message, data, metadata } = self;
        ReportChoice { reason, message, data, metadata, ..report }
    }
}

fn texts() -> impl Strategy<Value = Texts> {
    let few = || prop_oneof![3 => Just(None), 2 => (0..3u8).prop_map(Some)];
    (few(), few(), few(), few()).prop_map(|(reason, message, data, metadata)| Texts {
        reason,
        message,
        data,
        metadata,
    })
}
