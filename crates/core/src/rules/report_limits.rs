//! How many reports a resource may have, and how large they may be together. Every commit that computes mapped
//! conditions reads all of them, so without a bound one adapter could slow all writes.
//!
//! Adapters that the kind requires are never locked out by others: each has a place and a share of the bytes that no
//! other report can take. What an adapter has stored already, it may store again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Entity, Error, ErrorKind, Fault, FaultKind, Report, echo};

/// The bounds of the reports on one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportLimits {
    /// The most reports.
    pub count: usize,
    /// The most bytes of all reports together, by [`Report::printed_size`].
    pub bytes: usize,
}

impl Default for ReportLimits {
    fn default() -> Self {
        Self { count: 500, bytes: 4 << 20 }
    }
}

impl ReportLimits {
    /// Whether a report fits whatever other adapters have stored, so that their sizes need not be known.
    pub(super) fn always_fits(self, entity: &Entity, adapter: &str, bytes: usize) -> bool {
        entity.requires(adapter) && bytes <= self.share(entity)
    }

    /// Refuses a report that does not fit beside the stored ones, whose sizes are by adapter.
    pub(super) fn check(
        self,
        entity: &Entity,
        report: &Report,
        stored: &BTreeMap<Arc<str>, usize>,
    ) -> Result<(), Error> {
        let bytes = report.printed_size();
        let before = stored.get(&report.adapter);
        if self.always_fits(entity, &report.adapter, bytes) || before.is_some_and(|before| bytes <= *before) {
            return Ok(());
        }
        let kept = entity.required_adapters.len();
        let others = stored.keys().filter(|name| !entity.requires(name)).count();
        if before.is_none() && !entity.requires(&report.adapter) && others >= self.count.saturating_sub(kept)
        {
            let message = format!(
                "a resource has reports of at most {} adapters, of which {kept} are kept for the adapters that its kind \
                 requires; there is no room for one of '{}'",
                self.count,
                echo(&report.adapter)
            );
            return Err(refusal("adapter", "max_reports", self.count, message));
        }
        let share = self.share(entity);
        let required = entity.required_adapters.iter().filter(|name| **name != *report.adapter);
        let required = required.map(|name| stored.get(name.as_str()).copied().unwrap_or(0).max(share));
        let further = stored.iter().filter(|(name, _)| !entity.requires(name) && **name != report.adapter);
        let taken = required.sum::<usize>() + further.map(|(_, bytes)| bytes).sum::<usize>();
        if taken + bytes > self.bytes {
            let message = format!(
                "the reports on a resource take at most {} bytes together; other adapters' reports, and what is kept for \
                 adapters that its kind requires, leave {}, and this report takes {bytes}",
                self.bytes,
                self.bytes.saturating_sub(taken)
            );
            return Err(refusal("data", "max_report_bytes", self.bytes, message));
        }
        Ok(())
    }

    /// The bytes that are kept for each required adapter: half of all, divided among them.
    fn share(self, entity: &Entity) -> usize {
        self.bytes / 2 / entity.required_adapters.len().max(1)
    }
}

fn refusal(field: &str, rule: &'static str, limit: usize, message: String) -> Error {
    let fault = Fault::new(FaultKind::Value, field, message.as_str()).rule(rule).bounds(None, limit as u64);
    Error::new(ErrorKind::Unprocessable, message).with_faults(vec![fault])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Catalog, EntityDescriptor, RawJson, Timestamp};

    const LIMITS: ReportLimits = ReportLimits { count: 5, bytes: 8_000 };

    fn entity(required: &[&str]) -> Arc<Entity> {
        let required_adapters = required.iter().map(|name| (*name).to_owned()).collect();
        let kind = EntityDescriptor {
            kind: "Thing".into(),
            plural: "things".into(),
            required_adapters,
            ..EntityDescriptor::default()
        };
        Catalog::new(vec![kind]).unwrap().get("Thing").unwrap().clone()
    }

    /// A report of this size.
    fn report(adapter: &str, bytes: usize) -> Report {
        let report = |data: String| Report {
            adapter: adapter.into(),
            observed_generation: 1,
            conditions: Arc::new([]),
            data: RawJson::from_stored(data),
            metadata: None,
            created_time: Timestamp::from_micros(0),
            last_report_time: Timestamp::from_micros(0),
        };
        let more = bytes.saturating_sub(report(String::new()).printed_size());
        report("x".repeat(more))
    }

    /// The sizes of these reports.
    fn stored(reports: &[(&str, usize)]) -> BTreeMap<Arc<str>, usize> {
        reports.iter().map(|(adapter, bytes)| (Arc::from(*adapter), *bytes)).collect()
    }

    #[test]
    fn a_refusal_names_the_rule_the_limit_and_what_is_left() {
        let entity = entity(&["dns"]);
        let others = stored(&[("a", 300), ("b", 300), ("c", 300), ("d", 300)]);
        let refusal = LIMITS.check(&entity, &report("e", 300), &others).unwrap_err();
        assert_eq!((&refusal.kind, refusal.code()), (&ErrorKind::Unprocessable, "HYPERFLEET-VAL-002"));
        assert_eq!(refusal.faults[0].constraint, Some("max_reports"));
        assert_eq!(refusal.faults[0].max_value, Some(5.into()));
        assert!(refusal.detail.contains("at most 5 adapters, of which 1 are kept"), "{}", refusal.detail);

        let refusal = LIMITS.check(&entity, &report("b", 2_000), &stored(&[("a", 3_000)])).unwrap_err();
        assert_eq!(refusal.faults[0].constraint, Some("max_report_bytes"));
        assert_eq!(refusal.faults[0].max_value, Some(8_000.into()));
        assert!(refusal.detail.contains("leave 1000, and this report takes 2000"), "{}", refusal.detail);
    }

    #[test]
    fn what_was_stored_before_there_were_limits_may_be_stored_again() {
        let entity = entity(&["dns"]);
        let much = stored(&[("a", 90_000), ("dns", 50_000)]);
        for (adapter, bytes, fits) in [
            ("a", 90_000, true),
            ("a", 90_001, false),
            ("dns", 50_000, true),
            ("dns", 4_000, true),
            ("b", 300, false),
        ] {
            assert_eq!(
                LIMITS.check(&entity, &report(adapter, bytes), &much).is_ok(),
                fits,
                "{adapter} {bytes}"
            );
        }
    }

    proptest! {
        /// Whatever adapters send in whatever order, the bounds hold, a required adapter is not locked out, and a report
        /// that was stored can be stored again.
        #[test]
        fn reports_keep_within_the_bounds_and_lock_no_required_adapter_out(
            sent in prop::collection::vec(("[a-h]", 300_usize..6_000), 1..60),
        ) {
            let entity = entity(&["a", "b"]);
            let mut sizes = BTreeMap::new();
            for (adapter, bytes) in sent {
                let report = report(&adapter, bytes);
                let fits = LIMITS.check(&entity, &report, &sizes).is_ok();
                let again = sizes.get(&report.adapter).is_some_and(|before| bytes <= *before);
                prop_assert!(fits || !(again || entity.requires(&adapter) && bytes <= 2_000));
                if fits {
                    sizes.insert(report.adapter.clone(), report.printed_size());
                }
                prop_assert!(sizes.len() <= LIMITS.count && sizes.values().sum::<usize>() <= LIMITS.bytes);
            }
        }
    }
}
