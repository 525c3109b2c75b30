//! Reports: the status of one resource as one adapter reports it. `Submission` is the report as sent, `Report` the
//! record kept per resource and adapter, `ReportSummary` the part that aggregation reads.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compact_diff::compact_diff;
use crate::diff::diff;
use crate::json::{same, write_string};
use crate::{Error, FieldChange, RawJson, Timestamp};

/// The types that every report must hold.
pub const MANDATORY: [&str; 3] = ["Available", "Applied", "Health"];
const AVAILABLE: &str = "Available";
const FINALIZED: &str = "Finalized";

/// The status of one condition of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReportedStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// The adapter cannot tell.
    Unknown,
}

impl ReportedStatus {
    /// Every status by its name.
    pub const ALL: [(&'static str, Self); 3] =
        [("True", Self::True), ("False", Self::False), ("Unknown", Self::Unknown)];

    /// The status with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, status)| *status)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// One condition as an adapter sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The condition type, such as `Available`.
    pub kind: Arc<str>,
    /// Whether it holds.
    pub status: ReportedStatus,
    /// Why, for machines.
    pub reason: Option<Arc<str>>,
    /// Why, for people.
    pub message: Option<Arc<str>>,
}

/// One condition as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedCondition {
    /// The condition type, such as `Available`.
    #[serde(rename = "type")]
    pub kind: Arc<str>,
    /// Whether it holds.
    pub status: ReportedStatus,
    /// Why, for machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<str>>,
    /// When its status last changed, by the adapter's clock.
    pub last_transition_time: Timestamp,
}

impl ReportedCondition {
    /// Prints it as its [`Serialize`] does, which looks at each letter.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"type\":");
        write_string(&self.kind, out);
        out.extend_from_slice(b",\"status\":\"");
        out.extend_from_slice(self.status.name().as_bytes());
        out.push(b'"');
        for (name, words) in [("reason", &self.reason), ("message", &self.message)] {
            if let Some(words) = words {
                out.extend_from_slice(b",\"");
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b"\":");
                write_string(words, out);
            }
        }
        out.extend_from_slice(b",\"last_transition_time\":\"");
        self.last_transition_time.write(out);
        out.extend_from_slice(b"\"}");
    }
}

/// A report as an adapter sends it, checked for shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Who reports.
    pub adapter: Arc<str>,
    /// The generation that the adapter worked on.
    pub observed_generation: i64,
    /// When it looked, by its own clock; `None` if the report does not say. See [`Self::time`].
    pub observed_time: Option<Timestamp>,
    /// The conditions, each type once.
    pub conditions: Vec<Finding>,
    /// Further data: a JSON object.
    pub data: RawJson,
    /// About the report itself: a JSON object.
    pub metadata: Option<RawJson>,
}

/// The record of an adapter's latest report on a resource. Clones share its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Who reports.
    pub adapter: Arc<str>,
    /// The generation that the adapter worked on.
    pub observed_generation: i64,
    /// The conditions in the adapter's order.
    pub conditions: Arc<[ReportedCondition]>,
    /// A JSON object, as given.
    pub data: RawJson,
    /// A JSON object, as given.
    pub metadata: Option<RawJson>,
    /// When the adapter first reported.
    pub created_time: Timestamp,
    /// When it last did.
    pub last_report_time: Timestamp,
}

/// A report as it is to be kept, and what its documents say that the one before did not.
#[derive(Debug)]
pub struct Recorded {
    /// The record to store.
    pub report: Report,
    /// The changes of data and metadata, path by path.
    pub changes: Vec<FieldChange>,
}

/// The part of a report that decides conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportSummary {
    /// Which adapter.
    pub adapter: Arc<str>,
    /// The generation it worked on.
    pub generation: i64,
    /// The status of `Available`.
    pub available: ReportedStatus,
    /// Whether it says `Finalized=True`.
    pub finalized: bool,
    /// The reason beside `Available`; may be empty.
    pub reason: Arc<str>,
    /// The message beside `Available`; may be empty.
    pub message: Arc<str>,
    /// When it last reported.
    pub time: Timestamp,
}

impl Submission {
    /// The status of a condition type.
    pub fn status(&self, kind: &str) -> Option<ReportedStatus> {
        self.conditions.iter().find(|finding| *finding.kind == *kind).map(|finding| finding.status)
    }

    /// The status of `Available`.
    pub fn available(&self) -> Option<ReportedStatus> {
        self.status(AVAILABLE)
    }

    /// Whether it says `Finalized=True`.
    pub(crate) fn is_finalized(&self) -> bool {
        self.status(FINALIZED) == Some(ReportedStatus::True)
    }

