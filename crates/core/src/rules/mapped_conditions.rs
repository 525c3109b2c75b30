//! Conditions that configuration derives from reports. A rule that fails leaves out its own condition only: the report
//! that caused it is kept.

use serde_json::{Value, json};

use super::Rulebook;
use super::facts::{ConditionContent, Facts};
use crate::mapping::{self, Mapping, MappingFailure};
use crate::{Condition, Entity, Error, RawJson, Report, ReportedStatus, Resource};

#[derive(Default)]
pub(super) struct Mapped {
    pub(super) conditions: Vec<Condition>,
    pub(super) failures: Vec<MappingFailure>,
}

/// The mapped conditions of `resource`, by type. `computed` are its other conditions, already of now. `reports` is `None`
/// if they are too large to be read; then the conditions of rules that read reports are left out.
pub(super) fn conditions<'a>(
    rulebook: &Rulebook,
    entity: &Entity,
    resource: &Resource,
    computed: &[Condition],
    facts: &Facts<'_>,
    reports: Option<&[&Report]>,
    previous: impl Fn(&str) -> Option<&'a Condition>,
) -> Result<Mapped, Error> {
    let resource = Resource { conditions: RawJson::from_value(&computed), ..resource.clone() };
    let resource = rulebook.view().value(&resource)?;
    let (unreadable, readable): (Vec<&Mapping>, Vec<&Mapping>) =
        entity.mappings.iter().partition(|mapping| reports.is_none() && mapping.reads_reports());
    let mut outcome = mapping::evaluate(&readable, &statuses(reports.unwrap_or_default())?, &resource);
    outcome.failures.extend(unreadable.into_iter().map(|mapping| MappingFailure {
        kind: mapping.kind.clone(),
        cause: format!(
            "the reports take more than {} bytes, so no rule reads them",
            rulebook.report_limits.bytes
        ),
    }));
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
