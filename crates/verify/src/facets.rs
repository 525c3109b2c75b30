//! Facets that their resource does not have. That none is missing is seen with the resources.

use hyperfleet_core::{RawJson, Tenant};
use hyperfleet_store::{conditions_of, facets_of};

use crate::sql::FacetPlace;
use crate::stored::Cells;
use crate::{Run, VerifyError, sql};

impl Run<'_> {
    pub(crate) async fn facets(&mut self) -> Result<(), VerifyError> {
        let mut after: Option<FacetPlace> = None;
        loop {
            let next = sql::next_facets(self.dialect, after.as_ref());
            let Some([rows]) = self.read("facets", "resource_facets", [next]).await? else { return Ok(()) };
            let count = rows.len();
            for mut cells in rows.into_iter().map(Cells::of) {
                let place = [(); 3].map(|()| cells.or_empty());
                if !self.is_facet(&place[0], &mut cells) {
                    let found = format!("facet {}", place[0]);
                    self.findings().note("facets", "resource_facets", &place[2], "none", found);
                }
                after = Some(place);
            }
            if count == 0 {
                return Ok(());
            }
            self.advance("resource_facets", count, 0);
        }
    }

    /// Whether a resource has a facet, by its columns. One that is not there is found by a search.
    fn is_facet(&self, facet: &str, cells: &mut Cells) -> bool {
        let same_time = cells.or_empty() == "1";
        let [kind, labels, tenancy, conditions] = [(); 4].map(|()| cells.maybe());
        let (Some(kind), Some(labels)) = (kind, labels) else { return true };
        let tenancy = tenancy.as_deref().map(Tenant::from_stored);
        let conditions = conditions_of(&conditions.unwrap_or_default(), Vec::new());
        let facets = facets_of(&kind, &RawJson::from_stored(labels), &conditions, tenancy.as_ref());
        same_time && facets.is_ok_and(|facets| facets.iter().any(|has| self.dialect.facet(*has) == facet))
    }
}
