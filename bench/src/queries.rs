//! List queries as bytes ready to send, each with what the body of its answer begins with. A page states its size and
//! its total before its items, so every answer can be checked at almost no cost.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::fleet::{FEW, name};
use crate::workload::CLUSTERS;

/// Clusters on a page.
pub(crate) const PAGE: usize = 20;
/// The page that is compared with the first.
pub(crate) const DEEP_PAGE: usize = 1_000;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Query {
    /// One cluster by its id, to compare lists with.
    Get,
    Everything,
    DeepPage,
    LabelOfMany,
    LabelOfFew,
    Reconciled,
    NotReconciled,
    /// The Sentinel's query where nothing is due.
    NothingDue,
    Name,
}

impl Query {
    pub(crate) const ALL: [Self; 9] = [
        Self::Get,
        Self::Everything,
        Self::DeepPage,
        Self::LabelOfMany,
        Self::LabelOfFew,
        Self::Reconciled,
        Self::NotReconciled,
        Self::NothingDue,
        Self::Name,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "read by id",
            Self::Everything => "list everything",
            Self::DeepPage => "list page 1000",
            Self::LabelOfMany => "list label of many",
            Self::LabelOfFew => "list label of few",
            Self::Reconciled => "list reconciled",
            Self::NotReconciled => "list not reconciled",
            Self::NothingDue => "list nothing due",
            Self::Name => "list name",
        }
    }

    /// The search and the total that it finds in a fleet of `clusters`.
    fn search(self, clusters: usize) -> (&'static str, usize) {
        match self {
            Self::LabelOfMany => ("labels.environment='production'", clusters / 4),
            Self::LabelOfFew => ("labels.team='few'", FEW),
            Self::Reconciled => ("status.conditions.Reconciled='True'", clusters - FEW),
            Self::NotReconciled => ("status.conditions.Reconciled='False'", FEW),
            Self::NothingDue => (
                "status.conditions.Reconciled='True' and \
                 status.conditions.Reconciled.last_updated_time<'2020-01-01T00:00:00Z'",
                0,
            ),
            Self::Get | Self::Everything | Self::DeepPage | Self::Name => ("", clusters),
        }
    }

    /// The requests for a fleet with these ids, whose page [`DEEP_PAGE`] has this token.
    pub(crate) fn prepare(self, ids: &[String], deep_page: Option<&str>) -> Vec<Prepared> {
        let clusters = ids.len();
        let (search, total) = self.search(clusters);
        match self {
            Self::Get => ids.iter().map(|id| Prepared::get(id)).collect(),
            Self::Name => {
                let named = |number: usize| Prepared::list(&format!("name='{}'", name(number)), 1, 1, "");
                (0..clusters).step_by(clusters.div_ceil(1_000)).map(named).collect()
            }
            Self::DeepPage => {
                let page = |token| Prepared::list("", DEEP_PAGE, clusters, &format!("&pageToken={token}"));
                deep_page.map(page).into_iter().collect()
            }
            // The Sentinel asks for deleted clusters too.
            Self::NothingDue => vec![Prepared::list(search, 1, total, "&showDeleted=true")],
            _ => vec![Prepared::list(search, 1, total, "")],
        }
    }

    /// Checks that a page holds as many clusters as it states, and that each of them matches.
    pub(crate) fn check(self, body: &[u8]) -> Result<()> {
        let body: Value = serde_json::from_slice(body)?;
        let Some(items) = body["items"].as_array() else {
            ensure!(self == Self::Get, "no items: {body}");
            return Ok(());
        };
        ensure!(body["size"] == items.len(), "{} items on a page of {}", items.len(), body["size"]);
        for item in items {
            let status = reconciled(item)?;
            let matches = match self {
                Self::LabelOfMany => item["labels"]["environment"] == "production",
                Self::LabelOfFew => item["labels"]["team"] == "few",
                Self::Reconciled => status == "True",
                Self::NotReconciled => status == "False",
                Self::NothingDue => false,
                Self::Get | Self::Everything | Self::DeepPage | Self::Name => true,
            };
            ensure!(matches, "{} found {item}", self.name());
        }
        Ok(())
    }
}

fn reconciled(item: &Value) -> Result<&str> {
    let conditions = item["status"]["conditions"].as_array().context("no conditions")?;
    let reconciled = conditions.iter().find(|condition| condition["type"] == "Reconciled");
    reconciled.and_then(|condition| condition["status"].as_str()).context("no Reconciled")
}

/// A request, and what the body of a right answer begins with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prepared {
    pub(crate) request: Vec<u8>,
    prefix: Vec<u8>,
}

impl Prepared {
    fn new(path: &str, prefix: String) -> Self {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        Self { request: request.into_bytes(), prefix: prefix.into_bytes() }
    }

    fn get(id: &str) -> Self {
        Self::new(&format!("{CLUSTERS}/{id}"), format!(r#"{{"kind":"Cluster","id":"{id}","#))
    }

    /// Page `page` of a search that finds `total`.
    fn list(search: &str, page: usize, total: usize, more: &str) -> Self {
        let size = total.saturating_sub((page - 1) * PAGE).min(PAGE);
        let search = match search.is_empty() {
            true => String::new(),
            false => format!("&search={}", percent_encoded(search)),
        };
        Self::new(
            &format!("{CLUSTERS}?pageSize={PAGE}{search}{more}"),
            format!(r#"{{"kind":"ClusterList","page":{page},"size":{size},"total":{total},"items":["#),
        )
    }

    pub(crate) fn is_right_body(&self, body: &[u8]) -> bool {
        body.starts_with(&self.prefix)
    }
}

fn percent_encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_with_another_total_is_wrong() {
        let ids: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
        let prepared = Query::LabelOfFew.prepare(&ids, None);
        let [prepared] = prepared.as_slice() else { panic!("{prepared:?}") };
        let body =
            |total| format!(r#"{{"kind":"ClusterList","page":1,"size":10,"total":{total},"items":[{{}}"#);
        assert!(prepared.is_right_body(body(10).as_bytes()));
        assert!(!prepared.is_right_body(body(100).as_bytes()));
    }

    #[test]
    fn a_page_with_another_size_or_a_cluster_that_does_not_match_is_wrong() {
        let item = |status: &str| {
            format!(r#"{{"status":{{"conditions":[{{"type":"Reconciled","status":"{status}"}}]}}}}"#)
        };
        let page = |size: usize, status: &str| format!(r#"{{"size":{size},"items":[{}]}}"#, item(status));
        assert!(Query::Reconciled.check(page(1, "True").as_bytes()).is_ok());
        assert!(Query::Reconciled.check(page(2, "True").as_bytes()).is_err());
        assert!(Query::Reconciled.check(page(1, "False").as_bytes()).is_err());
    }
}