    /// The time of a report that is accepted at `now`: when the adapter looked, or now if it looked in the future by its own
    /// clock. A stored time from the future would make later reports stale.
    pub(crate) fn time(&self, now: Timestamp) -> Timestamp {
        self.observed_time.map_or(now, |observed| observed.min(now))
    }

    /// The record to store after `before`. Equal parts are shared with it.
    pub fn record(&self, before: Option<&Report>, now: Timestamp) -> Recorded {
        let time = self.time(now);
        if let Some(before) = before.filter(|before| self.repeats(before)) {
            let report = Report { last_report_time: time, ..before.clone() };
            return Recorded { report, changes: Vec::new() };
        }
        let earlier = PreviousConditions::of(before);
        let (data, mut changes) = merged("data", before.map(|report| &report.data), &self.data);
        let metadata = self.metadata.as_ref().map(|now| {
            let (kept, more) = merged("metadata", before.and_then(|report| report.metadata.as_ref()), now);
            changes.extend(more);
            kept
        });
        let report = Report {
            adapter: self.adapter.clone(),
            observed_generation: self.observed_generation,
            conditions: self
                .conditions
                .iter()
                .enumerate()
                .map(|(i, finding)| ReportedCondition {
                    kind: finding.kind.clone(),
                    status: finding.status,
                    reason: finding.reason.clone(),
                    message: finding.message.clone(),
                    last_transition_time: earlier
                        .get(i, &finding.kind)
                        .filter(|earlier| earlier.status == finding.status)
                        .map_or(time, |earlier| earlier.last_transition_time),
                })
                .collect(),
            data,
            metadata,
            created_time: before.map_or(time, |report| report.created_time),
            last_report_time: time,
        };
        Recorded { report, changes }
    }

    /// At least as much as its record takes by [`Report::printed_size`].
    pub(crate) fn printed_size(&self) -> usize {
        let conditions = self.conditions.iter().map(|c| (&c.kind, &c.reason, &c.message));
        printed_size(&self.adapter, conditions, &self.data, self.metadata.as_ref())
    }

    /// Whether it says what `before` says, in the same words.
    fn repeats(&self, before: &Report) -> bool {
        self.observed_generation == before.observed_generation
            && self.conditions.len() == before.conditions.len()
            && self.conditions.iter().zip(&*before.conditions).all(|(now, before)| {
                (&now.kind, now.status, &now.reason, &now.message)
                    == (&before.kind, before.status, &before.reason, &before.message)
            })
            && (&self.data, &self.metadata) == (&before.data, &before.metadata)
    }
}

/// The conditions of the previous report by type. They nearly always come in the same order.
struct PreviousConditions<'a> {
    conditions: &'a [ReportedCondition],
    by_type: OnceCell<HashMap<&'a str, &'a ReportedCondition>>,
}

impl<'a> PreviousConditions<'a> {
    fn of(report: Option<&'a Report>) -> Self {
        Self { conditions: report.map_or(&[], |report| &report.conditions), by_type: OnceCell::new() }
    }

    fn get(&self, position: usize, kind: &str) -> Option<&'a ReportedCondition> {
        self.conditions.get(position).filter(|condition| *condition.kind == *kind).or_else(|| {
            let by_type = || self.conditions.iter().map(|c| (&*c.kind, c)).collect();
            self.by_type.get_or_init(by_type).get(kind).copied()
        })
    }
}

/// The document to store: the previous one if both are equal, else the new one with each member once; and the changes.
fn merged(path: &str, before: Option<&RawJson>, now: &RawJson) -> (RawJson, Vec<FieldChange>) {
    if let Some(before) = before.filter(|before| *before == now) {
        return (before.clone(), Vec::new());
    }
    if let Some((before, changes)) =
        before.and_then(|before| Some((before, compact_diff(path, before, now)?)))
    {
        return (if changes.is_empty() { before.clone() } else { now.clone() }, changes);
    }
    let earlier = before.and_then(|before| before.parse::<Value>().ok());
    match (now.parse::<Value>(), before, earlier) {
        (Ok(after), Some(before), Some(earlier)) if same(&earlier, &after) => (before.clone(), Vec::new()),
        (Ok(after), _, Some(earlier)) => (RawJson::from_value(&after), diff(path, &earlier, &after)),
        (Ok(after), _, None) => {
            let kept = RawJson::from_value(&after);
            (kept, vec![FieldChange { path: path.to_owned(), from: None, to: Some(after) }])
        }
        (Err(_), ..) => (now.clone(), Vec::new()),
    }
}

