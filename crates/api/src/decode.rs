//! Decodes JSON bodies into commands, and reports every fault of a body. The rules check what needs the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use hyperfleet_core::rules::Rulebook;
use hyperfleet_core::{
    Contract, Create, Entity, Error, Fault, Faults, Labels, Operation, PatchBody, References, ResourceId,
    check_labels, check_name, check_references, check_required_references, check_text, document_faults,
};
use hyperfleet_service::http_error::{HttpError, MALFORMED_BODY};
use serde_json::{Map, Value};

use crate::body::{self, PatchLanguage};
use crate::contract::HttpContract;

const PATCHABLE: [&str; 3] = ["spec", "labels", "references"];
const MAX_REASON: usize = 1024;

/// A POST body for a resource of `entity`, whose spec was checked before. Faults come in the order of the document, then
/// what is missing.
pub(crate) fn create(
    rulebook: &Rulebook,
    entity: &Arc<Entity>,
    owners: Vec<(Arc<str>, String)>,
    members: Map<String, Value>,
    mut spec_faults: Vec<Fault>,
) -> Result<Create, Error> {
    let mut faults = Vec::new();
    let (mut kind, mut name, mut spec) = (None, None, None);
    let (mut labels, mut references) = (Labels::new(), References::new());
    // Ref types that the body names, also those with faults.
    let mut mentioned = BTreeSet::new();
    let refuses_unknown = HttpContract::of(rulebook.contract).refuses_unknown;
    for (member, value) in members {
        match member.as_str() {
            "kind" if !value.is_null() => {
                check_kind(entity, &value, &mut faults);
                kind = Some(());
            }
            "name" if !value.is_null() => {
                match &value {
                    Value::String(text) => faults.extend(check_name(entity, text)),
                    other => faults.push(Fault::wrong_type("name", "a string", other)),
                }
                name = Some(value.as_str().unwrap_or_default().to_owned());
            }
            "spec" if !value.is_null() => {
                faults.append(&mut spec_faults);
                spec = Some(value);
            }
            "labels" if !value.is_null() => labels = check_labels(&value, &mut faults),
            "references" if !value.is_null() => {
                mentioned.extend(value.as_object().into_iter().flat_map(Map::keys).cloned());
                references = check_references(entity, &value, &mut faults);
            }
            "kind" | "name" | "spec" | "labels" | "references" => {}
            // A client may send back what it read.
            managed if hyperfleet_core::is_managed(managed) => {}
            _ if refuses_unknown => faults.push(Fault::unknown_member(member)),
            _ => {}
        }
    }
    for (member, there) in [("kind", kind.is_some()), ("name", name.is_some()), ("spec", spec.is_some())] {
        if !there {
            faults.push(Fault::missing(member));
        }
    }
    check_required_references(entity, |ref_type| mentioned.contains(ref_type), &mut faults);
    Faults::from(faults).or(())?;
    Ok(Create {
        id: ResourceId::generate(),
        kind: entity.kind.clone(),
        ancestors: owners,
        name: name.unwrap_or_default(),
        spec: spec.unwrap_or_default(),
        labels,
        references,
    })
}

fn check_kind(entity: &Entity, value: &Value, faults: &mut Vec<Fault>) {
    if value.as_str() != Some(&entity.kind) {
        let message = format!("kind must be {} here", entity.kind);
        faults.push(Fault::value("kind", message, value).rule("enum").allowed([&*entity.kind]));
    }
}

/// The kind that a POST to any-kind route names.
pub(crate) fn kind_of<'a>(
    rulebook: &'a Rulebook,
    members: &Map<String, Value>,
) -> Result<&'a Arc<Entity>, Error> {
    let fault = match members.get("kind") {
        None | Some(Value::Null) => Fault::missing("kind"),
        Some(value) => match value.as_str().and_then(|kind| rulebook.catalog.get(kind)) {
            Some(entity) => return Ok(entity),
            None => {
                let kinds: Vec<&str> = rulebook.catalog.kinds().map(|e| &*e.kind).collect();
                let message = format!("kind must be one of {}", kinds.join(", "));
                Fault::value("kind", message, value).rule("enum").allowed(kinds)
            }
        },
    };
    Err(Faults::one(fault).into_error())
}

