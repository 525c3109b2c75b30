//! Task files: what an adapter does for a resource, as its author wrote it.

mod build;
mod finding;
mod jsonpath;
mod load;
mod model;
mod reader;
mod source;
mod yaml;

#[cfg(test)]
mod tests;

pub use finding::{Finding, Severity};
pub use load::{Loaded, Options};
pub use model::{Backoff, TargetClient, Task};
pub use yaml::Position;

pub(crate) use jsonpath::dotted_value;
pub(crate) use model::{
    Action, ApiCall, By, Condition, Declared, Discovery, Extract, LogAction, Manifest, Operator, ParamKind,
    Precondition, Source, StatusForm, Test,
};
pub(crate) use source::{Expr, Text, Variables, type_of};
pub(crate) use yaml::to_object;
