//! What was found, as far as it is kept.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// The findings of each check that are kept; the others are counted.
const MOST_KEPT: u64 = 100;

/// The longest value that a finding shows, in bytes.
const MOST_SHOWN: usize = 1_000;

/// The checks, in their order.
pub const CHECKS: [&str; 8] =
    ["storage", "rows", "versions", "counts", "references", "conditions", "facets", "times"];

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// One of [`CHECKS`].
    pub check: &'static str,
    /// The table, if it is known.
    pub table: String,
    /// The row, or the part of the table.
    pub id: String,
    /// How it must be.
    pub expected: String,
    /// How it is.
    pub found: String,
}

/// The findings of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// How many each check has.
    pub checks: BTreeMap<&'static str, u64>,
    /// At most a hundred of each check.
    pub findings: Vec<Finding>,
}

impl Default for Findings {
    fn default() -> Self {
        Self { checks: CHECKS.into_iter().map(|check| (check, 0)).collect(), findings: Vec::new() }
    }
}

impl Findings {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.checks.values().all(|count| *count == 0)
    }

    /// The first finding of a check.
    pub fn of(&self, check: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.check == check)
    }

    pub(crate) fn note(
        &mut self,
        check: &'static str,
        table: impl Into<String>,
        id: &dyn fmt::Display,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) {
        let count = self.checks.entry(check).or_default();
        *count += 1;
        if *count <= MOST_KEPT {
            let (table, id) = (table.into(), id.to_string());
            let (expected, found) = (shortened(expected.into()), shortened(found.into()));
            self.findings.push(Finding { check, table, id, expected, found });
        }
    }
}

fn shortened(mut value: String) -> String {
    if value.len() > MOST_SHOWN {
        value.truncate(value.floor_char_boundary(MOST_SHOWN));
        value.push('…');
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_findings_are_counted_and_some_are_kept_and_shortened() {
        let mut findings = Findings::default();
        assert!(findings.is_empty());
        for id in 0..1_000 {
            findings.note("rows", "resources", &id, "é".repeat(2_000), "");
        }
        assert_eq!((findings.checks["rows"], findings.findings.len()), (1_000, 100));
        assert_eq!(findings.of("rows").unwrap().expected.len(), MOST_SHOWN + "…".len());
        assert!(!findings.is_empty() && findings.of("times").is_none());
    }
}
