//! What a correct HyperFleet would do: a second, plain statement of the rules for reports, conditions and deletion,
//! against which property tests hold the product.
//!
//! It is written from the published rules alone and knows nothing of the other crates, because an oracle that shares
//! code with what it judges shares its mistakes. It favours the obvious over the fast: everything is recomputed from
//! whole state, and a prediction is an application to a copy. It must never be made to agree with the product by
//! looking at the product.
//!
//! [`Model`] has an `impl` block for each area of the rules, beside the types of that area, because the rules are
//! published and read area by area.
//!
//! ```
//! use hyperfleet_testkit::model::{Available, Kinds, Learned, Model, Operation, Target};
//!
//! let mut model = Model::new(Kinds::three_levels());
//! let fleet = Operation::create("Fleet");
//! let request = model.resolve(&fleet).unwrap();
//! assert_eq!((request.method(), request.path().as_str()), ("POST", "/api/hyperfleet/v1/fleets"));
//! assert_eq!(model.apply(&request, &Learned::nothing()).status, 201);
//!
//! let report = Operation::report(Target::Living(0), Available::True);
//! let request = model.resolve(&report).unwrap();
//! assert_eq!(model.predict(&request), 201);
//! model.apply(&request, &Learned::nothing());
//! assert_eq!(model.resources()[0].conditions[2]["type"], "ValidatorSuccessful");
//! ```

mod apply;
mod conditions;
mod deletion;
mod invariants;
mod kinds;
mod last_known;
mod legacy;
mod operation;
mod reports;
mod request;
mod resolve;
mod state;
mod strategy;
#[cfg(test)]
mod tests;
mod view;

pub use apply::{Expected, Learned};
pub use invariants::{check_conditions, check_invariants, check_progress};
pub use kinds::{Kind, Kinds, OnParentDelete, Reference};
pub use last_known::LastKnownCase;
pub use operation::{
    AdapterChoice, Available, FinalizedChoice, GenerationChoice, Mandatory, NameChoice, ObservedChoice,
    Operation, ReportChoice, Target,
};
pub use reports::ReportRule;
pub use request::{Action, Owner, Report, ReportCondition, Request};
pub use state::{Model, Phase, Slot};
pub use strategy::operations;
pub use view::{ResourceView, mismatches};
