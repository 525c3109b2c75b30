//! The rules of HyperFleet, without I/O.
//!
//! Everything here is a pure function of its arguments: no database, no network, no wall clock
//! (callers pass the time in). Both stores and every role share these types and rules, so a rule
//! is written and tested once.
#![forbid(unsafe_code)]

mod access_scope;
mod authorization;
mod change;
mod command;
mod compact_diff;
mod condition;
mod contract;
mod decimal;
mod diff;
mod entity;
mod error;
mod expected_version;
mod fault;
mod feed_position;
mod fields;
mod history;
mod id;
mod idempotency;
mod json;
mod json_patch;
mod labels;
mod lease;
mod mapping;
mod merge_patch;
mod name;
mod nearest;
mod references;
mod report;
mod resource;
mod response_budget;
pub mod rules;
mod schema;
pub mod search;
mod tenant;
mod time;
mod view;

pub use access_scope::AccessScope;
pub use authorization::{
    AccessDecision, BindingDescriptor, Policy, PolicyDescriptor, Rights, RoleDescriptor, RuleDescriptor, Verb,
};
pub use change::{Action, Change, Entry};
pub use command::{
    Caller, Command, Create, Delete, ForceDelete, Intent, Patch, PatchBody, ResourcePath, SubmitReport,
};
pub use condition::{Condition, Status, last_updated_times, statuses, with_last_updated_times};
pub use contract::Contract;
pub use decimal::Decimal;
pub use diff::{FieldChange, diff};
pub use entity::{
    Catalog, Entity, EntityDescriptor, OnParentDelete, Parent, ReferenceDescriptor, ReferenceRule,
};
pub use error::{Error, ErrorKind};
pub use expected_version::ExpectedVersion;
pub use fault::{Fault, FaultKind, Faults, echo};
pub use feed_position::{Epoch, FeedPosition};
pub use fields::{Projection, is_managed};
pub use history::{Snapshot, Undo, desired_state_changes};
pub use id::{IdMap, IdSet, ResourceId, Version};
pub use idempotency::{Fingerprint, IDEMPOTENCY_RETENTION, Idempotency, IdempotencyRecord};
pub use json::{MAX_DEPTH, RawJson, check_text, document_faults, json_text, same, write_string};
pub use json_patch::Operation;
pub use labels::{Labels, check_labels};
pub use lease::{Claim, LEASE_TTL, Lease, check_lease_holder, check_lease_name};
pub use mapping::{ConditionDescriptor, ExpressionDescriptor, Mapping, MappingFailure, OutputDescriptor};
pub use merge_patch::merge;
pub use name::check_name;
pub use nearest::nearest;
pub use references::{References, check_references, check_required_references};
pub use report::{
    Finding, MANDATORY, Recorded, Report, ReportSummary, ReportedCondition, ReportedStatus, Submission,
};
pub use resource::{NameScope, Phase, Resource, Stamp};
pub use response_budget::{PageBytes, Reservation, ResponseBudget};
pub use schema::SpecSchemas;
pub use tenant::Tenant;
pub use time::Timestamp;
pub use view::{View, printed_size};
