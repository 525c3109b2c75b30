//! Reports: what an adapter says about one resource. `Submission` is what it sent, `Report` the one record
//! kept per resource and adapter, `Standing` the little of it that aggregation looks at.

use std::cell::OnceCell;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{RawJson, Timestamp};

/// The types that every report must hold.
pub const MANDATORY: [&str; 3] = ["Available", "Applied", "Health"];
const AVAILABLE: &str = "Available";
const FINALIZED: &str = "Finalized";

/// What an adapter says of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReportedStatus {
    /// It holds.
    True,
    /// It does not.
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
    /// What is claimed, such as `Available`.
    pub kind: String,
    /// Whether it holds.
    pub status: ReportedStatus,
    /// Why, for machines.
    pub reason: Option<String>,
    /// Why, for people.
    pub message: Option<String>,
}

/// One condition as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedCondition {
    /// What is claimed, such as `Available`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: ReportedStatus,
    /// Why, for machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When its status last changed, by the adapter's clock.
    pub last_transition_time: Timestamp,
}

/// A report as an adapter sends it, checked for shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Who reports.
    pub adapter: String,
    /// The generation that the adapter worked on.
    pub observed_generation: i64,
    /// When it looked.
    pub observed_time: Timestamp,
    /// What it found, each type once.
    pub conditions: Vec<Finding>,
    /// What else it wants known: a JSON object.
    pub data: RawJson,
    /// About the report itself: a JSON object.
    pub metadata: Option<RawJson>,
}

/// The one record kept of an adapter's reports on a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Who reports.
    pub adapter: String,
    /// The generation that the adapter worked on.
    pub observed_generation: i64,
    /// What it found, in its own order.
    pub conditions: Vec<ReportedCondition>,
    /// A JSON object, as given.
    pub data: RawJson,
    /// A JSON object, as given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
    /// When the adapter first reported.
    pub created_time: Timestamp,
    /// When it last did.
    pub last_report_time: Timestamp,
}

/// Where an adapter stands: the part of its report that decides conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Which adapter.
    pub adapter: String,
    /// The generation it worked on.
    pub generation: i64,
    /// What it says of `Available`.
    pub available: ReportedStatus,
    /// Whether it says `Finalized=True`.
    pub finalized: bool,
    /// The reason beside `Available`; may be empty.
    pub reason: String,
    /// The message beside `Available`; may be empty.
    pub message: String,
    /// When it last reported.
    pub time: Timestamp,
}

impl Submission {
    /// What it says of a type.
    pub fn status(&self, kind: &str) -> Option<ReportedStatus> {
        self.conditions.iter().find(|finding| finding.kind == kind).map(|finding| finding.status)
    }

    /// What it says of `Available`.
    pub fn available(&self) -> Option<ReportedStatus> {
        self.status(AVAILABLE)
    }

    /// Whether it says `Finalized=True`.
    pub fn is_finalized(&self) -> bool {
        self.status(FINALIZED) == Some(ReportedStatus::True)
    }

    /// The record to keep, after `before`.
    pub fn record(&self, before: Option<&Report>) -> Report {
        let earlier = Earlier::of(before);
        Report {
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
                        .map_or(self.observed_time, |earlier| earlier.last_transition_time),
                })
                .collect(),
            data: kept(before.map(|report| &report.data), &self.data),
            metadata: self
                .metadata
                .as_ref()
                .map(|metadata| kept(before.and_then(|report| report.metadata.as_ref()), metadata)),
            created_time: before.map_or(self.observed_time, |report| report.created_time),
            last_report_time: self.observed_time,
        }
    }
}

/// The conditions of the report before, to be found by type. They nearly always come in the same order.
struct Earlier<'a> {
    conditions: &'a [ReportedCondition],
    by_type: OnceCell<HashMap<&'a str, &'a ReportedCondition>>,
}

impl<'a> Earlier<'a> {
    fn of(report: Option<&'a Report>) -> Self {
        Self { conditions: report.map_or(&[], |report| &report.conditions), by_type: OnceCell::new() }
    }

    fn get(&self, position: usize, kind: &str) -> Option<&'a ReportedCondition> {
        self.conditions.get(position).filter(|condition| condition.kind == kind).or_else(|| {
            let by_type = || self.conditions.iter().map(|c| (c.kind.as_str(), c)).collect();
            self.by_type.get_or_init(by_type).get(kind).copied()
        })
    }
}

/// What is kept of a document: the one that is there if it says the same, else the new one, with each member
/// once.
fn kept(before: Option<&RawJson>, now: &RawJson) -> RawJson {
    match before {
        Some(before) if before.same(now) => before.clone(),
        _ => now.normalised(),
    }
}

impl Report {
    /// Whether the two differ in nothing but times.
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.observed_generation == other.observed_generation
            && self.data == other.data
            && self.metadata == other.metadata
            && self.conditions.len() == other.conditions.len()
            && self.conditions.iter().zip(&other.conditions).all(|(a, b)| {
                (&a.kind, a.status, &a.reason, &a.message) == (&b.kind, b.status, &b.reason, &b.message)
            })
    }

    /// Where the adapter stands by this report.
    pub fn standing(&self) -> Standing {
        let finding = |kind: &str| self.conditions.iter().find(|condition| condition.kind == kind);
        let available = finding(AVAILABLE);
        Standing {
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
