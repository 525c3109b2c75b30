//! An adapter's report in one line.

use hyperfleet_core::{Finding, RawJson, ReportedStatus, Submission};
use serde_json::{Value, json};

use super::fixture::at;

/// A report with all mandatory conditions True, observed at a second.
pub(super) fn test_report(adapter: &str, generation: i64, second: i64) -> TestReport {
    let finding =
        |kind: &str| Finding { kind: kind.into(), status: ReportedStatus::True, reason: None, message: None };
    TestReport(Submission {
        adapter: adapter.into(),
        observed_generation: generation,
        observed_time: Some(at(second)),
        conditions: ["Available", "Applied", "Health"].map(finding).into(),
        data: RawJson::from_value(&json!({})),
        metadata: None,
    })
}

#[derive(Debug, Clone)]
pub(super) struct TestReport(pub(super) Submission);

impl TestReport {
    /// The same with another word on a type, which goes to the end if it is new.
    pub(super) fn with(mut self, kind: &str, status: &str) -> Self {
        let status = ReportedStatus::parse(status).unwrap();
        match self.0.conditions.iter_mut().find(|finding| *finding.kind == *kind) {
            Some(finding) => finding.status = status,
            None => {
                self.0.conditions.push(Finding { kind: kind.into(), status, reason: None, message: None });
            }
        }
        self
    }

    pub(super) fn available(self, status: &str) -> Self {
        self.with("Available", status)
    }

    pub(super) fn finalized(self) -> Self {
        self.with("Finalized", "True")
    }

    pub(super) fn without(mut self, kind: &str) -> Self {
        self.0.conditions.retain(|finding| *finding.kind != *kind);
        self
    }

    /// The same with words beside `Available`.
    pub(super) fn because(mut self, reason: &str, message: &str) -> Self {
        let available = self.0.conditions.iter_mut().find(|finding| *finding.kind == *"Available").unwrap();
        available.reason = Some(reason.into());
        available.message = Some(message.into());
        self
    }

    pub(super) fn data(mut self, data: &Value) -> Self {
        self.0.data = RawJson::from_value(data);
        self
    }

    pub(super) fn metadata(mut self, metadata: &Value) -> Self {
        self.0.metadata = Some(RawJson::from_value(metadata));
        self
    }
}
