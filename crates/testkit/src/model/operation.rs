//! Steps of a random history. A step names its target and its values relative to the state it will meet ("the next
//! adapter that is missing", "a little after the stored one"), so that a sequence drawn blindly still reaches deep
//! states, and a shrunk one still makes sense.

use super::state::Slot;

/// Which resource a step is about. A number counts round the resources of that sort; where there are none of the
/// sort, a wider sort serves, and in the end any living one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Exactly this one.
    Slot(Slot),
    /// One that exists.
    Living(usize),
    /// One that exists and is not being deleted.
    Active(usize),
    /// One that has children and is not being deleted.
    ActiveOwner(usize),
    /// One that is being deleted.
    Finalizing(usize),
    /// One that is being deleted, has children left and waits for an adapter as well.
    FinalizingOwner(usize),
    /// One that is being deleted and has no children left.
    FinalizingLeaf(usize),
    /// One that is gone.
    Gone(usize),
}

/// The name of a new resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameChoice {
    /// One that was never used.
    Fresh,
    /// That of an earlier sibling, which holds it or has freed it.
    OfSibling(usize),
}

/// `True`, `False` or `Unknown`, as adapters say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Available {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`.
    Unknown,
}

impl Available {
    /// The word in a body.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// Who reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdapterChoice {
    /// The first required adapter that holds the resource up; the first required one when none does.
    NextRequired,
    /// One of the required adapters, counted round.
    Required(usize),
    /// One that the kind does not require, counted round.
    Foreign(usize),
}

/// For which generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationChoice {
    /// The resource's.
    Current,
    /// The one before, or 1.
    Older,
    /// The one of the adapter's stored report; the current one without a report.
    AsStored,
    /// One that the resource has not reached.
    Future,
    /// 0, which no report may carry.
    Zero,
}

/// At what time, relative to the adapter's stored report or else to the resource's creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedChoice {
    /// So many microseconds later.
    Newer(u32),
    /// The same time.
    Equal,
    /// The same microsecond, written with a later nanosecond.
    EqualButFiner,
    /// So many microseconds earlier.
    Older(u32),
}

/// What the report says of `Finalized`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizedChoice {
    /// Nothing.
    Absent,
    /// This.
    Says(Available),
    /// `True` when the resource is being deleted, else nothing.
    WhenFinalizing,
}

/// A condition that every report must carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mandatory {
    /// `Available`.
    Available,
    /// `Applied`.
    Applied,
    /// `Health`.
    Health,
}

/// A report, relative to the state that it meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportChoice {
    /// The subject.
    pub target: Target,
    /// The caller.
    pub adapter: AdapterChoice,
    /// For which generation.
    pub generation: GenerationChoice,
    /// When.
    pub observed: ObservedChoice,
    /// `Available`.
    pub available: Available,
    /// `Finalized`.
    pub finalized: FinalizedChoice,
    /// Mandatory conditions that are left out.
    pub missing: Vec<Mandatory>,
    /// `Progressing`, a type that no rule knows.
    pub progressing: Option<Available>,
    /// The reason and message of `Available`: a number makes the text.
    pub reason: Option<u8>,
    /// The message of `Available`.
    pub message: Option<u8>,
    /// `data`: `None` leaves it out, 0 is null, 1 is `{}`, more is an object with that number.
    pub data: Option<u8>,
    /// `metadata`, likewise.
    pub metadata: Option<u8>,
}

/// One step of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Makes a resource. Where there is no owner of the right kind, it makes that owner instead.
    Create {
        /// The kind's name.
        kind: String,
        /// Its owner among the resources of the parent kind; without effect on a root kind.
        parent: Target,
        /// Its name.
        name: NameChoice,
        /// What its first declared reference points at.
        reference: Option<Target>,
    },
    /// PATCH of `spec`, with the same value when not `changing`.
    PatchSpec {
        /// The resource.
        target: Target,
        /// Whether the value differs.
        changing: bool,
    },
    /// PATCH of `labels`: sets one label to a value made from the number.
    PatchLabels {
        /// The resource.
        target: Target,
        /// The value.
        tier: u8,
    },
    /// PATCH of `references`: points the first declared reference elsewhere, or clears all. Without effect on a
    /// kind that declares none.
    PatchReference {
        /// The resource.
        target: Target,
        /// Where to.
        to: Option<Target>,
    },
    /// An adapter's report.
    Report(ReportChoice),
    /// DELETE.
    Delete(Target),
    /// Force-delete.
    ForceDelete {
        /// The resource.
        target: Target,
        /// Whether a reason is given; without one the request is invalid.
        reasoned: bool,
    },
}

impl Operation {
    /// Creation of a resource with a fresh name below the first active owner, without references.
    pub fn create(kind: &str) -> Self {
        let parent = Target::Active(0);
        Self::Create { kind: kind.into(), parent, name: NameChoice::Fresh, reference: None }
    }

    /// The report that moves a resource on: the next required adapter, at the current generation, a second later,
    /// finalized when the resource is being deleted.
    pub fn report(target: Target, available: Available) -> Self {
        Self::Report(ReportChoice::new(target, available))
    }
}

impl ReportChoice {
    /// See [`Operation::report`].
    pub fn new(target: Target, available: Available) -> Self {
        Self {
            target,
            adapter: AdapterChoice::NextRequired,
            generation: GenerationChoice::Current,
            observed: ObservedChoice::Newer(1_000_000),
            available,
            finalized: FinalizedChoice::WhenFinalizing,
            missing: Vec::new(),
            progressing: None,
            reason: None,
            message: None,
            data: None,
            metadata: None,
        }
    }
}
