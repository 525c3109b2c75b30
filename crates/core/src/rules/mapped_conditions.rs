//! Conditions that configuration derives from reports. A rule that fails leaves out its own condition only: the report
//! that caused it is kept.

use serde_json::{Value, json};

use super::Rulebook;
use super::facts::{ConditionContent, Facts};
use crate::mapping::{self, Mapping, MappingFailure};
use crate::{Condition, Entity, Error, RawJson, Report, ReportedStatus, Resource};

/// The most data of all reports on a resource that rules look at: reading it holds up other writes.
const MAX_DATA_BYTES: usize = 4 << 20;

#[derive(Default)]
pub(super) struct Mapped {
    pub(super) conditions: Vec<Condition>,
    pub(super) failures: Vec<MappingFailure>,
}

/// The mapped conditions of `resource`, by type. `computed` are its other conditions, already of now.
pub(super) fn conditions<'a>(
    rulebook: &Rulebook,
    entity: &Entity,
    resource: &Resource,
    computed: &[Condition],
    facts: &Facts<'_>,
    reports: &[&Report],
    previous: impl Fn(&str) -> Option<&'a Condition>,
) -> Result<Mapped, Error> {
    let data: usize = reports.iter().map(|report| report.data.as_str().len()).sum();
    if data > MAX_DATA_BYTES {
        let cause = format!(
            "the reports hold {data} bytes of data, more than the {MAX_DATA_BYTES} that rules look at"
        );
        let failure = |mapping: &Mapping| MappingFailure { kind: mapping.kind.clone(), cause: cause.clone() };
        return Ok(Mapped {
            conditions: Vec::new(),
            failures: entity.mappings.iter().map(failure).collect(),
        });
    }
    let resource = Resource { conditions: RawJson::from_value(&computed), ..resource.clone() };
    let resource = rulebook.view().value(&resource)?;
    let outcome = mapping::evaluate(&entity.mappings, &statuses(reports)?, &resource);
    let last_updated_time = facts.cause.map_or(facts.changed, |report| report.time(facts.now));
    let conditions = outcome
        .conditions
        .into_iter()
        .map(|mapped| {
            let content = ConditionContent {
                status: mapped.status,
                reason: mapped.reason.into(),
                message: mapped.message.into(),
                observed_generation: facts.generation,
                last_updated_time,
            };
            facts.condition(&mapped.kind, previous(&mapped.kind), content)
        })
        .collect();
    Ok(Mapped { conditions, failures: outcome.failures })
}

/// The reports as the rules see them, without adapters that report `Available=Unknown`.
fn statuses(reports: &[&Report]) -> Result<Value, Error> {
    let knows = |report: &&&Report| report.conditions.iter().all(|c| c.status != ReportedStatus::Unknown);
    reports
        .iter()
        .filter(knows)
        .map(|report| {
            Ok(json!({
                "adapter": report.adapter,
                "observed_generation": report.observed_generation,
                "conditions": serde_json::to_value(&report.conditions).map_err(Error::internal)?,
                "data": report.data.parse::<Value>()?,
            }))
        })
        .collect()
}