/// A PATCH body. Its own faults are found here; the rules apply it to the stored spec. `entity` is unknown where the
/// route serves any kind.
pub(crate) fn patch(
    language: PatchLanguage,
    entity: Option<&Entity>,
    bytes: &[u8],
) -> Result<PatchBody, HttpError> {
    if language == PatchLanguage::Json {
        let Value::Array(operations) = body::parse(bytes)? else {
            let detail = "A JSON Patch must be an array of operations";
            return Err(HttpError::new(&MALFORMED_BODY, detail));
        };
        return Ok(PatchBody::Json(Operation::parse_all(&operations)?));
    }
    let members = body::parse_object(bytes)?;
    let mut faults = Vec::new();
    if members.is_empty() {
        let message = format!("At least one of {} is required", PATCHABLE.join(", "));
        let fault = Fault { message, ..Fault::missing("spec") };
        return Err(Faults::one(fault).into());
    }
    for (member, value) in &members {
        match (member.as_str(), value) {
            ("spec", Value::Object(_)) => faults.extend(document_faults("spec", value)),
            ("spec", other) => faults.push(Fault::wrong_type("spec", "an object", other)),
            ("labels" | "references", Value::Null) => {}
            ("labels", Value::Object(labels)) => {
                check_labels(&without_nulls(labels), &mut faults);
            }
            ("labels", other) => faults.push(Fault::wrong_type("labels", "an object", other)),
            ("references", Value::Object(references)) => {
                if let Some(entity) = entity {
                    check_references(entity, &without_nulls(references), &mut faults);
                }
            }
            ("references", other) => faults.push(Fault::wrong_type("references", "an object", other)),
            _ => faults.push(Fault::unknown_member(member)),
        }
    }
    Ok(Faults::from(faults).or(PatchBody::Merge(members))?)
}

/// A force-delete body: its reason.
pub(crate) fn force_delete(contract: Contract, bytes: &[u8]) -> Result<String, HttpError> {
    let members = body::parse_object(bytes)?;
    let mut faults = Vec::new();
    let mut reason = None;
    for (member, value) in members {
        match (member.as_str(), value) {
            ("reason", Value::Null) => {}
            ("reason", Value::String(text)) => {
                let length = text.chars().count();
                if text.trim().is_empty() {
                    let message = "reason must not be empty";
                    faults.push(
                        Fault::value("reason", message, &text.clone().into())
                            .rule("min_length")
                            .bounds(1, None),
                    );
                } else if length > MAX_REASON {
                    let message = format!("reason must have at most {MAX_REASON} characters, not {length}");
                    let fault = Fault::value("reason", message, &text.clone().into()).rule("max_length");
                    faults.push(fault.bounds(None, MAX_REASON as u64));
                }
                check_text("reason", &Value::from(text.as_str()), &mut faults);
                reason = Some(text);
            }
            ("reason", other) => {
                faults.push(Fault::wrong_type("reason", "a string", &other));
                reason = Some(String::new());
            }
            _ if HttpContract::of(contract).refuses_unknown => faults.push(Fault::unknown_member(member)),
            _ => {}
        }
    }
    if reason.is_none() {
        faults.push(Fault::missing("reason"));
    }
    Ok(Faults::from(faults).or(reason.unwrap_or_default())?)
}

/// In a merge patch `null` removes a member, whatever its rules.
fn without_nulls(members: &Map<String, Value>) -> Value {
    members
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperfleet_core::{Catalog, EntityDescriptor, ReferenceDescriptor, SpecSchemas};
    use serde_json::json;

    #[test]
    fn a_json_patch_that_is_no_array_is_a_malformed_body() {
        let error = patch(PatchLanguage::Json, None, b"{}").unwrap_err();
        assert_eq!(error.problem_type(), MALFORMED_BODY);
    }

    #[test]
    fn a_missing_reference_is_reported_beside_a_faulty_one_with_a_longer_name() {
        let reference = |ref_type: &str, min| ReferenceDescriptor {
            ref_type: ref_type.into(),
            target_kind: "Thing".into(),
            min,
            max: 0,
        };
        let user = EntityDescriptor {
            kind: "User".into(),
            plural: "users".into(),
            references: vec![reference("wif", 1), reference("wif_config", 0)],
            ..EntityDescriptor::default()
        };
        let thing =
            EntityDescriptor { kind: "Thing".into(), plural: "things".into(), ..EntityDescriptor::default() };
        let catalog = Arc::new(Catalog::new(vec![user, thing]).unwrap());
        let entity = catalog.get("User").unwrap().clone();
        let rulebook = Rulebook {
            catalog,
            schemas: SpecSchemas::default(),
            max_member_bytes: 1 << 20,
            report_limits: hyperfleet_core::rules::ReportLimits::default(),
            contract: Contract::Documented,
            legacy_conditions: false,
            tenancy: false,
            href_prefix: crate::router::BASE,
        };
        let Value::Object(body) =
            json!({"kind": "User", "name": "me", "spec": {}, "references": {"wif_config": "x"}})
        else {
            unreachable!()
        };
        let error = create(&rulebook, &entity, Vec::new(), body, Vec::new()).unwrap_err();
        let fields: Vec<_> = error.faults.iter().map(|fault| fault.field.as_str()).collect();
        assert_eq!(fields, ["references.wif_config", "references.wif"]);
        assert_eq!(error.code(), "HYPERFLEET-VAL-000");
    }
}
