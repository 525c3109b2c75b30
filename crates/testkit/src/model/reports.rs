//! What becomes of a report: the outcome table, row by row, and how an accepted report is stored.

use chrono::{DateTime, SubsecRound as _, Utc};
use serde_json::{Value, json};

use super::conditions::Cause;
use super::operation::Available;
use super::request::Report;
use super::state::{Model, Slot, State, StoredCondition, StoredReport};

const MANDATORY: [&str; 3] = ["Available", "Applied", "Health"];
const LONGEST_ADAPTER: usize = 253;

/// The row of the outcome table that a report met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportRule {
    /// 1: body or field invalid.
    Invalid,
    /// 2: the resource is not there.
    NotThere,
    /// 3: a generation that the resource has not reached.
    FutureGeneration,
    /// 4: an older generation than the adapter's stored one.
    OlderGeneration,
    /// 5: the stored generation at an earlier time.
    OlderTime,
    /// 6: a mandatory condition is missing.
    MandatoryMissing,
    /// 7: finalized while the resource is being deleted.
    Finalized,
    /// 8: `Available=Unknown` after another report.
    UnknownAgain,
    /// 9: `Available=Unknown` as the first report.
    UnknownFirst,
    /// 10: any other.
    Accepted,
}

impl ReportRule {
    /// The HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Self::Invalid | Self::MandatoryMissing => 400,
            Self::NotThere => 404,
            Self::FutureGeneration | Self::OlderGeneration | Self::OlderTime | Self::UnknownAgain => 204,
            Self::Finalized | Self::UnknownFirst | Self::Accepted => 201,
        }
    }

    fn is_stored(self) -> bool {
        self.status() == 201
    }

    fn is_aggregated(self) -> bool {
        matches!(self, Self::Finalized | Self::Accepted)
    }

    /// The first row that matches; `state` is that of the resource, if it is there.
    fn of(report: &Report, state: Option<&State>) -> Self {
        if !is_valid(report) {
            return Self::Invalid;
        }
        let Some(state) = state else { return Self::NotThere };
        let stored = state.reports.get(&report.adapter);
        let says = |type_: &str, status: Available| {
            report.conditions.iter().any(|it| it.type_ == type_ && it.status == status)
        };
        let carries = |type_: &str| report.conditions.iter().any(|it| it.type_ == type_);
        if report.observed_generation > state.generation {
            Self::FutureGeneration
        } else if stored.is_some_and(|stored| report.observed_generation < stored.generation) {
            Self::OlderGeneration
        } else if stored.is_some_and(|stored| {
            report.observed_generation == stored.generation && observed(report) < stored.reported
        }) {
            Self::OlderTime
        } else if !MANDATORY.into_iter().all(carries) {
            Self::MandatoryMissing
        } else if !state.is_active() && says("Finalized", Available::True) {
            Self::Finalized
        } else if says("Available", Available::Unknown) {
            if stored.is_some() { Self::UnknownAgain } else { Self::UnknownFirst }
        } else {
            Self::Accepted
        }
    }
}

/// Times finer than a microsecond are cut before anything else is done with them.
fn observed(report: &Report) -> DateTime<Utc> {
    report.observed_time.trunc_subsecs(6)
}

fn is_valid(report: &Report) -> bool {
    let is_optional_object =
        |value: &Option<Value>| value.as_ref().is_none_or(|value| value.is_object() || value.is_null());
    let types: Vec<&str> = report.conditions.iter().map(|condition| &*condition.type_).collect();
    let unique = types.iter().enumerate().all(|(index, type_)| !types[..index].contains(type_));
    let adapter_length = report.adapter.chars().count();
    (1..=LONGEST_ADAPTER).contains(&adapter_length)
        && report.observed_generation >= 1
        && unique
        && !types.contains(&"")
        && is_optional_object(&report.data)
        && is_optional_object(&report.metadata)
}

impl Model {
    /// Takes a report in that arrives at `now`, which is its time if it says a later one. Gives the row met and the stored
    /// report as the API answers it, and adds the resources that it removed.
    pub(super) fn report(
        &mut self,
        slot: Slot,
        report: &Report,
        now: Option<DateTime<Utc>>,
        removed: &mut Vec<Slot>,
    ) -> (ReportRule, Option<Value>) {
        let observed_time = now.map_or(report.observed_time, |now| report.observed_time.min(now));
        let report = &Report { observed_time, ..report.clone() };
        let rule = ReportRule::of(report, self.state(slot));
        let Some(state) = self.state_mut(slot).filter(|_| rule.is_stored()) else { return (rule, None) };
        let stored = store(report, state.reports.get(&report.adapter));
        state.reports.insert(report.adapter.clone(), stored);
        let answer = self.status_item(slot, &report.adapter);
        if rule.is_aggregated() {
            self.recompute(slot, Cause::Report(observed(report)));
            self.legacy_report(slot, &report.adapter, report.observed_generation, observed(report), now);
            self.complete(slot, removed);
        }
        (rule, answer)
    }
}

fn store(report: &Report, before: Option<&StoredReport>) -> StoredReport {
    let time = observed(report);
    let given = |value: &Option<Value>| value.clone().filter(|value| !value.is_null());
    let conditions = report
        .conditions
        .iter()
        .map(|condition| {
            let same = before
                .and_then(|before| before.condition(&condition.type_))
                .filter(|before| before.status == condition.status);
            StoredCondition {
                type_: condition.type_.clone(),
                status: condition.status,
                reason: condition.reason.clone(),
                message: condition.message.clone(),
                transition: same.map_or(time, |before| before.transition),
            }
        })
        .collect();
    StoredReport {
        generation: report.observed_generation,
        conditions,
        data: given(&report.data).unwrap_or_else(|| json!({})),
        metadata: given(&report.metadata),
        created: before.map_or(time, |before| before.created),
        reported: time,
    }
}
