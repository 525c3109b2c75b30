//! The rules of HyperFleet, without I/O.
//!
//! Everything here is a pure function of its arguments: no database, no network, no wall clock
//! (callers pass the time in). Both stores and every role share these types and rules, so a rule
//! is written and tested once.
#![forbid(unsafe_code)]

mod change;
mod command;
mod condition;
mod diff;
mod entity;
mod error;
mod fault;
mod id;
mod json;
mod json_patch;
mod labels;
mod merge_patch;
mod name;
mod nearest;
mod precondition;
mod references;
mod resource;
pub mod rules;
mod schema;
mod time;

pub use change::{Action, Change, Entry};
pub use command::{Caller, Command, Create, Delete, ForceDelete, Intent, Patch, PatchBody, Target};
pub use condition::{Condition, Status};
pub use diff::FieldChange;
pub use entity::{
    Catalog, Entity, EntityDescriptor, OnParentDelete, Parent, ReferenceDescriptor, ReferenceRule,
};
pub use error::{Error, ErrorKind, ProblemType};
pub use fault::{Fault, FaultKind, Faults, echo};
pub use id::{ResourceId, Version};
pub use json::{MAX_DEPTH, RawJson, check_text, same, spec_faults};
pub use json_patch::Operation;
pub use labels::{Labels, check_labels};
pub use name::check_name;
pub use nearest::nearest;
pub use precondition::IfMatch;
pub use references::{References, check_references, check_required_references};
pub use resource::{Phase, Resource, Stamp};
pub use schema::SpecSchemas;
pub use time::Timestamp;
