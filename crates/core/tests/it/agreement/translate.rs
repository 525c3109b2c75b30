//! The model's requests as the commands that the API makes of them.

use hyperfleet_core::{
    AccessScope, Caller, Command, Create, Delete, Finding, ForceDelete, Intent, Labels, Patch, PatchBody,
    RawJson, References, ReportedStatus, ResourceId, ResourcePath, Submission, SubmitReport, Timestamp,
};
use hyperfleet_testkit::model::{Action, Kinds, Owner, Report, Request, Slot};
use serde_json::{Value, json};

/// The command of a request; `nested` spells the owners out. Nothing when the API refuses it before the rules.
pub(super) fn command(kinds: &Kinds, request: &Request, id: ResourceId, nested: bool) -> Option<Command> {
    let caller = Caller {
        actor: "ann@example.com".to_owned(),
        request_id: "request".to_owned(),
        scope: AccessScope::everything(),
    };
    Some(Command { caller, dry_run: false, intent: intent(kinds, request, id, nested)?, idempotency: None })
}

fn intent(kinds: &Kinds, request: &Request, id: ResourceId, nested: bool) -> Option<Intent> {
    let owner = |owner: &Owner| {
        let kind = kinds.all().iter().find(|kind| kind.plural == owner.plural).unwrap();
        (kind.name.as_str().into(), owner.id.clone())
    };
    let owners = |owners: &[Owner]| owners.iter().map(owner).collect();
    let target = request.target.as_ref().map(|(_, id)| ResourcePath {
        kind: nested.then(|| request.kind.as_str().into()),
        id: id.clone(),
        ancestors: if nested { owners(&request.owners) } else { Vec::new() },
    });
    let patch = |body: Value| {
        let Value::Object(members) = body else { panic!("a merge patch is an object") };
        let target = target.clone().unwrap();
        Intent::Patch(Patch { target, expected: None, body: PatchBody::Merge(members).into(), checked: None })
    };
    Some(match &request.action {
        Action::Create { name, size, reference } => {
            let direct = request.owners.len().saturating_sub(1);
            Intent::Create(Create {
                id,
                kind: request.kind.as_str().into(),
                ancestors: owners(if nested { &request.owners } else { &request.owners[direct..] }),
                name: name.clone(),
                spec: json!({"size": size}),
                labels: Labels::new(),
                references: references(reference.as_ref()),
            })
        }
        Action::PatchSpec { .. } | Action::PatchLabels { .. } | Action::PatchReference { .. } => {
            patch(request.body().unwrap())
        }
        Action::Report(report) => {
            let submission = submission(report)?;
            Intent::Report(SubmitReport { target: target.unwrap(), submission })
        }
        Action::Delete => Intent::Delete(Delete { target: target.unwrap(), expected: None }),
        Action::ForceDelete { reason } if reason.is_empty() => return None,
        Action::ForceDelete { reason } => {
            let reason = reason.clone();
            Intent::ForceDelete(ForceDelete { target: target.unwrap(), expected: None, reason })
        }
    })
}

fn references(reference: Option<&(String, Slot, String)>) -> References {
    let entry =
        |(ref_type, _, id): &(String, Slot, String)| (ref_type.clone(), vec![ResourceId::parse(id).unwrap()]);
    reference.map(entry).into_iter().collect()
}

fn submission(report: &Report) -> Option<Submission> {
    let given =
        |value: &Option<Value>| value.as_ref().filter(|value| !value.is_null()).map(RawJson::from_value);
    (report.observed_generation > 0).then(|| Submission {
        adapter: report.adapter.as_str().into(),
        observed_generation: i64::try_from(report.observed_generation).unwrap(),
        observed_time: Some(Timestamp::from(report.observed_time)),
        conditions: report
            .conditions
            .iter()
            .map(|condition| Finding {
                kind: condition.type_.as_str().into(),
                status: ReportedStatus::parse(condition.status.as_str()).unwrap(),
                reason: condition.reason.as_deref().map(Into::into),
                message: condition.message.as_deref().map(Into::into),
            })
            .collect(),
        data: given(&report.data).unwrap_or_else(|| RawJson::from_value(&json!({}))),
        metadata: given(&report.metadata),
    })
}
