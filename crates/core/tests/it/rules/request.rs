//! Requests in a form for both sides: the model reads them as they are, the rules get the command that the API would
//! make.

use hyperfleet_core::{
    AccessScope, Caller, Command, Create, Delete, ExpectedVersion, ForceDelete, Intent, Labels, Operation,
    Patch, PatchBody, References, ResourcePath,
};
use serde_json::Value;

use super::kinds::Kind;

/// Something that is asked for.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    Create {
        kind: &'static Kind,
        path: Vec<(&'static str, String)>,
        name: &'static str,
        spec: Value,
        labels: Labels,
        references: References,
    },
    Merge {
        target: ResourcePath,
        tag: Tag,
        body: Value,
    },
    JsonPatch {
        target: ResourcePath,
        tag: Tag,
        operations: Value,
    },
    Delete {
        target: ResourcePath,
        tag: Tag,
    },
    ForceDelete {
        target: ResourcePath,
        tag: Tag,
    },
}

/// The version that the caller expects.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tag {
    Absent,
    Any,
    Strong(Vec<i64>),
    Weak(i64),
}

impl Tag {
    fn expected(&self) -> Option<ExpectedVersion> {
        let tags = |versions: &[i64]| versions.iter().map(ToString::to_string).collect();
        match self {
            Self::Absent => None,
            Self::Any => Some(ExpectedVersion::Any),
            Self::Strong(versions) => {
                Some(ExpectedVersion::Tags { strong: tags(versions), weak: Vec::new() })
            }
            Self::Weak(version) => {
                Some(ExpectedVersion::Tags { strong: Vec::new(), weak: tags(&[*version]) })
            }
        }
    }
}

impl Request {
    pub(crate) fn command(&self, actor: &str, dry_run: bool) -> Command {
        let caller = Caller {
            actor: actor.to_owned(),
            request_id: "request".to_owned(),
            scope: AccessScope::everything(),
        };
        Command { caller, dry_run, intent: self.intent(), idempotency: None }
    }

    fn intent(&self) -> Intent {
        match self.clone() {
            Self::Create { kind, path, name, spec, labels, references } => Intent::Create(Create {
                id: hyperfleet_core::ResourceId::generate(),
                kind: kind.name.into(),
                ancestors: path.into_iter().map(|(kind, id)| (kind.into(), id)).collect(),
                name: name.to_owned(),
                spec,
                labels,
                references,
            }),
            Self::Merge { target, tag, body } => {
                let Value::Object(members) = body else { panic!("a merge patch is an object") };
                Intent::Patch(Patch {
                    target,
                    expected: tag.expected(),
                    body: PatchBody::Merge(members).into(),
                    checked: None,
                })
            }
            Self::JsonPatch { target, tag, operations } => {
                let body = PatchBody::Json(Operation::parse_all(operations.as_array().unwrap()).unwrap());
                Intent::Patch(Patch { target, expected: tag.expected(), body: body.into(), checked: None })
            }
            Self::Delete { target, tag } => Intent::Delete(Delete { target, expected: tag.expected() }),
            Self::ForceDelete { target, tag } => {
                let reason = "it hangs".to_owned();
                Intent::ForceDelete(ForceDelete { target, expected: tag.expected(), reason })
            }
        }
    }
}
