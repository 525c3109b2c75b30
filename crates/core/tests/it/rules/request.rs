//! What is asked for, in a form that both sides understand: the model reads it as it is, the
//! rules get the command that the API would make of it.

use hyperfleet_core::{
    Caller, Command, Create, Delete, ForceDelete, IfMatch, Intent, Labels, Operation, Patch, PatchBody,
    References, Sight, Target,
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
        target: Target,
        tag: Tag,
        body: Value,
    },
    JsonPatch {
        target: Target,
        tag: Tag,
        operations: Value,
    },
    Delete {
        target: Target,
        tag: Tag,
    },
    ForceDelete {
        target: Target,
        tag: Tag,
    },
}

/// What `If-Match` says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tag {
    Absent,
    Any,
    Strong(Vec<i64>),
    Weak(i64),
}

impl Tag {
    fn if_match(&self) -> Option<IfMatch> {
        let header = match self {
            Self::Absent => return None,
            Self::Any => "*".to_owned(),
            Self::Strong(versions) => {
                versions.iter().map(|v| format!("\"{v}\"")).collect::<Vec<_>>().join(", ")
            }
            Self::Weak(version) => format!("W/\"{version}\""),
        };
        Some(IfMatch::parse(&header).unwrap())
    }
}

impl Request {
    pub(crate) fn command(&self, actor: &str, dry_run: bool) -> Command {
        let caller =
            Caller { actor: actor.to_owned(), request_id: "request".to_owned(), sight: Sight::everything() };
        Command { caller, dry_run, intent: self.intent(), retry: None }
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
                Intent::Patch(Patch { target, if_match: tag.if_match(), body: PatchBody::Merge(members) })
            }
            Self::JsonPatch { target, tag, operations } => {
                let body = PatchBody::Json(Operation::parse_all(&operations).unwrap());
                Intent::Patch(Patch { target, if_match: tag.if_match(), body })
            }
            Self::Delete { target, tag } => Intent::Delete(Delete { target, if_match: tag.if_match() }),
            Self::ForceDelete { target, tag } => {
                let reason = "it hangs".to_owned();
                Intent::ForceDelete(ForceDelete { target, if_match: tag.if_match(), reason })
            }
        }
    }
}
