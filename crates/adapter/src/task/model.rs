//! A task as it runs: every key has its default, every expression and template is compiled.

use std::time::Duration;

use serde_json::Value;

use super::jsonpath::JsonPath;
use super::source::{Expr, Text};
use crate::targets::Propagation;

/// What an adapter does for a resource.
#[derive(Debug, Clone)]
pub struct Task {
    pub(crate) params: Vec<Param>,
    pub(crate) preconditions: Vec<Precondition>,
    pub(crate) resources: Vec<Declared>,
    pub(crate) payloads: Vec<Payload>,
    pub(crate) actions: Vec<Action>,
    pub(crate) status: Option<StatusForm>,
    /// Names of the environment that the task reads.
    pub(crate) environment: Vec<String>,
    /// Whether rows that the Go adapter does differently behave as there.
    pub(crate) as_go: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Param {
    pub(crate) name: String,
    pub(crate) source: Source,
    pub(crate) kind: Option<ParamKind>,
    pub(crate) required: bool,
    pub(crate) default: Option<Value>,
}

#[derive(Debug, Clone)]
pub(crate) enum Source {
    Environment(String),
    Event(String),
    Config(String),
    /// A parameter, or else a member of the event.
    Path(String),
    Call(Box<ApiCall>),
    Expression(Expr),
    File {
        path: String,
        trim: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParamKind {
    Text,
    Integer,
    Real,
    Bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
/// How pauses between attempts grow.
pub enum Backoff {
    /// Doubles.
    Exponential,
    /// Grows by its first value.
    Linear,
    /// Stays.
    Constant,
}

#[derive(Debug, Clone)]
pub(crate) struct ApiCall {
    pub(crate) method: &'static str,
    pub(crate) url: Text,
    pub(crate) body: Option<Text>,
    pub(crate) headers: Vec<(String, Text)>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) attempts: Option<u32>,
    pub(crate) backoff: Option<Backoff>,
}

#[derive(Debug, Clone)]
pub(crate) struct Precondition {
    pub(crate) name: String,
    pub(crate) log: Option<LogAction>,
    pub(crate) call: Option<ApiCall>,
    pub(crate) capture: Vec<Capture>,
    pub(crate) test: Test,
}

#[derive(Debug, Clone)]
pub(crate) struct LogAction {
    pub(crate) level: &'static str,
    pub(crate) message: Text,
}

#[derive(Debug, Clone)]
pub(crate) struct Capture {
    pub(crate) name: String,
    pub(crate) from: Extract,
}

/// A value out of a document.
#[derive(Debug, Clone)]
pub(crate) enum Extract {
    Field(JsonPath),
    Expression(Expr),
}

#[derive(Debug, Clone)]
pub(crate) enum Test {
    Always,
    Conditions(Vec<Condition>),
    Expression(Expr),
}

#[derive(Debug, Clone)]
pub(crate) struct Condition {
    pub(crate) field: JsonPath,
    pub(crate) operator: Operator,
    pub(crate) value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equals,
    NotEquals,
    In,
    NotIn,
    Contains,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
    Exists,
    NotExists,
}

impl Operator {
    pub(crate) const ALL: [(&'static str, Self); 11] = [
        ("equals", Self::Equals),
        ("notEquals", Self::NotEquals),
        ("in", Self::In),
        ("notIn", Self::NotIn),
        ("contains", Self::Contains),
        ("greaterThan", Self::GreaterThan),
        ("greaterThanOrEqual", Self::GreaterThanOrEqual),
        ("lessThan", Self::LessThan),
        ("lessThanOrEqual", Self::LessThanOrEqual),
        ("exists", Self::Exists),
        ("notExists", Self::NotExists),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, operator)| *operator == self).map_or("", |(name, _)| name)
    }
}

/// Which target acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetClient {
    /// A Kubernetes API.
    Kubernetes,
    /// Maestro.
    Maestro,
}

/// A declared resource: objects of a target.
#[derive(Debug, Clone)]
pub(crate) struct Declared {
    pub(crate) name: String,
    pub(crate) client: TargetClient,
    pub(crate) target_cluster: Option<Text>,
    pub(crate) manifest: Manifest,
    /// `apiVersion` and `kind` where the manifest says them without a template.
    pub(crate) type_name: Option<(String, String)>,
    pub(crate) discovery: Option<Discovery>,
    pub(crate) nested: Vec<Nested>,
    pub(crate) recreate: bool,
    pub(crate) create_when: Option<Expr>,
    pub(crate) delete: Option<Delete>,
    pub(crate) observe_only: bool,
    pub(crate) prune: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Manifest {
    /// A mapping whose texts are templates.
    Tree(Build),
    /// A text that is YAML once rendered.
    Text(Text),
}

#[derive(Debug, Clone)]
pub(crate) struct Delete {
    pub(crate) when: Expr,
    pub(crate) propagation: Propagation,
}

#[derive(Debug, Clone)]
pub(crate) struct Discovery {
    pub(crate) namespace: Option<Text>,
    pub(crate) by: By,
}

#[derive(Debug, Clone)]
pub(crate) enum By {
    Name(Text),
    Labels(Vec<(Text, Text)>),
}

#[derive(Debug, Clone)]
pub(crate) struct Nested {
    pub(crate) name: String,
    pub(crate) discovery: Discovery,
}

#[derive(Debug, Clone)]
pub(crate) struct Payload {
    pub(crate) name: String,
    pub(crate) when: Option<Expr>,
    pub(crate) build: Build,
}

/// A document in which texts are templates and some mappings stand for a computed value.
#[derive(Debug, Clone)]
pub(crate) enum Build {
    Value(Value),
    Text(Text),
    Computed { from: Extract, default: Value },
    List(Vec<Self>),
    Map(Vec<(Text, Self)>),
}

#[derive(Debug, Clone)]
pub(crate) struct Action {
    pub(crate) name: String,
    pub(crate) when: Option<Expr>,
    pub(crate) log: Option<LogAction>,
    pub(crate) call: Option<ApiCall>,
}

/// The short form of a report.
#[derive(Debug, Clone)]
pub(crate) struct StatusForm {
    pub(crate) available: Expr,
    pub(crate) failed: Option<Expr>,
    pub(crate) reason: Option<Expr>,
    pub(crate) message: Option<Expr>,
    pub(crate) data: Option<Build>,
}

impl Task {
    /// Whether a target acts for it.
    pub fn uses(&self, client: TargetClient) -> bool {
        self.resources.iter().any(|resource| resource.client == client)
    }

    /// The types of the objects that it declares, as far as they are written without templates.
    pub fn object_types(&self) -> Vec<(String, String)> {
        let mut types: Vec<_> =
            self.resources.iter().filter_map(|resource| resource.type_name.clone()).collect();
        types.sort();
        types.dedup();
        types
    }

    /// Names of the environment that the task reads.
    pub fn environment(&self) -> &[String] {
        &self.environment
    }
}