impl Report {
    /// Prints the report as the API shows it. Its documents are valid JSON and are not parsed.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        let mut member = |name: &str, value: &dyn Fn(&mut Vec<u8>) -> serde_json::Result<()>| {
            out.extend_from_slice(name.as_bytes());
            value(out).map_err(Error::internal)
        };
        let raw = |json: &RawJson, out: &mut Vec<u8>| {
            out.extend_from_slice(json.as_str().as_bytes());
            Ok(())
        };
        member("{\"adapter\":", &|out| serde_json::to_writer(out, &self.adapter))?;
        member(",\"observed_generation\":", &|out| serde_json::to_writer(out, &self.observed_generation))?;
        member(",\"conditions\":", &|out| {
            self.write_conditions(out);
            Ok(())
        })?;
        member(",\"data\":", &|out| raw(&self.data, out))?;
        if let Some(metadata) = &self.metadata {
            member(",\"metadata\":", &|out| raw(metadata, out))?;
        }
        member(",\"created_time\":", &|out| serde_json::to_writer(out, &self.created_time))?;
        member(",\"last_report_time\":", &|out| serde_json::to_writer(out, &self.last_report_time))?;
        out.push(b'}');
        Ok(())
    }

    /// The conditions as JSON, as the stores keep them.
    pub fn printed_conditions(&self) -> String {
        let mut out = Vec::with_capacity(self.printed_size());
        self.write_conditions(&mut out);
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    fn write_conditions(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (i, condition) in self.conditions.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            condition.write(out);
        }
        out.push(b']');
    }

    /// About how long it is when it is printed.
    pub fn printed_size(&self) -> usize {
        let conditions = self.conditions.iter().map(|c| (&c.kind, &c.reason, &c.message));
        printed_size(&self.adapter, conditions, &self.data, self.metadata.as_ref())
    }

    /// Whether the two differ in nothing but times.
    pub fn has_same_content(&self, other: &Self) -> bool {
        self.observed_generation == other.observed_generation
            && self.data == other.data
            && self.metadata == other.metadata
            && (Arc::ptr_eq(&self.conditions, &other.conditions)
                || self.conditions.len() == other.conditions.len()
                    && self.conditions.iter().zip(&*other.conditions).all(|(a, b)| {
                        (&a.kind, a.status, &a.reason, &a.message)
                            == (&b.kind, b.status, &b.reason, &b.message)
                    }))
    }

    /// The summary of this report.
    pub fn summary(&self) -> ReportSummary {
        let finding = |kind: &str| self.conditions.iter().find(|condition| *condition.kind == *kind);
        let available = finding(AVAILABLE);
        ReportSummary {
            adapter: self.adapter.clone(),
            generation: self.observed_generation,
            available: available.map_or(ReportedStatus::Unknown, |finding| finding.status),
            finalized: finding(FINALIZED).is_some_and(|finding| finding.status == ReportedStatus::True),
            reason: available.and_then(|finding| finding.reason.clone()).unwrap_or_default(),
            message: available.and_then(|finding| finding.message.clone()).unwrap_or_default(),
            time: self.last_report_time,
        }
    }
}

/// Type, reason and message of a condition.
type Words<'a> = (&'a Arc<str>, &'a Option<Arc<str>>, &'a Option<Arc<str>>);

fn printed_size<'a>(
    adapter: &str,
    conditions: impl Iterator<Item = Words<'a>>,
    data: &RawJson,
    metadata: Option<&RawJson>,
) -> usize {
    let length = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
    let conditions =
        conditions.map(|(kind, reason, message)| kind.len() + length(reason) + length(message) + 128);
    let metadata = metadata.map_or(0, |metadata| metadata.as_str().len());
    adapter.len() + conditions.sum::<usize>() + data.as_str().len() + metadata + 256
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn conditions_print_as_they_serialize(texts in prop::collection::vec((".*", prop::option::of(".*"), prop::option::of(".*")), 0..4)) {
            let arc = |text: Option<String>| text.map(Arc::<str>::from);
            let condition = |(kind, reason, message): (String, _, _)| ReportedCondition {
                kind: kind.into(),
                status: ReportedStatus::Unknown,
                reason: arc(reason),
                message: arc(message),
                last_transition_time: Timestamp::from_micros(1_767_225_600_123_456),
            };
            let report = Report {
                adapter: "a".into(),
                observed_generation: 1,
                conditions: texts.into_iter().map(condition).collect(),
                data: RawJson::from_stored("{}"),
                metadata: None,
                created_time: Timestamp::from_micros(0),
                last_report_time: Timestamp::from_micros(0),
            };
            prop_assert_eq!(report.printed_conditions(), crate::json_text(&report.conditions));
        }
    }
}
