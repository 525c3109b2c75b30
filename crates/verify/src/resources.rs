//! Resources, batch by batch, each with its status, reports, references and facets.

use std::collections::{BTreeMap, BTreeSet};

use hyperfleet_core::rules::WorkingSet;
use hyperfleet_core::{FeedPosition, ResourceId};
use hyperfleet_store::{TextRow, facets_of};

use crate::resource::{ExpectedState, check_resource, present};
use crate::sql::ExpectedFacet;
use crate::stored::{Cells, StoredReport, StoredResource};
use crate::{Run, VerifyError, sql};

/// The adapter of a report, and the report or why it cannot be read.
type ReadReport = (String, Result<StoredReport, String>);

impl Run<'_> {
    pub(crate) async fn resources(&mut self) -> Result<(), VerifyError> {
        let total = "select coalesce(sum(active + finalizing), 0) from kind_counts".to_owned();
        let total = self.read("counts", "kind_counts", [total]).await?;
        let total = total.and_then(|[rows]| Cells::of(rows.into_iter().next()?).number().ok()).unwrap_or(0);
        let mut after = String::from("00000000-0000-0000-0000-000000000000");
        loop {
            let next = self.read("rows", "resources", [sql::next_resources(&after)]).await?;
            let Some([next]) = next else { return Ok(()) };
            let ids = next_batch(next);
            let Some(last) = ids.last() else { return Ok(()) };
            after.clone_from(last);
            self.batch(&ids).await?;
            self.advance("resources", ids.len(), total);
        }
    }

    async fn batch(&mut self, ids: &[String]) -> Result<(), VerifyError> {
        let statements = [
            self.dialect.now(),
            sql::SETTINGS.to_owned(),
            sql::resources(self.dialect, ids),
            sql::reports(self.dialect, ids),
            sql::child_counts(ids),
            sql::references(ids),
        ];
        let read = self.read("rows", "resources", statements).await?;
        let Some([now, settings, resources, reports, children, references]) = read else { return Ok(()) };
        let now = present(now);
        let settings: BTreeMap<String, String> = settings.into_iter().map(Cells::of).map(pair).collect();
        let mut set = WorkingSet::new(FeedPosition::default());
        for mut cells in children.into_iter().map(Cells::of) {
            if let Some(owner) = ResourceId::parse(&cells.or_empty()) {
                set.load_child_count(owner, cells.or_empty().into(), cells.number().unwrap_or(0) as usize);
            }
        }
        let mut references_of: BTreeMap<String, BTreeSet<(String, String)>> = BTreeMap::new();
        for mut cells in references.into_iter().map(Cells::of) {
            references_of.entry(cells.or_empty()).or_default().insert(pair(cells));
        }
        *self.verification.rows.entry("reports").or_default() += reports.len() as u64;
        let mut reports_of: BTreeMap<String, Vec<ReadReport>> = BTreeMap::new();
        for mut cells in reports.into_iter().map(Cells::of) {
            let (id, adapter) = (cells.or_empty(), cells.or_empty());
            let report = StoredReport::read(&adapter, &mut cells);
            reports_of.entry(id).or_default().push((adapter, report));
        }

        let mut expected = Vec::new();
        for mut cells in resources.into_iter().map(Cells::of) {
            let printed = cells.or_empty();
            let id = ResourceId::parse(&printed).ok_or_else(|| "no id".to_owned());
            let stored = match id.and_then(|id| StoredResource::read(id, &mut cells)) {
                Ok(stored) => stored,
                Err(cause) => {
                    self.findings().note("rows", "resources", &printed, "readable", cause);
                    continue;
                }
            };
            let resource = &stored.resource;
            match facets_of(&resource.kind, &resource.labels, &resource.conditions, resource.tenancy.as_ref())
            {
                Ok(facets) => expected.extend(facets.into_iter().map(|facet| ExpectedFacet {
                    facet,
                    created: stored.created.clone(),
                    resource: printed.clone(),
                    version: resource.version.0,
                })),
                Err(cause) => self.findings().note("rows", "resources", &printed, "readable labels", cause),
            }
            let expected_state = ExpectedState {
                references: references_of.remove(&printed).unwrap_or_default(),
                reports: reports_of.remove(&printed).unwrap_or_default(),
                settings: settings.get(&*resource.kind).map(String::as_str),
                now,
            };
            let skipped = check_resource(self.rulebook, &mut set, stored, expected_state, self.findings());
            self.verification.skipped.extend(skipped);
        }
        self.missing_facets(&expected).await
    }

    async fn missing_facets(&mut self, expected: &[ExpectedFacet]) -> Result<(), VerifyError> {
        if expected.is_empty() {
            return Ok(());
        }
        let missing = sql::missing_facets(self.dialect, expected);
        let missing = self.read("facets", "resource_facets", [missing]).await?;
        for cells in missing.into_iter().flatten().flatten().map(Cells::of) {
            let (id, facet) = pair(cells);
            self.findings().note("facets", "resource_facets", &id, format!("facet {facet}"), "none");
        }
        Ok(())
    }
}

/// The next two values.
fn pair(mut cells: Cells) -> (String, String) {
    (cells.or_empty(), cells.or_empty())
}

/// The ids of the resources that one batch can take, of ids with sizes.
fn next_batch(rows: Vec<TextRow>) -> Vec<String> {
    let mut bytes = 0;
    let mut ids = Vec::with_capacity(rows.len());
    for mut cells in rows.into_iter().map(Cells::of) {
        let id = cells.or_empty();
        bytes += cells.number().unwrap_or_default();
        if bytes > sql::BATCH_BYTES && !ids.is_empty() {
            break;
        }
        ids.push(id);
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_ends_before_it_takes_too_much_and_has_at_least_one() {
        let row = |id: &str, bytes: i64| -> TextRow { vec![Some(id.to_owned()), Some(bytes.to_string())] };
        let most = sql::BATCH_BYTES;
        assert_eq!(next_batch(vec![row("a", most), row("b", 1)]), ["a"]);
        assert_eq!(next_batch(vec![row("a", most + 1), row("b", 1)]), ["a"]);
        assert_eq!(next_batch(vec![row("a", most - 1), row("b", 1), row("c", 1)]), ["a", "b"]);
    }
}
